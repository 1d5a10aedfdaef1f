//! What can go wrong with a request, and which requests it goes wrong with.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::request::{Op, Request};

/// An error that the server answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// What S3 calls it.
    pub code: String,
}

impl Refusal {
    /// An error of this status, which S3 calls `code`.
    pub fn new(status: u16, code: &str) -> Self {
        Self { status, code: code.to_owned() }
    }
}

/// What goes wrong with a request: whether it is done, how often, and what the client gets to know.
#[derive(Debug, Clone)]
pub struct Fault {
    pub(crate) before: Pause,
    /// How often it is done.
    pub(crate) times: u32,
    pub(crate) after: Pause,
    pub(crate) answer: Answer,
}

/// What a request waits for.
#[derive(Debug, Clone)]
pub(crate) enum Pause {
    None,
    For(Duration),
    Until(Gate),
}

/// What the client gets.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// What the server has to say.
    Own,
    Refused(Refusal),
    /// The connection is closed instead.
    Dropped,
    /// Nothing, ever.
    Missing,
}

impl Fault {
    const NONE: Self = Self { before: Pause::None, times: 1, after: Pause::None, answer: Answer::Own };

    /// The request is not done, and the client is told so.
    pub fn refused(refusal: Refusal) -> Self {
        Self { times: 0, answer: Answer::Refused(refusal), ..Self::NONE }
    }

    /// 409: somebody else is writing the same key.
    pub fn conflict() -> Self {
        Self::refused(Refusal::new(409, "ConditionalRequestConflict"))
    }

    /// 500: something is wrong with the server.
    pub fn internal() -> Self {
        Self::refused(Refusal::new(500, "InternalError"))
    }

    /// 503: there are too many requests.
    pub fn slow_down() -> Self {
        Self::refused(Refusal::new(503, "SlowDown"))
    }

    /// 403: these keys may not do this.
    pub fn denied() -> Self {
        Self::refused(Refusal::new(403, "AccessDenied"))
    }

    /// 403: the clocks of client and server are too far apart.
    pub fn skewed() -> Self {
        Self::refused(Refusal::new(403, "RequestTimeTooSkewed"))
    }

    /// 404: there is no such bucket.
    pub fn no_bucket() -> Self {
        Self::refused(Refusal::new(404, "NoSuchBucket"))
    }

    /// The request is not done, and the connection is closed.
    pub fn dropped() -> Self {
        Self { times: 0, answer: Answer::Dropped, ..Self::NONE }
    }

    /// The request is not done, and nobody ever answers.
    pub fn unanswered() -> Self {
        Self { times: 0, answer: Answer::Missing, ..Self::NONE }
    }

    /// The request is done after a while, even if its client has given up by then.
    pub fn delayed(by: Duration) -> Self {
        Self { before: Pause::For(by), ..Self::NONE }
    }

    /// The request is done once the gate is open, even if its client has given up by then.
    pub fn held(gate: &Gate) -> Self {
        Self { before: Pause::Until(gate.clone()), ..Self::NONE }
    }

    /// The request is done twice, as if it had been delivered twice, and the client gets the second answer.
    pub fn twice() -> Self {
        Self { times: 2, ..Self::NONE }
    }

    /// The request is done all the same, before anything goes wrong.
    #[must_use]
    pub fn after_commit(self) -> Self {
        Self { before: Pause::None, times: self.times.max(1), after: self.before, ..self }
    }

    pub(crate) fn none() -> Self {
        Self::NONE
    }
}

/// Holds requests until a test lets them go on.
#[derive(Debug, Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A gate that is closed.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets everybody go on who waits, and whoever comes.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn passed(&self) {
        // The sender is ours, so it is not gone.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

impl Pause {
    pub(crate) async fn over(&self) {
        match self {
            Self::None => {}
            Self::For(time) => tokio::time::sleep(*time).await,
            Self::Until(gate) => gate.passed().await,
        }
    }
}

/// Which requests a fault is for: all, unless it is said otherwise.
#[derive(Debug, Clone, Default)]
pub struct Match {
    op: Option<Op>,
    writes: bool,
    key: String,
    by: Option<String>,
    skipped: u64,
    times_max: Option<u64>,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those of one kind.
    #[must_use]
    pub fn op(self, op: Op) -> Self {
        Self { op: Some(op), ..self }
    }

    /// Those that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        Self { writes: true, ..self }
    }

    /// Those whose key contains this.
    #[must_use]
    pub fn key(self, part: &str) -> Self {
        Self { key: part.to_owned(), ..self }
    }

    /// Those of somebody of this name.
    #[must_use]
    pub fn by(self, name: &str) -> Self {
        Self { by: Some(name.to_owned()), ..self }
    }

    /// Of these, only the one of this number, from one.
    #[must_use]
    pub fn nth(self, number: u64) -> Self {
        Self { skipped: number.saturating_sub(1), times_max: Some(1), ..self }
    }

    /// Of these, only as many as this, from the first.
    #[must_use]
    pub fn first(self, count: u64) -> Self {
        Self { skipped: 0, times_max: Some(count), ..self }
    }

    fn is_for(&self, request: &Request) -> bool {
        self.op.is_none_or(|op| op == request.op)
            && (!self.writes || request.op.is_write())
            && request.key.contains(&self.key)
            && self.by.as_ref().is_none_or(|name| *name == request.by)
    }
}

/// What a test has said about requests to come.
pub(crate) type Rule = Box<dyn FnMut(&Request) -> Option<Fault> + Send>;

/// The rule that those requests which fit have this fault.
pub(crate) fn rule(which: Match, fault: Fault) -> Rule {
    let mut seen = 0;
    Box::new(move |request| {
        if !which.is_for(request) {
            return None;
        }
        seen += 1;
        let is_meant =
            seen > which.skipped && which.times_max.is_none_or(|times| seen - which.skipped <= times);
        is_meant.then(|| fault.clone())
    })
}
