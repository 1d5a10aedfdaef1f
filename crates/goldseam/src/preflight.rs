//! Preflight: the workflows of this build, tried against stored runs before they are deployed.
//!
//! In a test or a small program of your own:
//!
//! ```no_run
//! use goldseam::Engine;
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
//! Or with no code at all: `goldseam preflight --program ./worker` starts a program with the environment variable
//! [`VARIABLE`]. [`Builder::start`](crate::Builder::start) then makes a preflight instead of starting, writes its report,
//! and ends the process. Every store that such a process opens is the one that the order names, and refuses writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::RunId;
use goldseam_engine::EngineError;
use goldseam_store::{MemoryStore, Store};
use serde::{Deserialize, Serialize};

pub use goldseam_engine::preflight::{Finding, Group, Preflight, PreflightReport, Verdict};

/// The environment variable that makes a program do a preflight instead of starting: an [`Order`] as JSON.
pub const VARIABLE: &str = "GOLDSEAM_PREFLIGHT";

/// What a program is to try.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The file that the answer is written to: an [`Answer`] as JSON.
    pub report: PathBuf,
    /// The store to read instead of the program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Exported histories to read instead of a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histories: Option<PathBuf>,
    /// Only these runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunId>,
    /// Only this workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// At most this many runs of each workflow and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<usize>,
    /// Parked runs, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parked: bool,
    /// On this version instead of each run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_version: Option<u32>,
    /// How long one run's replay may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<u64>,
}

/// What a program answers to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What it found.
    Report(PreflightReport),
    /// Why it could not look.
    Error {
        /// Code with a page.
        code: String,
        /// What happened.
        message: String,
        /// What to do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
}

fn no(what: impl Into<String>) -> EngineError {
    EngineError::Preflight { what: what.into() }
}

impl Order {
    /// The order that this process was started with; none: it is to run.
    pub(crate) fn given() -> Result<Option<Self>, EngineError> {
        match std::env::var(VARIABLE) {
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|error| no(format!("{VARIABLE}: {error}")))
            }
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(no(format!("{VARIABLE}: {error}"))),
        }
    }

    /// The store to look at, where the program names `own`. It refuses writes.
    pub(crate) async fn store(&self, own: &str) -> Result<Arc<dyn Store>, EngineError> {
        let store: Arc<dyn Store> = match &self.histories {
            Some(_) => Arc::new(MemoryStore::default()),
            None => crate::open::find(self.store.as_deref().unwrap_or(own)).await?,
        };
        Ok(goldseam_engine::preflight::read_only(store))
    }

    /// The same for a program that opens its store. If that is not possible, the answer says why and the process ends.
    pub(crate) async fn open(&self, own: &str) -> Result<Arc<dyn Store>, EngineError> {
        match self.store(own).await {
            Ok(store) => Ok(store),
            Err(error) => Err(self.end(Err(error))),
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

    async fn look(&self, builder: goldseam_engine::Builder) -> Result<PreflightReport, EngineError> {
        let what = self.preflight()?;
        match &self.store {
            // A program may have opened its store in a way of its own.
            Some(url) => builder.on(self.store(url).await?).preflight(what).await,
            None => builder.preflight(what).await,
        }
    }

    /// Writes the answer under its name only once all of it is there.
    fn answer(&self, result: Result<PreflightReport, EngineError>) -> std::io::Result<()> {
        let answer = match result {
            Ok(report) => Answer::Report(report),
            Err(error) => {
                let (code, message, hint) = (error.code().to_owned(), error.to_string(), error.hint());
                Answer::Error { code, message, hint }
            }
        };
        let part = self.report.with_extension("part");
        std::fs::write(&part, serde_json::to_string(&answer)?)?;
        std::fs::rename(part, &self.report)
    }

    /// Tries the program's workflows, answers, and ends the process.
    pub(crate) async fn carry_out(self, builder: goldseam_engine::Builder) -> EngineError {
        let result = self.look(builder).await;
        self.end(result)
    }

    /// Answers and ends the process.
    fn end(&self, result: Result<PreflightReport, EngineError>) -> EngineError {
        match self.answer(result) {
            Ok(()) => std::process::exit(0),
            Err(error) => no(format!("{} cannot be written: {error}", self.report.display())),
        }
    }
}
