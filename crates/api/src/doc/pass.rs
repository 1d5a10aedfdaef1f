//! Passes: permission to answer one question or to send one signal, once.

use goldseam::unstable::core::SignalName;
use goldseam::{Millis, Path, Payload, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run::OpenQuestionDoc;

/// A pass to create. Set exactly one of `answer` and `signal`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPass {
    /// Allows answering this open question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Path>,
    /// Allows sending a signal with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
    /// How long the pass is valid, in milliseconds; defaults to a week, at most 90 days.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub valid_for_ms: Option<u64>,
}

/// A new pass. The server shows it only once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MadePass)]
pub struct CreatedPassDoc {
    /// The run.
    pub run: RunId,
    /// The pass that a web page sends to `/v1/pass`, as `authorization: Bearer PASS`.
    pub pass: String,
    /// The path to which a program sends the signed payload.
    pub callback: String,
    /// The secret with which a program signs the payload.
    pub secret: String,
    /// When it expires.
    pub expires_at: Millis,
}

/// What a pass allows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ShownPass)]
pub struct ShownPassDoc {
    /// The run.
    pub run: RunId,
    /// The question that the pass allows answering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<OpenQuestionDoc>,
    /// The signal that the pass allows sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
    /// When it expires.
    pub expires_at: Millis,
}

/// The use of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UsePass)]
pub struct NewPassUse {
    /// The answer, or the signal's payload.
    #[serde(default = "Payload::null")]
    pub payload: Payload,
    /// Who answers, as they name themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// The result of using a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = UsedPass)]
pub struct UsedPassDoc {
    /// The end of the run's log after the use.
    pub event: Seq,
    /// The run.
    pub run: RunId,
}

/// The result of rotating the signing key of passes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Rotated)]
pub struct RotatedPassesDoc {
    /// When it was rotated.
    pub rotated_at: Millis,
}
