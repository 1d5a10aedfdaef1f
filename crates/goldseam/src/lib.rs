//! Durable workflows that repair themselves, on SQLite, Postgres or object storage.
//!
//! A *workflow* is an async function that takes a [`Context`] and an input. Each call on the context (a step, a
//! sleep, a signal, a question to a person, a child run) is recorded in the *log* of its *run*. If the process
//! crashes, another node calls the function again: completed operations return their recorded results, and the run
//! continues where it was. The function must be deterministic, so read clocks, random numbers and the outside world
//! inside steps only.
//!
//! ```
//! use goldseam::prelude::*;
//!
//! async fn charge(order: &str) -> goldseam::Result<String> {
//!     Ok(format!("receipt for {order}"))
//! }
//!
//! async fn checkout(ctx: Context, order: String) -> goldseam::Result<String> {
//!     // Runs once more if the process crashes before the result is recorded; never again after that.
//!     let receipt = ctx.step("charge", || charge(&order)).await?;
//!     // The run leaves memory while it waits.
//!     let address: String = ctx.signal("address").await?;
//!     Ok(format!("{receipt}, to {address}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
//! // For example "sqlite:shop.db", "postgres://USER@HOST/DATABASE" or "s3://BUCKET/PREFIX".
//! let engine = Engine::open(&url).await?.workflow("checkout", checkout).start().await?;
//! // The same id is always the same run: a second call returns a handle to the first run.
//! let run = engine.start(checkout, "order-7", &"tea".to_owned()).await?;
//! run.signal("address", "Kyoto").await?;
//! assert_eq!(run.result().await?, "receipt for tea, to Kyoto");
//! engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - The side effects of a step happen *at least once*: a crash between the effect and its record repeats the step,
//!   with the same [idempotency key](Attempt::idempotency_key).
//! - The completion of a step is recorded *exactly once*. A completed step never runs again on the same branch.
//! - An acknowledged start, signal or answer is never lost.
//! - Rules detect runs, tasks and locks that are stuck, and repair them. Each repair is an event in the run's log.
//!
//! # Words
//!
//! A *run* is one execution of a workflow. Its *log* is a list of *events*, which never change. A *step* is a unit of
//! work whose result is in the log; a *signal* is a message to a run, a *question* is for a person. A *branch* is a
//! timeline of a run: recoveries, jumps and retries open a new one. A *node* is a process that executes runs, and the
//! *owner* of a run is the node that claimed it last. A *store* keeps all of this. `docs/glossary.md` in the repository
//! has every word; `docs/guides/getting-started.md` is the guide for new users.
//!
//! # Where to look
//!
//! | item | purpose |
//! |---|---|
//! | [`Engine`] | executes runs; opens a store and registers workflows |
//! | [`Context`] | the operations that a workflow can use; [`context`] has their options |
//! | [`Client`], [`RunHandle`] | the operations on runs from outside; [`connect`] returns a client without an engine |
//! | [`Config`], [`Recovery`] | timing and recovery policy of an engine |
//! | [`Secret`] | values that steps use and that no log shows |
//! | [`info!`] and others, [`TraceContext`] | log lines that are silent in replays, and distributed traces |
//! | [`preflight`] | replays stored runs with new code before it is deployed |
//! | [`healer`] | diagnoses and repairs runs on request |
//! | [`metrics`] | recommended buckets of the histograms |
//! | [`admin`] | checks, migrates, copies, backs up and archives stores |
//! | [`unstable`] | the crates inside, without any promise |
//! | `testing` | runs your workflow with a crash at every point (feature `testing`) |

mod archive;
mod backup;
mod durations;
mod log;
mod open;
pub mod preflight;
mod retention_env;
mod store_secrets;
#[cfg(feature = "testing")]
pub mod testing;

pub use durations::{days, hours, mins, secs};
pub use goldseam_core::form::Form;
pub use goldseam_core::recovery;
pub use goldseam_core::search;
pub use goldseam_core::{
    AttributeValue, Attributes, Class, Failure, Hint, Limits, Millis, NextStep, Path, Payload, Redactor,
    Retry, RunId, Seq, Status, Summary, TraceContext,
};
pub use goldseam_engine::client;
pub use goldseam_engine::config::{Recovery, StepDefaults};
pub use goldseam_engine::context;
pub use goldseam_engine::{
    Attempt, Builder, Client, Config, Context, Engine, EngineError, Error, Outcome, Probe, Result, ResultExt,
    RunHandle, Secret, SecretError, Selected, StartOptions, Untyped, Workflow, WorkflowRef,
};
pub use goldseam_store::shown_url;
#[doc(hidden)]
pub use log::__private;
pub use open::{OpenEngine, connect, connect_existing, open_existing_store, open_store};

/// Administration of stores: check, migrate, copy, back up, archive.
pub mod admin {
    pub use crate::archive::retention;
    pub use crate::backup::{
        BackupManifest, BackupMethod, BackupReport, OnBackupProgress, RestoreReport, backup, read_manifest,
        restore, verify_backup,
    };
    pub use crate::open::{
        check_store, compact_store, copier, copy_mark, dry_copier, exposed_files, migrate_store, reopen_store,
    };
    pub use crate::store_secrets::hide_known;
    pub use goldseam_admin::copy;
    pub use goldseam_store::check::{Compacted, Fact, Migrated, StoreReport};
}

/// The crates inside Goldseam. **Unstable**: any release may change or remove anything here.
///
/// Use it for your own store (`store`), for tools that read logs (`core`), or for tests of the engine (`engine`).
pub mod unstable {
    pub use goldseam_core as core;
    pub use goldseam_engine as engine;
    pub use goldseam_store as store;
}

/// Metrics, which every engine records through the `metrics` crate. The guide `docs/guides/observing.md` lists them.
pub mod metrics {
    pub use goldseam_engine::meter::buckets;
}

/// Tasks of users and of remote steps.
pub mod queue {
    pub use goldseam_core::task::{NewTask, Task};
    pub use goldseam_core::{QueueName, TaskId};
    pub use goldseam_engine::client::queue::{Queue, Want};
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Runs the code of the guide to testing workflows.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/testing-your-workflows.md")]
pub struct TestingGuide;

/// Compiles the code of the guide to changing a workflow.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/changing-a-workflow.md")]
pub struct ChangingGuide;

/// Compiles the code of the guide to secrets.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/keeping-secrets.md")]
pub struct SecretsGuide;

/// Runs the code of the guide to observing.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/observing.md")]
pub struct ObservingGuide;
/// Runs the code of the guide to searching.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/searching.md")]
pub struct SearchingGuide;

/// Runs the code of the guide to talking to a run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/talking-to-a-run.md")]
pub struct TalkingGuide;

/// Compiles the programs of the guide for new users. The tests of the command line run them.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/getting-started.md")]
pub struct GettingStartedGuide;

/// Runs the code of the guide to steps.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/steps-and-retries.md")]
pub struct StepsGuide;

/// Runs the code of the guide to waiting.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/waiting.md")]
pub struct WaitingGuide;

/// Runs the code of the guide to children.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/children-and-fan-out.md")]
pub struct ChildrenGuide;

/// Runs the code of the guide to sagas.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/sagas.md")]
pub struct SagasGuide;

/// Diagnoses and repairs of runs on request.
pub mod healer {
    pub use goldseam_engine::client::{audit, doctor, feed, follow, recover as by_hand, why};
    pub use goldseam_engine::heal::{Examined, Found, Healed, Healer, Liveness, foreign, monitor, sweeper};
}

/// The items that most programs with workflows import: `use goldseam::prelude::*;`
///
/// `goldseam::Result` is not among them, so that `Result` keeps its usual meaning.
pub mod prelude {
    pub use std::time::Duration;

    pub use crate::{
        Attempt, Client, Context, Engine, EngineError, Error, Form, OpenEngine, Outcome, Probe, ResultExt,
        Retry, RunHandle, RunId, Secret, Selected, StartOptions, Status, Workflow,
    };
    pub use crate::{days, hours, mins, secs};
}
