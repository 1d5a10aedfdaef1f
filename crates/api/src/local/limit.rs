//! Limits of requests, and names that are reserved for the engine.

use std::time::Duration;

use goldseam::Limits;
use goldseam::unstable::core::QueueName;
use goldseam::unstable::core::reserved::{self, Named};

use crate::doc::{PAGE_MAX, WAIT_MS_MAX};
use crate::problem::Problem;

/// Characters of a refused name that are shown.
const SHOWN_CHARS_MAX: usize = 128;

/// Checks the size of a page.
pub(super) fn page(limit: Option<u32>, default: u32) -> Result<u32, Problem> {
    match limit.unwrap_or(default) {
        limit @ 1..=PAGE_MAX => Ok(limit),
        other => Err(Problem::bad_request(format!("`limit` must be between 1 and {PAGE_MAX}, not {other}"))
            .limit(u64::from(PAGE_MAX))),
    }
}

/// Checks how long a request may wait.
pub(super) fn wait(wait_ms: Option<u64>) -> Result<Duration, Problem> {
    match wait_ms.unwrap_or(0) {
        ms @ 0..=WAIT_MS_MAX => Ok(Duration::from_millis(ms)),
        ms => Err(Problem::bad_request(format!("`wait_ms` must be at most {WAIT_MS_MAX}, not {ms}"))
            .code("GS0608")
            .hint("wait again with the same request if nothing has come")
            .limit(WAIT_MS_MAX)),
    }
}

/// Refuses a text that is too long.
pub(super) fn text(what: &str, text: &str, limits: &Limits) -> Result<(), Problem> {
    let bytes = text.len();
    let max = limits.text_bytes_max;
    if bytes <= max {
        return Ok(());
    }
    let problem = Problem::new(413, format!("{what} has {bytes} bytes, more than the limit of {max}"));
    Err(problem.limit(max as u64))
}

/// Whether a name is reserved for the engine.
pub(super) fn is_reserved(name: &str) -> bool {
    reserved::prefix(Named::Id, name).is_some()
}

/// Refuses names that are reserved for the engine.
pub(super) fn open(what: Named, name: &str) -> Result<(), Problem> {
    let Some(prefix) = reserved::prefix(what, name) else { return Ok(()) };
    let what = match what {
        Named::Id => "names",
        Named::Task => "ids of tasks",
        Named::Queue => "queues",
        Named::Kind => "kinds",
        Named::Command => "ids",
        Named::Workflow => "workflows",
    };
    let name: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    Err(Problem::new(403, format!("{name}: {what} that begin with {prefix} are reserved for the engine"))
        .code("GS0101")
        .hint("use another name"))
}

/// Refuses queues that are reserved for the engine: a client that claims their tasks could block other runs.
pub fn open_queue(queue: &QueueName) -> Result<(), Problem> {
    open(Named::Queue, queue.as_str())
}

/// Refuses a claimant that has the name of a node: its tasks would stay claimed for as long as that node lives.
pub(super) fn claimant(owner: &str) -> Result<(), Problem> {
    match goldseam::unstable::engine::is_node_name(owner) {
        false => Ok(()),
        true => Err(Problem::bad_request(format!("{owner:?} is the name of a node, not of a worker"))
            .hint("use another owner")),
    }
}
