//! Preflight: replays stored runs with the workflows of this build, before you deploy them.
//!
//! In a test or a small program:
//!
//! ```no_run
//! use goldseam::prelude::*;
//! use goldseam::preflight::Preflight;
//!
//! # async fn order(_: goldseam::Context, _: u32) -> goldseam::Result<()> { Ok(()) }
//! # async fn demo() -> Result<(), goldseam::EngineError> {
//! let build = Engine::open_existing("sqlite:shop.db").await?.workflow("order", order);
//! let report = build.preflight(Preflight::all()).await?;
//! println!("{report}");
//! std::process::exit(report.exit_code().into());
//! # }
//! ```
//!
//! Without code: `goldseam preflight --program ./worker` starts a program with the environment variable [`VARIABLE`].
//! [`Builder::start`](crate::Builder::start) then runs a preflight instead of starting the engine, writes the report,
//! and exits the process. Whichever store such a process opens, it gets the store of the [`Order`], and writes fail.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::RunId;
use goldseam_engine::EngineError;
use goldseam_store::{MemoryStore, Store};
use serde::{Deserialize, Serialize};

pub use goldseam_engine::preflight::{Finding, Group, Preflight, PreflightReport, Verdict};

/// The environment variable that makes a program run a preflight instead of starting. Its value is an [`Order`] as
/// JSON.
pub const VARIABLE: &str = "GOLDSEAM_PREFLIGHT";

/// The preflight that a program runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The file that the answer is written to: an [`Answer`] as JSON.
    pub report: PathBuf,
    /// The store to read instead of the one that the program opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Exported histories to read instead of a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histories: Option<PathBuf>,
    /// The runs to replay; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunId>,
    /// The workflow whose runs to replay; all if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Maximum number of runs per workflow and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<usize>,
    /// Whether to include parked runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parked: bool,
    /// The workflow version to replay on, instead of the version of each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_version: Option<u32>,
    /// Maximum duration of the replay of one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<u64>,
}

/// The response of a program to an [`Order`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The verdicts.
    Report(PreflightReport),
    /// The preflight could not run.
    Error {
        /// Error code; each has a page in the documentation.
        code: String,
        /// What happened.
        message: String,
        /// What to do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
        /// The same hint with its steps as values: a [`Hint`](crate::Hint), possibly of a later release.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint_parts: Option<serde_json::Value>,
    },
}

fn preflight_error(what: impl Into<String>) -> EngineError {
    EngineError::Preflight { what: what.into() }
}

impl Order {
    /// Returns the order in the environment. None means a normal start.
    pub(crate) fn from_env() -> Result<Option<Self>, EngineError> {
        match std::env::var(VARIABLE) {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| preflight_error(format!("invalid {VARIABLE}: {error}"))),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(preflight_error(format!("invalid {VARIABLE}: {error}"))),
        }
    }

    /// Opens the store to read, instead of `own` if the order names one. The returned store refuses writes.
    pub(crate) async fn store(&self, own: &str) -> Result<Arc<dyn Store>, EngineError> {
        let store: Arc<dyn Store> = match &self.histories {
            Some(_) => Arc::new(MemoryStore::default()),
            None => crate::open::open_existing(self.store.as_deref().unwrap_or(own)).await?,
        };
        Ok(goldseam_engine::preflight::read_only(store))
    }

    /// Opens the store to read for a program that opens `own`. On failure, writes the error as the answer and exits the
    /// process.
    pub(crate) async fn open(&self, own: &str) -> Result<Arc<dyn Store>, EngineError> {
        match self.store(own).await {
            Ok(store) => Ok(store),
            Err(error) => Err(self.exit_with(Err(error))),
        }
    }

    fn preflight(&self) -> Result<Preflight, EngineError> {
        let mut what = match &self.histories {
            Some(path) => Preflight::histories(path),
            None => Preflight::runs(self.runs.clone()),
        };
        if let Some(workflow) = &self.workflow {
            what = what.workflow(workflow)?;
        }
        if let Some(count) = self.sample {
            what = what.at_most(count);
        }
        if self.parked {
            what = what.with_parked();
        }
        if let Some(version) = self.to_version {
            what = what.to_version(version);
        }
        if let Some(span) = self.patience_ms {
            what = what.patience(Duration::from_millis(span));
        }
        Ok(what)
    }

    async fn replay(&self, builder: goldseam_engine::Builder) -> Result<PreflightReport, EngineError> {
        let what = self.preflight()?;
        match &self.store {
            // The program may have opened its store without `open_store`.
            Some(url) => builder.on(self.store(url).await?).preflight(what).await,
            None => builder.preflight(what).await,
        }
    }

    /// Writes the answer to a temporary file and renames it, so readers never see part of it.
    fn write_answer(&self, result: Result<PreflightReport, EngineError>) -> std::io::Result<()> {
        let answer = match result {
            Ok(report) => Answer::Report(report),
            Err(error) => Answer::Error {
                code: error.code().to_owned(),
                message: error.to_string(),
                hint: error.hint().map(|hint| hint.to_string()),
                hint_parts: error.hint().map(serde_json::to_value).transpose()?,
            },
        };
        let part = self.report.with_extension("part");
        std::fs::write(&part, serde_json::to_string(&answer)?)?;
        std::fs::rename(part, &self.report)
    }

    /// Replays runs with the program's workflows, writes the answer, and exits the process.
    pub(crate) async fn run(self, builder: goldseam_engine::Builder) -> EngineError {
        let result = self.replay(builder).await;
        self.exit_with(result)
    }

    /// Writes the answer and exits the process. Returns only if the answer cannot be written.
    fn exit_with(&self, result: Result<PreflightReport, EngineError>) -> EngineError {
        match self.write_answer(result) {
            Ok(()) => std::process::exit(0),
            Err(error) => preflight_error(format!("cannot write report {}: {error}", self.report.display())),
        }
    }
}
