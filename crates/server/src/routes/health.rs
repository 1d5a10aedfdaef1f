//! Health, readiness, metrics, the OpenAPI description and the pages of codes.

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

use crate::app::ServerState;
use crate::extract::{Access, PathParam};
use crate::meter;
use crate::namespace::Namespace;
use crate::reply::{Json, ProblemResponse};

/// Time limit of a store to look up a run.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// The body of `/readyz` after SIGTERM.
const LEAVING: &str = "leaving: this server is shutting down, send requests elsewhere\n";
/// The id of a run that never exists.
const MISSING_RUN: &str = "goldseam.ready";

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    probes().routes(routes!(description)).routes(routes!(page))
}

/// The routes that the health listener serves, too.
pub(super) fn probes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(alive)).routes(routes!(ready)).routes(routes!(metrics))
}

/// Reports that the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, description = "The process is alive."),
        (status = 421, description = "The server does not accept that host name.")))]
async fn alive() -> &'static str {
    "ok\n"
}

/// Reports whether every store answers and the server is not shutting down.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, description = "The server is ready."),
        (status = 503, description = "The server is not ready."),
        (status = 421, description = "The server does not accept that host name.")))]
async fn ready(State(app): State<Arc<ServerState>>) -> Response {
    if app.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, LEAVING).into_response();
    }
    match app.readiness.get(app.clock.elapsed(), all_stores_answer(&app)).await {
        true => "ok\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "a store does not answer\n").into_response(),
    }
}

async fn all_stores_answer(app: &ServerState) -> bool {
    let checks = app.namespaces().map(|namespace| store_answers(namespace));
    join_all(checks).await.into_iter().all(|answers| answers)
}

/// Asks the store for a run that it cannot know from memory.
async fn store_answers(namespace: &Namespace) -> bool {
    let Ok(missing) = RunId::new(MISSING_RUN) else { return false };
    let head = namespace.client().store().head(&missing);
    matches!(tokio::time::timeout(READY_WITHIN, head).await, Ok(Ok(_)))
}

/// Returns the metrics of this namespace in the Prometheus text format. The main namespace also has the metrics of the
/// server.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"),
        (status = 501, body = Problem)))]
async fn metrics(State(app): State<Arc<ServerState>>, access: Access) -> Result<Response, ProblemResponse> {
    access.namespace.count_queues(app.clock.elapsed()).await;
    let text = meter::render(&access.namespace.name)
        .ok_or_else(|| Problem::new(501, "this process has another metrics recorder"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// Returns this OpenAPI description.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server",
    responses((status = 200, description = "The OpenAPI description.", body = Object)))]
async fn description() -> Json<&'static serde_json::Value> {
    Json(super::openapi())
}

/// Returns the page of an error or rule code: what happened, why, and what to do.
#[utoipa::path(get, path = "/v1/codes/{code}", tag = "server",
    responses((status = 200, description = "The page.", body = String, content_type = "text/markdown")))]
async fn page(PathParam(code): PathParam<String>) -> Result<Response, ProblemResponse> {
    let page = codes::page(&code).ok_or_else(|| Problem::not_found("no page for that code"))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response())
}
