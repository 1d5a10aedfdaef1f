//! The cached rows: written with an append or by compare-and-set.
//!
//! Invariant: `updated_at` strictly grows with every write of a row. A lost row is a null `summary`.

use goldseam_core::{Millis, RunId, Summary, TaskId};
use goldseam_store::{Expect, Row, StoreError, Written};
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::append::sql_int;
use crate::connection::Link;
use crate::fault::Fault;
use crate::read::column;

const PUT: &str = "SELECT done, summary, task, updated_at FROM goldseam.put_row($1, $2, $3, $4, $5, $6, $7, $8, \
    $9, $10, $11, $12, $13, $14)";

/// A summary with its text.
#[derive(Debug)]
pub(crate) struct RowText {
    summary: Box<Summary>,
    text: String,
    tags: Option<Value>,
}

impl RowText {
    pub(crate) fn new(summary: Box<Summary>) -> Result<Self, StoreError> {
        let failed = |error: serde_json::Error| StoreError::Damaged {
            detail: format!("cannot encode a row: {error}"),
        };
        let text = serde_json::to_string(&summary).map_err(failed)?;
        let tags = match summary.tags.is_empty() {
            true => None,
            false => Some(serde_json::to_value(&summary.tags).map_err(failed)?),
        };
        Ok(Self { summary, text, tags })
    }

    pub(crate) fn said(&self) -> &Summary {
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

/// Writes a row if it is as expected, or says what is there instead. A run without a log gets no row.
pub(crate) async fn put(
    link: &Link,
    row: Row,
    expect: Expect,
    now: Millis,
) -> Result<Written<Row>, StoreError> {
    let task = row.task;
    let row = RowText::new(Box::new(row.summary))?;
    write(link, (&row, task.as_ref()), expect, now).await.map_err(|fault| fault.to_error("writing a row"))
}

async fn write(
    link: &Link,
    (row, task): (&RowText, Option<&TaskId>),
    expect: Expect,
    now: Millis,
) -> Result<Written<Row>, Fault> {
    let version = match expect {
        Expect::Absent => None,
        Expect::Version(version) => Some(sql_int(version)),
    };
    match put_at(link, (row, task), version, now).await? {
        // A row that cannot be read is as good as none; what stands there must not have changed meanwhile.
        Lost::Unreadable(at) if expect == Expect::Absent => {
            Ok(match put_at(link, (row, task), Some(at), now).await? {
                Lost::Nothing => Written::Done,
                Lost::To(row) => Written::Lost(*row),
                Lost::Unreadable(_) => Written::Lost(None),
            })
        }
        Lost::Unreadable(_) => Ok(Written::Lost(None)),
        Lost::Nothing => Ok(Written::Done),
        Lost::To(row) => Ok(Written::Lost(*row)),
    }
}

/// What a write of a row lost to.
enum Lost {
    /// It was done.
    Nothing,
    /// This is there instead.
    To(Box<Option<Row>>),
    /// A row that cannot be read, of this version.
    Unreadable(i64),
}

async fn put_at(
    link: &Link,
    (row, task): (&RowText, Option<&TaskId>),
    version: Option<i64>,
    now: Millis,
) -> Result<Lost, Fault> {
    let said = row.said();
    let (run, as_of) = (said.run.as_str(), sql_int(said.as_of.0));
    let values = [
        (&now.0 as _, Type::INT8),
        (&version as _, Type::INT8),
        (&run as _, Type::TEXT),
        (&task.map(|id| id.as_str()) as _, Type::TEXT),
        (&row.text() as _, Type::TEXT),
        (&said.workflow.as_str() as _, Type::TEXT),
        (&said.status.as_str() as _, Type::TEXT),
        (&row.owner() as _, Type::TEXT),
        (&row.parent() as _, Type::TEXT),
        (&row.cause() as _, Type::TEXT),
        (&said.created_at.0 as _, Type::INT8),
        (&as_of as _, Type::INT8),
        (&said.recovered_at.map(|at| at.0) as _, Type::INT8),
        (&row.tags() as _, Type::JSONB),
    ];
    let answer = link.query(PUT, &values).await?;
    let found = answer.first().ok_or_else(|| Fault::Damaged("put_row returned no row".to_owned()))?;
    if column(found, 0)? {
        return Ok(Lost::Nothing);
    }
    let Some(raw) = RawRow::read(found, 1, None)? else { return Ok(Lost::To(Box::default())) };
    let at = raw.updated_at;
    Ok(raw.parse().map_or(Lost::Unreadable(at), |row| Lost::To(Box::new(Some(row)))))
}

/// A row as the database has it.
#[derive(Debug)]
pub(crate) struct RawRow {
    summary: String,
    task: Option<String>,
    updated_at: i64,
    /// The columns status and `as_of`, where they were asked for.
    columns: Option<(Option<String>, i64)>,
}

impl RawRow {
    /// From the columns summary, task and `updated_at`, which begin at `first`, and from status and `as_of`, which
    /// begin at `columns`; none if the row is lost.
    pub(crate) fn read(
        row: &tokio_postgres::Row,
        first: usize,
        columns: Option<usize>,
    ) -> Result<Option<Self>, Fault> {
        let Some(summary) = column(row, first)? else { return Ok(None) };
        let columns = match columns {
            Some(at) => Some((column(row, at)?, column(row, at + 1)?)),
            None => None,
        };
        let (task, updated_at) = (column(row, first + 1)?, column(row, first + 2)?);
        Ok(Some(Self { summary, task, updated_at, columns }))
    }

    /// Makes sense of it; the error says why that cannot be done. Columns that lists go by must say what the summary
    /// says: a row that contradicts itself is no row.
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

/// A run's id from a column.
pub(crate) fn run_id(row: &tokio_postgres::Row, index: usize) -> Result<RunId, Fault> {
    let text: String = column(row, index)?;
    RunId::new(text).map_err(|error| Fault::unreadable("a run's id", &error))
}
