//! Errors as documents: what failed, what to do, and where to read more (`application/problem+json`).

use std::fmt;

use goldseam::EngineError;
use goldseam::unstable::core::decide::Refusal;
use goldseam::unstable::core::lock::LockRefusal;
use goldseam::unstable::core::next_step::{Hint, NextStep};
use goldseam::unstable::core::operation::SpecError;
use goldseam::unstable::core::task::TaskRefusal;
use goldseam::unstable::core::trace::TraceError;
use goldseam::unstable::core::{ArgumentError, IdError, PayloadError};
use goldseam::unstable::engine::ledger::dialogue::{PublishError, RequestError};
use goldseam::unstable::engine::remote::RemoteRefusal;
use goldseam::unstable::store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::next_step::{NextStepDoc, with_commands};
use crate::timestamp::iso;

/// The path of the code pages on a server.
const PAGES: &str = "/v1/codes/";

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Path of the code's page; `about:blank` if the problem has no code.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: Box<str>,
    /// Title of the HTTP status.
    #[schema(value_type = String)]
    pub title: Box<str>,
    /// The HTTP status.
    pub status: u16,
    /// What failed and why.
    pub detail: String,
    /// Stable error code; `goldseam explain CODE` shows its page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub code: Option<Box<str>>,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hint: Option<Box<str>>,
    /// The steps of the hint, for programs. Absent if the hint has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<NextStepDoc>>)]
    pub next: Option<Box<Vec<NextStepDoc>>>,
    /// The limit that was exceeded, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

impl Problem {
    /// Creates a problem without a code.
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank".into(),
            title: title(status).into(),
            status,
            detail: detail.into(),
            code: None,
            hint: None,
            next: None,
            limit: None,
        }
    }

    /// Sets the code and its page.
    #[must_use]
    pub fn code(mut self, code: &str) -> Self {
        self.kind = format!("{PAGES}{code}").into();
        self.code = Some(code.into());
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the hint and its steps.
    #[must_use]
    pub fn hint_with_steps(mut self, hint: &Hint) -> Self {
        let steps = NextStepDoc::of(hint);
        self.next = (!steps.is_empty()).then(|| Box::new(steps));
        self.hint(with_commands(hint))
    }

    /// Sets the limit that was exceeded.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Creates a problem for an invalid request.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(400, detail)
    }

    /// Creates a problem for something that does not exist.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(404, detail)
    }

    /// Creates a problem for an idempotency key that an earlier, different request used.
    pub fn key_reused(subject: &impl fmt::Display) -> Self {
        Self::new(409, format!("this idempotency key was already used for a different request on {subject}"))
            .code("GS0603")
            .hint("use a new key for a new request")
    }

    /// Creates a problem for an id that an earlier, different request used.
    pub fn id_reused(subject: &impl fmt::Display) -> Self {
        Self::new(409, format!("this id was already used for a different request on {subject}"))
            .code("GS0603")
            .hint("use a new id for a new request; an id may only repeat the same request")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Problem {}

/// The title of a status.
fn title(status: u16) -> &'static str {
    match status {
        400 => "Bad request",
        401 => "Not authenticated",
        403 => "Not allowed",
        404 => "Not found",
        405 => "Method not allowed",
        406 => "Not acceptable",
        408 => "Too slow",
        409 => "Conflict",
        410 => "Gone",
        413 => "Too large",
        414 => "URL too long",
        415 => "Unsupported media type",
        421 => "Misdirected",
        422 => "Not valid",
        429 => "Too many requests",
        431 => "Header too large",
        501 => "Not supported by this store",
        503 => "Store not available",
        504 => "Timed out",
        507 => "Store full",
        _ => "Error",
    }
}

/// The status of an error of the engine.
fn status_of(error: &EngineError) -> u16 {
    match error {
        EngineError::Payload(PayloadError::TooLarge { .. }) => 413,
        EngineError::Id(_)
        | EngineError::Argument(_)
        | EngineError::Payload(_)
        | EngineError::Timing(_)
        | EngineError::NoSuchVersion { .. } => 400,
        EngineError::Operation(SpecError { code: "GS0149", .. }) => 404,
        EngineError::Operation(_) | EngineError::Condition(_) | EngineError::Attribute(_) => 400,
        EngineError::NoSuchTask(_) => 404,
        EngineError::Publish(PublishError::NoSuchName { .. })
        | EngineError::Request(RequestError::NoSuchRequest { .. }) => 404,
        EngineError::Publish(_) => 413,
        EngineError::Request(RequestError::Refused { .. }) => 422,
        EngineError::Request(RequestError::Pending { .. }) => 504,
        EngineError::Request(_) | EngineError::ChildIdReused { .. } => 409,
        EngineError::Remote(refusal) => match refusal {
            RemoteRefusal::NoSuchWorker(_) | RemoteRefusal::NoSuchToken => 404,
            RemoteRefusal::Malformed(_) => 400,
            RemoteRefusal::IdReused { .. } => 409,
            RemoteRefusal::NotNow(_) => 503,
            RemoteRefusal::TooManyWorkers { .. } => 429,
            RemoteRefusal::Forbidden(_) => 403,
        },
        EngineError::Refused { refusal, .. } => match refusal {
            Refusal::NoSuchRun | Refusal::NoSuchStep { .. } | Refusal::NoSuchQuestion { .. } => 404,
            Refusal::InvalidAnswer { .. } | Refusal::InvalidSignal { .. } | Refusal::InvalidForm { .. } => {
                422
            }
            Refusal::DeadlinePassed { .. } => 400,
            Refusal::TooMuchMail { .. } => 429,
            _ => 409,
        },
        EngineError::Task(_) | EngineError::Lock(_) | EngineError::Copy(_) | EngineError::Ended { .. } => 409,
        EngineError::Superseded { .. }
        | EngineError::RuleDoesNotApply { .. }
        | EngineError::WouldPark { .. }
        | EngineError::NoStableEvent { .. }
        | EngineError::Corrupt { .. } => 409,
        EngineError::TimedOut { .. } | EngineError::Contended { .. } => 503,
        EngineError::Store(StoreError::Refused {
            code: "GS0154" | "GS0206" | "GS0210" | "GS0227" | "GS0612",
            ..
        })
        | EngineError::Setting(_) => 400,
        EngineError::Store(StoreError::Refused { code: "GS0233", .. }) => 409,
        EngineError::Store(StoreError::Refused { code: "GS0232" | "GS0234" | "GS0235", .. }) => 422,
        EngineError::Store(StoreError::Refused { code: "GS0231", .. }) => 507,
        EngineError::Store(StoreError::Full { .. }) => 507,
        EngineError::Store(StoreError::Refused { .. } | StoreError::Busy { .. }) => 503,
        _ => 500,
    }
}

/// The hint for errors that have none themselves.
fn hint(error: &EngineError) -> Option<Hint> {
    Some(match error {
        EngineError::Lock(LockRefusal::Held { name, .. }) => {
            format!("wait until it expires or is released: goldseam lock get {name}").into()
        }
        EngineError::Lock(LockRefusal::Lost { name, .. }) => {
            format!("stop the work that it guards, then acquire it again: goldseam lock acquire {name}")
                .into()
        }
        EngineError::Task(TaskRefusal::Fenced { task, .. } | TaskRefusal::Over { task, .. }) => {
            format!("stop the work; goldseam queue get {task} shows the current owner").into()
        }
        EngineError::NoSuchTask(_) => "goldseam queue ls lists the tasks of this store".into(),
        EngineError::Refused { run, .. } => Hint::from(NextStep::show(run)).text(" shows its state"),
        EngineError::Ended { run, .. } => Hint::from(NextStep::show(run))
            .text(" shows why; ")
            .step(NextStep::retry(run))
            .text(" retries it"),
        EngineError::Store(StoreError::Busy { .. })
        | EngineError::TimedOut { .. }
        | EngineError::Contended { .. } => "another process holds the store; try again".into(),
        _ => return None,
    })
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let detail = match &error {
            EngineError::Lock(LockRefusal::Held { name, holder, expires_at }) => {
                format!("lock {name} is held by {holder} until {}", iso(*expires_at))
            }
            _ => error.to_string(),
        };
        let problem = Self::new(status_of(&error), detail).code(error.code());
        let limit = match &error {
            EngineError::Payload(PayloadError::TooLarge { max, .. } | PayloadError::TooDeep { max }) => {
                u64::try_from(*max).ok()
            }
            EngineError::Payload(PayloadError::TooMany { max, .. }) => u64::try_from(*max).ok(),
            EngineError::Refused { refusal: Refusal::TooMuchMail { unread }, .. } => Some(u64::from(*unread)),
            EngineError::Refused { refusal: Refusal::HistoryTooLong(excess), .. } => Some(excess.max),
            EngineError::Remote(RemoteRefusal::TooManyWorkers { limit, .. }) => u64::try_from(*limit).ok(),
            _ => None,
        };
        let problem = Self { limit, ..problem };
        match error.hint().or_else(|| hint(&error)) {
            Some(hint) => problem.hint_with_steps(&hint),
            None => problem,
        }
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<ArgumentError> for Problem {
    fn from(error: ArgumentError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<TraceError> for Problem {
    fn from(error: TraceError) -> Self {
        Self::bad_request(error.to_string()).code(TraceError::CODE).hint(TraceError::HINT)
    }
}

impl From<SpecError> for Problem {
    fn from(error: SpecError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<PayloadError> for Problem {
    fn from(error: PayloadError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use goldseam::unstable::core::decide::TooLong;

    use super::*;

    #[test]
    fn each_error_maps_to_its_http_status() {
        let run: goldseam::RunId = "r".parse().unwrap();
        let mail = Refusal::TooMuchMail { unread: 2_000 };
        let mail = Problem::from(EngineError::Refused { run, refusal: mail });
        assert_eq!((mail.status, mail.limit), (429, Some(2_000)));
        let refusal = Refusal::HistoryTooLong(TooLong { what: "bytes", has: 9, max: 8 });
        let long = Problem::from(EngineError::Refused { run: "r".parse().unwrap(), refusal });
        assert_eq!((long.status, long.limit), (409, Some(8)));
        assert_eq!(long.detail, "run r: the history has 9 bytes, more than the limit of 8");
        let full = StoreError::Full { doing: "an append", source: "no space left".into() };
        assert_eq!(Problem::from(EngineError::Store(full)).status, 507);
        let place = StoreError::Refused { code: "GS0612", what: "no place".into(), hint: Hint::default() };
        assert_eq!(Problem::from(EngineError::Store(place)).status, 400);
    }
}
