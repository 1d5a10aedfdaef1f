//! Cached rows: written with an append or by compare-and-set.
//!
//! Invariant: `updated_at` strictly grows with every write of a row. A lost row is a null `summary`.

use goldseam_core::codec::{ROW_BYTES, to_json};
use goldseam_core::{Millis, Summary, TaskId};
use goldseam_store::{Expect, Row, StoreError, Written};
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::sql::{column, sql_int};

const PUT: &str = "SELECT done, summary, task, updated_at FROM goldseam.put_row($1, $2, $3, $4, $5, $6, $7, $8, \
    $9, $10, $11, $12, $13, $14)";

/// A summary and its JSON text.
#[derive(Debug)]
pub(crate) struct PgRowText {
    summary: Box<Summary>,
    text: String,
    tags: Option<Value>,
}

impl PgRowText {
    pub(crate) fn new(summary: Box<Summary>) -> Result<Self, StoreError> {
        let failed = |error: serde_json::Error| StoreError::Damaged {
            detail: format!("cannot encode a row: {error}"),
        };
        let text = to_json(&summary, ROW_BYTES).map_err(failed)?;
        let tags = if summary.tags.is_empty() {
            None
        } else {
            Some(serde_json::to_value(&summary.tags).map_err(failed)?)
        };
        Ok(Self { summary, text, tags })
    }

    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn tags(&self) -> Option<&Value> {
        self.tags.as_ref()
    }

    pub(crate) fn owner(&self) -> Option<&str> {
        self.summary.owner.as_ref().map(|id| id.as_str())
    }

    pub(crate) fn parent(&self) -> Option<&str> {
        self.summary.parent.as_ref().map(|id| id.as_str())
    }

    pub(crate) fn cause(&self) -> Option<&str> {
        self.summary.trouble.as_ref().map(|trouble| trouble.cause.as_str())
    }
}

/// Writes a row if it is as expected, else returns the stored one. A run without a log gets no row.
pub(crate) async fn put(
    connection: &PgConnection,
    row: Row,
    expect: Expect,
    now: Millis,
) -> Result<Written<Row>, StoreError> {
    let put = PutRow { task: row.task, row: PgRowText::new(Box::new(row.summary))?, now };
    write(connection, &put, expect).await.map_err(|fault| fault.to_error("writing a row"))
}

/// A row to be written by compare-and-set.
struct PutRow {
    row: PgRowText,
    task: Option<TaskId>,
    now: Millis,
}

async fn write(connection: &PgConnection, put: &PutRow, expect: Expect) -> Result<Written<Row>, PgFault> {
    let version = match expect {
        Expect::Absent => None,
        Expect::Version(version) => Some(sql_int(version)),
    };
    match put_at(connection, put, version).await? {
        // An unreadable row counts as missing, but must not have changed meanwhile.
        PutRowOutcome::Unreadable(at) if expect == Expect::Absent => {
            Ok(match put_at(connection, put, Some(at)).await? {
                PutRowOutcome::Done => Written::Done,
                PutRowOutcome::Stored(row) => Written::Lost(*row),
                PutRowOutcome::Unreadable(_) => Written::Lost(None),
            })
        }
        PutRowOutcome::Unreadable(_) => Ok(Written::Lost(None)),
        PutRowOutcome::Done => Ok(Written::Done),
        PutRowOutcome::Stored(row) => Ok(Written::Lost(*row)),
    }
}

/// The outcome of a write of a row.
enum PutRowOutcome {
    /// The row was written.
    Done,
    /// Another row is stored instead, or none.
    Stored(Box<Option<Row>>),
    /// An unreadable row with this version is stored.
    Unreadable(i64),
}

async fn put_at(
    connection: &PgConnection,
    put: &PutRow,
    version: Option<i64>,
) -> Result<PutRowOutcome, PgFault> {
    let PutRow { row, task, now } = put;
    let summary = row.summary();
    let run = summary.run.as_str();
    let as_of = sql_int(summary.as_of.0);
    let values = [
        (&now.0 as _, Type::INT8),
        (&version as _, Type::INT8),
        (&run as _, Type::TEXT),
        (&task.as_ref().map(|id| id.as_str()) as _, Type::TEXT),
        (&row.text() as _, Type::TEXT),
        (&summary.workflow.as_str() as _, Type::TEXT),
        (&summary.status.as_str() as _, Type::TEXT),
        (&row.owner() as _, Type::TEXT),
        (&row.parent() as _, Type::TEXT),
        (&row.cause() as _, Type::TEXT),
        (&summary.created_at.0 as _, Type::INT8),
        (&as_of as _, Type::INT8),
        (&summary.recovered_at.map(|at| at.0) as _, Type::INT8),
        (&row.tags() as _, Type::JSONB),
    ];
    let answer = connection.query(PUT, &values).await?;
    let found = answer.first().ok_or_else(|| PgFault::Damaged("put_row returned no row".to_owned()))?;
    if column(found, 0)? {
        return Ok(PutRowOutcome::Done);
    }
    let Some(raw) = PgColumns::read(found, 1, None)? else {
        return Ok(PutRowOutcome::Stored(Box::default()));
    };
    let at = raw.updated_at;
    Ok(raw.parse().map_or(PutRowOutcome::Unreadable(at), |row| PutRowOutcome::Stored(Box::new(Some(row)))))
}

/// The columns of a row, not decoded.
#[derive(Debug)]
pub(crate) struct PgColumns {
    summary: String,
    task: Option<String>,
    updated_at: i64,
    /// The columns status and `as_of`, if the query has them.
    columns: Option<(Option<String>, i64)>,
}

impl PgColumns {
    /// Reads the columns summary, task and `updated_at` from index `first`, and status and `as_of` from index
    /// `columns`. Returns none if the row is lost.
    pub(crate) fn read(
        row: &tokio_postgres::Row,
        first: usize,
        columns: Option<usize>,
    ) -> Result<Option<Self>, PgFault> {
        let Some(summary) = column(row, first)? else { return Ok(None) };
        let columns = match columns {
            Some(at) => Some((column(row, at)?, column(row, at + 1)?)),
            None => None,
        };
        Ok(Some(Self {
            summary,
            task: column(row, first + 1)?,
            updated_at: column(row, first + 2)?,
            columns,
        }))
    }

    /// Decodes the row; the error says why it is unreadable. The columns that lists use must agree with the summary: a
    /// row that contradicts itself is unreadable.
    pub(crate) fn parse(self) -> Result<Row, String> {
        let summary: Summary = serde_json::from_str(&self.summary).map_err(|error| error.to_string())?;
        let task = self.task.map(TaskId::try_from).transpose().map_err(|error| error.to_string())?;
        if let Some((status, as_of)) = self.columns {
            let status = status.unwrap_or_default();
            if status != summary.status.as_str() {
                return Err(format!("column status is {status:?}, but the summary says {}", summary.status));
            }
            if as_of != sql_int(summary.as_of.0) {
                return Err(format!("column as_of is {as_of}, but the summary says {}", summary.as_of));
            }
        }
        Ok(Row { summary, task, updated_at: Millis(self.updated_at) })
    }
}
