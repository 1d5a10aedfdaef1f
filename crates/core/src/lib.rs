//! All meaning of Goldseam, as pure functions: no async, no I/O, no clock, no randomness.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`id`], [`argument`], [`path`], [`time`], [`payload`], [`hash`] | the words that everything else is made of |
//! | [`event`], [`codec`] | what can happen to a run, and its bytes on disk |
//! | [`branch`], [`summary`], [`state`] | `derive`: history → state |
//! | [`command`], [`mod@decide`], [`seal`] | `decide`: state, command → events, or a refusal; then their place in the log |
//! | [`recovery`] | `diagnose`: state, cache, liveness → what is wrong, by which rule, and its remedy |
//! | [`task`], [`lock`] | the queue's and the locks' own little state machines |
//! | [`version`] | how versions of workflows are written |
//! | [`whole`] | whole numbers of requests, and their bound |
//! | [`reserved`] | names that the engine keeps for itself |
//! | [`redact`] | the one filter that keeps secrets out of what people read |
//! | [`planted`] | mistakes that the search must find; none of them is there in a normal build |
//! | `schema` | what the documents look like, for the HTTP interface (feature `schema`) |
//! | [`retry`], [`error`], [`form`], [`limits`] | policies, failures of user code, questions, bounds |
//!
//! Safety comes from the log: a command of an owner names its epoch and branch, and [`decide()`]
//! refuses it once either is no longer current.

pub mod argument;
pub mod branch;
pub mod codec;
pub mod command;
pub mod decide;

pub mod error;
pub mod event;
pub mod form;
pub mod hash;
pub mod id;
pub mod limits;
pub mod lines;
pub mod lock;
pub mod path;
pub mod payload;
pub mod planted;
pub mod recovery;
pub mod redact;
pub mod reserved;
pub mod retry;
#[cfg(feature = "schema")]
mod schema;
pub mod seal;
pub mod shape;
pub mod state;
pub mod status;

pub mod summary;
pub mod task;
pub mod time;
pub mod version;
pub mod whole;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod testing;

pub use argument::ArgumentError;
pub use branch::{Branch, BranchId, Why};
pub use codec::Corrupt;
pub use command::{Command, Doing, Fence, Owned};
pub use decide::{Decision, Refusal, View, decide};

pub use error::{Class, Failure};
pub use event::{Event, Recorded};
pub use hash::{Hash, WriteId};
pub use id::{
    Id, IdError, LaneName, LockName, NodeId, QueueName, RunId, SignalName, StepName, TagKey, TaskId,
    WorkflowName,
};
pub use limits::Limits;
pub use path::Path;
pub use payload::{Payload, PayloadError};
pub use redact::Redactor;
pub use retry::Retry;
pub use state::{State, derive};

pub use summary::{Status, Summary};
pub use time::{Millis, Seq};
