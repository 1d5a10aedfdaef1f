//! Remote workers: they register, claim runs with their histories, and append their results. `docs/protocol.md`
//! describes the protocol.

use std::sync::Arc;

use axum::extract::State;
use goldseam::unstable::core::NodeId;
use goldseam::unstable::engine::remote::wire::{
    Append, Appended, Beaten, Claim, Claimed, Events, Heartbeat, News, Register, Registered,
};
use goldseam_api::doc::worker::LeftWorkerDoc;
use goldseam_api::{Problem, WorkersApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, PathParam};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(register))
        .routes(routes!(remove))
        .routes(routes!(heartbeat))
        .routes(routes!(claim))
        .routes(routes!(append))
        .routes(routes!(events))
}

/// Registers a remote worker, which becomes a node of the store.
#[utoipa::path(post, path = "/v1/workers", tag = "workers", request_body = Register,
    responses((status = 200, body = Registered)))]
async fn register(
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(new): JsonBody<Register>,
) -> JsonResult<Registered> {
    access.principal.may_claim_from(&new.queues_taken())?;
    Ok(Json(access.namespace.api.register_worker(&caller, new).await?))
}

/// Removes a worker. Releases its executions, which counts no attempt.
#[utoipa::path(delete, path = "/v1/workers/{worker}", tag = "workers",
    responses((status = 200, body = LeftWorkerDoc)))]
async fn remove(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(worker): PathParam<NodeId>,
) -> JsonResult<LeftWorkerDoc> {
    Ok(Json(access.namespace.api.remove_worker(&caller, &worker).await?))
}

/// Reports that a worker is alive, and returns the news in the logs of its executions.
#[utoipa::path(post, path = "/v1/workers/{worker}/heartbeat", tag = "workers", request_body = Heartbeat,
    responses((status = 200, body = Beaten)))]
async fn heartbeat(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(worker): PathParam<NodeId>,
    JsonBody(beat): JsonBody<Heartbeat>,
) -> JsonResult<Beaten> {
    let api = &access.namespace.api;
    let without_wait = Heartbeat { wait_ms: 0, ..beat.clone() };
    let beaten = tokio::select! {
        beaten = api.heartbeat_worker(&caller, &worker, beat) => beaten?,
        () = app.shutdown_started() => {
            Beaten { leaving: true, ..api.heartbeat_worker(&caller, &worker, without_wait).await? }
        }
    };
    Ok(Json(beaten))
}

/// Claims runs for a worker, each with the history that its branch sees.
#[utoipa::path(post, path = "/v1/workers/{worker}/claim", tag = "workers", request_body = Claim,
    responses((status = 200, body = Claimed)))]
async fn claim(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(worker): PathParam<NodeId>,
    JsonBody(claim): JsonBody<Claim>,
) -> JsonResult<Claimed> {
    let api = &access.namespace.api;
    let nothing = Claim { limit: 0, wait_ms: 0, ..claim.clone() };
    let claimed = tokio::select! {
        claimed = api.claim_executions(&caller, &worker, claim) => claimed?,
        () = app.shutdown_started() => {
            Claimed { leaving: true, ..api.claim_executions(&caller, &worker, nothing).await? }
        }
    };
    Ok(Json(claimed))
}

/// Appends a worker's actions to the log of its run: all or none, and once, however often the request is sent.
#[utoipa::path(post, path = "/v1/executions/append", tag = "workers", request_body = Append,
    responses((status = 200, body = Appended), (status = 404, body = Problem), (status = 422, body = Problem)))]
async fn append(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(append): JsonBody<Append>,
) -> JsonResult<Appended> {
    let appended = access.namespace.api.append_to_execution(&caller, append).await?;
    let leaving = appended.leaving || *app.leaving.borrow();
    Ok(Json(Appended { leaving, ..appended }))
}

/// Returns the events of an execution's log after those that the worker has.
#[utoipa::path(post, path = "/v1/executions/events", tag = "workers", request_body = Events,
    responses((status = 200, body = News), (status = 404, body = Problem)))]
async fn events(
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(events): JsonBody<Events>,
) -> JsonResult<News> {
    Ok(Json(access.namespace.api.read_execution(&caller, events).await?))
}
