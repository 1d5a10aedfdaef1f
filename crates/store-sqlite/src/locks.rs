//! Named locks: one row each, changed by compare-and-set on its version.

use goldseam_core::lock::Lock;
use goldseam_core::{LockName, Millis};
use goldseam_store::{Expect, LockFilter, Page, RecordKind, Unreadable, Written};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::fault::SqliteFault;
use crate::sql::{id, is_unreadable, json, json_text, reason, sql_int, text_of};
use crate::writer::JobContext;

const INSERT: &str = "INSERT OR IGNORE INTO locks (name, holder, fence, expires_at, acquired_at, node, version, \
    audit) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const UPDATE: &str = "UPDATE locks SET holder = ?2, fence = ?3, expires_at = ?4, acquired_at = ?5, node = ?6, \
    version = ?7, audit = ?8 WHERE name = ?1 AND version = ?9";
const SELECT: &str = "SELECT name, holder, fence, expires_at, acquired_at, node, version, audit FROM locks";
const FIND: &str = "SELECT name, holder, fence, expires_at, acquired_at, node, version, audit FROM locks \
    WHERE name = ?1";

/// Writes a lock if it is as expected, else returns the stored one.
pub(crate) fn put(work: &JobContext<'_>, lock: &Lock, expect: Expect) -> Result<Written<Lock>, SqliteFault> {
    let mut statement = work.conn.prepare_cached(match expect {
        Expect::Absent => INSERT,
        Expect::Version(_) => UPDATE,
    })?;
    let fields = params![
        lock.name.as_str(),
        lock.holder,
        sql_int(lock.fence),
        lock.expires_at.0,
        lock.acquired_at.0,
        lock.node,
        sql_int(lock.version),
        json_text(Some(&lock.audit).filter(|audit| !audit.is_empty()))?,
    ];
    for (index, field) in fields.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, field)?;
    }
    if let Expect::Version(version) = expect {
        statement.raw_bind_parameter(fields.len() + 1, sql_int(version))?;
    }
    if statement.raw_execute()? == 1 {
        return Ok(Written::Done);
    }
    let mut statement = work.conn.prepare_cached(FIND)?;
    let mut rows = statement.query([lock.name.as_str()])?;
    let found = rows.next()?.map(seen).transpose()?.flatten();
    Ok(Written::Lost(found))
}

/// A lock as lists show it. An unreadable lock counts as held.
fn seen(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Lock>> {
    match read(row) {
        Err(error) if is_unreadable(&error) => {
            Ok(text_of(row, 0)?.and_then(|name| LockName::new(name).ok()).map(Unreadable::lock))
        }
        read => read.map(Some),
    }
}

/// Reads the next locks in order of name. Returns the unreadable ones.
pub(crate) fn unreadable(
    conn: &Connection,
    after: &str,
    limit: u32,
) -> Result<Page<Unreadable>, SqliteFault> {
    let mut statement = conn.prepare_cached(&[SELECT, " WHERE name > ?1 ORDER BY name LIMIT ?2"].concat())?;
    let mut rows = statement.query(params![after, limit])?;
    let mut page = Page::default();
    let mut names = 0;
    while let Some(row) = rows.next()? {
        let name = text_of(row, 0)?.unwrap_or_else(|| "(unreadable name)".to_owned());
        if let Err(error) = read(row) {
            page.items.push(Unreadable::new(RecordKind::Lock, name.clone(), reason(&error)));
        }
        names += 1;
        page.next = (names == limit).then_some(name);
    }
    Ok(page)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Lock> {
    Ok(Lock {
        name: id(row, 0)?,
        holder: row.get(1)?,
        fence: row.get::<_, i64>(2)?.unsigned_abs(),
        expires_at: Millis(row.get(3)?),
        acquired_at: Millis(row.get(4)?),
        node: row.get(5)?,
        version: row.get::<_, i64>(6)?.unsigned_abs(),
        audit: json(row, 7)?.unwrap_or_default(),
    })
}

/// Lists locks in order of name.
pub(crate) fn list(conn: &Connection, filter: &LockFilter) -> Result<Vec<Lock>, SqliteFault> {
    let held = match filter {
        LockFilter { name: Some(_), .. } => "",
        LockFilter { stale_at: Some(_), .. } => " INDEXED BY locks_held",
        LockFilter { node_none_of: Some(_), .. } => " INDEXED BY locks_node",
        _ => "",
    };
    let mut sql = [SELECT, held, " WHERE 1"].concat();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |piece: &'static str, value: Option<Value>| {
        if value.is_some() {
            sql.push_str(piece);
            values.extend(value);
        }
    };
    let text = |text: &str| Value::Text(text.to_owned());
    add(" AND name = ?", filter.name.as_ref().map(|name| text(name.as_str())));
    add(" AND holder IS NOT NULL AND expires_at <= ?", filter.stale_at.map(|at| Value::Integer(at.0)));
    add(
        " AND holder IS NOT NULL AND node IS NOT NULL AND node NOT IN (SELECT value FROM json_each(?))",
        json_text(filter.node_none_of.as_ref())?.map(Value::Text),
    );
    add(" AND name > ?", filter.after.as_ref().map(|name| text(name.as_str())));
    add(" ORDER BY name LIMIT ?", Some(Value::Integer(filter.limit.into())));
    let mut statement = conn.prepare_cached(&sql)?;
    let locks = statement.query_map(params_from_iter(values), seen)?;
    Ok(locks.filter_map(Result::transpose).collect::<rusqlite::Result<_>>()?)
}
