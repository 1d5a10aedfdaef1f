//! Whether it lives, whether it can work, what it counted, what it is.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use goldseam::RunId;
use goldseam_api::{Problem, codes};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{In, Named};
use crate::meter;
use crate::reply::{Json, Refused};
use crate::space::Space;

/// A store that takes longer than this to look for a run is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// A run that there never is.
const NOBODY: &str = "goldseam.ready";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    probes().routes(routes!(description)).routes(routes!(page))
}

/// What the listener for health answers, too.
pub(super) fn probes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(alive)).routes(routes!(ready)).routes(routes!(numbers))
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, description = "it lives")))]
async fn alive() -> &'static str {
    "ok\n"
}

/// Every store answers, and the server is not leaving: send it requests.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, description = "it can work"), (status = 503, description = "it cannot now")))]
async fn ready(State(app): State<Arc<App>>) -> Response {
    if *app.leaving.borrow() {
        return (StatusCode::SERVICE_UNAVAILABLE, "leaving\n").into_response();
    }
    let looks = app.spaces().map(|space| answers(space));
    match join_all(looks).await.into_iter().all(|answers| answers) {
        true => "ok\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "a store does not answer\n").into_response(),
    }
}

/// Whether a store answers a question that it cannot answer from memory.
async fn answers(space: &Space) -> bool {
    let Ok(nobody) = RunId::new(NOBODY) else { return false };
    let look = space.client().store().head(&nobody);
    matches!(tokio::time::timeout(READY_WITHIN, look).await, Ok(Ok(_)))
}

/// What was counted in this namespace, as Prometheus reads it; in the main one, what the server counted of itself, too.
#[utoipa::path(get, path = "/metrics", tag = "server", security(("key" = ["read"])),
    responses((status = 200, description = "the numbers", body = String, content_type = "text/plain")))]
async fn numbers(State(app): State<Arc<App>>, place: In) -> Result<Response, Refused> {
    place.space.count_queues(app.clock.elapsed()).await;
    let text = meter::render(&place.space.name)
        .ok_or_else(|| Problem::new(501, "this process sends its numbers somewhere else"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// This description.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server", security(("key" = ["read"])),
    responses((status = 200, description = "the description of everything", body = Object)))]
async fn description() -> Json<utoipa::openapi::OpenApi> {
    Json(super::openapi())
}

/// The page of a code: what happened, why, and what to do.
#[utoipa::path(get, path = "/v1/codes/{code}", tag = "server", security(("key" = ["read"])),
    params(("code" = String, Path, description = "as in GS0104")),
    responses((status = 200, description = "the page", body = String, content_type = "text/markdown"),
        (status = 404, body = Problem)))]
async fn page(Named(code): Named<String>) -> Result<Response, Refused> {
    let page = codes::page(&code).ok_or_else(|| Problem::not_found("there is no page for that code"))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response())
}
