//! One log read and judged: where it ends, its fingerprint, the row that follows from it, and its damage.
//!
//! Invariant: a log is judged whole before any of it is written. What is damaged is carried as it is, so that the
//! same rule (K1) finds it at the destination; where an event is lost, its position holds [`LOST`], which no
//! release takes for an event. Nothing is guessed, and what comes behind keeps its place. The same text keeps the place of
//! what was archived, until the log is trimmed there, too.

use goldseam_core::branch::Why;
use goldseam_core::codec::{chain, decode};
use goldseam_core::summary::Stuck;
use goldseam_core::{Corrupt, Event, Hash, Recorded, RunId, Seq, Summary, derive};

use super::Copier;
use super::side::{Listed, Side};
use goldseam_engine::ledger::commit::is_tombstone;
use goldseam_engine::ledger::error::EngineError;

/// What stands where an event was lost.
pub(super) const LOST: &str = r#"{"lost":"this event was not there when its log was copied"}"#;
/// Most lost events of one log that are marked so; what has a wider gap stays behind.
const LOST_MAX: u64 = 10_000;
/// Events read at first: most logs are short, and their events may be large.
const FIRST_PAGE: u32 = 32;
/// Most events read at a time.
const PAGE_MAX: u64 = 1_000;
/// Bytes to read at a time, judged by the page before.
const PAGE_BYTES: u64 = 1 << 20;

/// A piece of a log without gaps.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    /// The position before its first event.
    pub(super) after: Seq,
    pub(super) texts: Vec<String>,
}

impl Stretch {
    /// The position of its last event.
    pub(super) fn end(&self) -> Seq {
        Seq(self.after.0 + self.texts.len() as u64)
    }
}

/// Reads a log piece by piece.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    side: &'a Side,
    run: &'a RunId,
    after: Seq,
    limit: u32,
    /// Events that were not there so far.
    lost: u64,
    /// The tombstone with which the log begins: what came before it is archived, not lost.
    tombstone: Option<Seq>,
    over: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(side: &'a Side, run: &'a RunId) -> Self {
        Self { side, run, after: Seq::ZERO, limit: FIRST_PAGE, lost: 0, tombstone: None, over: false }
    }

    /// The next piece; none after the end.
    pub(super) async fn next(&mut self) -> Result<Option<Stretch>, EngineError> {
        if self.over {
            return Ok(None);
        }
        let page = self.side.read(self.run, self.after, self.limit).await?;
        // A short page is the last one.
        self.over = page.len() < self.limit as usize;
        let mut stretch = Stretch { after: self.after, texts: Vec::with_capacity(page.len()) };
        let mut bytes = 0;
        for record in page {
            let next = stretch.end().next();
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
            stretch.texts.extend((0..gap).map(|_| LOST.to_owned()));
            bytes += record.body.len() as u64;
            stretch.texts.push(record.body);
        }
        self.after = stretch.end();
        let average = (bytes / (stretch.texts.len() as u64).max(1)).max(1);
        self.limit = u32::try_from((PAGE_BYTES / average).clamp(1, PAGE_MAX)).unwrap_or(1);
        Ok(Some(stretch).filter(|stretch| !stretch.texts.is_empty()))
    }
}

/// The fingerprint of a log: of all its texts, in order.
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

    /// Together with the run's name.
    pub(super) fn of_run(self, run: &RunId) -> Hash {
        Hash::of_parts(&[run.as_str(), &self.end.0.to_string(), &self.hash.to_string()])
    }

    /// Of a log that must be whole; none if something of it is lost.
    pub(super) async fn read(side: &Side, run: &RunId) -> Result<Option<Self>, EngineError> {
        let read = Self::read_all(side, run).await?;
        Ok(read.filter(|(_, lost)| *lost == 0).map(|(print, _)| print))
    }

    /// Of a log with what is lost marked as lost; none if that is too much.
    pub(super) async fn read_marked(side: &Side, run: &RunId) -> Result<Option<Self>, EngineError> {
        Ok(Self::read_all(side, run).await?.map(|(print, _)| print))
    }

    async fn read_all(side: &Side, run: &RunId) -> Result<Option<(Self, u64)>, EngineError> {
        let (mut reader, mut print) = (Reader::new(side, run), Self::default());
        loop {
            match reader.next().await {
                Ok(Some(stretch)) => stretch.texts.iter().for_each(|text| print.add(chain(text))),
                Ok(None) => return Ok(Some((print, reader.lost))),
                Err(EngineError::Corrupt { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

/// What the source has under a run's id.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) run: RunId,
    pub(super) print: Print,
    /// The row as it follows from the log. Of a damaged one, the row that the source has: nothing else is known.
    pub(super) row: Option<Box<Summary>>,
    /// What is wrong with the log.
    pub(super) corrupt: Option<Corrupt>,
    /// The tombstone with which it begins, if what came before that is removed.
    pub(super) tombstone: Option<Seq>,
    /// All of it, if it is short.
    short: Option<Stretch>,
}

impl Survey {
    pub(super) fn end(&self) -> Seq {
        self.print.end
    }

    /// The log once more.
    pub(super) fn again<'a>(&'a self, side: &'a Side) -> Again<'a> {
        match &self.short {
            Some(all) => Again::Kept(Some(all)),
            None => Again::Read(Reader::new(side, &self.run)),
        }
    }
}

/// A log read for the second time.
#[derive(Debug)]
pub(super) enum Again<'a> {
    Kept(Option<&'a Stretch>),
    Read(Reader<'a>),
}

impl Again<'_> {
    pub(super) async fn next(&mut self) -> Result<Option<Stretch>, EngineError> {
        match self {
            Self::Kept(all) => Ok(all.take().cloned()),
            Self::Read(reader) => reader.next().await,
        }
    }
}

/// What has been read of a log so far.
#[derive(Debug, Default)]
struct Judged {
    print: Print,
    prev: Hash,
    fold: Fold,
    /// Where loading may begin.
    base: Seq,
    /// What stands before this was archived.
    tombstone: Seq,
    corrupt: Option<Corrupt>,
}

#[derive(Debug, Default)]
enum Fold {
    #[default]
    Nothing,
    Row(Box<Summary>),
    /// The run moved to another branch: only its whole history tells.
    NeedsHistory,
}

impl Judged {
    fn take(&mut self, run: &RunId, text: &str) {
        let seq = self.print.end.next();
        let head = chain(text);
        self.print.add(head);
        let prev = std::mem::replace(&mut self.prev, head);
        if self.corrupt.is_some() || seq < self.tombstone {
            return;
        }
        if let Err(corrupt) = self.judge(run, (seq, text), (prev, head)) {
            self.corrupt = Some(corrupt);
        }
    }

    fn judge(&mut self, run: &RunId, (seq, text): (Seq, &str), hashes: (Hash, Hash)) -> Result<(), Corrupt> {
        if text == LOST {
            return Err(Corrupt::new(seq, "it is missing"));
        }
        let recorded = decode(seq, text)?;
        let (prev, head) = hashes;
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
    /// Reads the whole log of a run and judges it.
    pub(super) async fn survey(&self, listed: &Listed) -> Result<Survey, EngineError> {
        let run = &listed.run;
        let (mut reader, mut judged, mut short) = (Reader::new(&self.from, run), Judged::default(), None);
        let mut first = true;
        while let Some(stretch) = reader.next().await? {
            judged.tombstone = reader.tombstone.unwrap_or_default();
            stretch.texts.iter().for_each(|text| judged.take(run, text));
            short = Some(stretch).filter(|_| std::mem::take(&mut first));
        }
        let derived = match judged.fold {
            Fold::Row(row) => Ok(Some(row)),
            Fold::Nothing => Ok(None),
            Fold::NeedsHistory if judged.corrupt.is_some() => Ok(None),
            Fold::NeedsHistory => self.derived(run, judged.base, judged.print.end).await?.map(Some),
        };
        let (row, corrupt) = match (derived, judged.corrupt) {
            // A log that grows meanwhile is found out in the end.
            (Ok(row), None) => (row.filter(|row| row.as_of == judged.print.end), None),
            (_, Some(corrupt)) | (Err(corrupt), None) => (listed.summary(), Some(corrupt)),
        };
        let tombstone = reader.tombstone;
        Ok(Survey { run: run.clone(), print: judged.print, row, corrupt, tombstone, short })
    }

    /// The row of a run that has moved to another branch.
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

impl Listed {
    fn summary(&self) -> Option<Box<Summary>> {
        self.row.as_ref().map(|row| Box::new(row.summary.clone()))
    }
}
