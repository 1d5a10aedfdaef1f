//! The audit: triggers copy the entries of tasks and locks into it, in the transaction that writes the record.

use async_trait::async_trait;
use goldseam_core::Millis;
use goldseam_core::audit::Audit;
use goldseam_store::audit::place_bound;
use goldseam_store::{AuditEntry, AuditFilter, AuditLog, Page, StoreError};
use rusqlite::{Connection, params};

use crate::SqliteStore;
use crate::fault::SqliteFault;
use crate::sql::{is_unreadable, json};
use crate::writer::WriteMode;

const LIST: &str = "SELECT place, entry FROM audit WHERE place > ?1 AND place < ?2 ORDER BY place LIMIT ?3";
const LIST_OF_RULE: &str = "SELECT place, entry FROM audit WHERE rule = ?4 AND place > ?1 AND place < ?2 \
    ORDER BY place LIMIT ?3";
const TRIM: &str = "DELETE FROM audit WHERE place IN (\
    SELECT place FROM audit WHERE place >= ?1 ORDER BY place DESC LIMIT ?2)";

/// A trim wakes no waiter.
const TRIM_MODE: WriteMode = WriteMode { wakes_waiters: false, ..WriteMode::DEFAULT };

fn list(conn: &Connection, filter: &AuditFilter) -> Result<Page<AuditEntry>, SqliteFault> {
    let (after, until) = filter.bounds();
    let limit = i64::from(filter.limit) + 1;
    let read = |row: &rusqlite::Row<'_>| {
        let place: String = row.get(0)?;
        let entry = match json::<Audit>(row, 1) {
            Err(error) if !is_unreadable(&error) => return Err(error),
            entry => entry.ok().flatten().and_then(|entry| AuditEntry::at_place(&place, &entry)),
        };
        Ok((place, entry))
    };
    let mut statement = conn.prepare_cached(if filter.rule.is_some() { LIST_OF_RULE } else { LIST })?;
    let found: rusqlite::Result<Vec<_>> = match &filter.rule {
        None => statement.query_map(params![after, until, limit], read)?.collect(),
        Some(rule) => statement.query_map(params![after, until, limit, rule], read)?.collect(),
    };
    Ok(filter.page(found?))
}

#[async_trait]
impl AuditLog for SqliteStore {
    async fn audit_entries(&self, filter: AuditFilter) -> Result<Page<AuditEntry>, StoreError> {
        self.readers.read(move |conn| list(conn, &filter)).await
    }

    async fn trim_audit(&self, before: Millis, limit: u32) -> Result<u64, StoreError> {
        let before = place_bound(before);
        let trim = move |work: &mut crate::writer::JobContext<'_>| {
            Ok(work.conn.prepare_cached(TRIM)?.execute(params![before, limit])? as u64)
        };
        self.writer.write(TRIM_MODE, trim).await
    }
}
