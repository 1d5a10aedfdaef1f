//! The copying of logs: compared from the start, appended at their end, read back.

use std::collections::HashSet;

use goldseam_core::codec::{chain, decode};
use goldseam_core::task::Task;
use goldseam_core::{Corrupt, Millis, RunId, Seq};
use goldseam_store::{Append, Expect, Head, Row, StoreError, TaskChange, TaskFilter, Written};

use super::Copier;
use super::concurrent::each;
use super::report::{CopyFinding, CopyProgress, CopyReport, CopyStage, RecordFate, RecordName};
use super::session::Session;
use super::side::{ListedRun, Pages, Runs, count};
use super::survey::{Print, Survey};
use super::tasks::carried;
use goldseam_engine::ledger::error::EngineError;
use goldseam_engine::ledger::retry::RetryWindow;

/// Maximum number of append conflicts per log; only another copy causes them.
const CONFLICTS_MAX: u32 = 100;

/// The result of copying a run.
#[derive(Debug)]
struct CopiedRun {
    fate: RecordFate,
    /// Number of events in the source, and how many of them were already at the destination.
    events: (u64, u64),
    in_flight: bool,
    damage: Option<CopyFinding>,
    /// Whether its task was written with its last events.
    with_task: bool,
    /// Children whose end its log records.
    ended_children: Vec<RunId>,
}

/// The log at the destination.
enum Brought {
    /// Complete; this number of events had been there before.
    All(u64),
    /// A different log.
    Other(String),
}

/// The runs of a copy; fails once another copy has taken over.
struct Ours<'a> {
    copier: &'a Copier,
    session: &'a Session,
    runs: Runs<'a>,
}

impl Pages for Ours<'_> {
    type Item = ListedRun;

    async fn next(&mut self) -> Result<Option<Vec<ListedRun>>, EngineError> {
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
        self.report_progress(CopyProgress { stage: CopyStage::Counting, done: 0, total: 0 });
        // Counting the runs of a store in use would take as long as reading them.
        let total = if session.cut().is_some() { 0 } else { count(Runs::of(&self.from)).await? };
        let mut ended = HashSet::new();
        let runs = Ours { copier: self, session, runs: Runs::of(&self.from) };
        let mut done = 0;
        let carry = |listed: ListedRun| {
            let copier = self.clone();
            let session = session.clone();
            async move { copier.carry_if_due(&session, &listed).await }
        };
        each(runs, carry, |carried: Option<CopiedRun>| {
            let Some(mut carried) = carried else { return };
            if session.cut().is_some() {
                ended.extend(std::mem::take(&mut carried.ended_children));
            }
            carried.count(report);
            done += 1;
            self.report_progress(CopyProgress { stage: CopyStage::Logs, done, total });
        })
        .await?;
        self.carry_ends(session, ended, report).await
    }

    /// Copies a log, unless all of it is after the cut of a backup.
    async fn carry_if_due(
        &self,
        session: &Session,
        listed: &ListedRun,
    ) -> Result<Option<CopiedRun>, EngineError> {
        let is_later = |cut| listed.row.as_ref().is_some_and(|row| row.summary.created_at > cut);
        if session.cut().is_some_and(is_later) {
            return Ok(None);
        }
        let carried = self.carry_log(session, listed, session.cut()).await?;
        Ok(Some(carried).filter(|carried| !carried.is_later()))
    }

    /// Copies the ends of children whose parents know them: clocks of two nodes may differ by more than the time
    /// between the two events. Then no parent has a result that its child does not have.
    async fn carry_ends(
        &self,
        session: &Session,
        ended: HashSet<RunId>,
        report: &mut CopyReport,
    ) -> Result<(), EngineError> {
        let (mut waiting, mut seen): (Vec<RunId>, _) = (ended.iter().cloned().collect(), ended);
        while let Some(run) = waiting.pop() {
            let head = self.to.head(&run).await?;
            let has_end = |head: &Head| head.row.as_ref().is_some_and(|row| row.summary.status.is_terminal());
            if head.as_ref().is_some_and(has_end) {
                continue;
            }
            let Some(source) = self.from.head(&run).await? else { continue };
            let listed = ListedRun { run, row: source.row.map(Box::new) };
            let mut carried = self.carry_log(session, &listed, None).await?;
            let children = std::mem::take(&mut carried.ended_children);
            waiting.extend(children.into_iter().filter(|child| seen.insert(child.clone())));
            // A longer log of a run that was counted before.
            match head {
                Some(_) => report.events.copied += carried.events.0.saturating_sub(carried.events.1),
                None => carried.count(report),
            }
        }
        Ok(())
    }

    async fn carry_log(
        &self,
        session: &Session,
        listed: &ListedRun,
        cut: Option<Millis>,
    ) -> Result<CopiedRun, EngineError> {
        let log = match self.survey_twice(listed, cut, session).await {
            Ok(log) => log,
            // Too many lost events.
            Err(EngineError::Corrupt { corrupt, .. }) => return Ok(CopiedRun::lost(&listed.run, &corrupt)),
            Err(error) => return Err(error),
        };
        if log.end() == Seq::ZERO && session.cut().is_some() {
            return Ok(CopiedRun::later());
        }
        if log.end() == Seq::ZERO {
            return Ok(CopiedRun::lost(&listed.run, &Corrupt::new(Seq(1), "the log is empty")));
        }
        let own = self.own_task(session, listed, &log).await?;
        let there = match self.bring_retrying(session, &log, own.as_ref()).await? {
            Brought::All(there) => there,
            Brought::Other(what) => return Ok(CopiedRun::other(&log, what)),
        };
        let whole = there == log.end().0;
        if !whole && session.is_dry() {
            return Ok(CopiedRun::of(&log, there, own.as_ref()));
        }
        if let Some(first) = log.tombstone.filter(|_| !session.is_dry()) {
            self.to.ask("removing archived events", || self.to.store().trim(&log.run, first)).await?;
        }
        if Print::read(&self.to, &log.run).await? != Some(log.print) {
            return Ok(CopiedRun::other(&log, "the destination has a different log".to_owned()));
        }
        if !session.is_dry() {
            self.settle_row(&log, own.as_ref()).await?;
        }
        Ok(CopiedRun::of(&log, there, own.as_ref()))
    }

    /// Reads and checks a log. While a prune removes its events, the log of a store in use looks damaged.
    async fn survey_twice(
        &self,
        listed: &ListedRun,
        cut: Option<Millis>,
        session: &Session,
    ) -> Result<Survey, EngineError> {
        let first = self.survey(listed, cut).await;
        let is_sound = first.as_ref().is_ok_and(|log| log.corrupt.is_none());
        match is_sound || session.cut().is_none() {
            true => first,
            false => self.survey(listed, cut).await,
        }
    }

    /// The advance task of the run, as it starts at the destination.
    async fn own_task(
        &self,
        session: &Session,
        listed: &ListedRun,
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
        let Some(cut) = session.cut() else { return Ok(found.map(|task| carried(task, session))) };
        // The task is younger than the log if the run has changed since: then a node looks at the run first.
        let head = self.from.head(&log.run).await?;
        let is_same = head.is_some_and(|head| head.end == log.end());
        let as_of_cut = |task: Task| if is_same { carried(task, session) } else { task.returned(cut, cut) };
        Ok(found.map(as_of_cut))
    }

    /// Copies the missing events, with retries.
    async fn bring_retrying(
        &self,
        session: &Session,
        log: &Survey,
        own: Option<&Task>,
    ) -> Result<Brought, EngineError> {
        let mut window = RetryWindow::new(&self.to.ledger, "copying a log");
        let mut first = None;
        for _ in 0..CONFLICTS_MAX {
            let known = self.to.head(&log.run).await?.map_or(Seq::ZERO, |head| head.end);
            let there = *first.get_or_insert(known.0);
            match self.bring(session, log, known, own).await {
                Ok(Some(other)) => return Ok(Brought::Other(other)),
                Ok(None) => return Ok(Brought::All(there)),
                Err(EngineError::Store(StoreError::Conflict { .. })) => {}
                Err(EngineError::Store(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. }))) => {
                    window.pause(&self.to.ledger, error).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::Contended { doing: "copying a log" })
    }

    /// Compares the events up to `known` and appends the rest. Returns the difference if it is a different log.
    async fn bring(
        &self,
        session: &Session,
        log: &Survey,
        mut known: Seq,
        own: Option<&Task>,
    ) -> Result<Option<String>, EngineError> {
        if known > log.end() {
            return Ok(Some(format!(
                "its log ends at {known} at the destination and at {} in the source",
                log.end()
            )));
        }
        if let Some(first) = log.tombstone.filter(|first| known == first.before() && !session.is_dry())
            && self.bring_tombstone(log, first).await?
        {
            return Ok(None);
        }
        let mut again = log.again(&self.from);
        // A complete log is compared by its fingerprint.
        while known < log.end()
            && let Some(mut segment) = again.next().await?
        {
            let old = usize::try_from(known.0.saturating_sub(segment.after.0)).unwrap_or(usize::MAX);
            let new = segment.texts.split_off(old.min(segment.texts.len()));
            if let Some(at) = self.first_unlike(&log.run, segment.after, &segment.texts).await? {
                return Ok(Some(format!("event {at} of its log differs at the destination")));
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

    /// Appends the tombstone of a log that was copied before it was archived. Returns whether it was that log.
    async fn bring_tombstone(&self, log: &Survey, first: Seq) -> Result<bool, EngineError> {
        let after = first.before();
        let before = first.before().before();
        let here = self.from.read(&log.run, after, 1).await?.pop();
        let there = self.to.read(&log.run, before, 1).await?.pop();
        let (Some(here), Some(there)) = (here, there) else { return Ok(false) };
        if decode(here.seq, &here.body).map(|tombstone| tombstone.prev) != Ok(chain(&there.body)) {
            return Ok(false);
        }
        let run = log.run.clone();
        let row = log.row.clone();
        let tasks = Vec::new();
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

    /// Writes the row derived from the log, with the run's task.
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
        Err(EngineError::Contended { doing: "writing a row" })
    }

    /// Whether both stores have the same log, judged by its end and its last event.
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

impl CopiedRun {
    fn of(log: &Survey, there: u64, own: Option<&Task>) -> Self {
        let end = log.end().0;
        let damage = log.corrupt.as_ref().map(|corrupt| {
            let what = format!("{corrupt}; copied unchanged");
            CopyFinding::new("K1", RecordName::run(&log.run), what)
        });
        let fate = if there == end { RecordFate::There } else { RecordFate::Copied };
        let moves = log.row.as_ref().is_some_and(|row| row.status.is_active());
        let in_flight = moves && log.corrupt.is_none();
        let with_task = there < end && own.is_some();
        let ended_children = log.ended_children.clone();
        Self { fate, events: (end, there), in_flight, damage, with_task, ended_children }
    }

    /// A run that began after the cut of a backup.
    fn later() -> Self {
        let fate = RecordFate::There;
        let ended_children = Vec::new();
        Self { fate, events: (0, 0), in_flight: false, damage: None, with_task: false, ended_children }
    }

    fn is_later(&self) -> bool {
        self.fate == RecordFate::There && self.events.0 == 0
    }

    fn left(events: u64, finding: CopyFinding) -> Self {
        let fate = RecordFate::LeftBehind(finding);
        let ended_children = Vec::new();
        Self { fate, events: (events, 0), in_flight: false, damage: None, with_task: false, ended_children }
    }

    fn other(log: &Survey, what: String) -> Self {
        Self::left(log.end().0, CopyFinding::new("GS0403", RecordName::run(&log.run), what))
    }

    fn lost(run: &RunId, corrupt: &Corrupt) -> Self {
        Self::left(0, CopyFinding::new("K1", RecordName::run(run), format!("left behind: {corrupt}")))
    }

    fn count(self, report: &mut CopyReport) {
        let Self { fate, events: (end, there), in_flight, damage, with_task, .. } = self;
        match &fate {
            RecordFate::LeftBehind(_) => report.events.left_behind += end,
            RecordFate::Copied | RecordFate::There => {
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
