//! The numbers by which tables name runs, cached by the writer.

use std::collections::HashMap;

use goldseam_core::RunId;
use rusqlite::{Connection, OptionalExtension};

/// Most runs in each of the two generations of the cache.
const GENERATION_MAX: usize = 32_768;

/// Numbers of recently used runs, in two generations. The older one is dropped as a whole.
#[derive(Debug, Default)]
pub(crate) struct RunNumbers {
    young: HashMap<RunId, i64>,
    old: HashMap<RunId, i64>,
}

impl RunNumbers {
    /// Returns the number of a run; none if the run does not exist.
    pub(crate) fn find(&mut self, conn: &Connection, run: &RunId) -> rusqlite::Result<Option<i64>> {
        if let Some(rid) = self.young.get(run) {
            return Ok(Some(*rid));
        }
        let rid = match self.old.get(run) {
            Some(rid) => Some(*rid),
            None => conn
                .prepare_cached("SELECT rid FROM runs WHERE id = ?1")?
                .query_row([run.as_str()], |row| row.get(0))
                .optional()?,
        };
        if let Some(rid) = rid {
            self.insert(run, rid);
        }
        Ok(rid)
    }

    pub(crate) fn insert(&mut self, run: &RunId, rid: i64) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(run.clone(), rid);
    }
}
