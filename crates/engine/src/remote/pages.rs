//! What an execution sees of its log, in pieces that fit into an answer.

use goldseam_core::codec::{decode, encode};
use goldseam_core::{Recorded, RunId, Seq};

use super::wire::Entry;
use crate::commit::Ledger;
use crate::error::EngineError;

/// Events in one answer.
pub(super) const EVENTS_MAX: usize = 1_000;
/// Bytes of them, but for the last.
pub(super) const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Events read at a time.
const READ: u32 = 1_000;

/// A piece of a log.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) events: Vec<Entry>,
    /// Known up to here.
    pub(super) end: Seq,
    /// There is more.
    pub(super) more: bool,
    bytes: usize,
}

impl Page {
    /// Adds an event if there is room; `false` if there is none.
    fn add(&mut self, recorded: Recorded) -> bool {
        if self.events.len() >= EVENTS_MAX || self.bytes >= BYTES_MAX {
            self.more = true;
            return false;
        }
        self.bytes += encode(&recorded).len();
        self.end = recorded.seq;
        self.events.push(recorded.into());
        true
    }

    /// As much of `history` as fits, after `after`.
    pub(super) fn of(history: impl IntoIterator<Item = Recorded>, after: Seq, end: Seq) -> Self {
        let mut page = Self { end: after, ..Self::default() };
        for recorded in history.into_iter().filter(|recorded| recorded.seq > after) {
            if !page.add(recorded) {
                return page;
            }
        }
        page.end = page.end.max(end);
        page
    }
}

/// What there is after `from`: mail, and whatever `sees` lets through.
pub(super) async fn after(
    ledger: &Ledger,
    run: &RunId,
    from: Seq,
    sees: &(dyn Fn(&Recorded) -> bool + Send + Sync),
) -> Result<Page, EngineError> {
    let mut page = Page { end: from, ..Page::default() };
    let mut read = from;
    loop {
        let records = ledger.store.read(run, read, READ).await?;
        let Some(last) = records.last() else {
            page.end = page.end.max(read);
            return Ok(page);
        };
        read = last.seq;
        for record in records {
            let recorded = decode(record.seq, &record.body)
                .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })?;
            if (recorded.event.is_mail() || sees(&recorded)) && !page.add(recorded) {
                return Ok(page);
            }
        }
    }
}
