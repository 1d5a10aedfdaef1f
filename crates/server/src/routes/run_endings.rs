//! Commands that end or retry a run, or withdraw a pending request.

use std::sync::Arc;

use goldseam_api::CommandsApi;
use goldseam_api::doc::change::{DoneDoc, NewNote};
use goldseam_api::doc::ending::{CancelledDoc, NewRetry, NewWithdrawal, TerminatedDoc, WithdrawnDoc};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{JsonBody, OptionalBody, RunCommand};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(terminate))
        .routes(routes!(withdraw))
        .routes(routes!(retry))
}

/// Asks a run to stop. It ends as cancelled after its compensations. Reports what a pending request waits for.
#[utoipa::path(post, path = "/v1/runs/{run}/cancel", tag = "runs", request_body = Option<NewNote>,
    responses((status = 200, body = CancelledDoc)))]
async fn cancel(to: RunCommand<OptionalBody<NewNote>>) -> JsonResult<CancelledDoc> {
    Ok(Json(to.access.namespace.api.cancel(&to.caller, &to.run, to.body.0).await?))
}

/// Ends a run now, without its code and without compensation. Needs a reason. Reports what was not undone.
#[utoipa::path(post, path = "/v1/runs/{run}/terminate", tag = "runs", request_body = NewNote,
    responses((status = 200, body = TerminatedDoc)))]
async fn terminate(to: RunCommand<JsonBody<NewNote>>) -> JsonResult<TerminatedDoc> {
    Ok(Json(to.access.namespace.api.terminate(&to.caller, &to.run, to.body.0).await?))
}

/// Withdraws a jump or a request to cancel that no worker has carried out.
#[utoipa::path(post, path = "/v1/runs/{run}/withdraw", tag = "runs", request_body = Option<NewWithdrawal>,
    responses((status = 200, body = WithdrawnDoc)))]
async fn withdraw(to: RunCommand<OptionalBody<NewWithdrawal>>) -> JsonResult<WithdrawnDoc> {
    Ok(Json(to.access.namespace.api.withdraw(&to.caller, &to.run, to.body.0).await?))
}

/// Retries a failed run from its failed step, on a new branch.
#[utoipa::path(post, path = "/v1/runs/{run}/retry", tag = "runs", request_body = Option<NewRetry>,
    responses((status = 200, body = DoneDoc)))]
async fn retry(to: RunCommand<OptionalBody<NewRetry>>) -> JsonResult<DoneDoc> {
    Ok(Json(to.access.namespace.api.retry(&to.caller, &to.run, to.body.0).await?))
}
