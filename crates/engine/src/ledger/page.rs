//! Reads of a log in pieces of bounded size.

use goldseam_core::{RunId, Seq};
use goldseam_store::{Record, StoreError};

use crate::ledger::commit::Ledger;

/// Events per read of the store. Their size is known only after the read.
const CHUNK: u32 = 64;

/// Limits of one read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Number of events.
    pub events: u32,
    /// Bytes; the read ends with the event that reaches this number.
    pub bytes: usize,
}

impl Most {
    /// A limit of `events` events and 1 MiB.
    pub fn events(events: u32) -> Self {
        Self { events, bytes: 1024 * 1024 }
    }
}

/// A part of a log as the store has it.
#[derive(Debug, Default)]
pub struct Piece {
    /// Its events, oldest first.
    pub records: Vec<Record>,
    /// Whether the byte limit ended the read. The log may have more events.
    pub is_cut: bool,
}

impl Ledger {
    /// Reads a log after `after`, up to the limits.
    pub async fn piece(&self, run: &RunId, mut after: Seq, most: Most) -> Result<Piece, StoreError> {
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut left = most.events;
        while left > 0 {
            let wanted = CHUNK.min(left);
            let chunk = self.store.read(run, after, wanted).await?;
            let read = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            for record in chunk {
                (after, bytes) = (record.seq, bytes + record.body.len());
                records.push(record);
                if bytes >= most.bytes {
                    return Ok(Piece { records, is_cut: true });
                }
            }
            if read < wanted {
                break;
            }
            left -= wanted;
        }
        Ok(Piece { records, is_cut: false })
    }
}
