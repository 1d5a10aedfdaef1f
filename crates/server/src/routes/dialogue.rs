//! Published values, and requests that runs answer.

use std::sync::Arc;

use axum::extract::State;
use goldseam::RunId;
use goldseam_api::doc::ItemsDoc;
use goldseam_api::doc::dialogue::{NewRequest, PublishedDoc, ReplyKind, ReplyQuery, RequestedDoc};
use goldseam_api::{DialogueApi, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, PathParam, QueryParams};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(published_all))
        .routes(routes!(published))
        .routes(routes!(request, reply))
}

/// Lists the latest value of every name under which a run published one. Does not wake the run.
#[utoipa::path(get, path = "/v1/runs/{run}/published", tag = "runs",
    responses((status = 200, body = ItemsDoc<PublishedDoc>)))]
async fn published_all(
    access: Access,
    PathParam(run): PathParam<RunId>,
) -> JsonResult<ItemsDoc<PublishedDoc>> {
    Ok(Json(access.namespace.api.published_all(&run).await?))
}

/// Returns the latest value that a run published under a name. Does not wake the run.
#[utoipa::path(get, path = "/v1/runs/{run}/published/{name}", tag = "runs",
    responses((status = 200, body = PublishedDoc)))]
async fn published(
    access: Access,
    PathParam((run, name)): PathParam<(RunId, String)>,
) -> JsonResult<PublishedDoc> {
    Ok(Json(access.namespace.api.published(&run, &name).await?))
}

/// Sends a request to a run and waits for its answer. The request is durable when the response arrives; the same id or
/// idempotency key returns the same answer.
#[utoipa::path(post, path = "/v1/runs/{run}/requests/{name}", tag = "runs", request_body = NewRequest,
    responses((status = 200, body = RequestedDoc), (status = 422, body = Problem)))]
async fn request(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam((run, name)): PathParam<(RunId, String)>,
    JsonBody(new): JsonBody<NewRequest>,
) -> JsonResult<RequestedDoc> {
    let api = &access.namespace.api;
    // The request is accepted first, so that a shutdown cannot interrupt it half-way.
    let wait_ms = new.wait_ms;
    let accepted = api.request(&caller, &run, &name, NewRequest { wait_ms: Some(0), ..new }).await?;
    let default = u64::try_from(goldseam::client::REQUEST_TIMEOUT.as_millis()).unwrap_or_default();
    let wait_ms = Some(wait_ms.unwrap_or(default));
    let query = ReplyQuery { id: accepted.id.clone(), event: Some(accepted.event), wait_ms };
    if accepted.reply != ReplyKind::Pending {
        return Ok(Json(accepted));
    }
    let requested = tokio::select! {
        requested = api.reply(&run, &name, query) => requested?,
        () = app.shutdown_started() => accepted,
    };
    Ok(Json(requested))
}

/// Returns to a request that was sent earlier. With `wait_ms`, waits for its answer.
#[utoipa::path(get, path = "/v1/runs/{run}/requests/{name}", tag = "runs", params(ReplyQuery),
    responses((status = 200, body = RequestedDoc)))]
async fn reply(
    State(app): State<Arc<ServerState>>,
    access: Access,
    PathParam((run, name)): PathParam<(RunId, String)>,
    QueryParams(query): QueryParams<ReplyQuery>,
) -> JsonResult<RequestedDoc> {
    let api = &access.namespace.api;
    let without_wait = ReplyQuery { wait_ms: None, ..query.clone() };
    let requested = tokio::select! {
        requested = api.reply(&run, &name, query) => requested?,
        () = app.shutdown_started() => api.reply(&run, &name, without_wait).await?,
    };
    Ok(Json(requested))
}
