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
use crate::extract::{Access, PathParam};
use crate::meter;
use crate::namespace::Namespace;
use crate::reply::{Json, ProblemResponse};

/// A store that takes longer than this to look for a run is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// What was seen of the stores is told for so long: probes and balancers may ask as often as they like.
const READY_FOR: Duration = Duration::from_secs(1);
/// What `/readyz` says from SIGTERM on.
const LEAVING: &str = "leaving: this server is shutting down, send requests elsewhere\n";
/// A run that there never is.
const NOBODY: &str = "goldseam.ready";

/// What the last look at the stores saw. While one looks, the others wait for it.
#[derive(Debug, Default)]
pub(crate) struct Readiness(tokio::sync::Mutex<Option<(Duration, bool)>>);

impl Readiness {
    /// What was seen lately, else what `look` sees now.
    async fn get(&self, now: Duration, look: impl Future<Output = bool>) -> bool {
        let mut seen = self.0.lock().await;
        match *seen {
            Some((at, ready)) if now.saturating_sub(at) < READY_FOR => ready,
            _ => {
                let ready = look.await;
                *seen = Some((now, ready));
                ready
            }
        }
    }
}

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    probes().routes(routes!(description)).routes(routes!(page))
}

/// What the listener for health answers, too.
pub(super) fn probes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(alive)).routes(routes!(ready)).routes(routes!(numbers))
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", tag = "server", 
    responses((status = 200, description = "it lives"), (status = 421, description = "it does not answer under that name")))]
async fn alive() -> &'static str {
    "ok\n"
}

/// Every store answers, and the server is not leaving: send it requests.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses((status = 200, description = "it can work"), (status = 503, description = "it cannot now"),
        (status = 421, description = "it does not answer under that name")))]
async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, LEAVING).into_response();
    }
    match app.ready.get(app.clock.elapsed(), all_answer(&app)).await {
        true => "ok\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, "a store does not answer\n").into_response(),
    }
}

async fn all_answer(app: &App) -> bool {
    let looks = app.namespaces().map(|namespace| answers(namespace));
    join_all(looks).await.into_iter().all(|answers| answers)
}

/// Whether a store answers a question that it cannot answer from memory.
async fn answers(namespace: &Namespace) -> bool {
    let Ok(nobody) = RunId::new(NOBODY) else { return false };
    let look = namespace.client().store().head(&nobody);
    matches!(tokio::time::timeout(READY_WITHIN, look).await, Ok(Ok(_)))
}

/// What was counted in this namespace, as Prometheus reads it; in the main one, what the server counted of itself, too.
#[utoipa::path(get, path = "/metrics", tag = "server", security(("key" = ["read"])),
    responses((status = 200, description = "the numbers", body = String, content_type = "text/plain"),
        (status = 501, body = Problem)))]
async fn numbers(State(app): State<Arc<App>>, access: Access) -> Result<Response, ProblemResponse> {
    access.namespace.count_queues(app.clock.elapsed()).await;
    let text = meter::render(&access.namespace.name)
        .ok_or_else(|| Problem::new(501, "this process sends its numbers somewhere else"))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// This description.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server", security(("key" = ["read"])),
    responses((status = 200, description = "the description of everything", body = Object)))]
async fn description() -> Json<&'static serde_json::Value> {
    Json(super::openapi())
}

/// The page of a code: what happened, why, and what to do.
#[utoipa::path(get, path = "/v1/codes/{code}", tag = "server", security(("key" = ["read"])),
    params(("code" = String, Path, description = "as in GS0104")),
    responses((status = 200, description = "the page", body = String, content_type = "text/markdown"),
        (status = 404, body = Problem)))]
async fn page(PathParam(code): PathParam<String>) -> Result<Response, ProblemResponse> {
    let page = codes::page(&code).ok_or_else(|| Problem::not_found("there is no page for that code"))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], page).into_response())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn stores_are_asked_once_a_second_at_most() {
        let (readiness, looks) = (Readiness::default(), AtomicU32::new(0));
        let ask = |ms: u64, answer: bool| {
            let looks = &looks;
            let look = async move {
                looks.fetch_add(1, Ordering::Relaxed);
                answer
            };
            readiness.get(Duration::from_millis(ms), look)
        };
        assert!(ask(0, true).await && ask(999, false).await, "what was seen a moment ago is told");
        assert!(!ask(1_000, false).await && !ask(1_500, true).await);
        assert!(ask(2_000, true).await);
        assert_eq!(looks.load(Ordering::Relaxed), 3);
    }
}
