//! The documents that a remote worker and the server exchange. `docs/protocol.md` explains them.
//!
//! Requests refuse unknown fields. Responses may gain fields, and a worker ignores those that it does not know.
//! Durations and times are whole milliseconds; payloads are any JSON.

mod parts;

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::event::Tags;
use goldseam_core::payload::present;
use goldseam_core::retry::Policy;
use goldseam_core::{
    Attributes, BranchId, Event, Failure, Hash, LaneName, Millis, NodeId, Path, Payload, QueueName, Recorded,
    RunId, Seq, SignalName, StepName, TagKey, TraceContext, ValueName, WorkflowName,
};
use serde::{Deserialize, Serialize};

use crate::ledger::config::default_queue;

pub use parts::{ChildStart, Question};

/// Registers a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RegisterWorker))]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// Display name of the worker.
    pub name: String,
    /// The workflows that the worker has, as `name@version`.
    pub workflows: Vec<String>,
    /// Queues from which the worker takes runs; empty: `default`.
    #[serde(default)]
    pub queues: Vec<QueueName>,
    /// Maximum number of runs that the worker takes at once.
    pub slots: u32,
    /// How long the worker may be silent: 100 to 600,000; default 10,000.
    #[serde(default, deserialize_with = "goldseam_core::whole::optional")]
    pub lease_ms: Option<u64>,
    /// The steps, leaf or group, that a workflow always makes, by workflow. Workflows without a plan are omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plans: BTreeMap<WorkflowName, Vec<StepName>>,
}

impl Register {
    /// The queues from which the worker takes runs.
    pub fn queues_taken(&self) -> Vec<QueueName> {
        match self.queues.is_empty() {
            true => vec![default_queue()],
            false => self.queues.clone(),
        }
    }
}

/// The response to a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RegisteredWorker))]
pub struct Registered {
    /// The id of the worker, which is now a node of the store.
    pub worker: NodeId,
    /// How long the worker may be silent.
    pub lease_ms: u64,
    /// The store's clock.
    pub now: Millis,
}

/// An execution that a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerHolding))]
#[serde(deny_unknown_fields)]
pub struct Holding {
    /// The token of the execution.
    pub token: String,
    /// The last position of the log that the worker knows.
    pub after: Seq,
}

/// Reports that the worker is alive, and asks for news.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerHeartbeat))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Every execution that the worker has.
    #[serde(default)]
    pub holding: Vec<Holding>,
    /// How long to wait for news.
    #[serde(default, deserialize_with = "goldseam_core::whole::number")]
    pub wait_ms: u64,
}

/// The response to a heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerNews))]
pub struct Beaten {
    /// New events in the logs of the worker's executions.
    pub news: Vec<News>,
    /// Executions that the worker no longer has: drop them.
    pub lost: Vec<String>,
    /// The server is shutting down: release all runs, and claim no more.
    pub leaving: bool,
    /// The store's clock.
    pub now: Millis,
}

/// New events in the log of one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ExecutionNews))]
pub struct News {
    /// The execution.
    pub token: String,
    /// The events that the execution sees, after those that the worker knows.
    pub events: Vec<Entry>,
    /// The last position of the log that the worker now knows.
    pub end: Seq,
    /// Whether more events follow `end`.
    pub more: bool,
}

/// Asks for executions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ClaimExecutions))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Maximum number of executions.
    pub limit: u32,
    /// The tokens of every execution that the worker has. An execution that was given to the worker and is not listed
    /// is given again.
    #[serde(default)]
    pub holding: Vec<String>,
    /// How long to wait for the first execution.
    #[serde(default, deserialize_with = "goldseam_core::whole::number")]
    pub wait_ms: u64,
}

/// The response to a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ClaimedExecutions))]
pub struct Claimed {
    /// The executions that the worker now has. One with a known token is an execution that the worker already has.
    pub executions: Vec<Execution>,
    /// The server is shutting down: claim no more.
    pub leaving: bool,
    /// The store's clock.
    pub now: Millis,
}

/// A run that a worker has, from one claim to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Execution))]
pub struct Execution {
    /// The opaque token of the claim. Every append names it.
    pub token: String,
    /// The run.
    pub run: RunId,
    /// The branch of the run.
    pub branch: BranchId,
    /// Position of the claim.
    pub epoch: Seq,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// The version of the workflow.
    pub version: u32,
    /// Input of the workflow function.
    pub input: Payload,
    /// The tags of the run.
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub tags: Tags,
    /// The attributes of the run.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, serde_json::Value>))]
    pub attributes: Attributes,
    /// Recoveries since the last progress.
    pub attempt: u32,
    /// The branch that determines idempotency keys; new after a jump.
    pub generation: BranchId,
    /// The place of the run in the trace of its starter, to pass on to other systems: its parent id is the span of
    /// the run.
    #[serde(
        default,
        deserialize_with = "goldseam_core::trace::lenient",
        skip_serializing_if = "Option::is_none"
    )]
    pub trace: Option<TraceContext>,
    /// When the run was queued.
    pub created_at: Millis,
    /// Whether the run is to be cancelled, by a caller or because its deadline passed.
    pub cancel_requested: bool,
    /// When the run must have ended. The server requests its end then; the worker need not watch the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// Input hashes of operations up to this position belong to another input, and are not compared.
    pub other_input_until: Seq,
    /// The position at which the history starts.
    pub base: Seq,
    /// The events of the log that the branch sees, oldest first.
    pub events: Vec<Entry>,
    /// The last position of the log that the worker knows.
    pub end: Seq,
    /// Whether more events follow `end`.
    pub more: bool,
}

/// One event of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ExecutionEvent))]
pub struct Entry {
    /// Its position.
    pub seq: Seq,
    /// When it happened.
    pub at: Millis,
    /// The event, as in the log.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub event: Event,
}

impl From<Recorded> for Entry {
    fn from(recorded: Recorded) -> Self {
        Self { seq: recorded.seq, at: recorded.at, event: recorded.event }
    }
}

/// Asks for events that an execution sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = EventsWanted))]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// The execution.
    pub token: String,
    /// The position after which events are returned.
    pub after: Seq,
}

/// Appends what a worker did: all of it or nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerAppend))]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The execution.
    pub token: String,
    /// The id of this append. A repeat with the same id is answered from the log and applied once.
    pub id: String,
    /// The last position of the log that the worker knows.
    pub after: Seq,
    /// What the worker did, in order.
    pub doings: Vec<Doing>,
}

/// The response to an append.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerAppended))]
pub struct Appended {
    /// What happened to the execution.
    pub outcome: Outcome,
    /// The events that the execution sees, after those that the worker knew, including its own.
    pub events: Vec<Entry>,
    /// The last position of the log that the worker now knows.
    pub end: Seq,
    /// Whether more events follow `end`.
    pub more: bool,
    /// Whether the append was already in the log, so nothing was applied again.
    pub repeated: bool,
    /// Why nothing was appended, with the outcome `again`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The execution that replaces this one, with the outcome `continued`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<Execution>>,
    /// The server is shutting down: release all runs, and claim no more.
    pub leaving: bool,
    /// The store's clock.
    pub now: Millis,
}

/// What happened to an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ExecutionOutcome))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The worker still has it: continue.
    Held,
    /// Nothing was appended, because the log does not fit. The worker still has it: replay with these events.
    Again,
    /// It ended, waits, or is parked: drop it.
    Over,
    /// It continued as new: continue with `next`.
    Continued,
}

/// An action of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerDoing))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Doing {
    /// An attempt begins. For steps that are long, or must not start twice.
    StepStarted {
        /// The step.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Hash of the input that the step depends on.
        #[serde(default)]
        input: Option<Hash>,
    },
    /// A step completed.
    StepCompleted {
        /// The step.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The result.
        output: Payload,
        /// How long the attempt took.
        #[serde(default)]
        took_ms: u64,
        /// Hash of the input that the step depends on.
        #[serde(default)]
        input: Option<Hash>,
        /// Whether it has a compensation.
        #[serde(default)]
        undo: bool,
        /// Whether it contains steps.
        #[serde(default)]
        group: bool,
    },
    /// An attempt failed. The server decides when the next one begins, by the given retry policy.
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
        /// The retry policy; none: the step failed permanently.
        #[serde(default)]
        retry: Option<Policy>,
        /// Whether a timeout or silence ended it.
        #[serde(default)]
        timeout: Option<Timeout>,
        /// Hash of the input that the step depends on.
        #[serde(default)]
        input: Option<Hash>,
        /// Whether it contains steps.
        #[serde(default)]
        group: bool,
    },
    /// A remote step: a task is created for it.
    StepHandedOut {
        /// The step.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The payload of the task.
        payload: Payload,
        /// The queue of the task; default `default`.
        #[serde(default)]
        queue: Option<QueueName>,
        /// Larger values go first.
        #[serde(default)]
        priority: i32,
        /// The lane of the task: at most one task of a lane is claimed at a time.
        #[serde(default)]
        lane: Option<LaneName>,
        /// The retry policy; none: that of the server, one attempt by default.
        #[serde(default)]
        retry: Option<Policy>,
        /// How long the worker of the task may be silent; none: as the server says, one minute by default.
        #[serde(default)]
        silence_ms: Option<u64>,
        /// Whether it has a compensation.
        #[serde(default)]
        undo: bool,
    },
    /// Waits for the first of several events.
    Wait {
        /// The wait.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Signals by name.
        #[serde(default)]
        signals: Vec<SignalName>,
        /// JSON Schemas that the content of signals must satisfy, by name.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, serde_json::Value>))]
        schemas: BTreeMap<SignalName, serde_json::Value>,
        /// Children by id.
        #[serde(default)]
        children: Vec<RunId>,
        /// A question to a person. It has the path of the wait.
        #[serde(default)]
        ask: Option<Question>,
        /// Timeout of the wait.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// Sleeps for a duration or until a time.
    Sleep {
        /// The sleep.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Duration from now.
        #[serde(default)]
        span_ms: Option<u64>,
        /// The time at which the sleep ends.
        #[serde(default)]
        until: Option<Millis>,
    },
    /// Checks whether this open wait or sleep can be resolved.
    Check {
        /// The wait or sleep.
        path: Path,
    },
    /// Starts a child. The server creates it, and `child.started` has its id.
    Child {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Its workflow.
        workflow: WorkflowName,
        /// Its input.
        input: Payload,
        /// How it is started, if not like its parent.
        #[serde(default)]
        start: Option<Box<ChildStart>>,
        /// Whether it outlives this run: it is not cancelled with it, and its end is not delivered.
        #[serde(default)]
        detached: bool,
        /// Whether the run has a compensation for it.
        #[serde(default)]
        undo: bool,
    },
    /// Publishes a value. Nothing is appended if it is the latest value under its name.
    Publish {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// The name of the value.
        name: ValueName,
        /// The value.
        value: Payload,
    },
    /// Answers a request, or refuses it. Nothing is appended if the log has an answer to it.
    AnswerRequest {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Id of the request: that of the signal which brought it.
        request: String,
        /// The answer; none: the request is refused.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schema(value_type = Payload, required = false))]
        answer: Option<Payload>,
        /// Why the request is refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// Records a progress message for people.
    Progress {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// The message.
        message: String,
    },
    /// Changes attributes of the run.
    Attributes {
        /// The call.
        path: Path,
        /// Order of the call within its arm.
        ord: u32,
        /// Attributes to set.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, serde_json::Value>))]
        set: Attributes,
        /// Attributes to remove.
        #[serde(default)]
        #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
        removed: BTreeSet<TagKey>,
    },
    /// Marks a change of the code. The log must have no marker of it and no later operation of its arm.
    Change {
        /// The arm, `/`, and the name of the change; in the root arm only the name.
        path: Path,
        /// Number of operations that the arm has requested before.
        ord: u32,
    },
    /// The compensation of a step begins.
    UndoStarted {
        /// The step.
        path: Path,
        /// Why the run is being compensated; only with the first compensation.
        #[serde(default)]
        failure: Option<Failure>,
    },
    /// The compensation of a step completed.
    UndoCompleted {
        /// The step.
        path: Path,
    },
    /// The compensation of a step failed: the run is parked.
    UndoFailed {
        /// The step.
        path: Path,
        /// Why.
        failure: Failure,
    },
    /// All compensations of a requested jump are done: jump now.
    FinishJump {},
    /// Continues the run with other input and an empty history.
    ContinueAsNew {
        /// The new input.
        input: Payload,
    },
    /// The workflow returned.
    Complete {
        /// The result.
        output: Payload,
    },
    /// The workflow failed, and no compensation is left.
    Fail {
        /// Why.
        failure: Failure,
    },
    /// The run was cancelled, and no compensation is left.
    Cancelled {},
    /// Parks the run until an operator acts.
    Park {
        /// The code.
        code: Trouble,
        /// The reason.
        reason: String,
    },
    /// Releases the run. Does nothing if an event that it waits for has arrived.
    Release {
        /// Why.
        reason: Giving,
    },
}

/// Why an attempt was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = AttemptTimeout))]
#[serde(rename_all = "kebab-case")]
pub enum Timeout {
    /// It exceeded its timeout.
    Timeout,
    /// It was silent for too long.
    HeartbeatTimeout,
}

/// Why a worker parks a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerTrouble))]
pub enum Trouble {
    /// Replay and log differ.
    #[serde(rename = "V1")]
    Diverged,
    /// The worker does not have the run's version. The run is not parked but returned to its queue, as with `unfit`.
    #[serde(rename = "E2")]
    Version,
    /// The history has reached its maximum length.
    #[serde(rename = "GS0112")]
    TooLong,
    /// A question has an invalid form.
    #[serde(rename = "GS0115")]
    Form,
}

/// Why a worker releases a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerRelease))]
#[serde(rename_all = "snake_case")]
pub enum Giving {
    /// It only waits.
    Unload,
    /// It is paused.
    Paused,
    /// The worker leaves, or has too much work.
    HandOver,
    /// The worker cannot execute it.
    Unfit,
}
