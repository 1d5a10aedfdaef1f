//! Errors of published values and of requests.

use goldseam_core::{Hint, NextStep, RunId, Status, ValueName};

/// Why a value cannot be published or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The value is too large.
    #[error("cannot publish {name}: the value has {bytes} bytes, the limit is {max}")]
    TooLarge {
        /// Name of the value.
        name: ValueName,
        /// Its size.
        bytes: usize,
        /// The limit (`published_bytes_max`).
        max: usize,
    },
    /// The run publishes values under too many names.
    #[error("cannot publish {name}: the run publishes values under {max} names, which is the limit")]
    TooMany {
        /// The name that is one too many.
        name: ValueName,
        /// The limit (`published_names_max`).
        max: usize,
    },
    /// The run has not published a value under this name.
    #[error("run {run} has not published {name}: {}", list(.published))]
    NoSuchName {
        /// The run.
        run: RunId,
        /// The name.
        name: ValueName,
        /// The names under which it has published values.
        published: Vec<ValueName>,
    },
}

fn list(published: &[ValueName]) -> String {
    match published {
        [] => "it has not published any value".to_owned(),
        names => {
            let names: Vec<&str> = names.iter().map(ValueName::as_str).collect();
            format!("it has published {}", names.join(", "))
        }
    }
}

impl PublishError {
    /// The stable code, with a page in `docs/codes`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooMany { .. } => "GS0167",
            Self::NoSuchName { .. } => "GS0168",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::TooLarge { .. } => Some("publish a summary, and keep large data elsewhere".into()),
            Self::TooMany { .. } => Some("publish one value with several fields".into()),
            Self::NoSuchName { run, .. } => {
                Some(Hint::from(NextStep::show(run)).text(" shows how far the run is"))
            }
        }
    }
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The run has the request and has not answered yet. The same request with the same id waits for the answer.
    #[error("run {run} accepted request {name} and has not answered it yet (id {id})")]
    Pending {
        /// The run.
        run: RunId,
        /// Name of the request.
        name: String,
        /// Id of the request.
        id: String,
    },
    /// The workflow refused the request.
    #[error("run {run} refused request {name}: {reason}")]
    Refused {
        /// The run.
        run: RunId,
        /// Name of the request.
        name: String,
        /// The reason that the workflow gave.
        reason: String,
    },
    /// The run ended without an answer.
    #[error("run {run} is {status} and did not answer request {name} (id {id})")]
    Unanswered {
        /// The run.
        run: RunId,
        /// Name of the request.
        name: String,
        /// Id of the request.
        id: String,
        /// How the run ended.
        status: Status,
    },
    /// The id belongs to another command, or to a request with another name or content.
    #[error("id {id} was used on run {run} for another command")]
    OtherUse {
        /// The run.
        run: RunId,
        /// The id.
        id: String,
    },
    /// The run has no request with this id.
    #[error("run {run} has no request {name} with id {id}")]
    NoSuchRequest {
        /// The run.
        run: RunId,
        /// Name of the request.
        name: String,
        /// The id.
        id: String,
    },
}

impl RequestError {
    /// The stable code, with a page in `docs/codes`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "GS0169",
            Self::Refused { .. } => "GS0170",
            Self::Unanswered { .. } => "GS0171",
            Self::OtherUse { .. } => "GS0174",
            Self::NoSuchRequest { .. } => "GS0175",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Pending { run, .. } => Some(
                Hint::from("send the same request with this id to wait again; ")
                    .step(NextStep::why(run))
                    .text(" shows what the run waits for"),
            ),
            Self::Refused { .. } => Some("correct the request, and send it under a new id".into()),
            Self::Unanswered { run, .. } => Some(Hint::from(NextStep::show(run)).text(" shows how it ended")),
            Self::OtherUse { .. } => Some("use a new id for this request".into()),
            Self::NoSuchRequest { run, .. } => {
                Some(Hint::from(NextStep::history(run)).text(" shows the requests that arrived"))
            }
        }
    }
}
