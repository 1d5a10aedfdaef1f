//! Faults, and which requests they apply to.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::request::{RequestKind, S3Request};

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorReply {
    /// The HTTP status.
    pub status: u16,
    /// The error code of S3.
    pub code: String,
}

impl ErrorReply {
    /// An error response with this status and code.
    pub fn new(status: u16, code: &str) -> Self {
        Self { status, code: code.to_owned() }
    }
}

/// A fault: how often the request is done, and which response the client gets.
#[derive(Debug, Clone)]
pub struct RequestFault {
    pub(crate) before: Pause,
    /// How often the request is done.
    pub(crate) times: u32,
    pub(crate) after: Pause,
    pub(crate) answer: FaultReply,
}

/// What a request waits for.
#[derive(Debug, Clone)]
pub(crate) enum Pause {
    None,
    For(Duration),
    Until(RequestGate),
}

/// The response that the client gets.
#[derive(Debug, Clone)]
pub(crate) enum FaultReply {
    /// The regular response.
    Own,
    Refused(ErrorReply),
    /// None; the connection is closed.
    Dropped,
    /// None; the connection stays open.
    Missing,
}

impl RequestFault {
    const NONE: Self = Self { before: Pause::None, times: 1, after: Pause::None, answer: FaultReply::Own };

    /// The request is not done, and gets this error response.
    pub fn refused(refusal: ErrorReply) -> Self {
        Self { times: 0, answer: FaultReply::Refused(refusal), ..Self::NONE }
    }

    /// 409: another request is writing the same key.
    pub fn conflict() -> Self {
        Self::refused(ErrorReply::new(409, "ConditionalRequestConflict"))
    }

    /// 500: an internal error.
    pub fn internal() -> Self {
        Self::refused(ErrorReply::new(500, "InternalError"))
    }

    /// 503: too many requests.
    pub fn slow_down() -> Self {
        Self::refused(ErrorReply::new(503, "SlowDown"))
    }

    /// 403: these keys lack a permission.
    pub fn denied() -> Self {
        Self::refused(ErrorReply::new(403, "AccessDenied"))
    }

    /// 403: the clocks of client and server are too far apart.
    pub fn skewed() -> Self {
        Self::refused(ErrorReply::new(403, "RequestTimeTooSkewed"))
    }

    /// 404: the bucket does not exist.
    pub fn no_bucket() -> Self {
        Self::refused(ErrorReply::new(404, "NoSuchBucket"))
    }

    /// The request is not done, and the connection is closed.
    pub fn dropped() -> Self {
        Self { times: 0, answer: FaultReply::Dropped, ..Self::NONE }
    }

    /// The request is not done, and never gets a response.
    pub fn unanswered() -> Self {
        Self { times: 0, answer: FaultReply::Missing, ..Self::NONE }
    }

    /// The request is done after a delay, even if its client has given up by then.
    pub fn delayed(by: Duration) -> Self {
        Self { before: Pause::For(by), ..Self::NONE }
    }

    /// The request is done once the gate is open, even if its client has given up by then.
    pub fn held(gate: &RequestGate) -> Self {
        Self { before: Pause::Until(gate.clone()), ..Self::NONE }
    }

    /// The request is done twice, as if it had been delivered twice. The client gets the second response.
    pub fn twice() -> Self {
        Self { times: 2, ..Self::NONE }
    }

    /// The request is done before the fault happens.
    #[must_use]
    pub fn after_commit(self) -> Self {
        Self { before: Pause::None, times: self.times.max(1), after: self.before, ..self }
    }

    pub(crate) fn none() -> Self {
        Self::NONE
    }
}

/// Holds requests until a test opens it.
#[derive(Debug, Clone)]
pub struct RequestGate(Arc<watch::Sender<bool>>);

impl RequestGate {
    /// A closed gate.
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Releases all waiting and later requests.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn passed(&self) {
        // The sender lives as long as `self`.
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

/// Selects requests; by default all.
#[derive(Debug, Clone, Default)]
pub struct Match {
    op: Option<RequestKind>,
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

    /// Only requests of one kind.
    #[must_use]
    pub fn op(self, op: RequestKind) -> Self {
        Self { op: Some(op), ..self }
    }

    /// Only requests that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        Self { writes: true, ..self }
    }

    /// Only requests whose key contains this text.
    #[must_use]
    pub fn key(self, part: &str) -> Self {
        Self { key: part.to_owned(), ..self }
    }

    /// Only requests with this access key id.
    #[must_use]
    pub fn by(self, name: &str) -> Self {
        Self { by: Some(name.to_owned()), ..self }
    }

    /// Only the matching request with this number, from 1.
    #[must_use]
    pub fn nth(self, number: u64) -> Self {
        Self { skipped: number.saturating_sub(1), times_max: Some(1), ..self }
    }

    /// Only the first `count` matching requests.
    #[must_use]
    pub fn first(self, count: u64) -> Self {
        Self { skipped: 0, times_max: Some(count), ..self }
    }

    fn is_for(&self, request: &S3Request) -> bool {
        self.op.is_none_or(|op| op == request.op)
            && (!self.writes || request.op.is_write())
            && request.key.contains(&self.key)
            && self.by.as_ref().is_none_or(|name| *name == request.by)
    }
}

/// Returns the fault of a request, if it has one.
pub(crate) type FaultRule = Box<dyn FnMut(&S3Request) -> Option<RequestFault> + Send>;

/// The rule that applies a fault to matching requests.
pub(crate) fn rule(which: Match, fault: RequestFault) -> FaultRule {
    let mut seen = 0;
    Box::new(move |request| {
        if !which.is_for(request) {
            return None;
        }
        seen += 1;
        let is_selected =
            seen > which.skipped && which.times_max.is_none_or(|times| seen - which.skipped <= times);
        is_selected.then(|| fault.clone())
    })
}
