//! The documents that a worker in another process and the server exchange. `docs/protocol.md` explains them.
//!
//! Requests refuse fields that they do not know. Answers may gain fields: a worker ignores what it does not know.
//! Spans and moments are whole milliseconds, payloads are any JSON.

use std::collections::BTreeMap;

use goldseam_core::event::Tags;
use goldseam_core::form::Form;
use goldseam_core::retry::Policy;
use goldseam_core::{
    BranchId, Event, Failure, Hash, Millis, NodeId, Path, Payload, QueueName, Recorded, RunId, Seq,
    SignalName, StepName, WorkflowName,
};
use serde::{Deserialize, Serialize};

use crate::ledger::config::default_queue;

/// A worker introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RegisterWorker))]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// What it is called where people read of it.
    pub name: String,
    /// The workflows that it has, as `name@version`.
    pub workflows: Vec<String>,
    /// Queues whose runs it takes; `default` if there are none.
    #[serde(default)]
    pub queues: Vec<QueueName>,
    /// Runs that it takes at once.
    pub slots: u32,
    /// How long it may be silent: 100 to 600,000; 10,000 unless given.
    #[serde(default, deserialize_with = "goldseam_core::whole::optional")]
    pub lease_ms: Option<u64>,
    /// The steps, leaf or group, that a workflow always makes, by workflow; those without a plan are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plans: BTreeMap<WorkflowName, Vec<StepName>>,
}

impl Register {
    /// The queues whose runs it takes.
    pub fn queues_taken(&self) -> Vec<QueueName> {
        match self.queues.is_empty() {
            true => vec![default_queue()],
            false => self.queues.clone(),
        }
    }
}

/// What a worker is told when it has registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RegisteredWorker))]
pub struct Registered {
    /// Its id: a node of the store from now on.
    pub worker: NodeId,
    /// How long it may be silent.
    pub lease_ms: u64,
    /// The store's clock.
    pub now: Millis,
}

/// An execution that a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerHolding))]
#[serde(deny_unknown_fields)]
pub struct Holding {
    /// Its token.
    pub token: String,
    /// The worker knows the log up to here.
    pub after: Seq,
}

/// A worker says that it is alive, and asks for news.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerHeartbeat))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Every execution that it has.
    #[serde(default)]
    pub holding: Vec<Holding>,
    /// How long it waits for news.
    #[serde(default, deserialize_with = "goldseam_core::whole::number")]
    pub wait_ms: u64,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerNews))]
pub struct Beaten {
    /// What is new in the logs of the executions that the worker has.
    pub news: Vec<News>,
    /// Executions that are not the worker's any more: drop them.
    pub lost: Vec<String>,
    /// The server shuts down: give back what you have, and ask for nothing more.
    pub leaving: bool,
    /// The store's clock.
    pub now: Millis,
}

/// What is new in the log of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ExecutionNews))]
pub struct News {
    /// The execution.
    pub token: String,
    /// What it sees of the log, after what the worker knows.
    pub events: Vec<Entry>,
    /// The worker knows the log up to here now.
    pub end: Seq,
    /// There is more after `end`.
    pub more: bool,
}

/// A worker asks for executions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ClaimExecutions))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// At most so many.
    pub limit: u32,
    /// The tokens of every execution that it has: what it was given and does not know of is given again.
    #[serde(default)]
    pub holding: Vec<String>,
    /// How long it waits for the first.
    #[serde(default, deserialize_with = "goldseam_core::whole::number")]
    pub wait_ms: u64,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ClaimedExecutions))]
pub struct Claimed {
    /// What the worker has from now on. One whose token it knows is the one that it has.
    pub executions: Vec<Execution>,
    /// The server shuts down: ask for nothing more.
    pub leaving: bool,
    /// The store's clock.
    pub now: Millis,
}

/// A run that a worker has from one claim to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Execution))]
pub struct Execution {
    /// Stands for the claim; opaque. Every append names it.
    pub token: String,
    /// The run.
    pub run: RunId,
    /// The branch that it is on.
    pub branch: BranchId,
    /// Position of the claim.
    pub epoch: Seq,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// The version that it is on.
    pub version: u32,
    /// Input of the workflow function.
    pub input: Payload,
    /// What the run was tagged with.
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub tags: Tags,
    /// Recoveries since the last progress.
    pub attempt: u32,
    /// What makes idempotency keys new after a jump.
    pub generation: BranchId,
    /// When the run was queued.
    pub created_at: Millis,
    /// Somebody wants it to stop.
    pub cancel_requested: bool,
    /// Fingerprints of operations up to here belong to another input, and are not compared.
    pub other_input_until: Seq,
    /// The history begins here.
    pub base: Seq,
    /// What the branch sees of the log, oldest first.
    pub events: Vec<Entry>,
    /// The worker knows the log up to here.
    pub end: Seq,
    /// There is more after `end`.
    pub more: bool,
}

/// One event of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ExecutionEvent))]
pub struct Entry {
    /// Its position.
    pub seq: Seq,
    /// When.
    pub at: Millis,
    /// What happened, as it stands in the log.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub event: Event,
}

impl From<Recorded> for Entry {
    fn from(recorded: Recorded) -> Self {
        Self { seq: recorded.seq, at: recorded.at, event: recorded.event }
    }
}

/// A worker asks for what an execution sees of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = EventsWanted))]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// The execution.
    pub token: String,
    /// Only what comes after this.
    pub after: Seq,
}

/// What a worker did, for the log: all of it, or nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerAppend))]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The execution.
    pub token: String,
    /// Names this append: sent again under the same name, it is answered from the log, and done once.
    pub id: String,
    /// The worker knows the log up to here.
    pub after: Seq,
    /// What it did, in order.
    pub doings: Vec<Doing>,
}

/// The answer to an append.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerAppended))]
pub struct Appended {
    /// What became of the execution.
    pub outcome: Outcome,
    /// What it sees of the log after what the worker knew, its own events among it.
    pub events: Vec<Entry>,
    /// The worker knows the log up to here now.
    pub end: Seq,
    /// There is more after `end`.
    pub more: bool,
    /// The append had landed before; nothing was done again.
    pub repeated: bool,
    /// Why nothing was taken, with the outcome `again`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The execution in its place, with the outcome `continued`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Execution>>,
    /// The server shuts down: give back what you have, and ask for nothing more.
    pub leaving: bool,
    /// The store's clock.
    pub now: Millis,
}

/// What became of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ExecutionOutcome))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is still the worker's: go on.
    Held,
    /// Nothing was taken, as the log does not go with it. It is still the worker's: replay, with these events.
    Again,
    /// It ended, rests, or is parked: drop it.
    Over,
    /// It began anew: go on with `next`.
    Continued,
}

/// Something that a worker did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerDoing))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Doing {
    /// An attempt begins: for steps that are long, or must not be begun twice.
    StepStarted {
        /// The step.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Fingerprint of what the step depends on.
        #[serde(default)]
        input: Option<Hash>,
    },
    /// A step is done.
    StepCompleted {
        /// The step.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// What it returned.
        output: Payload,
        /// How long the attempt took.
        #[serde(default)]
        took_ms: u64,
        /// Fingerprint of what the step depends on.
        #[serde(default)]
        input: Option<Hash>,
        /// It has a compensation.
        #[serde(default)]
        undo: bool,
        /// It held steps.
        #[serde(default)]
        group: bool,
    },
    /// An attempt failed. The server says when the next one begins, by the policy that comes with it.
    StepFailed {
        /// The step.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Why.
        failure: Failure,
        /// How long the attempt took.
        #[serde(default)]
        took_ms: u64,
        /// How often and how soon it is tried again; none: it failed for good.
        #[serde(default)]
        retry: Option<Policy>,
        /// It was given up because it took too long or fell silent.
        #[serde(default)]
        timeout: Option<Timeout>,
        /// Fingerprint of what the step depends on.
        #[serde(default)]
        input: Option<Hash>,
        /// It held steps.
        #[serde(default)]
        group: bool,
    },
    /// A step that somebody else does: a task is made for it.
    StepHandedOut {
        /// The step.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// What whoever claims the task is given.
        payload: Payload,
        /// The queue that the task stands in; `default` unless given.
        #[serde(default)]
        queue: Option<QueueName>,
        /// Larger goes first.
        #[serde(default)]
        priority: i32,
        /// How often and how soon it is tried again; none: once.
        #[serde(default)]
        retry: Option<Policy>,
        /// How long whoever has the task may be silent; a minute unless given.
        #[serde(default)]
        silence_ms: Option<u64>,
        /// It has a compensation.
        #[serde(default)]
        undo: bool,
    },
    /// Look for the first of several things.
    Wait {
        /// The wait.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Signals by name.
        #[serde(default)]
        signals: Vec<SignalName>,
        /// What the content of a signal must look like, as a JSON Schema by name.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, serde_json::Value>))]
        schemas: BTreeMap<SignalName, serde_json::Value>,
        /// Children by id.
        #[serde(default)]
        children: Vec<RunId>,
        /// Put this question to a person; it is known by the path of the wait.
        #[serde(default)]
        ask: Option<Question>,
        /// Gives up after so long.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// Sleep, for a span or until a moment.
    Sleep {
        /// The sleep.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// For so long from now.
        #[serde(default)]
        span_ms: Option<u64>,
        /// Until then.
        #[serde(default)]
        until: Option<Millis>,
    },
    /// See whether what this open wait or sleep looks for is there.
    Check {
        /// The wait or sleep.
        path: Path,
    },
    /// A child is wanted; the server creates it, and `child.started` tells its id.
    Child {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Its workflow.
        workflow: WorkflowName,
        /// Its input.
        input: Payload,
    },
    /// Tell people how far it is.
    Progress {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// For people.
        message: String,
    },
    /// The code has a change, and the log has no marker of it and no later operation of its arm.
    Change {
        /// The arm, `/`, and the name of the change; in the root arm the name alone.
        path: Path,
        /// How many operations the arm has asked for before.
        ord: u32,
    },
    /// A step is about to be undone.
    UndoStarted {
        /// The step.
        path: Path,
        /// Why the run is being undone; with the first one.
        #[serde(default)]
        failure: Option<Failure>,
    },
    /// A step is undone.
    UndoCompleted {
        /// The step.
        path: Path,
    },
    /// A step cannot be undone: the run is parked.
    UndoFailed {
        /// The step.
        path: Path,
        /// Why.
        failure: Failure,
    },
    /// Everything that a requested jump wanted undone is: go back now.
    FinishJump {},
    /// Begin anew with other input, in the same run.
    ContinueAsNew {
        /// The new input.
        input: Payload,
    },
    /// The workflow returned.
    Complete {
        /// What it returned.
        output: Payload,
    },
    /// The workflow failed, and nothing is left to undo.
    Fail {
        /// Why.
        failure: Failure,
    },
    /// The cancellation was carried out, and nothing is left to undo.
    Cancelled {},
    /// Only a person can help.
    Park {
        /// Why, as one of few words.
        code: Trouble,
        /// What was seen.
        reason: String,
    },
    /// Give the run back. Nothing happens if something that it waits for is there.
    Release {
        /// Why.
        reason: Giving,
    },
}

/// Why an attempt was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = AttemptTimeout))]
#[serde(rename_all = "kebab-case")]
pub enum Timeout {
    /// It took too long.
    Timeout,
    /// It fell silent.
    HeartbeatTimeout,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerQuestion))]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What a person reads.
    pub prompt: String,
    /// What an answer must look like.
    pub form: Form,
}

/// What only a person can help with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerTrouble))]
pub enum Trouble {
    /// Replay asked for something else than the log has.
    #[serde(rename = "V1")]
    Diverged,
    /// The worker does not have the run's version: the run is not parked, it goes back to its queue like an unfit one.
    #[serde(rename = "E2")]
    Version,
    /// The history is as long as it may be.
    #[serde(rename = "GS0112")]
    TooLong,
    /// A question whose form makes no sense.
    #[serde(rename = "GS0115")]
    Form,
}

/// Why a worker gives a run back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerRelease))]
#[serde(rename_all = "snake_case")]
pub enum Giving {
    /// It only waits.
    Unload,
    /// It is paused.
    Paused,
    /// The worker goes, or has too much to do.
    HandOver,
    /// The worker cannot execute it.
    Unfit,
}
