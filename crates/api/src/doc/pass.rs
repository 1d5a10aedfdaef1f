//! Passes: one thing that whoever holds one may do, once.

use goldseam::core::SignalName;
use goldseam::{Millis, Path, Payload, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::run::OpenQuestion;

/// What a new pass is to allow: exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPass {
    /// To answer this question, which is open now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Path>,
    /// To send the run a signal of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
    /// For how long it is valid, in milliseconds; a week unless given, 90 days at most.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub valid_for_ms: Option<u64>,
}

/// A pass that was just made. It is told here, and never again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadePass {
    /// The run.
    pub run: RunId,
    /// What a person's page sends to `/v1/pass`, as `authorization: Bearer PASS`.
    pub pass: String,
    /// Where a program sends the payload to, signed with the secret.
    pub callback: String,
    /// What a program signs with.
    pub secret: String,
    /// When it ends.
    pub expires_at: Millis,
}

/// What a pass allows, for whoever holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShownPass {
    /// The run.
    pub run: RunId,
    /// The question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<OpenQuestion>,
    /// The signal that it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
    /// When it ends.
    pub expires_at: Millis,
}

/// How a pass is used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsePass {
    /// The answer, or what the signal carries.
    #[serde(default = "Payload::null")]
    pub payload: Payload,
    /// Who answers, in their own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What using a pass did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsedPass {
    /// Where the run's log ended then.
    pub event: Seq,
    /// The run.
    pub run: RunId,
}

/// That passes are made with something new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rotated {
    /// When.
    pub rotated_at: Millis,
}
