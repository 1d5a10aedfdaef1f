//! Prometheus metrics of the engine and the server.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use goldseam::unstable::engine::Clock;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::NAMESPACE_DEFAULT;

/// Requests by method, route and status.
pub const REQUESTS: &str = "goldseam_http_requests_total";
/// Response times by route.
pub const SECONDS: &str = "goldseam_http_request_seconds";
/// Requests in progress, without streams.
pub const UNDER_WAY: &str = "goldseam_http_requests_under_way";
/// Connected log followers.
pub const FOLLOWERS: &str = "goldseam_http_followers";

/// The recorder of this process; `None` if the program installed another recorder.
static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Installs the recorder. Metrics recorded before are lost.
pub fn install() -> Option<&'static PrometheusHandle> {
    let handle = HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets(goldseam::metrics::buckets()).ok()?;
        let handle = builder.install_recorder().ok()?;
        describe_counter!(REQUESTS, "Requests by method, route and status");
        describe_histogram!(SECONDS, "Response time in seconds, by route");
        describe_gauge!(UNDER_WAY, "Requests in progress, without streams");
        describe_gauge!(FOLLOWERS, "Connected log followers");
        gauge!(UNDER_WAY).increment(0.0);
        gauge!(FOLLOWERS).increment(0.0);
        Some(handle)
    });
    handle.as_ref()
}

/// Renders the metrics of a namespace in the Prometheus text format.
pub(crate) fn render(namespace: &str) -> Option<String> {
    let handle = install()?;
    handle.run_upkeep();
    Some(filter(namespace, &handle.render()))
}

/// Keeps the lines of one namespace. Lines without a namespace belong to the server and go to the main namespace.
fn filter(namespace: &str, text: &str) -> String {
    let own = format!("namespace=\"{namespace}\"");
    let is_visible = |line: &&str| match line.contains("namespace=\"") {
        true => line.contains(&own),
        false => line.starts_with('#') || namespace == NAMESPACE_DEFAULT,
    };
    text.lines().filter(is_visible).flat_map(|line| [line, "\n"]).collect()
}

/// Counts a request. The label is the route's template, not the requested path, so the number of labels is bounded.
pub(crate) async fn count(State(clock): State<Arc<dyn Clock>>, request: Request, next: Next) -> Response {
    let began = clock.elapsed();
    let method = label(request.method());
    let in_progress = GaugeGuard::increment(UNDER_WAY);
    let response = next.run(request).await;
    drop(in_progress);
    let route = response.extensions().get::<MatchedPath>().map_or("none", |path| path.as_str()).to_owned();
    let status = response.status().as_str().to_owned();
    let took = clock.elapsed().saturating_sub(began);
    record(method, route, status, took);
    response
}

/// Returns the label of a method. Unknown methods share one label, because clients can invent any number of them.
fn label(method: &Method) -> &'static str {
    let all = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let names = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
    all.iter().position(|known| known == method).map_or("other", |at| names[at])
}

fn record(method: &'static str, route: String, status: String, took: Duration) {
    histogram!(SECONDS, "route" => route.clone()).record(took.as_secs_f64());
    counter!(REQUESTS, "method" => method, "route" => route, "status" => status).increment(1);
}

/// Increments a gauge until dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard(&'static str);

impl GaugeGuard {
    pub(crate) fn increment(gauge: &'static str) -> Self {
        gauge!(gauge).increment(1.0);
        Self(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        gauge!(self.0).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_see_their_metrics_and_the_main_one_the_servers() {
        let text = "# TYPE depth gauge\ndepth{queue=\"a\",namespace=\"default\"} 1\n\
            depth{queue=\"b\",namespace=\"other\"} 2\nrequests{route=\"none\"} 3\n";
        let lines = |namespace| filter(namespace, text).lines().map(str::to_owned).collect::<Vec<_>>();
        let all: Vec<&str> = text.lines().collect();
        assert_eq!(lines("default"), [all[0], all[1], all[3]]);
        assert_eq!(lines("other"), [all[0], all[2]]);
        assert_eq!(lines("oth"), [all[0]]);
    }

    #[test]
    fn unknown_methods_share_one_label() {
        assert_eq!(label(&Method::DELETE), "DELETE");
        assert_eq!(label(&Method::from_bytes(b"MADE-UP-1").unwrap()), "other");
    }
}
