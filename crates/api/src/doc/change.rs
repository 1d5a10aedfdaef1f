//! Changes of a run: requests and responses.

use goldseam::recovery::Code;
use goldseam::unstable::core::SignalName;
use goldseam::{Millis, Path, Payload, RunId, Seq, Status};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// The actor and the reason of a change, such as pause, resume or cancel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = Reason)]
pub struct NewNote {
    /// Who makes the change, as the caller names itself. A server adds the name of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; kept in the run's history.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A signal to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSignal {
    /// Its name.
    pub name: String,
    /// Its content; defaults to null.
    #[serde(default = "Payload::null")]
    pub payload: Payload,
    /// Deduplicates: a repeat with the same id changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// An answer to a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAnswer {
    /// The answer.
    pub answer: Payload,
    /// Answers only the question that was asked at this time: after a jump, the same path may ask again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// Who answers, as the caller names itself. A server adds the name of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Deduplicates: a repeat with the same id changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A jump to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJump {
    /// The step, wait, sleep or question to go back to.
    pub to: String,
    /// Replaces the run's input.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub input: Option<Payload>,
    /// Do not deliver again mail that was consumed after the step.
    #[serde(default)]
    pub drop_mail: bool,
    /// First compensate the steps after this one.
    #[serde(default)]
    pub compensate: bool,
    /// Only report what would be left standing; change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// Drop a pending cancel request; otherwise the jump is refused while one is pending.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_cancel: bool,
    /// Who makes the change, as the caller names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A migration to another version of the workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMigration {
    /// The version to move the run to.
    pub to_version: u32,
    /// Who makes the change, as the caller names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A recovery to make.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewRecovery {
    /// Apply only this rule: its code, as in `O2`, or its name, as in `worker-lost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Code>,
    /// Only report what would be done; change nothing.
    pub dry_run: bool,
    /// First compensate completed steps that a cut would leave standing.
    pub compensate: bool,
    /// Who makes the change, as the caller names itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; added to the run's history as a note.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Done)]
pub struct DoneDoc {
    /// The end of the run's log after the change.
    pub event: Seq,
    /// The run.
    pub run: RunId,
}

/// The result of a change that opened a branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Branched)]
pub struct BranchedDoc {
    /// The active branch after the change.
    pub branch: String,
    /// The end of the run's log after the change.
    pub event: Seq,
    /// The run.
    pub run: RunId,
}

/// The result of a jump or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Jumped)]
pub struct JumpedDoc {
    /// The active branch after the jump; absent for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Whether a cancel request was pending; only `drop_cancel` drops it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_pending: bool,
    /// Whether steps are being compensated first; the branch opens after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compensating: bool,
    /// The end of the run's log after the jump; absent for a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Seq>,
    /// Whether the run had ended: then nothing can compensate what is left standing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
    /// The run.
    pub run: RunId,
    /// Completed steps with a compensation that are left standing.
    pub standing: Vec<Path>,
    /// The step.
    pub step: Path,
    /// What the compensation waits for, or would wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// The result of a recovery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Recovery)]
pub struct RecoveryDoc {
    /// Whether the remedy needs no operator; absent if nothing was wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automatic: Option<bool>,
    /// The branch that the remedy opened.
    pub branch: Option<String>,
    /// The evidence for the diagnosis.
    pub evidence: Option<String>,
    /// Whether the remedy was applied.
    pub healed: bool,
    /// Whether something was wrong.
    pub needed: bool,
    /// The remedy, or what an operator must do.
    pub remedy: Option<String>,
    /// The rule.
    pub rule: Option<Code>,
    /// The name of the rule, as in `worker-lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Completed steps with a compensation that a cut leaves standing.
    pub standing: Vec<Path>,
    /// The run's status before the recovery.
    pub status: Status,
}

/// The result of a resume. A resume recovers the run first if a rule applies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Resumed)]
pub struct ResumedDoc {
    /// The end of the run's log after the change.
    pub event: Seq,
    /// The recovery that came first.
    pub recovery: RecoveryDoc,
    /// The run.
    pub run: RunId,
    /// Why the run may park again immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The result of a signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Signalled)]
pub struct SignalledDoc {
    /// The end of the run's log after the change.
    pub event: Seq,
    /// The run.
    pub run: RunId,
    /// Name of the signal.
    pub signal: SignalName,
    /// Present if no open wait of the run expects the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The result of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Answered)]
pub struct AnsweredDoc {
    /// The end of the run's log after the change.
    pub event: Seq,
    /// The question.
    pub question: Path,
    /// The run.
    pub run: RunId,
}
