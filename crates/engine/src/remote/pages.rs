//! What an execution sees of its log, in pieces that fit into an answer.

use goldseam_core::codec::{decode, encode};
use goldseam_core::{Recorded, RunId, Seq};

use super::RemoteRefusal;
use super::wire::Entry;
use crate::ledger::commit::Ledger;
use crate::ledger::error::EngineError;

/// Events in one answer.
pub(super) const EVENTS_MAX: usize = 1_000;
/// Bytes of them, but for the last of each execution.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Events read at a time.
const READ: u32 = 64;

/// How much an answer may still hold: all of its pages share one.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Room {
    /// A whole answer.
    pub(super) fn new() -> Self {
        Self(BYTES_MAX)
    }

    /// A page takes so much of it; there is always room for one more event.
    fn take(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes).max(1);
    }
}

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

    /// As much of `history` as fits, after `after`.
    pub(super) fn of(
        history: impl IntoIterator<Item = Recorded>,
        (after, end): (Seq, Seq),
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

/// Refuses a position that the log does not have: a worker that believes in one would never hear of what comes.
pub(super) async fn check_after(
    ledger: &Ledger,
    run: &RunId,
    (known, after): (Seq, Seq),
) -> Result<(), EngineError> {
    if after <= known {
        return Ok(());
    }
    let end = ledger.store.head(run).await?.map_or(known, |head| head.end.max(known));
    match after > end {
        true => {
            let flaw = format!("after is {after}, and the log of {run} ends at {end}");
            Err(RemoteRefusal::Malformed(flaw).into())
        }
        false => Ok(()),
    }
}

/// What there is after `from`: mail, and whatever `sees` lets through.
pub(super) async fn after(
    ledger: &Ledger,
    run: &RunId,
    from: Seq,
    (sees, room): (&(dyn Fn(&Recorded) -> bool + Send + Sync), &mut Room),
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
        for record in records {
            let recorded = decode(record.seq, &record.body)
                .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })?;
            if (recorded.event.is_mail() || sees(&recorded)) && !page.add(recorded, room) {
                room.take(page.bytes);
                return Ok(page);
            }
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
            let (branch, prev, write) = (BranchId::ROOT, Hash::ZERO, WriteId::default());
            Recorded { seq: Seq(seq), at: Millis(0), branch, epoch: None, write, prev, bytes: 0, event }
        };
        (1..=events).map(note).collect()
    }

    #[test]
    fn all_pages_of_an_answer_share_its_room_and_each_has_an_event() {
        let mut room = Room::new();
        let first = Page::of(history(10, 1024 * 1024), (Seq::ZERO, Seq(10)), &mut room);
        assert_eq!((first.events.len(), first.more, first.end), (4, true, Seq(4)));
        let second = Page::of(history(10, 1024 * 1024), (Seq::ZERO, Seq(10)), &mut room);
        assert_eq!((second.events.len(), second.more, second.end), (1, true, Seq(1)));
        let small = Page::of(history(1, 10), (Seq::ZERO, Seq(3)), &mut room);
        assert_eq!((small.events.len(), small.more, small.end), (1, false, Seq(3)));
    }
}
