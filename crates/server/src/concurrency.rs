//! Turns: each namespace has as many as any other, so that none waits for the requests of another, however many they
//! are, nor for another's store, however slow it is.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::app::App;
use crate::extract::Access;
use crate::reply::ProblemResponse;

/// What may wait for something to happen, and then holds up nobody.
const WAITING: [(Method, &str); 7] = [
    (Method::GET, "/v1/changes"),
    (Method::GET, "/v1/events"),
    (Method::GET, "/v1/runs/{run}/events"),
    (Method::GET, "/v1/runs/{run}/result"),
    (Method::POST, "/v1/tasks/claim"),
    (Method::POST, "/v1/workers/{worker}/claim"),
    (Method::POST, "/v1/workers/{worker}/heartbeat"),
];

/// What is never cut off while it waits: it would have taken something that no caller is told of. It looks by itself whether
/// its key is still valid.
const TO_ITS_END: &str = "/v1/tasks/claim";

/// Lets a request have its turn, or a place among those that wait until its key is not valid any more.
pub(crate) async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let Some(by) = request.extensions().get::<Access>().cloned() else { return next.run(request).await };
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let path = matched.as_ref().map_or("", MatchedPath::as_str);
    if !may_wait(request.method(), path) {
        let _turn = by.namespace.request_slots.take().await;
        return next.run(request).await;
    }
    let wait = match app.waits.take(&by) {
        Ok(wait) => Arc::new(wait),
        Err(problem) => return ProblemResponse(problem).into_response(),
    };
    request.extensions_mut().insert(Arc::clone(&wait));
    if path == TO_ITS_END {
        return next.run(request).await;
    }
    tokio::select! {
        response = next.run(request) => response,
        problem = wait.ended() => ProblemResponse(problem).into_response(),
    }
}

/// Whether a request may wait for something to happen.
fn may_wait(method: &Method, path: &str) -> bool {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    WAITING.iter().any(|(waiting, route)| waiting == method && *route == path)
}

/// The turns of one namespace.
#[derive(Debug)]
pub(crate) struct RequestSlots(Semaphore);

impl RequestSlots {
    /// The share of one of so many namespaces.
    pub(crate) fn share(at_once: usize, namespaces: usize) -> Self {
        let share = (at_once / namespaces.max(1)).clamp(1, Semaphore::MAX_PERMITS);
        Self(Semaphore::new(share))
    }

    /// Waits for a turn, which ends when it is dropped; first come, first served.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // Nobody closes it; if somebody did, nobody would wait any more.
        self.0.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_has_the_same_share_and_at_least_one() {
        for (at_once, namespaces, share) in [(512, 1, 512), (512, 4, 128), (3, 2, 1), (1, 9, 1)] {
            assert_eq!(RequestSlots::share(at_once, namespaces).0.available_permits(), share);
        }
    }

    #[test]
    fn every_route_that_waits_is_known_here() {
        let described = crate::openapi();
        let reads = |value: &serde_json::Value| {
            let mut text = value.to_string();
            for (name, schema) in described["components"]["schemas"].as_object().unwrap() {
                if text.contains(&format!("schemas/{name}\"")) {
                    text.push_str(&schema.to_string());
                }
            }
            text
        };
        let mut found = Vec::new();
        for (path, item) in described["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let asks = format!("{}{}", reads(&operation["parameters"]), reads(&operation["requestBody"]));
                let streams = operation["responses"].to_string().contains("text/event-stream");
                if asks.contains("wait_ms") || streams {
                    found
                        .push((Method::from_bytes(method.to_uppercase().as_bytes()).unwrap(), path.as_str()));
                }
            }
        }
        found.sort_by(|a, b| a.1.cmp(b.1));
        assert_eq!(found, WAITING);
    }
}
