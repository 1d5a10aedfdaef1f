//! Pages of a log that fit into memory, however large its events are.

use goldseam_core::{RunId, Seq};
use goldseam_store::{Record, StoreError};

use crate::commit::Ledger;

/// Events read from the store at a time: what they weigh is known only then.
const CHUNK: u32 = 64;
/// A page ends with the event that makes it as large as this.
const BYTES_MAX: usize = 1024 * 1024;

/// A piece of a log as the store has it.
#[derive(Debug, Default)]
pub struct Piece {
    /// Its events, oldest first.
    pub records: Vec<Record>,
    /// It ends because of what it weighs: there may be more, however few these are.
    pub is_cut: bool,
}

impl Ledger {
    /// At most so many events after `after`, and no more than about a mebibyte of them, but one at least.
    pub async fn piece(&self, run: &RunId, mut after: Seq, most: u32) -> Result<Piece, StoreError> {
        let (mut records, mut bytes, mut left) = (Vec::new(), 0, most);
        while left > 0 {
            let wanted = CHUNK.min(left);
            let chunk = self.store.read(run, after, wanted).await?;
            let read = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            for record in chunk {
                (after, bytes) = (record.seq, bytes + record.body.len());
                records.push(record);
                if bytes >= BYTES_MAX {
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
