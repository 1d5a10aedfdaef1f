//! Workers in other processes: they register, claim runs with their histories, and append what they did.
//! `docs/protocol.md` is the whole of it.

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

/// The credential of a request, as workers know it.
fn holder(access: &Access) -> Holder {
    let principal = &access.principal;
    let operates = principal.scopes.contains(&Scope::Operate);
    Holder { key: principal.key.clone(), queues: principal.queues.clone(), operates }
}

/// The same, for the key that this one of them was registered with: ids of nodes are no secret.
fn workers_as<'a>(app: &App, access: &'a Access, worker: &NodeId) -> Result<&'a RemoteWorkers, Problem> {
    let workers = workers(app, access);
    workers.is_held_by(&holder(access), worker)?;
    Ok(workers)
}

/// Takes a worker in another process in: a node of the store from now on.
#[utoipa::path(post, path = "/v1/workers", tag = "workers", security(("key" = ["worker"])), request_body = Register,
    responses((status = 200, body = Registered), (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 503, body = Problem)))]
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

/// A worker leaves: what it has is given back, and counts as no attempt.
#[utoipa::path(delete, path = "/v1/workers/{worker}", tag = "workers", security(("key" = ["worker"])),
    params(("worker" = String, Path, description = "its id")),
    responses((status = 200, body = LeftWorker), (status = 404, body = Problem)))]
async fn leave(
    State(app): State<Arc<App>>,
    access: Access,
    PathParam(worker): PathParam<NodeId>,
) -> JsonResult<LeftWorker> {
    workers_as(&app, &access, &worker)?.leave(&worker).await?;
    Ok(Json(LeftWorker { worker }))
}

/// A worker says that it is alive, and is told what is new in the logs of its executions.
#[utoipa::path(post, path = "/v1/workers/{worker}/heartbeat", tag = "workers", security(("key" = ["worker"])),
    params(("worker" = String, Path, description = "its id")), request_body = Heartbeat,
    responses((status = 200, body = Beaten), (status = 404, body = Problem)))]
async fn heartbeat(
    State(app): State<Arc<App>>,
    access: Access,
    PathParam(worker): PathParam<NodeId>,
    Body(beat): Body<Heartbeat>,
) -> JsonResult<Beaten> {
    let workers = workers_as(&app, &access, &worker)?;
    let now = Heartbeat { wait_ms: 0, ..beat.clone() };
    let told = tokio::select! {
        told = workers.heartbeat(&worker, beat) => told?,
        () = app.left() => Beaten { leaving: true, ..workers.heartbeat(&worker, now).await? },
    };
    Ok(Json(told))
}

/// Gives a worker runs, each with the history that its branch sees.
#[utoipa::path(post, path = "/v1/workers/{worker}/claim", tag = "workers", security(("key" = ["worker"])),
    params(("worker" = String, Path, description = "its id")), request_body = Claim,
    responses((status = 200, body = Claimed), (status = 404, body = Problem)))]
async fn claim(
    State(app): State<Arc<App>>,
    access: Access,
    PathParam(worker): PathParam<NodeId>,
    Body(claim): Body<Claim>,
) -> JsonResult<Claimed> {
    let workers = workers_as(&app, &access, &worker)?;
    let nothing = Claim { limit: 0, wait_ms: 0, ..claim.clone() };
    let told = tokio::select! {
        told = workers.claim(&worker, claim) => told?,
        () = app.left() => Claimed { leaving: true, ..workers.claim(&worker, nothing).await? },
    };
    Ok(Json(told))
}

/// Appends what a worker did to its run's log: all of it, or nothing, and once, however often it is sent.
#[utoipa::path(post, path = "/v1/executions/append", tag = "workers", security(("key" = ["worker"])),
    request_body = Append,
    responses((status = 200, body = Appended), (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 413, body = Problem), (status = 422, body = Problem)))]
async fn append(
    State(app): State<Arc<App>>,
    access: Access,
    Body(append): Body<Append>,
) -> JsonResult<Appended> {
    let told = workers(&app, &access).append_for(&holder(&access), append).await?;
    let leaving = told.leaving || *app.leaving.borrow();
    Ok(Json(Appended { leaving, ..told }))
}

/// What an execution sees of its log after what the worker knows.
#[utoipa::path(post, path = "/v1/executions/events", tag = "workers", security(("key" = ["worker"])),
    request_body = Events,
    responses((status = 200, body = News), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn events(State(app): State<Arc<App>>, access: Access, Body(events): Body<Events>) -> JsonResult<News> {
    Ok(Json(workers(&app, &access).events_for(&holder(&access), events).await?))
}
