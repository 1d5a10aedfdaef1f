//! Injects the faults one after the other, and watches each until it is healed or times out.

use std::io;
use std::time::Duration;

use goldseam::client::{By, StartOptions};
use goldseam::unstable::core::{LockName, NodeId};
use goldseam::unstable::engine::locks::Locks;
use goldseam::unstable::store::{Expect, TaskFilter, Written};
use goldseam::{Client, EngineError, Limits, Path, Payload, RunId, Status, Summary};
use indicatif::ProgressBar;
use tokio::time::timeout;

use super::measure::{FaultMark, FaultResult, Times};
use super::work::{LOCK_TTL, Load, QUESTION, WORKFLOW};
use crate::commands::demo::fleet::Fleet;
use crate::error::CliError;

/// How often a lock is read: its expiry changes no record, so there is nothing to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Attempts to freeze a worker while it does not lock the store.
const FREEZES_MAX: u32 = 20;
/// How long a write may take if no frozen worker locks the store.
const WRITE_MAX: Duration = Duration::from_millis(500);
/// A run that lasts longer than a fault.
const LONG: Load = Load { ask: false, steps: 600, step_ms: 50 };
/// A run that asks a question, then executes one step.
const ASKS: Load = Load { ask: true, steps: 1, step_ms: 1 };

/// A running drill.
pub(crate) struct Drill<'a> {
    pub(crate) client: &'a Client,
    pub(crate) fleet: Fleet,
    /// The drill's queue, and the prefix of all its names.
    pub(crate) name: String,
    /// How long healing a fault may take.
    pub(crate) timeout: Duration,
    pub(crate) line: ProgressBar,
}

impl Drill<'_> {
    /// Injects every fault.
    pub(crate) async fn run(&mut self) -> Result<Vec<FaultResult>, CliError> {
        let mut faults = Vec::new();
        self.show("killing a worker");
        faults.push(self.kill().await?);
        self.show("freezing a worker");
        faults.push(self.freeze().await?);
        self.show("killing the holder of a lock");
        faults.push(self.lock().await?);
        self.show("damaging a cached status");
        faults.push(self.status().await?);
        self.show("losing a task");
        faults.push(self.task().await?);
        self.show("ending the runs");
        self.end().await?;
        Ok(faults)
    }

    fn show(&self, what: &'static str) {
        self.line.set_message(what);
    }

    async fn start(&self, what: &str, load: Load) -> Result<RunId, CliError> {
        let run = RunId::new(format!("{}-{what}", self.name))?;
        let input = Payload::of(&load, &Limits::default())?;
        let options = StartOptions::default().queue(self.name.clone());
        self.client.start_with(WORKFLOW, &run, &input, options).await?;
        Ok(run)
    }

    /// Waits until the run satisfies a condition, and returns its summary.
    async fn until(&self, run: &RunId, wanted: impl Fn(&Summary) -> bool) -> Result<Summary, CliError> {
        let look = async {
            let mut mark = 0;
            loop {
                let summary = self.client.get(run).await?;
                if wanted(&summary) {
                    return Ok(summary);
                }
                mark = self.client.wait_for_change(mark).await?;
            }
        };
        match timeout(self.timeout, look).await {
            Ok(found) => found,
            Err(_) => Err(CliError::plain(format!("run {run} did not reach the expected state in time"))),
        }
    }

    /// Waits until the run moves after the fault, or the time is over.
    async fn healed(&self, run: &RunId, fault: FaultMark) -> Result<Times, CliError> {
        let look = async {
            let mut mark = 0;
            loop {
                let times = fault.look(self.client, run).await?;
                if times.moved.is_some() {
                    return Ok::<_, CliError>(times);
                }
                mark = self.client.wait_for_change(mark).await?;
            }
        };
        match timeout(self.timeout, look).await {
            Ok(times) => times,
            Err(_) => fault.look(self.client, run).await,
        }
    }

    /// Finds the worker that owns the run.
    async fn worker_of(&self, run: &Summary) -> Result<(usize, NodeId), CliError> {
        let nodes = self.client.store().nodes().await?;
        let owner = nodes.into_iter().find(|seen| Some(&seen.record.id) == run.owner.as_ref());
        let found = owner.and_then(|seen| {
            let pid = seen.record.name.rsplit_once(':').and_then(|(_, pid)| pid.parse::<u32>().ok())?;
            let at = (0..self.fleet.len()).find(|at| self.fleet.pid(*at) == pid)?;
            Some((at, seen.record.id))
        });
        found.ok_or_else(|| CliError::plain(format!("no worker of the drill owns run {}", run.run)))
    }

    /// SIGKILL: the system reports that the process is gone.
    async fn kill(&mut self) -> Result<FaultResult, CliError> {
        let run = self.start("kill", LONG).await?;
        let summary = self.until(&run, |run| run.steps > 0 && run.owner.is_some()).await?;
        let (at, node) = self.worker_of(&summary).await?;
        let fault = FaultMark::now(self.client, &run).await?;
        self.fleet.kill(at, node).map_err(worker_error)?;
        let times = self.healed(&run, fault).await?;
        self.client.cancel(&run, by()).await?;
        Ok(fault.fault("kill", &times))
    }

    /// SIGSTOP for longer than the allowed silence, then SIGCONT: late results must be refused.
    async fn freeze(&mut self) -> Result<FaultResult, CliError> {
        let run = self.start("freeze", LONG).await?;
        let summary = self.until(&run, |run| run.steps > 0 && run.owner.is_some()).await?;
        let (at, node) = self.worker_of(&summary).await?;
        let fault = self.freeze_between_writes(&run, at).await?;
        let times = self.healed(&run, fault).await?;
        self.fleet.thaw(at);
        let awake = timeout(self.timeout, self.awake(&node)).await;
        let mut result = fault.fault("freeze", &times);
        result.healed &= matches!(awake, Ok(Ok(()))) && !self.wrote_late(&run, summary.epoch, &times).await?;
        self.client.cancel(&run, by()).await?;
        Ok(result)
    }

    /// Freezes the worker while it does not write. A worker frozen during a write to a SQLite file keeps the file's
    /// lock, which blocks every writer and which no engine can heal; it is then thawed and frozen again.
    async fn freeze_between_writes(&self, run: &RunId, at: usize) -> Result<FaultMark, CliError> {
        for _ in 0..FREEZES_MAX {
            let fault = FaultMark::now(self.client, run).await?;
            self.fleet.freeze(at);
            let reason = "the owner is frozen".to_owned();
            let write = self.client.annotate(run, By { reason, ..by() });
            if let Ok(written) = timeout(WRITE_MAX, write).await {
                written?;
                return Ok(fault);
            }
            self.fleet.thaw(at);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Err(CliError::plain("cannot freeze a worker without locking the store"))
    }

    /// Returns once the node beats again.
    async fn awake(&self, node: &NodeId) -> Result<(), CliError> {
        let beats = || async {
            let nodes = self.client.store().nodes().await?;
            Ok::<_, CliError>(nodes.iter().find(|seen| seen.record.id == *node).map(|seen| seen.beats))
        };
        let asleep = beats().await?;
        while beats().await? == asleep {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Whether the log accepted an event of the old owner after the takeover.
    async fn wrote_late(&self, run: &RunId, old: goldseam::Seq, times: &Times) -> Result<bool, CliError> {
        let history = self.client.history(run).await?;
        let late = |seq| times.claim.is_some_and(|claim| seq > claim);
        Ok(history.iter().any(|recorded| late(recorded.seq) && recorded.epoch == Some(old)))
    }

    /// A lock whose holder was killed: another holder must be able to acquire it.
    async fn lock(&mut self) -> Result<FaultResult, CliError> {
        let name = LockName::new(format!("{}-lock", self.name))?;
        let at = self.fleet.add_worker(&["--hold", name.as_str()]).map_err(worker_error)?;
        let locks = self.client.locks();
        let held = async {
            while locks.get(&name).await?.is_none_or(|lock| lock.holder.is_none()) {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Ok::<_, CliError>(())
        };
        timeout(self.timeout, held)
            .await
            .map_err(|_| CliError::plain("the drill's worker did not acquire its lock"))??;
        let began = self.client.store().now().await?;
        self.fleet.kill_only(at).map_err(worker_error)?;
        let since = |at: goldseam::Millis| i64::try_from(at.since(began).as_millis()).unwrap_or(i64::MAX);
        let mut detect_ms = None;
        let mut progress_ms = None;
        let acquired = timeout(self.timeout, async {
            detect_ms = Some(since(self.freed_at(&locks, &name).await?));
            progress_ms = Some(since(self.acquired_at(&locks, &name).await?));
            Ok::<_, CliError>(())
        });
        let healed = acquired.await.is_ok_and(|acquired| acquired.is_ok());
        Ok(FaultResult { fault: "lock", healed, detect_ms, reclaim_ms: detect_ms, progress_ms })
    }

    /// When the lock became free or expired.
    async fn freed_at(&self, locks: &Locks, name: &LockName) -> Result<goldseam::Millis, CliError> {
        loop {
            let now = self.client.store().now().await?;
            match locks.get(name).await? {
                Some(lock) if lock.is_held(now) => tokio::time::sleep(POLL_INTERVAL).await,
                Some(lock) if lock.holder.is_none() => {
                    return Ok(lock.audit.last().map_or(now, |audit| audit.at));
                }
                _ => return Ok(now),
            }
        }
    }

    /// When another holder acquired the lock.
    async fn acquired_at(&self, locks: &Locks, name: &LockName) -> Result<goldseam::Millis, CliError> {
        loop {
            match locks.acquire(name, "drill", LOCK_TTL).await {
                Ok(lock) => {
                    locks.release(name, "drill", lock.fence).await?;
                    return Ok(lock.acquired_at);
                }
                Err(EngineError::Lock(_)) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Starts a run that waits for an answer, and that no node has in memory.
    async fn resting(&self, what: &str) -> Result<(RunId, Summary), CliError> {
        let run = self.start(what, ASKS).await?;
        let summary = self.until(&run, |run| run.status == Status::Waiting && run.owner.is_none()).await?;
        Ok((run, summary))
    }

    /// The cached status hides an open question (rule A2).
    async fn status(&mut self) -> Result<FaultResult, CliError> {
        let (run, _) = self.resting("status").await?;
        let fault = FaultMark::now(self.client, &run).await?;
        let row = self.client.store().head(&run).await?.and_then(|head| head.row);
        let Some(mut row) = row else { return Err(CliError::plain(format!("run {run} has no cached row"))) };
        row.summary.status = Status::Running;
        let expect = Expect::Version(row.version());
        if self.client.store().put_row(row, expect).await? != Written::Done {
            return Err(CliError::plain(format!("cannot damage the cached status of run {run}")));
        }
        let times = self.healed(&run, fault).await?;
        self.answer(&run).await?;
        Ok(fault.fault("status", &times))
    }

    /// The answer that a run waits for has arrived, but its task is lost (rule O1).
    async fn task(&mut self) -> Result<FaultResult, CliError> {
        let (run, _) = self.resting("task").await?;
        let filter =
            TaskFilter { run: Some(run.clone()), advance: Some(true), limit: 16, ..TaskFilter::default() };
        let now = self.client.store().now().await?;
        for task in self.client.store().tasks(filter).await? {
            let expect = Expect::Version(task.version);
            if let Ok(over) = task.cancelled(now) {
                self.client.store().put_task(over, expect).await?;
            }
        }
        let fault = FaultMark::now(self.client, &run).await?;
        self.answer(&run).await?;
        let times = self.healed(&run, fault).await?;
        Ok(fault.fault("task", &times))
    }

    async fn answer(&self, run: &RunId) -> Result<(), CliError> {
        let answer = Payload::of("yes", &Limits::default())?;
        self.client.answer(run, &Path::new(QUESTION)?, answer, by()).await?;
        Ok(())
    }

    /// Waits until every run of the drill has ended, so that no active run is left behind.
    async fn end(&self) -> Result<(), CliError> {
        for what in ["kill", "freeze", "status", "task"] {
            let run = RunId::new(format!("{}-{what}", self.name))?;
            self.until(&run, |run| run.status.is_terminal()).await?;
        }
        Ok(())
    }
}

fn by() -> By {
    By { who: Some("drill".to_owned()), reason: "the drill is over".to_owned(), id: None }
}

fn worker_error(error: io::Error) -> CliError {
    CliError::plain(format!("cannot start or kill a worker: {error}"))
}
