//! Damaged logs: all readable events, and all damage.

use goldseam_core::codec::{chain, decode};
use goldseam_core::decide::Refusal;
use goldseam_core::event::Terminated;
use goldseam_core::state::Outcome;
use goldseam_core::{Corrupt, Event, Hash, Recorded, RunId, Seq, State, derive};
use goldseam_store::Record;

use crate::ledger::commit::Ledger;
use crate::ledger::error::{EngineError, refused};

/// Events per read of the store.
const PAGE: u32 = 500;

/// A log and its damage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// All readable events, oldest first.
    pub events: Vec<Recorded>,
    /// Every missing, changed or unreadable event; empty if the log is undamaged.
    pub damage: Vec<Corrupt>,
    /// The last position of the log.
    pub end: Seq,
}

impl Log {
    /// The events before the first damage. A state can be derived from them.
    pub fn whole(&self) -> &[Recorded] {
        let first = self.damage.first().map_or(Seq(u64::MAX), |damage| damage.seq);
        let count = self.events.iter().take_while(|recorded| recorded.seq < first).count();
        &self.events[..count]
    }

    /// The state before the first damage; none if the log is damaged at its start.
    pub fn state(&self, run: &RunId) -> Option<State> {
        derive(run, self.whole(), Hash::ZERO).ok()
    }

    /// The damage after `after` and up to `to`.
    pub fn damage_between(&self, after: Seq, to: Seq) -> impl Iterator<Item = &Corrupt> {
        self.damage.iter().filter(move |damage| damage.seq > after && damage.seq <= to)
    }
}

/// Reads a log record by record.
#[derive(Debug, Default)]
pub struct LogReader {
    log: Log,
    /// Hash of the previous record; none if that is missing.
    before: Option<Hash>,
    /// Whether the previous record could be read. If not, a break after it is the same damage.
    was_read: bool,
}

impl LogReader {
    /// Adds the next record.
    pub fn take(&mut self, record: &Record) {
        let decoded = decode(record.seq, &record.body);
        let is_first = self.log.end == Seq::ZERO;
        let begins = matches!(&decoded, Ok(first) if is_first && matches!(first.event, Event::RunPruned(_)));
        let expected = self.log.end.next();
        if record.seq != expected && !begins {
            let what = format!("it is missing; the next one found is {}", record.seq);
            self.log.damage.push(Corrupt::new(expected, what));
            (self.before, self.was_read) = (None, false);
        }
        let before = if is_first && record.seq == Seq(1) { Some(Hash::ZERO) } else { self.before };
        match decoded {
            Ok(recorded) => {
                let breaks = before.is_some_and(|before| before != recorded.prev) && !begins;
                if breaks && (self.was_read || is_first) {
                    let what = "it does not follow the event before it: one of the two was changed";
                    self.log.damage.push(Corrupt::new(record.seq, what));
                }
                self.log.events.push(recorded);
                self.was_read = true;
            }
            Err(corrupt) => {
                self.was_read = corrupt.is_newer;
                self.log.damage.push(corrupt);
            }
        }
        self.before = Some(chain(&record.body));
        self.log.end = record.seq;
    }

    /// Returns the log.
    pub fn end(self) -> Log {
        self.log
    }
}

impl Ledger {
    /// Reads the log of a run with all readable events and all damage.
    pub async fn log(&self, run: &RunId) -> Result<Log, EngineError> {
        let mut reader = LogReader::default();
        let mut after = Seq::ZERO;
        loop {
            let page = self.store.read(run, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            page.iter().for_each(|record| reader.take(record));
        }
        let log = reader.end();
        if log.end == Seq::ZERO && self.store.head(run).await?.is_none() {
            return Err(refused(run, Refusal::NoSuchRun));
        }
        Ok(log)
    }

    /// The readable events.
    pub(crate) async fn readable(&self, run: &RunId) -> Result<Vec<Recorded>, EngineError> {
        Ok(self.log(run).await?.events)
    }

    /// The termination of the run by an operator, with its position.
    pub(crate) async fn termination(&self, run: &RunId) -> Result<Option<(Seq, Terminated)>, EngineError> {
        let events = self.readable(run).await?;
        let ended = events.iter().rev();
        Ok(ended.flat_map(|recorded| Some((recorded.seq, left_by(std::slice::from_ref(recorded))?))).next())
    }

    /// The outcome of a run; none if it has not ended. A damaged log has one only if an operator terminated the run.
    pub(crate) async fn outcome(&self, run: &RunId) -> Result<Option<Outcome>, EngineError> {
        match self.load(run).await {
            Ok(loaded) => Ok(loaded.state.outcome),
            Err(error @ EngineError::Corrupt { .. }) => {
                let (_, left) = self.termination(run).await?.ok_or(error)?;
                Ok(Some(Outcome::Cancelled(left.note.reason)))
            }
            Err(error) => Err(error),
        }
    }
}

/// Finds a termination among these events.
pub(crate) fn left_by(records: &[Recorded]) -> Option<Terminated> {
    records.iter().find_map(|recorded| match &recorded.event {
        Event::RunCancelled { terminated: Some(left), .. } => Some((**left).clone()),
        _ => None,
    })
}
