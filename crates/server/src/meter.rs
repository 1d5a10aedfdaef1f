//! Numbers for Prometheus: what the engine counts, and what the server adds.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::app::App;

/// Requests, by method, route and status.
pub const REQUESTS: &str = "goldseam_http_requests_total";
/// How long answers took, by route.
pub const SECONDS: &str = "goldseam_http_request_seconds";
/// Followers of logs that are connected.
pub const FOLLOWERS: &str = "goldseam_http_followers";

/// Bounds of the buckets of every histogram, in seconds.
const BOUNDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0, 3600.0];

/// Where this process's numbers go. None if somebody else has chosen another place for them.
static HANDLE: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Begins to count; what was counted before in this process is lost.
pub fn install() -> Option<&'static PrometheusHandle> {
    let handle = HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets(&BOUNDS).ok()?;
        let handle = builder.install_recorder().ok()?;
        describe_counter!(REQUESTS, "Requests by method, route and status");
        describe_histogram!(SECONDS, "How long answers took, by route");
        describe_gauge!(FOLLOWERS, "Followers of logs that are connected");
        Some(handle)
    });
    handle.as_ref()
}

/// Everything that was counted, as Prometheus reads it.
pub(crate) fn render() -> Option<String> {
    let handle = install()?;
    handle.run_upkeep();
    Some(handle.render())
}

/// Counts a request. Routes are named as they are written, never as they were asked for: labels stay few.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let began = app.clock.elapsed();
    let method = request.method().as_str().to_owned();
    let response = next.run(request).await;
    let route = response.extensions().get::<MatchedPath>().map_or("none", |path| path.as_str()).to_owned();
    let status = response.status().as_str().to_owned();
    let took = app.clock.elapsed().saturating_sub(began);
    counted(method, route, status, took);
    response
}

fn counted(method: String, route: String, status: String, took: Duration) {
    histogram!(SECONDS, "route" => route.clone()).record(took.as_secs_f64());
    counter!(REQUESTS, "method" => method, "route" => route, "status" => status).increment(1);
}

/// A follower, for as long as it is there.
#[derive(Debug)]
pub(crate) struct Following;

impl Following {
    pub(crate) fn begin() -> Self {
        gauge!(FOLLOWERS).increment(1.0);
        Self
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        gauge!(FOLLOWERS).decrement(1.0);
    }
}
