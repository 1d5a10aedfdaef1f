//! Logs: compared from the beginning, appended from where they end, read back.

use goldseam_core::codec::{chain, decode};
use goldseam_core::task::Task;
use goldseam_core::{Corrupt, RunId, Seq};
use goldseam_store::{Append, Expect, Row, StoreError, TaskChange, TaskFilter, Written};

use super::Copier;
use super::crew::each;
use super::report::{CopyFinding, CopyReport, Fate, Progress, Stage};
use super::session::Session;
use super::side::{Listed, Pages, Runs, count};
use super::survey::{Print, Survey};
use super::tasks::carried;
use goldseam_engine::ledger::commit::Patience;
use goldseam_engine::ledger::error::EngineError;

/// How often an append may find that somebody else has moved the log: only another copy does.
const CONFLICTS_MAX: u32 = 100;

/// What became of a run.
#[derive(Debug)]
struct Carried {
    fate: Fate,
    /// Events that the source has, and how many of them were there already.
    events: (u64, u64),
    in_flight: bool,
    damage: Option<CopyFinding>,
    /// Its task came with its last events.
    with_task: bool,
}

/// What stands at the destination.
enum Brought {
    /// So many events were there, and now all are.
    All(u64),
    /// It is another log.
    Other(String),
}

/// Runs of a copy: as long as it is ours.
struct Ours<'a> {
    copier: &'a Copier,
    session: &'a Session,
    runs: Runs<'a>,
}

impl Pages for Ours<'_> {
    type Item = Listed;

    async fn next(&mut self) -> Result<Option<Vec<Listed>>, EngineError> {
        self.copier.must_be_ours(self.session).await?;
        self.runs.next().await
    }
}

impl Copier {
    pub(super) async fn carry_logs(
        &self,
        session: &Session,
        report: &mut CopyReport,
    ) -> Result<(), EngineError> {
        self.tell(Progress { stage: Stage::Counting, done: 0, total: 0 });
        let total = count(Runs::of(&self.from)).await?;
        let runs = Ours { copier: self, session, runs: Runs::of(&self.from) };
        let mut done = 0;
        let carry = |listed: Listed| {
            let (copier, session) = (self.clone(), session.clone());
            async move { copier.carry_log(&session, &listed).await }
        };
        each(runs, carry, |carried: Carried| {
            carried.count(report);
            done += 1;
            self.tell(Progress { stage: Stage::Logs, done, total });
        })
        .await
    }

    async fn carry_log(&self, session: &Session, listed: &Listed) -> Result<Carried, EngineError> {
        let log = match self.survey(listed).await {
            Ok(log) => log,
            // A gap too wide to be marked.
            Err(EngineError::Corrupt { corrupt, .. }) => return Ok(Carried::lost(&listed.run, &corrupt)),
            Err(error) => return Err(error),
        };
        if log.end() == Seq::ZERO {
            return Ok(Carried::lost(&listed.run, &Corrupt::new(Seq(1), "the log is empty")));
        }
        let own = self.own_task(session, listed, &log).await?;
        let there = match self.bring_surely(session, &log, own.as_ref()).await? {
            Brought::All(there) => there,
            Brought::Other(what) => return Ok(Carried::other(&log, what)),
        };
        let whole = there == log.end().0;
        if !whole && session.is_dry() {
            return Ok(Carried::of(&log, there, own.as_ref()));
        }
        if let Some(first) = log.tombstone.filter(|_| !session.is_dry()) {
            self.to.ask("removing what is archived", || self.to.store().trim(&log.run, first)).await?;
        }
        if Print::read(&self.to, &log.run).await? != Some(log.print) {
            return Ok(Carried::other(&log, "its log there is another one".to_owned()));
        }
        if !session.is_dry() {
            self.settle_row(&log, own.as_ref()).await?;
        }
        Ok(Carried::of(&log, there, own.as_ref()))
    }

    /// The task that moves the run, as it begins at the destination.
    async fn own_task(
        &self,
        session: &Session,
        listed: &Listed,
        log: &Survey,
    ) -> Result<Option<Task>, EngineError> {
        if log.row.as_ref().is_some_and(|row| row.status.is_terminal()) {
            return Ok(None);
        }
        let named = listed.row.as_ref().and_then(|row| row.task.as_ref());
        let found = match named {
            Some(id) => self.from.task(id).await?,
            None => {
                let run = Some(listed.run.clone());
                let filter = TaskFilter { run, advance: Some(true), limit: 16, ..TaskFilter::default() };
                self.from.tasks(filter).await?.into_iter().find(|task| task.state.is_live())
            }
        };
        Ok(found.map(|task| carried(task, session)))
    }

    /// Brings what is missing, however often the store fails on the way.
    async fn bring_surely(
        &self,
        session: &Session,
        log: &Survey,
        own: Option<&Task>,
    ) -> Result<Brought, EngineError> {
        let mut patience = Patience::new(&self.to.ledger, "copying a log");
        let mut first = None;
        for _ in 0..CONFLICTS_MAX {
            let known = self.to.head(&log.run).await?.map_or(Seq::ZERO, |head| head.end);
            let there = *first.get_or_insert(known.0);
            match self.bring(session, log, (known, own)).await {
                Ok(Some(other)) => return Ok(Brought::Other(other)),
                Ok(None) => return Ok(Brought::All(there)),
                Err(EngineError::Store(StoreError::Conflict { .. })) => {}
                Err(EngineError::Store(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. }))) => {
                    patience.wait(&self.to.ledger, error).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::Patience { doing: "copying a log that others write", seconds: 0 })
    }

    /// Compares what is there up to `known` and appends the rest. Says why, if it is another log.
    async fn bring(
        &self,
        session: &Session,
        log: &Survey,
        (mut known, own): (Seq, Option<&Task>),
    ) -> Result<Option<String>, EngineError> {
        if known > log.end() {
            let (there, here) = (known, log.end());
            return Ok(Some(format!("its log ends at {there} there and at {here} here")));
        }
        if let Some(first) = log.tombstone.filter(|first| known == first.before() && !session.is_dry())
            && self.bring_tombstone(log, first).await?
        {
            return Ok(None);
        }
        let mut again = log.again(&self.from);
        // A log that is all there is compared by its fingerprint.
        while known < log.end()
            && let Some(mut stretch) = again.next().await?
        {
            let old = usize::try_from(known.0.saturating_sub(stretch.after.0)).unwrap_or(usize::MAX);
            let new = stretch.texts.split_off(old.min(stretch.texts.len()));
            if let Some(at) = self.first_unlike(&log.run, stretch.after, &stretch.texts).await? {
                return Ok(Some(format!("event {at} of its log there is another one")));
            }
            if new.is_empty() || session.is_dry() {
                continue;
            }
            let last = Seq(known.0 + new.len() as u64) == log.end();
            let (row, own) = if last { (log.row.clone(), own) } else { (None, None) };
            let tasks = own.map(|task| TaskChange::Create(Box::new(task.clone()))).into_iter().collect();
            let append = Append { run: log.run.clone(), after: known, bodies: new, row, tasks };
            known = self.to.store().append(append).await?;
        }
        Ok(None)
    }

    /// Appends the tombstone of a log that was copied whole before it was archived. Whether it was that log.
    async fn bring_tombstone(&self, log: &Survey, first: Seq) -> Result<bool, EngineError> {
        let (after, before) = (first.before(), first.before().before());
        let here = self.from.read(&log.run, after, 1).await?.pop();
        let there = self.to.read(&log.run, before, 1).await?.pop();
        let (Some(here), Some(there)) = (here, there) else { return Ok(false) };
        if decode(here.seq, &here.body).map(|tombstone| tombstone.prev) != Ok(chain(&there.body)) {
            return Ok(false);
        }
        let (run, row, tasks) = (log.run.clone(), log.row.clone(), Vec::new());
        self.to.store().append(Append { run, after, bodies: vec![here.body], row, tasks }).await?;
        Ok(true)
    }

    /// The first position after `after` at which the destination does not have these texts.
    async fn first_unlike(
        &self,
        run: &RunId,
        after: Seq,
        texts: &[String],
    ) -> Result<Option<Seq>, EngineError> {
        if texts.is_empty() {
            return Ok(None);
        }
        let limit = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        let there = self.to.read(run, after, limit).await?;
        let mut seq = after;
        for (at, text) in texts.iter().enumerate() {
            seq = seq.next();
            if there.get(at).is_none_or(|record| record.seq != seq || record.body != *text) {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }

    /// The row is what follows from the log, and points at the run's task.
    async fn settle_row(&self, log: &Survey, own: Option<&Task>) -> Result<(), EngineError> {
        let Some(summary) = &log.row else { return Ok(()) };
        for _ in 0..CONFLICTS_MAX {
            let found = self.to.head(&log.run).await?.and_then(|head| head.row);
            let task = own.map(|task| task.id.clone());
            if found.as_ref().is_some_and(|row| row.summary == **summary && row.task == task) {
                return Ok(());
            }
            let expect = found.as_ref().map_or(Expect::Absent, |row| Expect::Version(row.version()));
            let updated_at = found.map_or(summary.last_event_at, |row| row.updated_at);
            let row = Row { summary: (**summary).clone(), task, updated_at };
            let put = || self.to.store().put_row(row.clone(), expect);
            if self.to.ask("writing a row", put).await? == Written::Done {
                return Ok(());
            }
        }
        Err(EngineError::Patience { doing: "writing a row that others write", seconds: 0 })
    }

    /// Whether both stores have the same log: by where it ends, and the event there.
    pub(super) async fn is_like(&self, run: &RunId) -> Result<bool, EngineError> {
        let Some(here) = self.from.head(run).await? else { return Ok(true) };
        let there = self.to.head(run).await?.map_or(Seq::ZERO, |head| head.end);
        if here.end != there {
            return Ok(false);
        }
        let last = |records: Vec<goldseam_store::Record>| records.into_iter().next_back();
        let here = last(self.from.read(run, there.before(), 1).await?);
        Ok(here == last(self.to.read(run, there.before(), 1).await?))
    }
}

impl Carried {
    fn of(log: &Survey, there: u64, own: Option<&Task>) -> Self {
        let (end, run) = (log.end().0, log.run.as_str());
        let damage = log.corrupt.as_ref().map(|corrupt| {
            let what = format!("{corrupt}; it is copied as it is, and as damaged there");
            CopyFinding::new("K1", ("run", run), what)
        });
        let fate = if there == end { Fate::There } else { Fate::Copied };
        let moves = log.row.as_ref().is_some_and(|row| row.status.is_active());
        let in_flight = moves && log.corrupt.is_none();
        let with_task = there < end && own.is_some();
        Self { fate, events: (end, there), in_flight, damage, with_task }
    }

    fn left(events: u64, finding: CopyFinding) -> Self {
        let fate = Fate::LeftBehind(finding);
        Self { fate, events: (events, 0), in_flight: false, damage: None, with_task: false }
    }

    fn other(log: &Survey, what: String) -> Self {
        Self::left(log.end().0, CopyFinding::new("GS0403", ("run", log.run.as_str()), what))
    }

    fn lost(run: &RunId, corrupt: &Corrupt) -> Self {
        Self::left(0, CopyFinding::new("K1", ("run", run.as_str()), format!("it stays behind: {corrupt}")))
    }

    fn count(self, report: &mut CopyReport) {
        let Self { fate, events: (end, there), in_flight, damage, with_task } = self;
        match &fate {
            Fate::LeftBehind(_) => report.events.left_behind += end,
            Fate::Copied | Fate::There => {
                report.events.there += there;
                report.events.copied += end - there;
            }
        }
        report.in_flight += u64::from(in_flight);
        report.damaged += u64::from(damage.is_some());
        report.brought_along += u64::from(with_task);
        let finding = fate.count(&mut report.runs);
        finding.into_iter().chain(damage).for_each(|finding| report.find(finding));
    }
}
