//! Logs as they are: every event that can be read, and every place where something is wrong.

use goldseam_core::codec::{chain, decode};
use goldseam_core::decide::Refusal;
use goldseam_core::event::Terminated;
use goldseam_core::state::Outcome;
use goldseam_core::{Corrupt, Event, Hash, Recorded, RunId, Seq, State, derive};
use goldseam_store::Record;

use crate::ledger::commit::Ledger;
use crate::ledger::error::{EngineError, refused};

/// Events read from the store at a time.
const PAGE: u32 = 500;

/// A log, whole or not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Every event that can be read, oldest first.
    pub events: Vec<Recorded>,
    /// Every place where an event is missing, changed or unreadable; empty if the log is whole.
    pub damage: Vec<Corrupt>,
    /// Where the log ends.
    pub end: Seq,
}

impl Log {
    /// The events before the first damage: what a state can be derived from.
    pub fn whole(&self) -> &[Recorded] {
        let first = self.damage.first().map_or(Seq(u64::MAX), |damage| damage.seq);
        let count = self.events.iter().take_while(|recorded| recorded.seq < first).count();
        &self.events[..count]
    }

    /// What the run was before the first damage; none if that is where the log begins.
    pub fn state(&self, run: &RunId) -> Option<State> {
        derive(run, self.whole(), Hash::ZERO).ok()
    }

    /// Where something is wrong after `after`, up to `to`.
    pub fn damage_between(&self, after: Seq, to: Seq) -> impl Iterator<Item = &Corrupt> {
        self.damage.iter().filter(move |damage| damage.seq > after && damage.seq <= to)
    }
}

/// Reads a log record by record.
#[derive(Debug, Default)]
pub struct Reader {
    log: Log,
    /// Fingerprint of the record before; none if that is missing.
    before: Option<Hash>,
    /// Whether `before` could be read: if not, a break behind it is the same damage.
    was_read: bool,
}

impl Reader {
    /// Takes the next record in.
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

    /// What was read.
    pub fn end(self) -> Log {
        self.log
    }
}

impl Ledger {
    /// The log of a run as it is: all that can be read, and where it cannot.
    pub async fn log(&self, run: &RunId) -> Result<Log, EngineError> {
        let (mut reader, mut after) = (Reader::default(), Seq::ZERO);
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

    /// The events that can still be decoded.
    pub(crate) async fn readable(&self, run: &RunId) -> Result<Vec<Recorded>, EngineError> {
        Ok(self.log(run).await?.events)
    }

    /// The end that an operator gave the run without its code, with its position.
    pub(crate) async fn termination(&self, run: &RunId) -> Result<Option<(Seq, Terminated)>, EngineError> {
        let events = self.readable(run).await?;
        let ended = events.iter().rev();
        Ok(ended.flat_map(|recorded| Some((recorded.seq, left_by(std::slice::from_ref(recorded))?))).next())
    }

    /// How a run ended; none if it has not. A damaged log tells it only if an operator terminated the run.
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

/// What these events say was left standing by a termination.
pub(crate) fn left_by(records: &[Recorded]) -> Option<Terminated> {
    records.iter().find_map(|recorded| match &recorded.event {
        Event::RunCancelled { terminated: Some(left), .. } => Some((**left).clone()),
        _ => None,
    })
}
