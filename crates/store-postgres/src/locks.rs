//! Named locks: one row each, changed by compare-and-set on its version.

use goldseam_core::lock::Lock;
use goldseam_core::{LockName, Millis};
use goldseam_store::{Expect, LockFilter, Page, RecordKind, StoreError, Unreadable, Written};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::Type;

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::sql::{PgQuery, column, json, json_text, sql_int};

const PUT: &str = "SELECT goldseam.put_lock($1, $2)";
const SELECT: &str = "SELECT row_to_json(l)::text FROM goldseam.locks AS l WHERE true";

/// The columns of a lock.
#[derive(Debug, Serialize, Deserialize)]
struct LockRow {
    name: String,
    holder: Option<String>,
    fence: u64,
    expires_at: i64,
    acquired_at: i64,
    node: Option<String>,
    version: u64,
    audit: Option<String>,
}

impl LockRow {
    fn of(lock: &Lock) -> Result<Self, StoreError> {
        Ok(Self {
            name: lock.name.as_str().to_owned(),
            holder: lock.holder.clone(),
            fence: lock.fence,
            expires_at: lock.expires_at.0,
            acquired_at: lock.acquired_at.0,
            node: lock.node.clone(),
            version: lock.version,
            audit: json_text(Some(&lock.audit).filter(|audit| !audit.is_empty()))?,
        })
    }

    fn parse(text: &str) -> Result<Lock, PgFault> {
        let damaged = |error: &dyn std::fmt::Display| PgFault::unreadable("a lock", error);
        let flat: Self = serde_json::from_str(text).map_err(|error| damaged(&error))?;
        Ok(Lock {
            name: flat.name.try_into().map_err(|error| damaged(&error))?,
            holder: flat.holder,
            fence: flat.fence,
            expires_at: Millis(flat.expires_at),
            acquired_at: Millis(flat.acquired_at),
            node: flat.node,
            version: flat.version,
            audit: json(flat.audit.as_deref()).map_err(|error| damaged(&error))?.unwrap_or_default(),
        })
    }
}

/// Writes a lock if it is as expected, else returns the stored one.
pub(crate) async fn put(
    connection: &PgConnection,
    lock: &Lock,
    expect: Expect,
) -> Result<Written<Lock>, StoreError> {
    let flat = serde_json::to_value(LockRow::of(lock)?)
        .map_err(|error| StoreError::Damaged { detail: format!("cannot encode a lock: {error}") })?;
    let version = match expect {
        Expect::Absent => None,
        Expect::Version(version) => Some(sql_int(version)),
    };
    let write = async {
        let answer = connection.query(PUT, &[(&flat as _, Type::JSONB), (&version as _, Type::INT8)]).await?;
        let row = answer.first().ok_or_else(|| PgFault::Damaged("put_lock returned no row".to_owned()))?;
        let lost: Option<String> = column(row, 0)?;
        Ok(match lost.as_deref() {
            None => Written::Done,
            Some("") => Written::Lost(None),
            Some(text) => Written::Lost(seen(text)),
        })
    };
    write.await.map_err(|fault: PgFault| fault.to_error("writing a lock"))
}

/// Lists locks in order of name.
pub(crate) async fn list(connection: &PgConnection, filter: &LockFilter) -> Result<Vec<Lock>, StoreError> {
    let mut query = PgQuery::new(SELECT);
    query.add_text(" AND l.name = ", filter.name.as_ref().map(|name| name.as_str()));
    query.add_number(" AND l.holder IS NOT NULL AND l.expires_at <= ", filter.stale_at.map(|at| at.0));
    query.add_texts(
        " AND l.holder IS NOT NULL AND l.node IS NOT NULL AND l.node <> ALL ",
        filter.node_none_of.as_deref(),
    );
    query.add_text(" AND l.name > ", filter.after.as_ref().map(|name| name.as_str()));
    query.add_number(" ORDER BY l.name LIMIT ", Some(filter.limit.into()));
    let rows = connection.read(&query.sql, &query.values()).await?;
    let lock = |row: &tokio_postgres::Row| Ok(seen(column(row, 0)?));
    let locks = rows.iter().map(lock).filter_map(Result::transpose).collect::<Result<_, PgFault>>();
    locks.map_err(|fault| fault.to_read_error())
}

/// A lock as lists show it. An unreadable lock counts as held.
fn seen(text: &str) -> Option<Lock> {
    LockRow::parse(text).ok().or_else(|| LockName::new(name_of(text)?).ok().map(Unreadable::lock))
}

fn name_of(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct LockNameOnly {
        name: String,
    }
    serde_json::from_str(text).ok().map(|named: LockNameOnly| named.name)
}

/// Reads the next locks in order of name. Returns the unreadable ones.
pub(crate) async fn unreadable(
    connection: &PgConnection,
    after: &str,
    limit: u32,
) -> Result<Page<Unreadable>, StoreError> {
    let mut query = PgQuery::new(SELECT);
    query.add_text(" AND l.name > ", Some(after));
    query.add_number(" ORDER BY l.name LIMIT ", Some(limit.into()));
    let rows = connection.read(&query.sql, &query.values()).await?;
    let mut page = Page::default();
    for row in &rows {
        let text: &str = column(row, 0).map_err(|fault: PgFault| fault.to_read_error())?;
        let name = name_of(text).unwrap_or_default();
        if let Err(fault) = LockRow::parse(text) {
            page.items.push(Unreadable::new(RecordKind::Lock, name.clone(), fault.to_read_error()));
        }
        page.next = Some(name);
    }
    page.next = page.next.filter(|_| rows.len() == limit as usize);
    Ok(page)
}
