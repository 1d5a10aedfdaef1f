//! The cached rows: written with an append or by compare-and-set.
//!
//! Invariant: `updated_at` strictly grows with every write of a row. A lost row is a null `summary`.

use goldseam_core::{Millis, RunId, Summary, TaskId};
use goldseam_store::{Expect, Row, StoreError, Written};
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::append::sql_int;
use crate::fault::Fault;
use crate::link::Link;
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
            detail: format!("a row cannot be written: {error}"),
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
    let said = row.said();
    let version = match expect {
        Expect::Absent => None,
        Expect::Version(version) => Some(sql_int(version)),
    };
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
    let found = answer.first().ok_or_else(|| Fault::Damaged("a row's write had no answer".to_owned()))?;
    if column(found, 0)? {
        return Ok(Written::Done);
    }
    Ok(Written::Lost(RawRow::read(found, 1)?.map(RawRow::parse).transpose()?))
}

/// A row as the database has it.
#[derive(Debug)]
pub(crate) struct RawRow {
    summary: String,
    task: Option<String>,
    updated_at: i64,
}

impl RawRow {
    /// From the columns summary, task and `updated_at`, which begin at `first`; none if the row is lost.
    pub(crate) fn read(row: &tokio_postgres::Row, first: usize) -> Result<Option<Self>, Fault> {
        let Some(summary) = column(row, first)? else { return Ok(None) };
        Ok(Some(Self { summary, task: column(row, first + 1)?, updated_at: column(row, first + 2)? }))
    }

    /// Makes sense of it.
    pub(crate) fn parse(self) -> Result<Row, Fault> {
        let damaged = |error: &dyn std::fmt::Display| Fault::unreadable("a run's row", error);
        let summary = serde_json::from_str(&self.summary).map_err(|error| damaged(&error))?;
        let task = self.task.map(TaskId::try_from).transpose().map_err(|error| damaged(&error))?;
        Ok(Row { summary, task, updated_at: Millis(self.updated_at) })
    }
}

/// A run's id from a column.
pub(crate) fn run_id(row: &tokio_postgres::Row, index: usize) -> Result<RunId, Fault> {
    let text: String = column(row, index)?;
    RunId::new(text).map_err(|error| Fault::unreadable("a run's id", &error))
}
