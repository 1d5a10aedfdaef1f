//! Bulk operations, and groups of failures.

use std::sync::Arc;

use axum::extract::State;
use goldseam::RunId;
use goldseam_api::doc::PageDoc;
use goldseam_api::doc::change::NewNote;
use goldseam_api::doc::operation::{
    BulkOperationDoc, FailuresDoc, FailuresQuery, NewOperation, OperationsQuery, PreviewDoc,
};
use goldseam_api::{OperationsApi, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::runs::may_search;
use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, OptionalBody, PathParam, QueryParams};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list, begin))
        .routes(routes!(preview))
        .routes(routes!(get))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(stop))
        .routes(routes!(failures))
}

/// Lists operations, the latest first.
#[utoipa::path(get, path = "/v1/operations", tag = "operations", params(OperationsQuery),
    responses((status = 200, body = PageDoc<BulkOperationDoc>)))]
async fn list(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(mut query): QueryParams<OperationsQuery>,
) -> JsonResult<PageDoc<BulkOperationDoc>> {
    app.cursors("operations", &access).open(&mut query.after)?;
    let page = access.namespace.api.operations(query).await?;
    Ok(Json(app.cursors("operations", &access).seal(page)?))
}

/// Refuses a condition on a redacted name or value: a count would confirm guesses.
fn check_secrets(app: &ServerState, condition: Option<&str>) -> Result<(), Problem> {
    match condition.filter(|text| !text.trim().is_empty()) {
        Some(text) if !may_search(app, Some(text), &[])? => {
            Err(Problem::bad_request("the condition names a value that is redacted here").code("GS0608"))
        }
        _ => Ok(()),
    }
}

/// Begins an operation: one verb on every run that a condition selects. The server executes it.
#[utoipa::path(post, path = "/v1/operations", tag = "operations", request_body = NewOperation,
    responses((status = 200, body = BulkOperationDoc)))]
async fn begin(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(new): JsonBody<NewOperation>,
) -> JsonResult<BulkOperationDoc> {
    check_secrets(&app, Some(&new.condition))?;
    Ok(Json(access.namespace.api.begin_operation(&caller, new).await?))
}

/// Returns what an operation would do now. Changes nothing.
#[utoipa::path(post, path = "/v1/operations/preview", tag = "operations", request_body = NewOperation,
    responses((status = 200, body = PreviewDoc)))]
async fn preview(
    State(app): State<Arc<ServerState>>,
    access: Access,
    JsonBody(new): JsonBody<NewOperation>,
) -> JsonResult<PreviewDoc> {
    check_secrets(&app, Some(&new.condition))?;
    Ok(Json(access.namespace.api.preview_operation(new).await?))
}

/// Returns an operation and its progress.
#[utoipa::path(get, path = "/v1/operations/{run}", tag = "operations",
    responses((status = 200, body = BulkOperationDoc)))]
async fn get(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<BulkOperationDoc> {
    Ok(Json(access.namespace.api.operation(&run).await?))
}

/// Pauses an operation between two batches.
#[utoipa::path(post, path = "/v1/operations/{run}/pause", tag = "operations", request_body = Option<NewNote>,
    responses((status = 200, body = BulkOperationDoc)))]
async fn pause(
    access: Access,
    PathParam(run): PathParam<RunId>,
    CallerInfo(caller): CallerInfo,
    OptionalBody(reason): OptionalBody<NewNote>,
) -> JsonResult<BulkOperationDoc> {
    Ok(Json(access.namespace.api.pause_operation(&caller, &run, reason).await?))
}

/// Resumes a paused operation.
#[utoipa::path(post, path = "/v1/operations/{run}/resume", tag = "operations", request_body = Option<NewNote>,
    responses((status = 200, body = BulkOperationDoc)))]
async fn resume(
    access: Access,
    PathParam(run): PathParam<RunId>,
    CallerInfo(caller): CallerInfo,
    OptionalBody(reason): OptionalBody<NewNote>,
) -> JsonResult<BulkOperationDoc> {
    Ok(Json(access.namespace.api.resume_operation(&caller, &run, reason).await?))
}

/// Stops an operation. What it has done stays done.
#[utoipa::path(post, path = "/v1/operations/{run}/stop", tag = "operations", request_body = Option<NewNote>,
    responses((status = 200, body = BulkOperationDoc)))]
async fn stop(
    access: Access,
    PathParam(run): PathParam<RunId>,
    CallerInfo(caller): CallerInfo,
    OptionalBody(reason): OptionalBody<NewNote>,
) -> JsonResult<BulkOperationDoc> {
    Ok(Json(access.namespace.api.stop_operation(&caller, &run, reason).await?))
}

/// Groups failed and parked runs by the fingerprint of their cause, the largest group first and at most 1,000.
#[utoipa::path(get, path = "/v1/failures", tag = "operations", params(FailuresQuery),
    responses((status = 200, body = FailuresDoc)))]
async fn failures(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(query): QueryParams<FailuresQuery>,
) -> JsonResult<FailuresDoc> {
    check_secrets(&app, query.condition.as_deref())?;
    Ok(Json(access.namespace.api.failures(query).await?))
}
