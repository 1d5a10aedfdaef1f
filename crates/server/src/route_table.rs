//! The table of all routes: authentication, rate limits, concurrency, redaction and the OpenAPI description read it.
//!
//! A handler's attribute repeats only method and path, because the router is built from it. Tests compare both: a route
//! that is mounted but not listed, or listed but not mounted, fails them. At run time, an unlisted route is refused.

use axum::http::Method;
use goldseam_api::doc::key::Scope;

use crate::rate::RateKind;

/// The credential that a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A key with this scope.
    Scope(Scope),
    /// Any valid key.
    Key,
    /// A pass.
    Pass,
    /// The ticket of a pass; the handler checks the signature.
    Signature,
}

/// Whether a request may wait for something to happen. A waiting request does not use a request slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It never waits.
    No,
    /// It may wait, and ends when its key does.
    UntilKeyEnds,
    /// It may wait and is never interrupted, because it would have claimed something that no caller knows of. The
    /// handler checks the key.
    ToCompletion,
}

/// The properties of a route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// Name of the operation in generated clients. It never changes once published.
    pub(crate) operation: &'static str,
    /// `None` if the route is public.
    pub(crate) need: Option<Need>,
    pub(crate) waits: Waits,
    /// Whether secrets are removed from its JSON documents. Problems are always redacted, streams event by event.
    pub(crate) redacts: bool,
    /// Whether an idempotency key identifies a repeated request.
    pub(crate) is_idempotent: bool,
    /// The rate limit that counts its requests.
    pub(crate) rate: RateKind,
}

const READ: Option<Need> = Some(Need::Scope(Scope::Read));
const START: Option<Need> = Some(Need::Scope(Scope::Start));
const SIGNAL: Option<Need> = Some(Need::Scope(Scope::Signal));
const OPERATE: Option<Need> = Some(Need::Scope(Scope::Operate));
const WORKER: Option<Need> = Some(Need::Scope(Scope::Worker));
const ADMIN: Option<Need> = Some(Need::Scope(Scope::Admin));
const KEY: Option<Need> = Some(Need::Key);
const PASS: Option<Need> = Some(Need::Pass);
const SIGNATURE: Option<Need> = Some(Need::Signature);
const PUBLIC: Option<Need> = None;

/// Every route of the server. The methods of one path are in the order of its `allow` header.
pub(crate) const ROUTES: &[Route] = &[
    get("/healthz", "check_health", PUBLIC).data(),
    get("/readyz", "check_readiness", PUBLIC).data(),
    get("/metrics", "read_metrics", READ).data(),
    get("/v1/openapi.json", "read_description", READ).data(),
    get("/v1/codes/{code}", "read_code", READ).data(),
    get("/v1/runs", "list_runs", READ),
    post("/v1/runs", "start_run", START).idempotent(),
    get("/v1/runs/{run}", "get_run", READ),
    get("/v1/statuses", "count_statuses", READ).data(),
    get("/v1/suggestions", "list_suggestions", READ),
    get("/v1/runs/{run}/remedies", "list_remedies", READ),
    get("/v1/activity", "read_activity", READ).data(),
    get("/v1/runs/{run}/history", "read_history", READ),
    get("/v1/runs/{run}/result", "await_result", READ).data().waits(Waits::UntilKeyEnds),
    get("/v1/runs/{run}/why", "explain_run", READ),
    get("/v1/runs/{run}/branches", "list_branches", READ),
    get("/v1/runs/{run}/diff", "compare_branches", READ),
    post("/v1/runs/{run}/signal", "signal_run", SIGNAL).data().idempotent(),
    get("/v1/runs/{run}/published", "list_published", READ).data(),
    get("/v1/runs/{run}/published/{name}", "read_published", READ).data(),
    get("/v1/runs/{run}/requests/{name}", "read_reply", SIGNAL).data().waits(Waits::UntilKeyEnds),
    post("/v1/runs/{run}/requests/{name}", "request_run", SIGNAL)
        .data()
        .idempotent()
        .waits(Waits::UntilKeyEnds),
    post("/v1/runs/{run}/pause", "pause_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/requeue", "requeue_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/migrate", "migrate_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/note", "note_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/resume", "resume_run", OPERATE).idempotent(),
    post("/v1/runs/{run}/reset", "reset_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/undo-recovery", "undo_recovery", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/jump", "jump_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/recover", "recover_run", OPERATE).idempotent(),
    post("/v1/runs/{run}/cancel", "cancel_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/terminate", "terminate_run", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/withdraw", "withdraw_request", OPERATE).data().idempotent(),
    post("/v1/runs/{run}/retry", "retry_run", OPERATE).data().idempotent(),
    get("/v1/runs/{run}/events", "follow_run", READ).data().waits(Waits::UntilKeyEnds),
    get("/v1/events", "follow_everything", READ).data().waits(Waits::UntilKeyEnds),
    get("/v1/groups", "group_runs", READ),
    get("/v1/questions", "list_questions", READ).data(),
    get("/v1/runs/{run}/questions", "list_run_questions", READ).data(),
    get("/v1/runs/{run}/questions/{question}", "get_question", READ).data(),
    post("/v1/runs/{run}/questions/{question}/answer", "answer_question", SIGNAL).data().idempotent(),
    post("/v1/runs/{run}/passes", "create_pass", SIGNAL).data(),
    get("/v1/pass", "show_pass", PASS).data(),
    post("/v1/pass", "spend_pass", PASS).data(),
    post("/v1/callbacks/{ticket}", "call_back", SIGNATURE).data(),
    post("/v1/passes/rotate", "rotate_passes", ADMIN).data(),
    get("/v1/tasks", "list_tasks", READ).data(),
    post("/v1/tasks", "submit_task", START).data().idempotent(),
    get("/v1/tasks/{task}", "get_task", READ).data(),
    post("/v1/tasks/claim", "claim_tasks", WORKER).data().waits(Waits::ToCompletion),
    post("/v1/tasks/{task}/heartbeat", "heartbeat_task", WORKER).data(),
    post("/v1/tasks/{task}/complete", "complete_task", WORKER).data().idempotent(),
    post("/v1/tasks/{task}/fail", "fail_task", WORKER).data().idempotent(),
    post("/v1/tasks/{task}/release", "release_task", WORKER).data().idempotent(),
    post("/v1/tasks/{task}/cancel", "cancel_task", OPERATE).data().idempotent(),
    post("/v1/tasks/reclaim", "reclaim_tasks", OPERATE).data(),
    get("/v1/queues", "list_queues", READ).data(),
    get("/v1/locks", "list_locks", READ).data(),
    get("/v1/locks/stale", "list_stale_locks", READ).data(),
    get("/v1/locks/{lock}", "get_lock", READ).data(),
    post("/v1/locks/{lock}/acquire", "acquire_lock", WORKER).data().idempotent(),
    post("/v1/locks/{lock}/extend", "extend_lock", WORKER).data(),
    post("/v1/locks/{lock}/release", "release_lock", WORKER).data(),
    get("/v1/recoveries", "list_recoveries", READ),
    get("/v1/recoveries/stats", "read_recovery_stats", READ).data(),
    post("/v1/sweep", "sweep", OPERATE),
    get("/v1/doctor", "examine_store", READ),
    post("/v1/doctor", "run_doctor", OPERATE),
    get("/v1/nodes", "list_nodes", READ).data(),
    get("/v1/workflows", "list_workflows", READ).data(),
    get("/v1/changes", "await_changes", READ).data().waits(Waits::UntilKeyEnds),
    get("/v1/operations", "list_operations", READ),
    post("/v1/operations", "begin_operation", OPERATE).idempotent(),
    post("/v1/operations/preview", "preview_operation", READ),
    get("/v1/operations/{run}", "get_operation", READ),
    post("/v1/operations/{run}/pause", "pause_operation", OPERATE).idempotent(),
    post("/v1/operations/{run}/resume", "resume_operation", OPERATE).idempotent(),
    post("/v1/operations/{run}/stop", "stop_operation", OPERATE).idempotent(),
    get("/v1/failures", "list_failures", READ),
    get("/v1/prune", "plan_prune", READ).data(),
    post("/v1/prune", "prune", ADMIN).data(),
    get("/v1/key", "get_current_key", KEY).data(),
    get("/v1/keys", "list_keys", ADMIN).data(),
    post("/v1/keys", "create_key", ADMIN).data(),
    post("/v1/keys/{key}/revoke", "revoke_key", ADMIN).data(),
    post("/v1/workers", "register_worker", WORKER).data(),
    delete("/v1/workers/{worker}", "remove_worker", WORKER).data(),
    post("/v1/workers/{worker}/heartbeat", "heartbeat_worker", WORKER).data().waits(Waits::UntilKeyEnds),
    post("/v1/workers/{worker}/claim", "claim_executions", WORKER).data().waits(Waits::UntilKeyEnds),
    post("/v1/executions/append", "append_to_execution", WORKER).data(),
    post("/v1/executions/events", "read_execution", WORKER).data(),
];

const fn get(path: &'static str, operation: &'static str, need: Option<Need>) -> Route {
    route(Method::GET, path, operation, need)
}

const fn post(path: &'static str, operation: &'static str, need: Option<Need>) -> Route {
    route(Method::POST, path, operation, need)
}

const fn delete(path: &'static str, operation: &'static str, need: Option<Need>) -> Route {
    route(Method::DELETE, path, operation, need)
}

const fn route(method: Method, path: &'static str, operation: &'static str, need: Option<Need>) -> Route {
    let rate = rate_of(need);
    Route { method, path, operation, need, waits: Waits::No, redacts: true, is_idempotent: false, rate }
}

const fn rate_of(need: Option<Need>) -> RateKind {
    match need {
        Some(Need::Scope(Scope::Start)) => RateKind::Start,
        Some(Need::Scope(Scope::Signal) | Need::Pass | Need::Signature) => RateKind::Signal,
        Some(Need::Scope(Scope::Worker)) => RateKind::Poll,
        Some(Need::Scope(Scope::Read | Scope::Operate | Scope::Admin) | Need::Key) | None => RateKind::Other,
    }
}

impl Route {
    /// Sends its documents unredacted: programs need them as data.
    const fn data(mut self) -> Self {
        self.redacts = false;
        self
    }

    /// Recognises a repeated request by its idempotency key.
    const fn idempotent(mut self) -> Self {
        self.is_idempotent = true;
        self
    }

    const fn waits(mut self, waits: Waits) -> Self {
        self.waits = waits;
        self
    }
}

/// Finds the route of a method and a path template. `HEAD` is served by the route of `GET`.
pub(crate) fn find(method: &Method, path: &str) -> Option<&'static Route> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    ROUTES.iter().find(|route| route.method == *method && route.path == path)
}

/// Returns whether a request needs no credential. The path must match exactly, and `HEAD` is not public.
pub(crate) fn is_public(method: &Method, path: &str) -> bool {
    ROUTES.iter().any(|route| route.need.is_none() && route.method == *method && route.path == path)
}

/// Returns the methods of a path template; empty if the path is unknown.
pub(crate) fn methods(path: &str) -> Vec<&'static str> {
    ROUTES.iter().filter(|route| route.path == path).map(|route| route.method.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(routes: impl Iterator<Item = &'static Route>) -> BTreeSet<String> {
        routes.map(|route| format!("{} {}", route.method, route.path)).collect()
    }

    #[test]
    fn each_route_and_each_operation_is_listed_once() {
        assert_eq!(names(ROUTES.iter()).len(), ROUTES.len());
        let operations: BTreeSet<&str> = ROUTES.iter().map(|route| route.operation).collect();
        assert_eq!(operations.len(), ROUTES.len());
    }

    #[test]
    fn exactly_the_views_are_redacted() {
        let views = [
            "GET /v1/doctor",
            "GET /v1/failures",
            "GET /v1/groups",
            "GET /v1/operations",
            "GET /v1/operations/{run}",
            "GET /v1/recoveries",
            "GET /v1/runs",
            "GET /v1/runs/{run}",
            "GET /v1/runs/{run}/branches",
            "GET /v1/runs/{run}/diff",
            "GET /v1/runs/{run}/history",
            "GET /v1/runs/{run}/remedies",
            "GET /v1/runs/{run}/why",
            "GET /v1/suggestions",
            "POST /v1/doctor",
            "POST /v1/operations",
            "POST /v1/operations/preview",
            "POST /v1/operations/{run}/pause",
            "POST /v1/operations/{run}/resume",
            "POST /v1/operations/{run}/stop",
            "POST /v1/runs",
            "POST /v1/runs/{run}/recover",
            "POST /v1/runs/{run}/resume",
            "POST /v1/sweep",
        ];
        let redacted = names(ROUTES.iter().filter(|route| route.redacts));
        assert_eq!(redacted.iter().map(String::as_str).collect::<Vec<_>>(), views);
    }

    #[test]
    fn routes_that_describe_a_wait_are_listed_as_waiting() {
        let described = crate::openapi();
        let with_schemas = |value: &serde_json::Value| {
            let mut text = value.to_string();
            for (name, schema) in described["components"]["schemas"].as_object().unwrap() {
                if text.contains(&format!("schemas/{name}\"")) {
                    text.push_str(&schema.to_string());
                }
            }
            text
        };
        let waits = |route: &&Route| {
            let operation = &described["paths"][route.path][route.method.as_str().to_lowercase()];
            let streams = operation["responses"].to_string().contains("text/event-stream");
            let parts = [&operation["parameters"], &operation["requestBody"]];
            streams || parts.iter().any(|part| with_schemas(part).contains("wait_ms"))
        };
        let listed = names(ROUTES.iter().filter(|route| route.waits != Waits::No));
        assert_eq!(names(ROUTES.iter().filter(waits)), listed);
        assert_eq!(listed.len(), 9);
        let uninterrupted = names(ROUTES.iter().filter(|route| route.waits == Waits::ToCompletion));
        assert_eq!(uninterrupted, BTreeSet::from(["POST /v1/tasks/claim".to_owned()]));
    }

    #[test]
    fn only_two_probes_are_public_and_only_to_get() {
        let public = names(ROUTES.iter().filter(|route| route.need.is_none()));
        assert_eq!(public, BTreeSet::from(["GET /healthz".to_owned(), "GET /readyz".to_owned()]));
        assert!(is_public(&Method::GET, "/healthz") && !is_public(&Method::HEAD, "/healthz"));
        assert!(!is_public(&Method::GET, "/healthz/"));
    }

    #[test]
    fn idempotency_keys_are_read_from_changes_of_runs_and_tasks() {
        let takes_key = |route: &&Route| {
            let of_run = route.path.strip_prefix("/v1/runs/{run}/").is_some_and(|what| what != "passes");
            let of_task =
                route.path.strip_prefix("/v1/tasks/{task}/").is_some_and(|what| what != "heartbeat");
            let of_operation = route.path.starts_with("/v1/operations/{run}/");
            let other = matches!(
                route.path,
                "/v1/runs" | "/v1/tasks" | "/v1/operations" | "/v1/locks/{lock}/acquire"
            );
            route.method == Method::POST && (of_run || of_task || of_operation || other)
        };
        let listed = names(ROUTES.iter().filter(|route| route.is_idempotent));
        assert_eq!(listed, names(ROUTES.iter().filter(takes_key)));
    }
}
