//! Where a page of a list of runs ends: the order is (`created_at`, run), so a cursor names both.

use std::fmt;
use std::str::FromStr;

use goldseam_core::{Millis, RunId};

use crate::api::Row;
use crate::error::StoreError;

/// The last run of a page; the next page begins behind it, even if it is gone by then.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When it was queued.
    pub created_at: Millis,
    /// The run, among those queued at the same moment.
    pub run: RunId,
}

impl Cursor {
    /// The place of this row in the list.
    pub fn of(row: &Row) -> Self {
        Self { created_at: row.summary.created_at, run: row.summary.run.clone() }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.created_at.0, self.run)
    }
}

impl FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let parse = || {
            let (at, run) = text.split_once(':')?;
            Some(Self { created_at: Millis(at.parse().ok()?), run: RunId::new(run).ok()? })
        };
        parse().ok_or_else(|| StoreError::foreign_cursor(text))
    }
}
