//! Reads runs: a cached row folded on to the end of the log, or the whole history that matters.

use goldseam_core::codec::{chain, decode, decode_all};
use goldseam_core::decide::{Refusal, View};
use goldseam_core::recovery::Code;
use goldseam_core::summary::Stuck;
use goldseam_core::{
    Corrupt, Event, Hash, Millis, Recorded, RunId, Seq, State, Summary, TaskId, WriteId, derive,
};
use goldseam_store::{Head, Record, Row};

use super::Ledger;
use super::commit::Committed;
use super::error::EngineError;
use super::retry::RetryWindow;

/// Events read from the store at a time.
const PAGE: u32 = 1_000;

/// A loaded run.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Its state, derived from its history.
    pub state: State,
    /// Its advance task.
    pub task: Option<TaskId>,
    /// When its row was last written.
    pub updated_at: Millis,
    /// Whether the row is behind the log. It may name an advance task that has been replaced.
    pub is_behind: bool,
}

/// A run as the store shows it: its row if that is enough, else everything.
#[derive(Debug)]
pub enum Snapshot {
    Absent,
    Row(Box<Summary>, Hints),
    Full(Box<Loaded>),
}

/// What the store knows of a run beside its log.
#[derive(Debug)]
pub struct Hints {
    task: Option<TaskId>,
    updated_at: Millis,
    is_behind: bool,
}

impl Snapshot {
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

    /// Whether the run has another advance task by now. A row behind its log proves nothing: if the store writes the row
    /// after the log, the row may not name this task yet.
    pub(crate) fn has_replaced(&self, task: &TaskId) -> bool {
        let is_behind = match self {
            Self::Absent => true,
            Self::Row(_, hints) => hints.is_behind,
            Self::Full(loaded) => loaded.is_behind,
        };
        !is_behind && self.task().is_some_and(|own| own != task)
    }

    pub(crate) fn updated_at(&self) -> Millis {
        match self {
            Self::Absent => Millis::default(),
            Self::Row(_, hints) => hints.updated_at,
            Self::Full(loaded) => loaded.updated_at,
        }
    }
}

impl Ledger {
    /// Reads what a command is decided on. A run that K1 has parked is read whole: while its log is damaged, nothing takes
    /// effect.
    pub(super) async fn look_to_change(&self, run: &RunId) -> Result<Snapshot, EngineError> {
        let known = self.look(run).await?;
        match &known {
            Snapshot::Row(summary, _) if is_parked_as_damaged(summary) => {
                Ok(Snapshot::Full(Box::new(self.load(run).await?)))
            }
            _ => Ok(known),
        }
    }

    pub(crate) async fn look(&self, run: &RunId) -> Result<Snapshot, EngineError> {
        let Some(Head { end, row, .. }) = self.store.head(run).await? else { return Ok(Snapshot::Absent) };
        let Some(Row { mut summary, task, updated_at }) = row.filter(|row| is_credible(&row.summary, end))
        else {
            return Ok(Snapshot::Full(Box::new(self.load(run).await?)));
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
                    Err(Stuck::NeedsHistory) => return Ok(Snapshot::Full(Box::new(self.load(run).await?))),
                    Err(Stuck::Corrupt(corrupt)) => {
                        return Err(EngineError::Corrupt { run: run.clone(), corrupt });
                    }
                }
            }
        }
        Ok(Snapshot::Row(Box::new(summary), Hints { task, updated_at, is_behind }))
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

    /// Loads the state of a run at `end` or later, from `base` on. Retries while the store fails, up to the configured limit.
    pub(crate) async fn load_from(&self, run: &RunId, base: Seq, end: Seq) -> Result<State, EngineError> {
        let read = || async {
            let (history, hash) = self.history_to(run, base, end).await?;
            derive(run, &history, hash).map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })
        };
        RetryWindow::new(self, "loading a run").retry(self, read).await
    }

    /// Like [`Ledger::load`]. Retries while the store fails, up to the configured limit.
    pub(crate) async fn load_surely(&self, run: &RunId) -> Result<Loaded, EngineError> {
        RetryWindow::new(self, "loading a run").retry(self, || self.load(run)).await
    }

    /// Everything from `base` on, preceded by the mail that `base` carries, with the last fingerprint.
    pub async fn history(&self, run: &RunId, base: Seq) -> Result<(Vec<Recorded>, Hash), EngineError> {
        self.history_to(run, base, Seq(u64::MAX)).await
    }

    /// Like [`Ledger::history`], up to `end`, where the caller knows that the log reaches it: saves one read.
    pub async fn history_to(
        &self,
        run: &RunId,
        base: Seq,
        end: Seq,
    ) -> Result<(Vec<Recorded>, Hash), EngineError> {
        let corrupt = |corrupt: Corrupt| EngineError::Corrupt { run: run.clone(), corrupt };
        let mut history: Vec<Recorded> = Vec::new();
        let mut after = base.before();
        let mut prev = None;
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

    /// Finds the events of the wanted write after `from`; none if it has not landed.
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

/// Whether this event is a tombstone, which replaces a whole log.
pub fn is_tombstone(record: &Record) -> bool {
    decode(record.seq, &record.body).is_ok_and(|recorded| matches!(recorded.event, Event::RunPruned(_)))
}

/// Whether rule K1 has parked the run.
fn is_parked_as_damaged(row: &Summary) -> bool {
    row.parked
        && row.trouble.as_ref().is_some_and(|trouble| trouble.code.as_deref() == Some(Code::K1.as_str()))
}

/// Whether a row can be trusted: it is coherent and not ahead of its log.
fn is_credible(row: &Summary, end: Seq) -> bool {
    row.as_of <= end && row.is_coherent()
}
