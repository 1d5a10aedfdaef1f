//! The audit entries that this process knows to be written.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Most entries that are remembered as written.
const REMEMBERED_MAX: usize = 20_000;

/// Entries that this process knows to be in the audit.
#[derive(Debug, Default)]
pub(crate) struct AuditedEntries(Mutex<HashSet<String>>);

impl AuditedEntries {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    pub(crate) fn add(&self, key: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(key);
    }
}
