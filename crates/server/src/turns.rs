//! Turns: each namespace has as many as any other, so that none waits for the requests of another, however many they
//! are, nor for another's store, however slow it is.

use axum::http::Method;
use tokio::sync::{Semaphore, SemaphorePermit};

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

/// Whether a request may wait for something to happen.
pub(crate) fn may_wait(method: &Method, path: &str) -> bool {
    WAITING.iter().any(|(waiting, route)| waiting == method && *route == path)
}

/// The turns of one namespace.
#[derive(Debug)]
pub(crate) struct Turns(Semaphore);

impl Turns {
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
            assert_eq!(Turns::share(at_once, namespaces).0.available_permits(), share);
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
