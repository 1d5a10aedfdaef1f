//! The semantics of Goldseam as pure functions: no async, no I/O, no clock, no randomness.
//!
//! # The model
//!
//! A *run* is one execution of a workflow. Everything that happens to it is an [`Event`] in its *log*, and the log is
//! the only truth about the run. Three functions define the engine:
//!
//! - [`derive()`] folds a log into a [`State`]: steps, waits, mail, ownership, branches.
//! - [`decide()`] checks a [`Command`] against a state and returns a [`Decision`], the events to append, or a
//!   [`Refusal`].
//! - [`recovery::diagnose`] checks a state, its cached row and the liveness of nodes against the rules, and returns
//!   what is wrong and the remedy.
//!
//! A node *claims* a run and becomes its owner. The position of the claim is the *epoch*. Safety comes from the log:
//! a command of an owner names its epoch and branch, and [`decide()`] refuses the command once either is out of date.
//!
//! # Layout
//!
//! A module uses only modules of its own layer and of the layers above it.
//!
//! | layer | modules |
//! |---|---|
//! | values | [`argument`], [`id`], [`path`], [`time`], [`moment`] (times as text), [`hash`], [`limits`], [`payload`], [`error`], [`fingerprint`] |
//! | words | [`version`], [`whole`], [`status`], [`reserved`] |
//! | policies and forms | [`retry`], [`timing`], [`recovery_policy`], [`form`] with [`shape`] |
//! | records | [`attribute`], [`branch`], [`corrupt`], [`trace`], [`event`] with [`summary`] (a tombstone holds a summary), [`search`] (conditions over summaries), [`audit`], [`task`], [`lock`] |
//! | codec | [`codec`]: events as bytes on disk |
//! | hints | [`next_step`]: what a person or a program can do next |
//! | `derive` | [`state`]: log → state |
//! | `diagnose` | [`recovery`]: state, cached row, liveness → diagnoses with remedies |
//! | commands | [`command`], [`redact`] (keeps secrets out of texts) |
//! | `decide` | [`mod@decide`]: state, command → events or a refusal; [`seal`]: their place in the log |
//! | tasks | [`plan`]: decision → changes of tasks that go with its append; [`delivery`]: reports to parents |
//! | operations | [`operation`]: one verb on many runs, and the judgement of a canary |
//!
//! Beside the layers, `schema` describes the documents for the HTTP interface (feature `schema`).

pub mod argument;
pub mod attribute;
pub mod audit;
pub mod branch;
pub mod codec;
pub mod command;
pub mod corrupt;
pub mod decide;
pub mod delivery;

pub mod error;
pub mod event;
pub mod fingerprint;
pub mod form;
pub mod hash;
pub mod id;
pub mod limits;
pub mod lock;
pub mod moment;
pub mod next_step;
pub mod operation;
pub mod path;
pub mod payload;
pub mod plan;
pub mod recovery;
pub mod recovery_policy;
pub mod redact;
pub mod reserved;
pub mod retry;
#[cfg(feature = "schema")]
mod schema;
pub mod seal;
pub mod search;
pub mod shape;
pub mod state;
pub mod status;

pub mod summary;
pub mod task;
pub mod time;
pub mod timing;
pub mod trace;
pub mod version;
pub mod whole;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use argument::ArgumentError;
pub use attribute::{AttributeValue, Attributes};
pub use branch::{Branch, BranchId, Why};
pub use command::{Command, Doing, Fence, Owned};
pub use corrupt::Corrupt;
pub use decide::{Decision, Refusal, View, decide};

pub use error::{Class, Failure};
pub use event::{Event, Recorded};
pub use hash::{Hash, WriteId};
pub use id::{
    Id, IdError, IdLiteral, LaneName, LockName, NodeId, QueueName, RunId, SignalName, StepName, TagKey,
    TaskId, ValueName, WorkState, WorkflowName,
};
pub use limits::Limits;
pub use next_step::{Hint, NextStep};
pub use path::Path;
pub use payload::{Payload, PayloadError};
pub use redact::Redactor;
pub use retry::Retry;
pub use state::{State, derive};

pub use summary::{Status, Summary};
pub use time::{Millis, Seq};
pub use trace::TraceContext;
