//! Remote workers: they register, claim runs with their histories, and append their results. `docs/protocol.md`
//! describes the protocol.

use std::sync::Arc;

use axum::extract::State;
use goldseam::core::NodeId;
use goldseam::engine::remote::wire::{
    Append, Appended, Beaten, Claim, Claimed, Events, Heartbeat, News, Register, Registered,
};
use goldseam::engine::remote::{Holder, RemoteWorkers};
use goldseam_api::Problem;
use goldseam_api::doc::key::Scope;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, PathParam};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(register))
        .routes(routes!(leave))
        .routes(routes!(heartbeat))
        .routes(routes!(claim))
        .routes(routes!(append))
        .routes(routes!(events))
}

/// A worker that has left.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeftWorker {
    /// Its id.
    worker: NodeId,
}

fn workers<'a>(app: &App, access: &'a Access) -> &'a RemoteWorkers {
    access.namespace.workers(&app.tokens)
}

/// Returns the credential of a request in the engine's terms.
fn holder(access: &Access) -> Holder {
    let principal = &access.principal;
    let operates = principal.scopes.contains(&Scope::Operate);
    Holder { key: principal.key.clone(), queues: principal.queues.clone(), operates }
}

/// Returns the workers if this one was registered with the key of the request. Node ids are not secret.
fn workers_as<'a>(app: &App, access: &'a Access, worker: &NodeId) -> Result<&'a RemoteWorkers, Problem> {
    let workers = workers(app, access);
    workers.is_held_by(&holder(access), worker)?;
    Ok(workers)
}

/// Registers a remote worker, which becomes a node of the store.
#[utoipa::path(post, path = "/v1/workers", tag = "workers", request_body = Register,
    responses((status = 200, body = Registered)))]
async fn register(
    State(app): State<Arc<App>>,
    access: Access,
    Body(new): Body<Register>,
) -> JsonResult<Registered> {
    let workers = workers(&app, &access);
    let queues = new.queues_taken();
    queues.iter().try_for_each(goldseam_api::open_queue)?;
    access.principal.may_claim_from(&queues)?;
    Ok(Json(workers.register_for(&holder(&access), new).await?))
}

/// Removes a worker. Releases its executions, which counts no attempt.
#[utoipa::path(delete, path = "/v1/workers/{worker}", tag = "workers",
    responses((status = 200, body = LeftWorker)))]
async fn leave(
    State(app): State<Arc<App>>,
    access: Access,
    PathParam(worker): PathParam<NodeId>,
) -> JsonResult<LeftWorker> {
    workers_as(&app, &access, &worker)?.leave(&worker).await?;
    Ok(Json(LeftWorker { worker }))
}

/// Reports that a worker is alive, and returns the news in the logs of its executions.
#[utoipa::path(post, path = "/v1/workers/{worker}/heartbeat", tag = "workers", request_body = Heartbeat,
    responses((status = 200, body = Beaten)))]
async fn heartbeat(
    State(app): State<Arc<App>>,
    access: Access,
    PathParam(worker): PathParam<NodeId>,
    Body(beat): Body<Heartbeat>,
) -> JsonResult<Beaten> {
    let workers = workers_as(&app, &access, &worker)?;
    let without_wait = Heartbeat { wait_ms: 0, ..beat.clone() };
    let beaten = tokio::select! {
        beaten = workers.heartbeat(&worker, beat) => beaten?,
        () = app.shutdown_started() => {
            Beaten { leaving: true, ..workers.heartbeat(&worker, without_wait).await? }
        }
    };
    Ok(Json(beaten))
}

/// Claims runs for a worker, each with the history that its branch sees.
#[utoipa::path(post, path = "/v1/workers/{worker}/claim", tag = "workers", request_body = Claim,
    responses((status = 200, body = Claimed)))]
async fn claim(
    State(app): State<Arc<App>>,
    access: Access,
    PathParam(worker): PathParam<NodeId>,
    Body(claim): Body<Claim>,
) -> JsonResult<Claimed> {
    let workers = workers_as(&app, &access, &worker)?;
    let nothing = Claim { limit: 0, wait_ms: 0, ..claim.clone() };
    let claimed = tokio::select! {
        claimed = workers.claim(&worker, claim) => claimed?,
        () = app.shutdown_started() => Claimed { leaving: true, ..workers.claim(&worker, nothing).await? },
    };
    Ok(Json(claimed))
}

/// Appends a worker's actions to the log of its run: all or none, and once, however often the request is sent.
#[utoipa::path(post, path = "/v1/executions/append", tag = "workers", request_body = Append,
    responses((status = 200, body = Appended), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn append(
    State(app): State<Arc<App>>,
    access: Access,
    Body(append): Body<Append>,
) -> JsonResult<Appended> {
    let appended = workers(&app, &access).append_for(&holder(&access), append).await?;
    let leaving = appended.leaving || *app.leaving.borrow();
    Ok(Json(Appended { leaving, ..appended }))
}

/// Returns the events of an execution's log after those that the worker has.
#[utoipa::path(post, path = "/v1/executions/events", tag = "workers", request_body = Events,
    responses((status = 200, body = News), (status = 404, body = Problem)))]
async fn events(State(app): State<Arc<App>>, access: Access, Body(events): Body<Events>) -> JsonResult<News> {
    Ok(Json(workers(&app, &access).events_for(&holder(&access), events).await?))
}
