//! The events that an execution sees, in pages that fit into a response.

use goldseam_core::codec::{decode, encode};
use goldseam_core::{Recorded, RunId, Seq};

use super::RemoteRefusal;
use super::wire::Entry;
use crate::ledger::commit::Ledger;
use crate::ledger::error::EngineError;

/// Maximum number of events in one response.
pub(super) const EVENTS_MAX: usize = 1_000;
/// Maximum bytes of events in one response; the last event of each execution may exceed it.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Events per read of the store.
const READ: u32 = 64;

/// The bytes left in a response; its pages share them.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Room {
    /// The room of an empty response.
    pub(super) fn new() -> Self {
        Self(BYTES_MAX)
    }

    /// Takes the bytes of a page. One more event always fits.
    fn take(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes).max(1);
    }
}

/// A part of a log.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) events: Vec<Entry>,
    /// The last position that the worker now knows.
    pub(super) end: Seq,
    /// Whether more events follow.
    pub(super) more: bool,
    bytes: usize,
}

impl Page {
    /// Adds an event; `false` if it does not fit.
    fn add(&mut self, recorded: Recorded, room: &Room) -> bool {
        if self.events.len() >= EVENTS_MAX || self.bytes >= room.0 {
            self.more = true;
            return false;
        }
        self.bytes += encode(&recorded).len();
        self.end = recorded.seq;
        self.events.push(recorded.into());
        true
    }

    /// As many events of `history` after `after` as fit.
    pub(super) fn of(
        history: impl IntoIterator<Item = Recorded>,
        after: Seq,
        end: Seq,
        room: &mut Room,
    ) -> Self {
        let mut page = Self { end: after, ..Self::default() };
        let fits = history
            .into_iter()
            .filter(|recorded| recorded.seq > after)
            .all(|recorded| page.add(recorded, room));
        if fits {
            page.end = page.end.max(end);
        }
        room.take(page.bytes);
        page
    }
}

/// Refuses a position after the end of the log: a worker with such a position would miss events.
pub(super) async fn check_after(
    ledger: &Ledger,
    run: &RunId,
    known: Seq,
    after: Seq,
) -> Result<(), EngineError> {
    if after <= known {
        return Ok(());
    }
    let end = ledger.store.head(run).await?.map_or(known, |head| head.end.max(known));
    match after > end {
        true => {
            let flaw = format!("`after` is {after}, but the log of {run} ends at {end}");
            Err(RemoteRefusal::Malformed(flaw).into())
        }
        false => Ok(()),
    }
}

/// Reads after `from`: mail, and the events that `sees` accepts.
pub(super) async fn after(
    ledger: &Ledger,
    run: &RunId,
    from: Seq,
    sees: &(dyn Fn(&Recorded) -> bool + Send + Sync),
    room: &mut Room,
) -> Result<Page, EngineError> {
    let mut page = Page { end: from, ..Page::default() };
    let mut read = from;
    loop {
        let records = ledger.store.read(run, read, READ).await?;
        let Some(last) = records.last() else {
            page.end = page.end.max(read);
            room.take(page.bytes);
            return Ok(page);
        };
        read = last.seq;
        let is_last = records.len() < READ as usize;
        for record in records {
            let recorded = decode(record.seq, &record.body)
                .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })?;
            if (recorded.event.is_mail() || sees(&recorded)) && !page.add(recorded, room) {
                room.take(page.bytes);
                return Ok(page);
            }
        }
        if is_last {
            page.end = page.end.max(read);
            room.take(page.bytes);
            return Ok(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use goldseam_core::event::{Event, Note};
    use goldseam_core::{BranchId, Hash, Millis, WriteId};

    use super::*;

    fn history(events: u64, bytes: usize) -> Vec<Recorded> {
        let note = |seq| {
            let reason = "x".repeat(bytes);
            let event = Event::NoteAdded(Note { id: "n".to_owned(), by: None, reason });
            let branch = BranchId::ROOT;
            let prev = Hash::ZERO;
            let write = WriteId::default();
            Recorded { seq: Seq(seq), at: Millis(0), branch, epoch: None, write, prev, bytes: 0, event }
        };
        (1..=events).map(note).collect()
    }

    #[test]
    fn pages_of_a_response_share_its_room_and_each_has_an_event() {
        let mut room = Room::new();
        let first = Page::of(history(10, 1024 * 1024), Seq::ZERO, Seq(10), &mut room);
        assert_eq!((first.events.len(), first.more, first.end), (4, true, Seq(4)));
        let second = Page::of(history(10, 1024 * 1024), Seq::ZERO, Seq(10), &mut room);
        assert_eq!((second.events.len(), second.more, second.end), (1, true, Seq(1)));
        let small = Page::of(history(1, 10), Seq::ZERO, Seq(3), &mut room);
        assert_eq!((small.events.len(), small.more, small.end), (1, false, Seq(3)));
    }
}
