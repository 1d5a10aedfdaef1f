//! Changes of a run: what is asked for, and what was done.

use goldseam::core::SignalName;
use goldseam::recovery::Code;
use goldseam::{Millis, Path, Payload, RunId, Seq, Status};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Who wants something and why: pausing, resuming, cancelling, retrying, and the like.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Reason {
    /// Who, in the caller's own words. A server adds the name of the key that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; stays in the run's history.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSignal {
    /// Its name.
    pub name: String,
    /// Its content; null unless given.
    #[serde(default = "Payload::null")]
    pub payload: Payload,
    /// Deduplicates: the same id again changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAnswer {
    /// The answer.
    pub answer: Payload,
    /// Only if the question has been open since then: one that is asked again after a jump is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// Who answers, in the caller's own words. A server adds the name of the key that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Deduplicates: the same id again changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Where a jump goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJump {
    /// The step, wait, sleep or question to go back to.
    pub to: String,
    /// Input that replaces the run's own.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub input: Option<Payload>,
    /// Mail consumed after the step is not delivered again.
    #[serde(default)]
    pub drop_mail: bool,
    /// First undo what lies after the step.
    #[serde(default)]
    pub compensate: bool,
    /// Only tell what would be left standing.
    #[serde(default)]
    pub dry_run: bool,
    /// Drop a pending request to cancel; without this the jump is refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_cancel: bool,
    /// Who, in the caller's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The version that a run is moved to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMigration {
    /// The version.
    pub to_version: u32,
    /// Who, in the caller's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// How a run is to be recovered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewRecovery {
    /// Heal by this rule only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Code>,
    /// Only tell what would be done.
    pub dry_run: bool,
    /// First undo completed steps that a cut would leave standing.
    pub compensate: bool,
    /// Who, in the caller's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; leaves a note in the run's history.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

/// What a change did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Where the run's log ended then.
    pub event: Seq,
    /// The run.
    pub run: RunId,
}

/// What a change did that opened a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Branched {
    /// The branch that the run was on then.
    pub branch: String,
    /// Where the run's log ended then.
    pub event: Seq,
    /// The run.
    pub run: RunId,
}

/// What a jump did, or would leave standing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Jumped {
    /// The branch that the run was on then; absent if it was only asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A request to cancel was pending before; the jump drops it only if that is asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_pending: bool,
    /// What lies after the step is undone first; the branch is opened then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensating: bool,
    /// Where the run's log ended then; absent if it was only asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Seq>,
    /// The run was over: nobody can undo what is left standing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// The run.
    pub run: RunId,
    /// Completed steps with a compensation that are left standing.
    pub standing: Vec<Path>,
    /// The step.
    pub step: Path,
    /// What undoing waits for, or would wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// What a recovery found and did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Whether the remedy needs nobody; absent if nothing was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automatic: Option<bool>,
    /// The branch that it opened.
    pub branch: Option<String>,
    /// What was seen.
    pub evidence: Option<String>,
    /// Whether something was done about it.
    pub healed: bool,
    /// Whether something was wrong.
    pub needed: bool,
    /// What is done about it, or what to do.
    pub remedy: Option<String>,
    /// The rule.
    pub rule: Option<Code>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Completed steps with a compensation that a cut leaves standing.
    pub standing: Vec<Path>,
    /// The run's status before.
    pub status: Status,
}

/// What a resume did: it looks for something to recover first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Resumed {
    /// Where the run's log ended then.
    pub event: Seq,
    /// What was recovered on the way.
    pub recovery: Recovery,
    /// The run.
    pub run: RunId,
    /// Why it may stop again at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// What a signal did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Signalled {
    /// Where the run's log ended then.
    pub event: Seq,
    /// The run.
    pub run: RunId,
    /// Name of the signal.
    pub signal: SignalName,
    /// What is unusual about it: no open wait of the run looks for it so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// What an answer did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    /// Where the run's log ended then.
    pub event: Seq,
    /// The question.
    pub question: Path,
    /// The run.
    pub run: RunId,
}
