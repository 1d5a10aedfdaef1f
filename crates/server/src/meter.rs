//! Numbers for Prometheus: what the engine counts, and what the server adds.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use crate::NAMESPACE_DEFAULT;
use crate::app::App;

/// Requests, by method, route and status.
pub const REQUESTS: &str = "goldseam_http_requests_total";
/// How long answers took, by route.
pub const SECONDS: &str = "goldseam_http_request_seconds";
/// Requests that are being answered, without streams.
pub const UNDER_WAY: &str = "goldseam_http_requests_under_way";
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
        describe_gauge!(UNDER_WAY, "Requests that are being answered, without streams");
        describe_gauge!(FOLLOWERS, "Followers of logs that are connected");
        Some(handle)
    });
    handle.as_ref()
}

/// What was counted in a namespace, as Prometheus reads it.
pub(crate) fn render(namespace: &str) -> Option<String> {
    let handle = install()?;
    handle.run_upkeep();
    Some(only(namespace, &handle.render()))
}

/// The lines of one namespace. What belongs to none is the server's own, and goes with the main one.
fn only(namespace: &str, text: &str) -> String {
    let own = format!("namespace=\"{namespace}\"");
    let is_seen = |line: &&str| match line.contains("namespace=\"") {
        true => line.contains(&own),
        false => line.starts_with('#') || namespace == NAMESPACE_DEFAULT,
    };
    text.lines().filter(is_seen).flat_map(|line| [line, "\n"]).collect()
}

/// Counts a request. Routes are named as they are written, never as they were asked for: labels stay few.
pub(crate) async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let began = app.clock.elapsed();
    let method = known(request.method());
    let under_way = Counted::begin(UNDER_WAY);
    let response = next.run(request).await;
    drop(under_way);
    let route = response.extensions().get::<MatchedPath>().map_or("none", |path| path.as_str()).to_owned();
    let status = response.status().as_str().to_owned();
    let took = app.clock.elapsed().saturating_sub(began);
    counted(method, route, status, took);
    response
}

/// A method, if it is one that anything answers to: anybody can make up others without end.
fn known(method: &Method) -> &'static str {
    let all = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let names = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
    all.iter().position(|known| known == method).map_or("other", |at| names[at])
}

fn counted(method: &'static str, route: String, status: String, took: Duration) {
    histogram!(SECONDS, "route" => route.clone()).record(took.as_secs_f64());
    counter!(REQUESTS, "method" => method, "route" => route, "status" => status).increment(1);
}

/// Somebody, for as long as he is there.
#[derive(Debug)]
pub(crate) struct Counted(&'static str);

impl Counted {
    pub(crate) fn begin(gauge: &'static str) -> Self {
        gauge!(gauge).increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        gauge!(self.0).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_sees_its_own_numbers_and_the_main_one_the_servers_too() {
        let text = "# TYPE depth gauge\ndepth{queue=\"a\",namespace=\"default\"} 1\n\
            depth{queue=\"b\",namespace=\"other\"} 2\nrequests{route=\"none\"} 3\n";
        let lines = |namespace| only(namespace, text).lines().map(str::to_owned).collect::<Vec<_>>();
        let all: Vec<&str> = text.lines().collect();
        assert_eq!(lines("default"), [all[0], all[1], all[3]]);
        assert_eq!(lines("other"), [all[0], all[2]]);
        assert_eq!(lines("oth"), [all[0]]);
    }

    #[test]
    fn a_method_that_somebody_made_up_is_counted_with_all_others() {
        assert_eq!(known(&Method::DELETE), "DELETE");
        assert_eq!(known(&Method::from_bytes(b"MADE-UP-1").unwrap()), "other");
    }
}
