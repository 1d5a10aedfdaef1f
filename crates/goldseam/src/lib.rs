//! Durable workflows that heal themselves, on a SQLite file.
//!
//! A workflow is a plain async function. What it does through its [`Context`] is recorded; after a
//! crash it goes on where it was: nothing acknowledged is lost, no completed step runs again.
//!
//! ```no_run
//! use goldseam::prelude::*;
//!
//! async fn greet(ctx: Context, name: String) -> goldseam::Result<String> {
//!     let greeting = ctx.step("compose", || async { Ok::<_, Error>(format!("Hello, {name}!")) }).await?;
//!     ctx.sleep("pause", Duration::from_secs(1)).await?;
//!     Ok(greeting)
//! }
//!
//! # async fn demo() -> Result<(), goldseam::EngineError> {
//! let engine = Engine::open("sqlite:hello.db").await?.workflow("greet", greet).start().await?;
//! let run = engine.run("greet", "greet-ada", &"Ada").await?;
//! println!("{}", run.result::<String>().await?);
//! # engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! Step side effects are at-least-once; a recorded completion is exactly-once. See [`Context`] for
//! everything that a workflow can do, [`Client`] for everything that can be done to a run.

mod archive;
mod known;
mod open;
pub mod preflight;
mod span;
#[cfg(feature = "testing")]
pub mod testing;

pub use archive::retention;
pub use goldseam_admin::copy;
pub use goldseam_core as core;
pub use goldseam_core::recovery;
pub use goldseam_engine as engine;
pub use goldseam_engine::client;
pub use goldseam_engine::config::Recovery;
pub use goldseam_engine::context;
pub use goldseam_engine::healer;
pub use goldseam_engine::{
    Attempt, Client, Config, Context, EngineError, Error, Outcome, Probe, Result, RunHandle, Secret,
    SecretError, Selected, StartOptions,
};
pub use goldseam_store as store;

pub use goldseam_core::Redactor;
pub use goldseam_core::form::Form;
pub use goldseam_core::{Class, Failure, Limits, Millis, Path, Payload, Retry, RunId, Seq, Status, Summary};
pub use goldseam_store::check::{Fact, Migrated, Report};
pub use goldseam_store::shown_url;
pub use known::hide_known;
pub use open::{
    Builder, Engine, check_store, connect, connect_existing, copier, copy_mark, dry_copier, exposed_files,
    migrate_store, open_existing_store, open_store, reopen_store,
};
pub use span::{days, hours, mins, secs};

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// The guide to testing workflows, its code run.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/testing-your-workflows.md")]
pub struct TestingGuide;

/// The guide to changing a workflow, its code compiled.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/guides/changing-a-workflow.md")]
pub struct ChangingGuide;

/// The guide to secrets, its code compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/keeping-secrets.md")]
pub struct SecretsGuide;

/// Everything that a program with workflows usually needs.
pub mod prelude {
    pub use std::time::Duration;

    pub use crate::{Attempt, Client, Context, Engine, Error, Probe, Retry, Secret, Selected, StartOptions};
    pub use crate::{days, hours, mins, secs};
}
