//! The survey of one log: its end, its fingerprint, its derived row, and its damage.
//!
//! Invariant: a log is checked as a whole before any of it is written. Damaged events are copied unchanged, so rule
//! K1 finds them at the destination, too. A lost event is replaced by [`LOST`], which no release reads as an event,
//! so later events keep their positions. The same text takes the place of archived events, until the log is trimmed
//! at the destination.

use goldseam_core::branch::Why;
use goldseam_core::codec::{chain, decode};
use goldseam_core::summary::Stuck;
use goldseam_core::{Corrupt, Event, Hash, Millis, Recorded, RunId, Seq, Summary, WriteId, derive};

use super::Copier;
use super::side::{ListedRun, Side};
use goldseam_engine::ledger::commit::is_tombstone;
use goldseam_engine::ledger::error::EngineError;

/// The text in place of a lost event.
pub(super) const LOST: &str = r#"{"lost":"this event was not there when its log was copied"}"#;
/// Maximum number of lost events in one log that are replaced; a log with more is left behind.
const LOST_MAX: u64 = 10_000;
/// Events of the first read: most logs are short, and events may be large.
const FIRST_PAGE: u32 = 32;
/// Maximum number of events per read.
const PAGE_MAX: u64 = 1_000;
/// Target bytes per read, estimated from the previous page.
const PAGE_BYTES: u64 = 1 << 20;

/// A part of a log without gaps.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// The position before its first event.
    pub(super) after: Seq,
    pub(super) texts: Vec<String>,
}

impl Segment {
    /// The position of its last event.
    pub(super) fn end(&self) -> Seq {
        Seq(self.after.0 + self.texts.len() as u64)
    }

    /// Drops the events after `end`.
    fn clip(&mut self, end: Seq) {
        let keep = usize::try_from(end.0.saturating_sub(self.after.0)).unwrap_or(usize::MAX);
        self.texts.truncate(keep);
    }
}

/// Reads a log segment by segment.
#[derive(Debug)]
pub(super) struct LogReader<'a> {
    side: &'a Side,
    run: &'a RunId,
    after: Seq,
    limit: u32,
    /// Number of lost events so far.
    lost: u64,
    /// The tombstone at the start of the log: events before it are archived, not lost.
    tombstone: Option<Seq>,
    over: bool,
}

impl<'a> LogReader<'a> {
    pub(super) fn new(side: &'a Side, run: &'a RunId) -> Self {
        Self { side, run, after: Seq::ZERO, limit: FIRST_PAGE, lost: 0, tombstone: None, over: false }
    }

    /// Returns the next segment; none after the end.
    pub(super) async fn next(&mut self) -> Result<Option<Segment>, EngineError> {
        if self.over {
            return Ok(None);
        }
        let page = self.side.read(self.run, self.after, self.limit).await?;
        // A short page is the last one.
        self.over = page.len() < self.limit as usize;
        let mut segment = Segment { after: self.after, texts: Vec::with_capacity(page.len()) };
        let mut bytes = 0;
        for record in page {
            let next = segment.end().next();
            let gap = record.seq.0.saturating_sub(next.0);
            if gap > 0 && next == Seq(1) && is_tombstone(&record) {
                self.tombstone = Some(record.seq);
            } else {
                self.lost += gap;
            }
            if self.lost > LOST_MAX {
                let corrupt =
                    Corrupt::new(next, format!("it is missing; the next one found is {}", record.seq));
                return Err(EngineError::Corrupt { run: self.run.clone(), corrupt });
            }
            segment.texts.extend((0..gap).map(|_| LOST.to_owned()));
            bytes += record.body.len() as u64;
            segment.texts.push(record.body);
        }
        self.after = segment.end();
        let average = (bytes / (segment.texts.len() as u64).max(1)).max(1);
        self.limit = u32::try_from((PAGE_BYTES / average).clamp(1, PAGE_MAX)).unwrap_or(1);
        Ok(Some(segment).filter(|segment| !segment.texts.is_empty()))
    }
}

/// The fingerprint of a log: a hash of all its texts, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Print {
    pub(super) end: Seq,
    hash: Hash,
}

impl Print {
    fn add(&mut self, text: Hash) {
        self.end = self.end.next();
        self.hash = Hash::of(&[self.hash.0, text.0].concat());
    }

    #[cfg(test)]
    pub(super) fn of_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut print = Self::default();
        texts.into_iter().for_each(|text| print.add(chain(text)));
        print
    }

    /// The fingerprint together with the run id.
    pub(super) fn of_run(self, run: &RunId) -> Hash {
        Hash::of_parts(&[run.as_str(), &self.end.0.to_string(), &self.hash.to_string()])
    }

    /// The fingerprint of an undamaged log; none if an event is lost.
    pub(super) async fn read(side: &Side, run: &RunId) -> Result<Option<Self>, EngineError> {
        let read = Self::read_all(side, run).await?;
        Ok(read.filter(|(_, lost)| *lost == 0).map(|(print, _)| print))
    }

    /// The fingerprint of a log with lost events replaced; none if too many are lost.
    pub(super) async fn read_marked(side: &Side, run: &RunId) -> Result<Option<Self>, EngineError> {
        Ok(Self::read_all(side, run).await?.map(|(print, _)| print))
    }

    async fn read_all(side: &Side, run: &RunId) -> Result<Option<(Self, u64)>, EngineError> {
        let mut reader = LogReader::new(side, run);
        let mut print = Self::default();
        loop {
            match reader.next().await {
                Ok(Some(segment)) => segment.texts.iter().for_each(|text| print.add(chain(text))),
                Ok(None) => return Ok(Some((print, reader.lost))),
                Err(EngineError::Corrupt { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The log of a run in the source.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) run: RunId,
    pub(super) print: Print,
    /// The row derived from the log. For a damaged log, the row of the source.
    pub(super) row: Option<Box<Summary>>,
    /// The first damage of the log.
    pub(super) corrupt: Option<Corrupt>,
    /// The tombstone at its start, if the events before it were removed.
    pub(super) tombstone: Option<Seq>,
    /// Children whose end this log records.
    pub(super) ended_children: Vec<RunId>,
    /// The whole log, if it is short.
    short: Option<Segment>,
}

impl Survey {
    pub(super) fn end(&self) -> Seq {
        self.print.end
    }

    /// Reads the log a second time.
    pub(super) fn again<'a>(&'a self, side: &'a Side) -> Again<'a> {
        match &self.short {
            Some(all) => Again::Kept(Some(all)),
            None => Again::Read(LogReader::new(side, &self.run), self.end()),
        }
    }
}

/// A log that is read a second time.
#[derive(Debug)]
pub(super) enum Again<'a> {
    Kept(Option<&'a Segment>),
    /// Up to this position: a live log grows meanwhile.
    Read(LogReader<'a>, Seq),
}

impl Again<'_> {
    pub(super) async fn next(&mut self) -> Result<Option<Segment>, EngineError> {
        match self {
            Self::Kept(all) => Ok(all.take().cloned()),
            Self::Read(reader, end) => {
                let mut segment = reader.next().await?;
                if let Some(segment) = &mut segment {
                    segment.clip(*end);
                }
                Ok(segment.filter(|segment| !segment.texts.is_empty()))
            }
        }
    }
}

/// The text of one event, its hash, and the hash of the event before it.
struct Text<'a> {
    seq: Seq,
    text: &'a str,
    prev: Hash,
    head: Hash,
}

/// The checks of a log so far.
#[derive(Debug, Default)]
struct Checks {
    print: Print,
    prev: Hash,
    fold: Fold,
    /// The position from which loading may start.
    base: Seq,
    /// Events before this position are archived.
    tombstone: Seq,
    corrupt: Option<Corrupt>,
    /// Events of appends that began later are left out.
    cut: Option<Millis>,
    /// Whether the cut is reached.
    is_cut: bool,
    /// The append of the latest event.
    write: Option<WriteId>,
    ended_children: Vec<RunId>,
}

#[derive(Debug, Default)]
enum Fold {
    #[default]
    Nothing,
    Row(Box<Summary>),
    /// The run moved to another branch, so the row needs the whole history.
    NeedsHistory,
}

impl Checks {
    fn take(&mut self, run: &RunId, text: &str) {
        let seq = self.print.end.next();
        if self.is_cut || self.reaches_cut(seq, text) {
            return;
        }
        let head = chain(text);
        self.print.add(head);
        let prev = std::mem::replace(&mut self.prev, head);
        if self.corrupt.is_some() || seq < self.tombstone {
            return;
        }
        if let Err(corrupt) = self.check(run, Text { seq, text, prev, head }) {
            self.corrupt = Some(corrupt);
        }
    }

    /// Returns whether the event belongs to an append after the cut. An append is taken whole, and a text that is not
    /// an event has no time.
    fn reaches_cut(&mut self, seq: Seq, text: &str) -> bool {
        let Some(cut) = self.cut else { return false };
        let Ok(recorded) = decode(seq, text) else { return false };
        // The events before a tombstone are archived, so the log cannot end before it.
        if seq == self.tombstone {
            return false;
        }
        self.is_cut = recorded.at > cut && self.write != Some(recorded.write);
        self.write = Some(recorded.write);
        self.is_cut
    }

    fn check(&mut self, run: &RunId, text: Text<'_>) -> Result<(), Corrupt> {
        let Text { seq, text, prev, head } = text;
        if text == LOST {
            return Err(Corrupt::new(seq, "it is missing"));
        }
        let recorded = decode(seq, text)?;
        if recorded.prev != prev && seq != self.tombstone {
            return Err(Corrupt::new(
                seq,
                "it does not follow the event before it: one of the two was changed",
            ));
        }
        self.fold(run, &recorded, head)
    }

    fn fold(&mut self, run: &RunId, recorded: &Recorded, head: Hash) -> Result<(), Corrupt> {
        if matches!(&recorded.event, Event::BranchOpened(opened) if opened.why == Why::Continue) {
            self.base = recorded.seq;
        }
        if let Event::ChildCompleted { run, .. } | Event::ChildFailed { run, .. } = &recorded.event {
            self.ended_children.push(run.clone());
        }
        match &mut self.fold {
            Fold::Nothing => {
                self.base = recorded.seq;
                self.fold = Fold::Row(Box::new(Summary::first(run, recorded, head)?));
            }
            Fold::Row(row) => match row.fold(recorded, head) {
                Ok(()) => {}
                Err(Stuck::NeedsHistory) => self.fold = Fold::NeedsHistory,
                Err(Stuck::Corrupt(corrupt)) => return Err(corrupt),
            },
            Fold::NeedsHistory => {}
        }
        Ok(())
    }
}

impl Copier {
    /// Reads and checks the log of a run, up to the cut if there is one.
    pub(super) async fn survey(
        &self,
        listed: &ListedRun,
        cut: Option<Millis>,
    ) -> Result<Survey, EngineError> {
        let run = &listed.run;
        let mut reader = LogReader::new(&self.from, run);
        let mut checks = Checks { cut, ..Checks::default() };
        let mut short = None;
        let mut first = true;
        while let Some(segment) = reader.next().await? {
            checks.tombstone = reader.tombstone.unwrap_or_default();
            segment.texts.iter().for_each(|text| checks.take(run, text));
            short = Some(segment).filter(|_| std::mem::take(&mut first));
            if checks.is_cut {
                break;
            }
        }
        if let Some(short) = &mut short {
            short.clip(checks.print.end);
        }
        let derived = match checks.fold {
            Fold::Row(row) => Ok(Some(row)),
            Fold::Nothing => Ok(None),
            Fold::NeedsHistory if checks.corrupt.is_some() => Ok(None),
            Fold::NeedsHistory => self.derived(run, checks.base, checks.print.end).await?.map(Some),
        };
        let (row, corrupt) = match (derived, checks.corrupt) {
            // If the log grows meanwhile, the final comparison finds it.
            (Ok(row), None) => (row.filter(|row| row.as_of == checks.print.end), None),
            (_, Some(corrupt)) | (Err(corrupt), None) => (listed.summary(), Some(corrupt)),
        };
        let tombstone = reader.tombstone;
        let Checks { print, ended_children, .. } = checks;
        Ok(Survey { run: run.clone(), print, row, corrupt, tombstone, ended_children, short })
    }

    /// Derives the row of a run that moved to another branch.
    async fn derived(
        &self,
        run: &RunId,
        base: Seq,
        end: Seq,
    ) -> Result<Result<Box<Summary>, Corrupt>, EngineError> {
        let _alone = self.deriving.lock().await;
        let ledger = &self.from.ledger;
        let load = || ledger.history_to(run, base, end);
        let (history, head) = match self.from.insist("reading a history", load).await {
            Ok(history) => history,
            Err(EngineError::Corrupt { corrupt, .. }) => return Ok(Err(corrupt)),
            Err(error) => return Err(error),
        };
        Ok(derive(run, &history, head).map(|state| Box::new(state.summary)))
    }
}

impl ListedRun {
    fn summary(&self) -> Option<Box<Summary>> {
        self.row.as_ref().map(|row| Box::new(row.summary.clone()))
    }
}
