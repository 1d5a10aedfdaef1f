//! The one way a run changes: read, derive, decide, append. Again, if somebody was faster.
//!
//! Every append carries a write-id, and a retry of the same command keeps it: an outcome that is
//! unknown is settled by searching for it from the first intended position to the end.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::codec::{chain, decode, decode_all};
use goldseam_core::command::Starter;
use goldseam_core::decide::{Decision, Refusal, TaskMove, View};
use goldseam_core::event::{Event, RunQueued};
use goldseam_core::planted::{self, Bug};
use goldseam_core::recovery::Code;
use goldseam_core::seal::{Place, Sealed, leaves_branch, row_after, seal};
use goldseam_core::summary::Stuck;
use goldseam_core::task::{NewTask, Task};
use goldseam_core::{
    Command, Corrupt, Hash, Limits, Millis, NodeId, Payload, Recorded, RunId, Seq, State, Summary, TaskId,
    WriteId, derive,
};
use goldseam_store::{Append, Head, Record, Row, Store, StoreError, TaskChange};

use crate::ledger::clock::{Clock, StoreTime, pause};
use crate::ledger::delivery::delivery_task;
use crate::ledger::entropy::Entropy;
use crate::ledger::error::EngineError;
use crate::ledger::meter::Meter;
pub(crate) use crate::ledger::patience::Patience;
use crate::ledger::process::Process;
use crate::ledger::secrets::Secrets;

/// Events read from the store at a time.
const PAGE: u32 = 1_000;
/// Conflicts in a row before a command is given up as contended.
const CONFLICTS_MAX: u32 = 1_000;
/// Races that a command may lose before it lets others go first.
const LOST_FREELY: u32 = 2;
/// The least that it then waits for, at the most.
const GIVE_WAY_MIN: Duration = Duration::from_millis(1);
/// How often that doubles.
const GIVE_WAY_DOUBLINGS: u32 = 6;

/// Everything needed to change runs: the store, a clock, randomness and bounds.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Where runs are kept.
    pub store: Arc<dyn Store>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Names for writes.
    pub entropy: Arc<dyn Entropy>,
    /// Bounds.
    pub limits: Arc<Limits>,
    /// The clock above, for whoever has no heartbeat to set it by.
    pub(crate) asks: Option<Arc<StoreTime>>,
    pub(crate) meter: Meter,
    pub(crate) process: Arc<dyn Process>,
    pub(crate) secrets: Arc<Secrets>,
}

/// A run as it was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What its history says.
    pub state: State,
    /// Its advance task.
    pub task: Option<TaskId>,
    /// When its row was last written.
    pub updated_at: Millis,
    /// Whether the row is behind the log. It may name an advance task that has been replaced.
    pub is_behind: bool,
}

/// What a command did.
#[derive(Debug)]
pub struct Committed {
    /// Where the log ends now.
    pub end: Seq,
    /// What was appended; empty if there was nothing to do.
    pub records: Vec<Recorded>,
    /// The run's advance task, if the command made one.
    pub task: Option<TaskId>,
    /// Fingerprint of the last event.
    pub head: Hash,
    /// It is a signal that no open wait of the run looks for.
    pub unawaited: bool,
}

/// What a look at a run brought: its row if that is enough, else everything.
#[derive(Debug)]
pub(crate) enum Known {
    Absent,
    Row(Box<Summary>, Hints),
    Full(Box<Loaded>),
}

/// What a command goes with.
#[derive(Debug, Default)]
pub(crate) struct With<'a> {
    /// Further changes of tasks, in the same append.
    pub(crate) extra: Vec<TaskChange>,
    /// The advance task that the command acts for. Compared with the run's own task for each append that is tried: if
    /// another command lands first and replaces the task, this one must not land.
    pub(crate) task: Option<&'a TaskId>,
}

impl With<'_> {
    fn check(&self, known: &Known) -> Result<(), EngineError> {
        match self.task.filter(|task| known.has_replaced(task)) {
            Some(task) if !planted::is(Bug::TwoAtOnce) => Err(EngineError::Superseded { task: task.clone() }),
            _ => Ok(()),
        }
    }
}

/// What only the store knows of a run.
#[derive(Debug)]
pub(crate) struct Hints {
    task: Option<TaskId>,
    updated_at: Millis,
    is_behind: bool,
}

impl Known {
    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::Absent => View::Absent,
            Self::Row(summary, _) => View::Row(summary),
            Self::Full(loaded) => View::Full(&loaded.state),
        }
    }

    pub(crate) fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Absent => None,
            Self::Row(summary, _) => Some(summary),
            Self::Full(loaded) => Some(&loaded.state.summary),
        }
    }

    pub(crate) fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Absent => None,
            Self::Row(_, hints) => hints.task.as_ref(),
            Self::Full(loaded) => loaded.task.as_ref(),
        }
    }

    /// Whether the run has another advance task by now. A row that is behind its log proves nothing: where the row is
    /// written after the log, it may not name this task yet.
    pub(crate) fn has_replaced(&self, task: &TaskId) -> bool {
        let is_behind = match self {
            Self::Absent => true,
            Self::Row(_, hints) => hints.is_behind,
            Self::Full(loaded) => loaded.is_behind,
        };
        !is_behind && self.task().is_some_and(|own| own != task)
    }

    fn updated_at(&self) -> Millis {
        match self {
            Self::Absent => Millis::default(),
            Self::Row(_, hints) => hints.updated_at,
            Self::Full(loaded) => loaded.updated_at,
        }
    }
}

impl Ledger {
    /// Carries out `command` on `run`, once, however often the store fails on the way.
    pub async fn commit(&self, run: &RunId, command: &Command) -> Result<Committed, EngineError> {
        self.commit_with(run, command, Vec::new()).await
    }

    pub(crate) async fn commit_with(
        &self,
        run: &RunId,
        command: &Command,
        extra: Vec<TaskChange>,
    ) -> Result<Committed, EngineError> {
        self.commit_on(None, run, command, With { extra, task: None }).await
    }

    /// Starts a run. Most ids are new, so nobody looks before: a start costs one write and no read.
    pub(crate) async fn start(
        &self,
        run: &RunId,
        queued: RunQueued,
        claim: Option<Starter>,
    ) -> Result<Committed, EngineError> {
        let start = Command::Start { queued, claim };
        self.commit_on(Some(Known::Absent), run, &start, With::default()).await
    }

    /// Carries out `command` for somebody who has just looked.
    pub(crate) async fn commit_on(
        &self,
        mut seen: Option<Known>,
        run: &RunId,
        command: &Command,
        with: With<'_>,
    ) -> Result<Committed, EngineError> {
        let command = &*self.secrets.kept_out(run, command);
        let write = self.entropy.write_id();
        let mut patience = Patience::new(self, "a command");
        self.ask_time(&mut patience).await?;
        let (mut doubt, mut lost): (Option<Seq>, u32) = (None, 0);
        for _ in 0..CONFLICTS_MAX {
            let known = match seen.take() {
                Some(known) => known,
                None => patience.insist(self, || self.look_to_change(run)).await?,
            };
            if let Some(from) = doubt
                && let Some(landed) =
                    patience.insist(self, || self.landed(run, from, |landed| landed == write)).await?
            {
                return Ok(landed);
            }
            let now = self.clock.now();
            let (known, decision) = self.decided(&mut patience, known, run, (command, now)).await?;
            with.check(&known)?;
            if decision.events.is_empty() {
                return Ok(nothing(&known));
            }
            let mut tasks = with.extra.clone();
            hand_out(&mut tasks, &decision);
            let sealed = seal(self.place(&known, write), decision.events);
            let row = patience.insist(self, || self.row(run, &known, &sealed)).await?;
            let Some(row) = row else { continue };
            let old = Old { task: known.task(), updated_at: known.updated_at() };
            let task = plan(&mut tasks, &row, old, decision.task, now);
            tasks.extend(notice(&row, &sealed, None, now).map(|task| TaskChange::Create(Box::new(task))));
            let after = known.summary().map_or(Seq::ZERO, |summary| summary.as_of);
            let append =
                Append { run: run.clone(), after, bodies: sealed.bodies, row: Some(Box::new(row)), tasks };
            let sent = self.clock.elapsed();
            let mut appended = self.store.append(append).await;
            if planted::is(Bug::UnknownIsDone) && matches!(appended, Err(StoreError::Unknown { .. })) {
                appended = Ok(after);
            }
            match appended {
                Ok(end) => {
                    self.process.committed(decision.task, now);
                    let head = sealed.heads.last().copied().unwrap_or_default();
                    let unawaited = decision.unawaited;
                    return Ok(Committed { end, records: sealed.records, task, head, unawaited });
                }
                Err(StoreError::Conflict { .. }) => {
                    lost += 1;
                    self.give_way(command, lost, sent).await;
                }
                Err(error @ StoreError::Busy { .. }) => patience.wait(self, error).await?,
                Err(error @ StoreError::Unknown { .. }) => {
                    doubt.get_or_insert(after);
                    patience.wait(self, error).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(EngineError::Patience { doing: "a command against many others", seconds: 0 })
    }

    /// What is ready now is ready by the store's clock, whatever the machine of a client thinks.
    async fn ask_time(&self, patience: &mut Patience) -> Result<(), EngineError> {
        if let Some(time) = self.asks.as_ref().filter(|time| time.is_old()) {
            let sent = self.clock.elapsed();
            let told = patience.insist(self, || async { Ok(self.store.now().await?) }).await?;
            time.set(told, sent);
        }
        Ok(())
    }

    /// Pauses a command that has lost the race for the end of the log again and again, for a random time that grows,
    /// measured by what an append takes here. An owner never pauses, nor does whoever is to become one or to mend the
    /// run: so a crowd outside thins itself out, and cannot keep a run from its own log.
    async fn give_way(&self, command: &Command, lost: u32, sent: Duration) {
        let doublings = lost.saturating_sub(LOST_FREELY).min(GIVE_WAY_DOUBLINGS);
        if doublings == 0 || matches!(command, Command::Claim(_) | Command::Heal(_)) {
            return;
        }
        let took = self.clock.elapsed().saturating_sub(sent).max(GIVE_WAY_MIN);
        let share = self.entropy.next() % 1_000;
        pause((took * (1 << doublings)).mul_f64(share as f64 / 1_000.0)).await;
    }

    fn place(&self, known: &Known, write: WriteId) -> Place {
        let first = Place {
            after: Seq::ZERO,
            prev: Hash::ZERO,
            branch: goldseam_core::BranchId::ROOT,
            epoch: None,
            write,
        };
        known.summary().map_or(first, |summary| Place {
            after: summary.as_of,
            prev: summary.head,
            branch: summary.branch,
            ..first
        })
    }

    /// The row after the append; none if the run moved meanwhile and everything must be read again.
    async fn row(&self, run: &RunId, known: &Known, sealed: &Sealed) -> Result<Option<Summary>, EngineError> {
        let corrupt = |corrupt| EngineError::Corrupt { run: run.clone(), corrupt };
        let Some(summary) = known.summary() else {
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

    /// What a command is decided on. A run that K1 has parked is read whole: while its log is damaged, nothing takes effect.
    async fn look_to_change(&self, run: &RunId) -> Result<Known, EngineError> {
        let known = self.look(run).await?;
        match &known {
            Known::Row(summary, _) if is_parked_as_damaged(summary) => {
                Ok(Known::Full(Box::new(self.load(run).await?)))
            }
            _ => Ok(known),
        }
    }

    pub(crate) async fn look(&self, run: &RunId) -> Result<Known, EngineError> {
        let Some(Head { end, row, .. }) = self.store.head(run).await? else { return Ok(Known::Absent) };
        let Some(Row { mut summary, task, updated_at }) = row.filter(|row| is_credible(&row.summary, end))
        else {
            return Ok(Known::Full(Box::new(self.load(run).await?)));
        };
        let is_behind = summary.as_of < end;
        while summary.as_of < end {
            let records = self.store.read(run, summary.as_of, PAGE).await?;
            if records.is_empty() {
                break;
            }
            for record in records {
                let recorded = decode(record.seq, &record.body)
                    .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })?;
                match summary.fold(&recorded, chain(&record.body)) {
                    Ok(()) => {}
                    Err(Stuck::NeedsHistory) => return Ok(Known::Full(Box::new(self.load(run).await?))),
                    Err(Stuck::Corrupt(corrupt)) => {
                        return Err(EngineError::Corrupt { run: run.clone(), corrupt });
                    }
                }
            }
        }
        Ok(Known::Row(Box::new(summary), Hints { task, updated_at, is_behind }))
    }

    /// The run's cached row, folded on to the end of its log.
    pub async fn summary(&self, run: &RunId) -> Result<Option<Summary>, EngineError> {
        Ok(self.look(run).await?.summary().cloned())
    }

    /// Reads the whole history that matters and derives the state.
    pub async fn load(&self, run: &RunId) -> Result<Loaded, EngineError> {
        let refused = || EngineError::Refused { run: run.clone(), refusal: Refusal::NoSuchRun };
        let head = self.store.head(run).await?.ok_or_else(refused)?;
        let end = head.end;
        let base = |row: &Row| if is_credible(&row.summary, end) { row.summary.base } else { Seq(1) };
        let is_behind = head.row.as_ref().is_none_or(|row| row.summary.as_of < end);
        let (base, task, updated_at) =
            head.row.map_or((Seq(1), None, Millis(0)), |row| (base(&row), row.task, row.updated_at));
        let (history, hash) = self.history_to(run, base, end).await?;
        let state = derive(run, &history, hash)
            .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })?;
        Ok(Loaded { state, task, updated_at, is_behind })
    }

    /// The state of a run at `end` or later, if its row says that loading may begin at `base`; for as long as
    /// patience lasts.
    pub(crate) async fn load_from(&self, run: &RunId, base: Seq, end: Seq) -> Result<State, EngineError> {
        let read = || async {
            let (history, hash) = self.history_to(run, base, end).await?;
            derive(run, &history, hash).map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })
        };
        Patience::new(self, "loading a run").insist(self, read).await
    }

    /// The same, for as long as patience lasts.
    pub(crate) async fn load_surely(&self, run: &RunId) -> Result<Loaded, EngineError> {
        Patience::new(self, "loading a run").insist(self, || self.load(run)).await
    }

    /// Everything from `base` on, preceded by the mail that `base` carries, with the last fingerprint.
    pub async fn history(&self, run: &RunId, base: Seq) -> Result<(Vec<Recorded>, Hash), EngineError> {
        self.history_to(run, base, Seq(u64::MAX)).await
    }

    /// The same for somebody who knows that the log goes to `end` and need not know what came later: it costs
    /// one read less.
    pub(crate) async fn history_to(
        &self,
        run: &RunId,
        base: Seq,
        end: Seq,
    ) -> Result<(Vec<Recorded>, Hash), EngineError> {
        let corrupt = |corrupt: Corrupt| EngineError::Corrupt { run: run.clone(), corrupt };
        let mut history: Vec<Recorded> = Vec::new();
        let (mut after, mut prev) = (base.before(), None);
        while after < end {
            let page = self.store.read(run, after, PAGE).await?;
            let Some(first) = page.first() else { break };
            let from = match prev {
                Some(prev) => prev,
                // Everything before a tombstone may be gone, wherever a late row says that loading begins.
                None if first.seq > after.next() && is_tombstone(first) => {
                    after = first.seq.before();
                    decode(first.seq, &first.body).map_err(corrupt)?.prev
                }
                None if base <= Seq(1) => Hash::ZERO,
                None => decode(first.seq, &first.body).map_err(corrupt)?.prev,
            };
            let texts = page.iter().map(|record| (record.seq, record.body.as_str()));
            let (decoded, hash) = decode_all(after, from, texts).map_err(corrupt)?;
            after = decoded.last().map_or(after, |recorded| recorded.seq);
            prev = Some(hash);
            history.extend(decoded);
        }
        let carried = match history.first().map(|first| &first.event) {
            Some(Event::BranchOpened(opened)) => opened.carried.clone(),
            _ => None,
        };
        let mut mail = Vec::new();
        for seq in carried.iter().flat_map(|carried| &carried.mail) {
            for record in self.store.read(run, seq.before(), 1).await? {
                mail.push(decode(record.seq, &record.body).map_err(corrupt)?);
            }
        }
        mail.extend(history);
        Ok((mail, prev.unwrap_or(Hash::ZERO)))
    }

    /// What the wanted write put there after `from`; none if it has not landed.
    pub(crate) async fn landed(
        &self,
        run: &RunId,
        from: Seq,
        is_wanted: impl Fn(WriteId) -> bool,
    ) -> Result<Option<Committed>, EngineError> {
        let mut after = from;
        let mut found: Option<Committed> = None;
        loop {
            let page = self.store.read(run, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = last.seq;
            for record in page {
                let recorded = decode(record.seq, &record.body)
                    .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })?;
                if is_wanted(recorded.write) {
                    let landed = found.get_or_insert(Committed {
                        end: recorded.seq,
                        records: Vec::new(),
                        task: None,
                        head: Hash::ZERO,
                        unawaited: false,
                    });
                    landed.end = recorded.seq;
                    landed.head = chain(&record.body);
                    landed.records.push(recorded);
                }
            }
        }
    }
}

/// Whether this event stands for a whole log.
pub(crate) fn is_tombstone(record: &Record) -> bool {
    decode(record.seq, &record.body).is_ok_and(|recorded| matches!(recorded.event, Event::RunPruned(_)))
}

/// Whether rule K1 has parked the run.
fn is_parked_as_damaged(row: &Summary) -> bool {
    row.parked
        && row.trouble.as_ref().is_some_and(|trouble| trouble.code.as_deref() == Some(Code::K1.as_str()))
}

/// Whether a row may be believed: it agrees with itself and is not ahead of its log.
fn is_credible(row: &Summary, end: Seq) -> bool {
    row.as_of <= end && row.is_coherent()
}

/// The task by which a parent learns that its child has ended, made with the end itself.
pub(crate) fn notice(row: &Summary, sealed: &Sealed, node: Option<&NodeId>, now: Millis) -> Option<Task> {
    let parent = row.parent.as_ref()?;
    let ended = sealed.records.iter().any(|recorded| recorded.event.is_terminal());
    ended.then(|| delivery_task(parent, &row.run, node, now))
}

fn nothing(known: &Known) -> Committed {
    let (end, head) =
        known.summary().map_or((Seq::ZERO, Hash::ZERO), |summary| (summary.as_of, summary.head));
    Committed { end, records: Vec::new(), task: None, head, unawaited: false }
}

fn stuck_to(run: &RunId, stuck: Stuck) -> EngineError {
    match stuck {
        Stuck::NeedsHistory => EngineError::Refused { run: run.clone(), refusal: Refusal::NeedsHistory },
        Stuck::Corrupt(corrupt) => EngineError::Corrupt { run: run.clone(), corrupt },
    }
}

/// The advance task that a run had, and when its row was last written.
#[derive(Clone, Copy)]
pub(crate) struct Old<'a> {
    pub(crate) task: Option<&'a TaskId>,
    pub(crate) updated_at: Millis,
}

/// Turns what becomes of the advance task into changes for the store. Returns the id of a new one.
pub(crate) fn plan(
    tasks: &mut Vec<TaskChange>,
    row: &Summary,
    Old { task: old, updated_at }: Old<'_>,
    task: TaskMove,
    now: Millis,
) -> Option<TaskId> {
    match task {
        TaskMove::Keep => {}
        TaskMove::Wake => tasks.push(TaskChange::Wake { at: now }),
        TaskMove::Rest(run_at) => tasks.extend(old.map(|id| TaskChange::Rest { task: id.clone(), run_at })),
        TaskMove::Remove => tasks.extend(old.map(|id| TaskChange::Remove { task: id.clone() })),
        TaskMove::Renew(run_at) => {
            tasks.extend(old.map(|id| TaskChange::Remove { task: id.clone() }));
            let key = Some(format!("{}:advance:{}", row.run, updated_at.0));
            let new = Task { run_at, key, ..advance_task(row, now) };
            let id = new.id.clone();
            tasks.push(TaskChange::Create(Box::new(new)));
            return Some(id);
        }
        TaskMove::Ready | TaskMove::Held => {
            tasks.extend(old.map(|id| TaskChange::Remove { task: id.clone() }));
            let ready = advance_task(row, now);
            let owner = row.owner.as_ref().filter(|_| task == TaskMove::Held).map(NodeId::as_str);
            let new = owner.map_or_else(|| ready.clone(), |owner| ready.clone().claimed(owner, now));
            let id = new.id.clone();
            tasks.push(TaskChange::Create(Box::new(new)));
            return Some(id);
        }
    }
    None
}

/// Adds what becomes of remote steps' tasks: made first, as one append may make and drop the same one.
pub(crate) fn hand_out(tasks: &mut Vec<TaskChange>, decision: &Decision) {
    let Decision { handed, dropped, .. } = decision;
    tasks.extend(handed.iter().map(|task| TaskChange::Create(Box::new(task.clone()))));
    tasks.extend(dropped.iter().map(|task| TaskChange::Cancel { task: task.clone() }));
}

/// A new advance task for the run, ready now.
pub(crate) fn advance_task(row: &Summary, now: Millis) -> Task {
    let new = NewTask {
        id: Task::advance_id(&row.run, row.as_of.0),
        kind: Task::advance_kind(row.workflow.as_str(), row.version),
        queue: row.queue.clone(),
        lane: None,
        priority: row.priority,
        key: None,
        run_at: now,
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    Task { run: Some(row.run.clone()), ..new.into_task(now) }
}
