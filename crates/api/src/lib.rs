//! Every operation on a store, as documents: in the same process, or over HTTP.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`doc`] | the documents: requests and responses |
//! | [`api`] | the traits: every operation |
//! | [`local`] | their implementation over a store in this process |
//! | `remote` | their implementation over HTTP (feature `remote`) |
//! | [`view`] | documents for display, made from a run's log |
//! | [`next_step`] | hints with commands for people, and next steps for programs |
//! | [`problem`], [`codes`] | errors as documents, and the pages of their codes |
//! | [`credentials`] | keys, and the secrets that sign passes and tokens |
//! | [`caller`] | the identity of a caller and its idempotency key |
//! | [`timestamp`] | timestamps as text and as numbers |
//!
//! The command line and the server use the same documents, so both show the same data.

pub mod api;
pub mod caller;
pub mod codes;
pub mod credentials;
pub mod doc;
pub mod local;
pub mod next_step;
pub mod problem;
#[cfg(feature = "remote")]
pub mod remote;
pub mod timestamp;
pub mod view;

pub use api::{
    Api, ApiResult, CommandsApi, DialogueApi, Following, HealingApi, KeysApi, LocksApi, NodesApi,
    OperationsApi, PassesApi, RetentionApi, RunsApi, TasksApi, WorkersApi,
};
pub use caller::Caller;
pub use credentials::NAMESPACE_DEFAULT;
pub use local::{LocalApi, ServedNamespace, open_queue};
pub use problem::Problem;
#[cfg(feature = "remote")]
pub use remote::RemoteApi;
