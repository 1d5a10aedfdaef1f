//! The faults, one after the other: each is injected, then watched until it is healed or patience ends.

use std::io;
use std::time::Duration;

use goldseam::client::{By, StartOptions};
use goldseam::core::{LockName, NodeId};
use goldseam::engine::locks::Locks;
use goldseam::store::{Expect, TaskFilter, Written};
use goldseam::{Client, EngineError, Limits, Path, Payload, RunId, Status, Summary};
use indicatif::ProgressBar;
use tokio::time::timeout;

use super::measure::{Fault, Mark, Times};
use super::work::{LOCK_TTL, Load, QUESTION, WORKFLOW};
use crate::commands::demo::fleet::Fleet;
use crate::fail::Fail;

/// Pause between two looks at a lock, whose expiry changes nothing.
const LOOK: Duration = Duration::from_millis(10);
/// How often a worker is frozen anew because the store was locked, and how long a write may take else.
const FREEZES_MAX: u32 = 20;
const WRITE_MAX: Duration = Duration::from_millis(500);
/// A run that is under way for as long as a fault needs.
const LONG: Load = Load { ask: false, steps: 600, step_ms: 50 };
/// A run that asks, then does one step.
const ASKS: Load = Load { ask: true, steps: 1, step_ms: 1 };

/// A drill under way.
pub(crate) struct Drill<'a> {
    pub(crate) client: &'a Client,
    pub(crate) fleet: Fleet,
    /// The drill's own queue; also what all its names begin with.
    pub(crate) name: String,
    /// How long each fault may take to be healed.
    pub(crate) patience: Duration,
    pub(crate) line: ProgressBar,
}

impl Drill<'_> {
    /// Injects every fault.
    pub(crate) async fn run(&mut self) -> Result<Vec<Fault>, Fail> {
        let mut faults = Vec::new();
        self.tell("a worker is killed");
        faults.push(self.kill().await?);
        self.tell("a worker is frozen");
        faults.push(self.freeze().await?);
        self.tell("a lock is left behind");
        faults.push(self.lock().await?);
        self.tell("a cached status is damaged");
        faults.push(self.status().await?);
        self.tell("a task is lost");
        faults.push(self.task().await?);
        self.tell("runs end");
        self.end().await?;
        Ok(faults)
    }

    fn tell(&self, what: &'static str) {
        self.line.set_message(what);
    }

    async fn start(&self, what: &str, load: Load) -> Result<RunId, Fail> {
        let run = RunId::new(format!("{}-{what}", self.name))?;
        let input = Payload::of(&load, &Limits::default())?;
        let options = StartOptions::default().queue(self.name.clone());
        self.client.start(WORKFLOW, &run, input, options).await?;
        Ok(run)
    }

    /// Waits until the run is as wanted, and says how it is then.
    async fn until(&self, run: &RunId, wanted: impl Fn(&Summary) -> bool) -> Result<Summary, Fail> {
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
        match timeout(self.patience, look).await {
            Ok(found) => found,
            Err(_) => Err(Fail::plain(format!("the drill's workers did not bring run {run} far enough"))),
        }
    }

    /// Waits until the run has gone on after the fault, or patience ends.
    async fn healed(&self, run: &RunId, fault: Mark) -> Result<Times, Fail> {
        let look = async {
            let mut mark = 0;
            loop {
                let times = fault.look(self.client, run).await?;
                if times.moved.is_some() {
                    return Ok::<_, Fail>(times);
                }
                mark = self.client.wait_for_change(mark).await?;
            }
        };
        match timeout(self.patience, look).await {
            Ok(times) => times,
            Err(_) => fault.look(self.client, run).await,
        }
    }

    /// The worker that has the run.
    async fn worker_of(&self, run: &Summary) -> Result<(usize, NodeId), Fail> {
        let nodes = self.client.store().nodes().await?;
        let owner = nodes.into_iter().find(|seen| Some(&seen.record.id) == run.owner.as_ref());
        let found = owner.and_then(|seen| {
            let pid = seen.record.name.rsplit_once(':').and_then(|(_, pid)| pid.parse::<u32>().ok())?;
            let at = (0..self.fleet.len()).find(|at| self.fleet.pid(*at) == pid)?;
            Some((at, seen.record.id))
        });
        found.ok_or_else(|| Fail::plain(format!("run {} is not executed by the drill's workers", run.run)))
    }

    /// SIGKILL: the process is gone, and the system says so.
    async fn kill(&mut self) -> Result<Fault, Fail> {
        let run = self.start("kill", LONG).await?;
        let summary = self.until(&run, |run| run.steps > 0 && run.owner.is_some()).await?;
        let (at, node) = self.worker_of(&summary).await?;
        let fault = Mark::now(self.client, &run).await?;
        self.fleet.kill(at, node).map_err(trouble)?;
        let times = self.healed(&run, fault).await?;
        self.client.cancel(&run, by()).await?;
        Ok(fault.fault("kill", &times))
    }

    /// SIGSTOP, past the limit of silence, then SIGCONT: what comes late must be refused.
    async fn freeze(&mut self) -> Result<Fault, Fail> {
        let run = self.start("freeze", LONG).await?;
        let summary = self.until(&run, |run| run.steps > 0 && run.owner.is_some()).await?;
        let (at, node) = self.worker_of(&summary).await?;
        let fault = self.freeze_between_writes(&run, at).await?;
        let times = self.healed(&run, fault).await?;
        self.fleet.thaw(at);
        let awake = timeout(self.patience, self.awake(&node)).await;
        let mut told = fault.fault("freeze", &times);
        told.healed &= matches!(awake, Ok(Ok(()))) && !self.wrote_late(&run, summary.epoch, &times).await?;
        self.client.cancel(&run, by()).await?;
        Ok(told)
    }

    /// Whoever is frozen in the middle of a write to a file has the file's lock: nobody can write until it goes on,
    /// and no engine could heal that. So it is frozen again until others can write.
    async fn freeze_between_writes(&self, run: &RunId, at: usize) -> Result<Mark, Fail> {
        for _ in 0..FREEZES_MAX {
            let fault = Mark::now(self.client, run).await?;
            self.fleet.freeze(at);
            let reason = "the worker that has it is frozen".to_owned();
            let write = self.client.annotate(run, By { reason, ..by() });
            if let Ok(written) = timeout(WRITE_MAX, write).await {
                written?;
                return Ok(fault);
            }
            self.fleet.thaw(at);
            tokio::time::sleep(LOOK).await;
        }
        Err(Fail::plain("a worker could not be frozen without the store's being locked"))
    }

    /// Returns once the node has beaten again.
    async fn awake(&self, node: &NodeId) -> Result<(), Fail> {
        let beats = || async {
            let nodes = self.client.store().nodes().await?;
            Ok::<_, Fail>(nodes.iter().find(|seen| seen.record.id == *node).map(|seen| seen.beats))
        };
        let asleep = beats().await?;
        while beats().await? == asleep {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Whether something of the old owner was accepted after the run was taken over.
    async fn wrote_late(&self, run: &RunId, old: goldseam::Seq, times: &Times) -> Result<bool, Fail> {
        let history = self.client.history(run).await?;
        let late = |seq| times.claim.is_some_and(|claim| seq > claim);
        Ok(history.iter().any(|recorded| late(recorded.seq) && recorded.epoch == Some(old)))
    }

    /// A lock whose holder was killed: somebody else must be able to take it.
    async fn lock(&mut self) -> Result<Fault, Fail> {
        let name = LockName::new(format!("{}-lock", self.name))?;
        let at = self.fleet.hire(&["--hold", name.as_str()]).map_err(trouble)?;
        let locks = self.client.locks();
        let held = async {
            while locks.get(&name).await?.is_none_or(|lock| lock.holder.is_none()) {
                tokio::time::sleep(LOOK).await;
            }
            Ok::<_, Fail>(())
        };
        timeout(self.patience, held)
            .await
            .map_err(|_| Fail::plain("the drill's worker did not take its lock"))??;
        let began = self.client.store().now().await?;
        self.fleet.lose(at).map_err(trouble)?;
        let since = |at: goldseam::Millis| i64::try_from(at.since(began).as_millis()).unwrap_or(i64::MAX);
        let (mut detect_ms, mut progress_ms) = (None, None);
        let taken = timeout(self.patience, async {
            detect_ms = Some(since(self.free(&locks, &name).await?));
            progress_ms = Some(since(self.take(&locks, &name).await?));
            Ok::<_, Fail>(())
        });
        let healed = taken.await.is_ok_and(|taken| taken.is_ok());
        Ok(Fault { fault: "lock", healed, detect_ms, reclaim_ms: detect_ms, progress_ms })
    }

    /// When the lock became free, or expired.
    async fn free(&self, locks: &Locks, name: &LockName) -> Result<goldseam::Millis, Fail> {
        loop {
            let now = self.client.store().now().await?;
            match locks.get(name).await? {
                Some(lock) if lock.is_held(now) => tokio::time::sleep(LOOK).await,
                Some(lock) if lock.holder.is_none() => {
                    return Ok(lock.audit.last().map_or(now, |audit| audit.at));
                }
                _ => return Ok(now),
            }
        }
    }

    /// When somebody else had the lock.
    async fn take(&self, locks: &Locks, name: &LockName) -> Result<goldseam::Millis, Fail> {
        loop {
            match locks.acquire(name, "drill", LOCK_TTL).await {
                Ok(lock) => {
                    locks.release(name, "drill", lock.fence).await?;
                    return Ok(lock.acquired_at);
                }
                Err(EngineError::Lock(_)) => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A run that asks and that nobody has in memory.
    async fn resting(&self, what: &str) -> Result<(RunId, Summary), Fail> {
        let run = self.start(what, ASKS).await?;
        let summary = self.until(&run, |run| run.status == Status::Waiting && run.owner.is_none()).await?;
        Ok((run, summary))
    }

    /// The cached status hides an open question (rule A2).
    async fn status(&mut self) -> Result<Fault, Fail> {
        let (run, _) = self.resting("status").await?;
        let fault = Mark::now(self.client, &run).await?;
        let row = self.client.store().head(&run).await?.and_then(|head| head.row);
        let Some(mut row) = row else { return Err(Fail::plain(format!("run {run} has no cached row"))) };
        row.summary.status = Status::Running;
        let expect = Expect::Version(row.version());
        if self.client.store().put_row(row, expect).await? != Written::Done {
            return Err(Fail::plain(format!("the cached status of run {run} could not be damaged")));
        }
        let times = self.healed(&run, fault).await?;
        self.answer(&run).await?;
        Ok(fault.fault("status", &times))
    }

    /// What a run waits for has come, and its task is lost (rule O1).
    async fn task(&mut self) -> Result<Fault, Fail> {
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
        let fault = Mark::now(self.client, &run).await?;
        self.answer(&run).await?;
        let times = self.healed(&run, fault).await?;
        Ok(fault.fault("task", &times))
    }

    async fn answer(&self, run: &RunId) -> Result<(), Fail> {
        let answer = Payload::of("yes", &Limits::default())?;
        self.client.answer(run, &Path::new(QUESTION)?, answer, by()).await?;
        Ok(())
    }

    /// Every run of the drill comes to its end, so that nothing is left behind that could move.
    async fn end(&self) -> Result<(), Fail> {
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

fn trouble(error: io::Error) -> Fail {
    Fail::plain(format!("a worker could not be started or killed: {error}"))
}
