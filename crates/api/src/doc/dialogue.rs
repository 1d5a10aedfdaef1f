//! Published values and requests.

use goldseam::client::{Published, Reply, Requested};
use goldseam::unstable::core::ValueName;
use goldseam::{Payload, RunId, Seq, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::change::present;
use crate::timestamp::Timestamp;

/// A value that a run published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = PublishedValue)]
pub struct PublishedDoc {
    /// When it was published.
    pub at: Timestamp,
    /// Position of the event with the value.
    pub event: Seq,
    /// Its name.
    #[schema(value_type = String)]
    pub name: ValueName,
    /// The run.
    pub run: RunId,
    /// The value.
    pub value: Payload,
}

impl PublishedDoc {
    pub(crate) fn new(run: &RunId, published: Published) -> Self {
        let Published { name, value, seq, at } = published;
        Self { at: Timestamp(at), event: seq, name, run: run.clone(), value }
    }
}

/// A request to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRequest {
    /// Its content; defaults to null.
    #[serde(default = "Payload::null")]
    pub payload: Payload,
    /// Identifies a repeated request, which gets the same answer. Defaults to one from the idempotency key, or random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Maximum wait for the answer in milliseconds, up to 60000; defaults to 30000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Which request to return to, and how long to wait for its answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReplyQuery {
    /// Id of the request.
    pub id: String,
    /// Position of the request, from the response to it: saves a search of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<u64>)]
    pub event: Option<Seq>,
    /// Maximum wait in milliseconds, up to 60000; defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = RequestReply)]
pub enum ReplyKind {
    /// The workflow answered.
    Answered,
    /// The workflow refused it.
    Refused,
    /// The run ended without an answer.
    Unanswered,
    /// The run has it, and has not answered yet.
    Pending,
}

/// A request that a run has, and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Requested)]
pub struct RequestedDoc {
    /// The answer, if the workflow answered.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub answer: Option<Payload>,
    /// Position of the request in the log.
    pub event: Seq,
    /// Id of the request, to return to it later.
    pub id: String,
    /// Name of the request.
    pub name: String,
    /// Why the workflow refused the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What became of the request.
    pub reply: ReplyKind,
    /// The run.
    pub run: RunId,
    /// How the run ended, if it ended without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

impl RequestedDoc {
    pub(crate) fn new(run: &RunId, name: &str, requested: Requested) -> Self {
        let mut answer = None;
        let mut refused = None;
        let mut status = None;
        let reply = match requested.reply {
            Reply::Answered(value) => {
                answer = Some(value);
                ReplyKind::Answered
            }
            Reply::Refused(reason) => {
                refused = Some(reason);
                ReplyKind::Refused
            }
            Reply::Unanswered(ended) => {
                status = Some(ended);
                ReplyKind::Unanswered
            }
            Reply::Pending => ReplyKind::Pending,
        };
        let event = requested.seq;
        let name = name.to_owned();
        let run = run.clone();
        Self { answer, event, id: requested.id, name, refused, reply, run, status }
    }
}
