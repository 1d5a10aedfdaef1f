//! Preflight: replays stored histories with the code of this process, without effects and without a write.
//!
//! The function of each run is called with a real context on the state derived from its log, and stops at the
//! frontier: the first operations that the log does not have. The verdict is what a live engine would do there.
//!
//! Two mechanisms prevent effects. The gate of the context stays closed (`LiveRun::for_preflight`), so no step,
//! probe, wait, question, sleep or child begins. And every store in reach refuses writes: the one that is read, and
//! the one that the context could write to.

mod exported;
mod replay;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Hash, RunId, State, Status, WorkflowName};
use goldseam_store::{Closed, ClosedStore, MemoryStore, RunFilter, RunOrder, Store};

use crate::client::Client;
use crate::ledger::commit::Ledger;
use crate::ledger::config::Config;
use crate::ledger::error::EngineError;
use crate::run::live_run::LiveRun;
use crate::run::registry::Registry;

pub use report::{Finding, Group, PreflightReport, Verdict};

/// Runs per read of the store.
const PAGE: u32 = 200;
/// Maximum number of logs loaded concurrently.
const LOADS: usize = 8;

/// Which runs are replayed, and how. Start with [`Preflight::all`].
#[derive(Debug, Clone)]
pub struct Preflight {
    pub(crate) runs: Vec<RunId>,
    pub(crate) workflow: Option<WorkflowName>,
    pub(crate) sample: Option<usize>,
    pub(crate) parked: bool,
    pub(crate) to_version: Option<u32>,
    pub(crate) histories: Option<PathBuf>,
    pub(crate) patience: Duration,
    pub(crate) on_thread: bool,
}

impl Preflight {
    /// Every active or paused run.
    pub fn all() -> Self {
        Self {
            runs: Vec::new(),
            workflow: None,
            sample: None,
            parked: false,
            to_version: None,
            histories: None,
            patience: Duration::from_secs(10),
            on_thread: true,
        }
    }

    /// At most `count` runs of each workflow and version, the same ones each time.
    pub fn sample(count: usize) -> Self {
        Self { sample: Some(count), ..Self::all() }
    }

    /// These runs, in any status.
    pub fn runs(runs: impl IntoIterator<Item = RunId>) -> Self {
        Self { runs: runs.into_iter().collect(), ..Self::all() }
    }

    /// Exported histories instead of a store: a file, or a directory of files, as written by `goldseam history RUN
    /// --json`, `goldseam history RUN --jsonl` (named `RUN.jsonl`) and `goldseam prune --archive`.
    pub fn histories(path: impl Into<PathBuf>) -> Self {
        Self { histories: Some(path.into()), ..Self::all() }
    }

    /// Only runs of this workflow.
    pub fn workflow(mut self, name: &str) -> Result<Self, EngineError> {
        self.workflow = Some(WorkflowName::new(name)?);
        Ok(self)
    }

    /// At most `count` runs of each workflow and version.
    #[must_use]
    pub fn at_most(mut self, count: usize) -> Self {
        self.sample = Some(count);
        self
    }

    /// Also parked runs, to see whether they would park again.
    #[must_use]
    pub fn with_parked(mut self) -> Self {
        self.parked = true;
        self
    }

    /// Replays each run on this version instead of its own, as after a migration.
    #[must_use]
    pub fn to_version(mut self, version: u32) -> Self {
        self.to_version = Some(version);
        self
    }

    /// Sets how long the replay of one run may take. Default: 10 seconds. A longer one has the verdict unknown.
    #[must_use]
    pub fn patience(mut self, span: Duration) -> Self {
        self.patience = span;
        self
    }

    /// Replays in the caller's task instead of on a separate thread: for simulation, where time is virtual. Code that
    /// never yields then blocks the preflight.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn in_task(mut self) -> Self {
        self.on_thread = false;
        self
    }

    fn statuses(&self) -> Vec<Status> {
        let wanted = |status: &Status| {
            status.is_active() || *status == Status::Paused || self.parked && *status == Status::Parked
        };
        Status::ALL.into_iter().filter(wanted).collect()
    }
}

/// Wraps a store so that it refuses every write.
fn refusing_writes(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let closed = Closed {
        code: "GS0126",
        what: "a preflight writes nothing".to_owned(),
        hint: "start the program without GOLDSEAM_PREFLIGHT to execute runs".into(),
    };
    Arc::new(ClosedStore::new(store, closed))
}

/// A read-only store for a preflight.
pub fn read_only(store: Arc<dyn Store>) -> Arc<dyn Store> {
    refusing_writes(store)
}

/// Replays histories with the code of a registry.
pub(crate) struct PreflightRunner {
    /// For reading; its store refuses writes.
    client: Client,
    /// For contexts; its store is empty and refuses writes.
    blank: Ledger,
    config: Arc<Config>,
    registry: Registry,
    what: Preflight,
}

impl PreflightRunner {
    pub(crate) fn new(client: &Client, config: Arc<Config>, registry: Registry, what: Preflight) -> Self {
        let ledger = client.ledger();
        let reading = Ledger { store: refusing_writes(Arc::clone(&ledger.store)), ..ledger.clone() };
        let blank =
            Ledger { store: refusing_writes(Arc::new(MemoryStore::default())), asks: None, ..ledger.clone() };
        let client = Client::of(
            reading.clone(),
            Arc::clone(&client.live_runs),
            client.claims().on(reading),
            Arc::new(client.config().clone()),
        );
        Self { client, blank, config, registry, what }
    }

    /// Replays all requested runs.
    pub(crate) async fn run(&self) -> Result<PreflightReport, EngineError> {
        let mut report = PreflightReport::default();
        match &self.what.histories {
            Some(path) => self.exported(path, &mut report).await?,
            None if !self.what.runs.is_empty() => self.load_all(self.what.runs.clone(), &mut report).await?,
            None if self.what.sample.is_some() => {
                let runs = self.sampled().await?;
                self.load_all(runs, &mut report).await?;
            }
            None => self.whole_store(&mut report).await?,
        }
        report.finish();
        Ok(report)
    }

    async fn whole_store(&self, report: &mut PreflightReport) -> Result<(), EngineError> {
        let mut after = None;
        loop {
            let (page, next) = self.page(after).await?;
            self.load_all(page.into_iter().map(|(run, ..)| run).collect(), report).await?;
            let Some(next) = next else { break };
            after = Some(next);
        }
        self.rowless(report).await
    }

    /// Lists a page of runs with workflow and version.
    async fn page(
        &self,
        after: Option<String>,
    ) -> Result<(Vec<(RunId, WorkflowName, u32)>, Option<String>), EngineError> {
        let filter = RunFilter {
            statuses: self.what.statuses(),
            workflow: self.what.workflow.clone(),
            order: RunOrder::Oldest,
            after,
            limit: PAGE,
            ..RunFilter::default()
        };
        let page = self.client.list(filter).await?;
        let rows = page.items.into_iter().map(|row| row.summary);
        Ok((rows.map(|row| (row.run, row.workflow, row.version)).collect(), page.next))
    }

    /// Replays runs without a row: only their logs show whether they are active.
    async fn rowless(&self, report: &mut PreflightReport) -> Result<(), EngineError> {
        let mut after: Option<RunId> = None;
        loop {
            let runs = self.client.store().rowless(after.as_ref(), PAGE).await?;
            let Some(last) = runs.last() else { return Ok(()) };
            after = Some(last.clone());
            self.load_all(runs, report).await?;
        }
    }

    /// Selects the runs of each workflow and version whose ids have the smallest hashes: spread evenly, the same each
    /// time, and only as many in memory as are selected.
    async fn sampled(&self) -> Result<Vec<RunId>, EngineError> {
        let most = self.what.sample.unwrap_or(usize::MAX);
        let mut taken: BTreeMap<(WorkflowName, u32), BTreeMap<Hash, RunId>> = BTreeMap::new();
        let mut after = None;
        loop {
            let (page, next) = self.page(after).await?;
            for (run, workflow, version) in page {
                let of_kind = taken.entry((workflow, version)).or_default();
                of_kind.insert(Hash::of(run.as_str().as_bytes()), run);
                if of_kind.len() > most {
                    of_kind.pop_last();
                }
            }
            let Some(next) = next else { break };
            after = Some(next);
        }
        Ok(taken.into_values().flat_map(BTreeMap::into_values).collect())
    }

    /// Loads these runs, a few at a time, and replays each. Each is dropped before more are loaded.
    async fn load_all(&self, runs: Vec<RunId>, report: &mut PreflightReport) -> Result<(), EngineError> {
        let named = !self.what.runs.is_empty();
        let load = |run: RunId| async move {
            let loaded = self.client.ledger().load_surely(&run).await;
            (run, loaded)
        };
        let mut loading = stream::iter(runs).map(load).buffered(LOADS);
        while let Some((run, loaded)) = loading.next().await {
            let state = match loaded {
                Ok(loaded) => loaded.state,
                Err(EngineError::Corrupt { corrupt, .. }) => {
                    report.add(Finding::unreadable(run, &corrupt));
                    continue;
                }
                // Pruned or unknown: an error for a requested id; a listed run was just removed.
                Err(EngineError::Refused { .. }) if !named => continue,
                Err(error) => return Err(error),
            };
            // The run may have ended since it was listed.
            if !named && !self.what.statuses().contains(&state.summary.status) {
                continue;
            }
            self.replay(state, report).await;
        }
        Ok(())
    }

    async fn exported(
        &self,
        path: &std::path::Path,
        report: &mut PreflightReport,
    ) -> Result<(), EngineError> {
        let mut counts: BTreeMap<(WorkflowName, u32), usize> = BTreeMap::new();
        for file in exported::files(path)? {
            for (run, state) in exported::read(&file)? {
                let state = match state {
                    Ok(state) => state,
                    Err(corrupt) => {
                        report.add(Finding::unreadable(run, &corrupt));
                        continue;
                    }
                };
                let kind = (state.summary.workflow.clone(), state.summary.version);
                let count = counts.entry(kind).or_default();
                *count += 1;
                let wanted = self.what.runs.is_empty() || self.what.runs.contains(&run);
                if wanted && self.what.sample.is_none_or(|most| *count <= most) {
                    self.replay(state, report).await;
                }
            }
        }
        Ok(())
    }

    /// Replays one run.
    async fn replay(&self, mut state: State, report: &mut PreflightReport) {
        let summary = &state.summary;
        if self.what.workflow.as_ref().is_some_and(|workflow| *workflow != summary.workflow) {
            return;
        }
        let newest = || self.registry.newest(&summary.workflow).unwrap_or(UNDECIDED);
        // A run that was never claimed uses the newest version.
        let own = if summary.version == UNDECIDED { newest() } else { summary.version };
        let version = self.what.to_version.unwrap_or(own);
        let run = summary.run.clone();
        let workflow = summary.workflow.clone();
        state.summary.version = version;
        let verdict = match self.registry.get(&workflow, version) {
            Some(_) if self.registry.is_remote(&workflow, version) => Verdict::Unknown {
                reason: "its code runs in another process; only its worker can replay it".to_owned(),
            },
            Some(function) => {
                let input = state.queued.input.clone();
                let live =
                    Arc::new(LiveRun::for_preflight(self.blank.clone(), Arc::clone(&self.config), state));
                match self.what.on_thread {
                    true => replay::on_thread(live, function, input, self.what.patience).await,
                    false => replay::in_task(live, function, input, self.what.patience).await,
                }
            }
            None => {
                Verdict::Unknown { reason: format!("{workflow}@{version} is not registered in this build") }
            }
        };
        report.add(Finding { run, workflow: Some(workflow), version: Some(version), verdict });
    }
}
