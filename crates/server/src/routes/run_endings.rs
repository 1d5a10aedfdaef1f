//! Ending runs, and taking back what was asked of them.

use std::sync::Arc;

use goldseam::RunId;
use goldseam_api::doc::change::{Done, Reason};
use goldseam_api::doc::ending::{Cancelled, NewRetry, NewWithdrawal, Terminated, Withdrawn};
use goldseam_api::{Api, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, PathParam};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(terminate))
        .routes(routes!(withdraw))
        .routes(routes!(retry))
}

/// Asks a run to stop; it ends cancelled once it has undone what it must. Says what a pending request waits for.
#[utoipa::path(post, path = "/v1/runs/{run}/cancel", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<Reason>,
    responses((status = 200, body = Cancelled), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn cancel(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<Reason>>,
) -> JsonResult<Cancelled> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.cancel(&caller, &run, new).await?))
}

/// Ends a run now, without its code and without compensation; needs a reason. Says what was left standing.
#[utoipa::path(post, path = "/v1/runs/{run}/terminate", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Reason,
    responses((status = 200, body = Terminated), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn terminate(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    Body(new): Body<Reason>,
) -> JsonResult<Terminated> {
    Ok(Json(access.namespace.api.terminate(&caller, &run, new).await?))
}

/// Takes back a jump or a request to cancel that no worker has acted on.
#[utoipa::path(post, path = "/v1/runs/{run}/withdraw", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<NewWithdrawal>,
    responses((status = 200, body = Withdrawn), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn withdraw(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<NewWithdrawal>>,
) -> JsonResult<Withdrawn> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.withdraw(&caller, &run, new).await?))
}

/// Tries a failed run again from its failed step, on a new branch.
#[utoipa::path(post, path = "/v1/runs/{run}/retry", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<NewRetry>,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn retry(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<NewRetry>>,
) -> JsonResult<Done> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.retry(&caller, &run, new).await?))
}
