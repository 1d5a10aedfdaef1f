//! Commands: decided on what the store has, and written by the write loop.

use std::time::Duration;

use goldseam_core::codec::decode;
use goldseam_core::command::Starter;
use goldseam_core::decide::{Decision, Refusal};
use goldseam_core::event::{Note, RunQueued};
use goldseam_core::plan::{PlanBasis, plan_tasks};
use goldseam_core::seal::{Place, Sealed, leaves_branch, row_after, seal};
use goldseam_core::summary::{Stuck, command_id};
use goldseam_core::{
    BranchId, Command, Hash, Millis, Recorded, RunId, Seq, Summary, TaskId, WriteId, decide, derive,
};
use goldseam_store::{Append, TaskChange};

pub use super::Ledger;
use super::announce::Announcement;
use super::clock::pause;
use super::error::EngineError;
pub use super::read::{Snapshot, is_tombstone};
use super::retry::RetryWindow;
use super::{Next, Prepared, Source, Tried};

/// Events searched at a time.
const PAGE: u32 = 1_000;
/// Races that a command may lose before it lets others go first.
const LOST_FREELY: u32 = 2;
/// Minimum pause after a lost race.
const GIVE_WAY_MIN: Duration = Duration::from_millis(1);
/// How often the pause doubles.
const GIVE_WAY_DOUBLINGS: u32 = 6;

/// The result of a command.
#[derive(Debug)]
pub struct Committed {
    /// Where the log ends now.
    pub end: Seq,
    /// The events that were appended; empty if there was nothing to do.
    pub records: Vec<Recorded>,
    /// The run's advance task, if the command made one.
    pub task: Option<TaskId>,
    /// Fingerprint of the last event.
    pub head: Hash,
    /// Whether it is a signal that no open wait of the run expects.
    pub unawaited: bool,
}

/// Conditions and changes that go with a command.
#[derive(Debug, Default)]
pub struct With<'a> {
    /// Further changes of tasks, in the same append.
    pub extra: Vec<TaskChange>,
    /// The advance task that the command acts for. Compared with the run's own task for each append that is tried: if
    /// another command lands first and replaces the task, this one must not land.
    pub task: Option<&'a TaskId>,
}

impl With<'_> {
    fn check(&self, seen: &Snapshot) -> Result<(), EngineError> {
        match self.task.filter(|task| seen.has_replaced(task)) {
            Some(task) => Err(EngineError::Superseded { task: task.clone() }),
            None => Ok(()),
        }
    }
}

impl Ledger {
    /// Carries out `command` on `run`, once, no matter how often the store fails on the way.
    pub async fn commit(&self, run: &RunId, command: &Command) -> Result<Committed, EngineError> {
        self.commit_on(None, run, command, With::default()).await
    }

    /// Starts a run. Most ids are new, so this does not read first: a start costs one write and no read.
    pub(crate) async fn start(
        &self,
        run: &RunId,
        queued: RunQueued,
        claim: Option<Starter>,
    ) -> Result<Committed, EngineError> {
        let start = Command::Start { queued, claim };
        self.commit_on(Some(Snapshot::Absent), run, &start, With::default()).await
    }

    /// Asks a child of `parent` to cancel. Does nothing to a run that has the id of the child and another parent: the
    /// author of the parent chose an id that was taken.
    pub(crate) async fn cancel_child(
        &self,
        parent: &RunId,
        child: &RunId,
        note: Note,
    ) -> Result<(), EngineError> {
        match self.summary(child).await? {
            Some(summary) if summary.parent.as_ref() == Some(parent) => {
                self.commit(child, &Command::Cancel(note)).await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Carries out `command`, decided first on what the caller has just read, if anything.
    pub async fn commit_on(
        &self,
        seen: Option<Snapshot>,
        run: &RunId,
        command: &Command,
        with: With<'_>,
    ) -> Result<Committed, EngineError> {
        let command = &*self.secrets.kept_out(run, command);
        let write = self.entropy.write_id();
        let mut window = RetryWindow::new(self, "a command");
        self.ask_time(&mut window).await?;
        let mut source = CommandWrite { ledger: self, run, command, with, write, seen };
        self.write(&mut source, &mut window).await
    }

    /// Returns the store's time, for a start that names times.
    pub(crate) async fn store_time(&self) -> Result<Millis, EngineError> {
        self.ask_time(&mut RetryWindow::new(self, "reading the time")).await?;
        Ok(self.clock.now())
    }

    /// Asks the store for the time: a task that is ready now is ready by the store's clock, not by a client's.
    async fn ask_time(&self, window: &mut RetryWindow) -> Result<(), EngineError> {
        if let Some(time) = self.asks.as_ref().filter(|time| time.is_old()) {
            let sent = self.clock.elapsed();
            let now = window.retry(self, || async { Ok(self.store.now().await?) }).await?;
            time.set(now, sent);
        }
        Ok(())
    }

    /// Whether a command with this id was taken before `base`. Events that cannot be decoded are skipped.
    pub(crate) async fn was_taken(&self, run: &RunId, id: &str, base: Seq) -> Result<bool, EngineError> {
        let mut after = Seq::ZERO;
        while after.next() < base {
            let page = self.store.read(run, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            let early = page.iter().take_while(|record| record.seq < base);
            let mut events = early.filter_map(|record| decode(record.seq, &record.body).ok());
            if events.any(|recorded| command_id(&recorded.event).as_deref() == Some(id)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A command on its way into a log.
struct CommandWrite<'a> {
    ledger: &'a Ledger,
    run: &'a RunId,
    command: &'a Command,
    with: With<'a>,
    write: WriteId,
    /// What the next decision is made on; none: read it.
    seen: Option<Snapshot>,
}

impl Source for CommandWrite<'_> {
    const DOING: &'static str = "a command";
    const CONFLICTS_MAX: u32 = 1_000;
    type Done = Committed;
    type Error = EngineError;

    async fn prepare(
        &mut self,
        window: &mut RetryWindow,
        tried: Tried,
    ) -> Result<Next<Committed>, EngineError> {
        let Self { ledger, run, write, .. } = *self;
        let assumed = self.seen.take();
        let is_assumed_absent = matches!(assumed, Some(Snapshot::Absent));
        let seen = match assumed {
            Some(seen) => seen,
            None => window.retry(ledger, || ledger.look_to_change(run)).await?,
        };
        // Searched after the read: an append that lands later than that conflicts with this one.
        if let Some(from) = tried.doubt {
            let search = || ledger.landed(run, from, |landed| landed == write);
            if let Some(landed) = window.retry(ledger, search).await? {
                let workflow = seen.summary().map_or("", |summary| summary.workflow.as_str());
                ledger.meter.work(workflow).committed(&landed.records);
                return Ok(Next::Done(landed));
            }
        }
        let now = ledger.clock.now();
        let (seen, mut decision) = match self.decide(window, seen, now).await {
            // A start is decided before a read. If the run exists, its deadline may have passed since.
            Err(EngineError::Refused { .. }) if is_assumed_absent => return Ok(Next::Again),
            decided => decided?,
        };
        self.with.check(&seen)?;
        if decision.events.is_empty() {
            return Ok(Next::Done(nothing(&seen)));
        }
        let mut sealed = seal(place(&seen, write), std::mem::take(&mut decision.events));
        let Some(row) = window.retry(ledger, || ledger.row(run, &seen, &sealed)).await? else {
            return Ok(Next::Again);
        };
        let basis = PlanBasis { task: seen.task(), updated_at: seen.updated_at(), node: None, now };
        let planned = plan_tasks(&decision, &sealed, &row, basis);
        let about = Announcement::of(&sealed, &row);
        let work = ledger.meter.work(row.workflow.as_str());
        let mut tasks = self.with.extra.clone();
        tasks.extend(planned.tasks);
        let after = seen.summary().map_or(Seq::ZERO, |summary| summary.as_of);
        let bodies = std::mem::take(&mut sealed.bodies);
        let append = Append { run: run.clone(), after, bodies, row: Some(Box::new(row)), tasks };
        let prepared = Prepared { sealed, decision, task: planned.advance, about, work };
        Ok(Next::Append(Box::new(append), Box::new(prepared)))
    }

    fn landed(&mut self, prepared: Prepared, end: Seq, _sent: Duration) -> Result<Committed, EngineError> {
        let Prepared { sealed, decision, task, .. } = prepared;
        let head = sealed.heads.last().copied().unwrap_or_default();
        Ok(Committed { end, records: sealed.records, task, head, unawaited: decision.unawaited })
    }

    /// Pauses for a random time that grows with each lost race, measured by what an append takes here. Claims and
    /// repairs never pause, nor does an owner: so a crowd outside cannot keep a run from its own log.
    async fn give_way(&self, conflicts: u32, sent: Duration) {
        let doublings = conflicts.saturating_sub(LOST_FREELY).min(GIVE_WAY_DOUBLINGS);
        if doublings == 0 || matches!(self.command, Command::Claim(_) | Command::Heal(_)) {
            return;
        }
        let took = self.ledger.clock.elapsed().saturating_sub(sent).max(GIVE_WAY_MIN);
        let share = self.ledger.entropy.next() % 1_000;
        pause((took * (1 << doublings)).mul_f64(share as f64 / 1_000.0)).await;
    }
}

impl CommandWrite<'_> {
    /// Decides the command on as much of the log as it takes: the row, the state since the run last began, and, if that
    /// does not tell whether the command was taken before, the events before that.
    async fn decide(
        &self,
        window: &mut RetryWindow,
        seen: Snapshot,
        now: Millis,
    ) -> Result<(Snapshot, Decision), EngineError> {
        let Self { ledger, run, command, .. } = *self;
        let refused = |refusal| EngineError::Refused { run: run.clone(), refusal };
        let mut loaded = match seen {
            Snapshot::Full(loaded) => loaded,
            seen => match decide(seen.view(), command, now, &ledger.limits) {
                Err(Refusal::NeedsHistory) => Box::new(window.retry(ledger, || ledger.load(run)).await?),
                decision => return Ok((seen, decision.map_err(refused)?)),
            },
        };
        if let Some(id) = loaded.state.unsure_of(command) {
            let base = loaded.state.summary.base;
            if window.retry(ledger, || ledger.was_taken(run, id, base)).await? {
                loaded.state.recall(id);
            }
        }
        let seen = Snapshot::Full(loaded);
        let decision = decide(seen.view(), command, now, &ledger.limits).map_err(refused)?;
        Ok((seen, decision))
    }
}

impl Ledger {
    /// The row after the append; none if the run moved meanwhile and must be read again.
    async fn row(
        &self,
        run: &RunId,
        seen: &Snapshot,
        sealed: &Sealed,
    ) -> Result<Option<Summary>, EngineError> {
        let corrupt = |corrupt| EngineError::Corrupt { run: run.clone(), corrupt };
        let Some(summary) = seen.summary() else {
            let mut row = Summary::first(run, &sealed.records[0], sealed.heads[0]).map_err(corrupt)?;
            for (recorded, head) in sealed.records.iter().zip(&sealed.heads).skip(1) {
                row.fold(recorded, *head).map_err(|stuck| stuck_to(run, stuck))?;
            }
            return Ok(Some(row));
        };
        if !leaves_branch(sealed) {
            return row_after(summary, sealed).map(Some).map_err(|stuck| stuck_to(run, stuck));
        }
        let (mut history, _) = self.history_to(run, summary.base, summary.as_of).await?;
        if history.last().map(|recorded| recorded.seq) != Some(summary.as_of) {
            return Ok(None);
        }
        history.extend(sealed.records.iter().cloned());
        let head = sealed.heads.last().copied().unwrap_or_default();
        Ok(Some(derive(run, &history, head).map_err(corrupt)?.summary))
    }
}

fn place(seen: &Snapshot, write: WriteId) -> Place {
    let first = Place { after: Seq::ZERO, prev: Hash::ZERO, branch: BranchId::ROOT, epoch: None, write };
    seen.summary().map_or(first, |summary| Place {
        after: summary.as_of,
        prev: summary.head,
        branch: summary.branch,
        ..first
    })
}

fn nothing(seen: &Snapshot) -> Committed {
    let end = seen.summary().map_or(Seq::ZERO, |summary| summary.as_of);
    let head = seen.summary().map_or(Hash::ZERO, |summary| summary.head);
    Committed { end, records: Vec::new(), task: None, head, unawaited: false }
}

fn stuck_to(run: &RunId, stuck: Stuck) -> EngineError {
    match stuck {
        Stuck::NeedsHistory => EngineError::Refused { run: run.clone(), refusal: Refusal::NeedsHistory },
        Stuck::Corrupt(corrupt) => EngineError::Corrupt { run: run.clone(), corrupt },
    }
}
