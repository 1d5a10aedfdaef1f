//! Compare-and-append: one run's events, its cached row and its tasks, many runs in one transaction.
//!
//! Invariant: the first event goes in only if the log ends where it must, gaps or not; nothing else of an append
//! is written unless it went in. One append's conflict is an answer to that one alone.

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::{Millis, Seq, TaskId};
use goldseam_store::{Append, StoreError, TaskChange};
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::clock::Moment;
use crate::fault::Fault;
use crate::link::Link;
use crate::nodes::Me;
use crate::read::column;
use crate::runs::RowText;
use crate::tasks::Flat;
use crate::writer::{Group, Waiting};

const APPEND: &str = "SELECT ends, clock FROM goldseam.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
    $13, $14, $15, $16, $17, $18)";

/// An append whose row and changes are text already.
#[derive(Debug)]
pub(crate) struct Prepared {
    append: Append,
    row: Option<RowText>,
    changes: Option<Value>,
}

impl Prepared {
    pub(crate) fn new(mut append: Append, now: Millis) -> Result<Self, StoreError> {
        if append.bodies.is_empty() {
            return Err(StoreError::empty_append());
        }
        let row = append.row.take().map(RowText::new).transpose()?;
        let changes = match std::mem::take(&mut append.tasks) {
            tasks if tasks.is_empty() => None,
            tasks => Some(changes(tasks, now)?),
        };
        Ok(Self { append, row, changes })
    }
}

/// A change as the call takes it.
#[derive(Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Change {
    Create { task: Box<Flat>, advance: bool },
    Rest { id: String, at: i64 },
    Wake { at: i64 },
    Cancel { id: String },
    Remove { id: String },
}

fn changes(tasks: Vec<TaskChange>, now: Millis) -> Result<Value, StoreError> {
    let text = |id: &TaskId| id.as_str().to_owned();
    let flat = tasks.iter().map(|change| {
        Ok(match change {
            TaskChange::Create(task) => {
                Change::Create { advance: task.is_advance(), task: Box::new(Flat::of(task, now)?) }
            }
            TaskChange::Rest { task, run_at } => Change::Rest { id: text(task), at: run_at.0 },
            TaskChange::Wake { at } => Change::Wake { at: at.0 },
            TaskChange::Cancel { task } => Change::Cancel { id: text(task) },
            TaskChange::Remove { task } => Change::Remove { id: text(task) },
        })
    });
    let flat = flat.collect::<Result<Vec<Change>, StoreError>>()?;
    serde_json::to_value(flat)
        .map_err(|error| StoreError::Damaged { detail: format!("a task cannot be written: {error}") })
}

/// How appends are written together.
#[derive(Debug)]
pub(crate) struct Appends(pub(crate) Arc<Me>);

#[async_trait]
impl Group for Appends {
    type Job = Prepared;
    type Answer = Seq;

    fn sort(&self, jobs: &mut [Waiting<Self>]) {
        // Stable: appends to one run keep their order.
        jobs.sort_by(|left, right| left.job.append.run.cmp(&right.job.append.run));
    }

    async fn write(&self, link: &Link, jobs: &[&Prepared]) -> Result<Vec<Result<Seq, StoreError>>, Fault> {
        let sent = Moment::now();
        let me = &self.0;
        let (now, nodes) = (me.clock.now().0, me.nodes());
        let runs: Vec<&str> = jobs.iter().map(|job| job.append.run.as_str()).collect();
        let afters: Vec<i64> = jobs.iter().map(|job| sql_int(job.append.after.0)).collect();
        let counts: Vec<i32> =
            jobs.iter().map(|job| i32::try_from(job.append.bodies.len()).unwrap_or(i32::MAX)).collect();
        let bodies: Vec<&str> =
            jobs.iter().flat_map(|job| job.append.bodies.iter().map(String::as_str)).collect();
        let changes: Vec<Option<&Value>> = jobs.iter().map(|job| job.changes.as_ref()).collect();
        let rows = Rows::of(jobs);
        let values = [
            (&now as _, Type::INT8),
            (&nodes as _, Type::TEXT_ARRAY),
            (&me.channel as _, Type::TEXT),
            (&runs as _, Type::TEXT_ARRAY),
            (&afters as _, Type::INT8_ARRAY),
            (&counts as _, Type::INT4_ARRAY),
            (&bodies as _, Type::TEXT_ARRAY),
            (&changes as _, Type::JSONB_ARRAY),
            (&rows.texts as _, Type::TEXT_ARRAY),
            (&rows.workflows as _, Type::TEXT_ARRAY),
            (&rows.statuses as _, Type::TEXT_ARRAY),
            (&rows.owners as _, Type::TEXT_ARRAY),
            (&rows.parents as _, Type::TEXT_ARRAY),
            (&rows.causes as _, Type::TEXT_ARRAY),
            (&rows.created as _, Type::INT8_ARRAY),
            (&rows.as_ofs as _, Type::INT8_ARRAY),
            (&rows.recovered as _, Type::INT8_ARRAY),
            (&rows.tags as _, Type::JSONB_ARRAY),
        ];
        let answer = link.query(APPEND, &values).await?;
        let row = answer.first().ok_or_else(|| Fault::Damaged("an append had no answer".to_owned()))?;
        me.clock.heard(column(row, 1)?, sent);
        me.watch.bump();
        let ends: Vec<i64> = column(row, 0)?;
        Ok(ends.into_iter().map(outcome).collect())
    }
}

fn outcome(end: i64) -> Result<Seq, StoreError> {
    match u64::try_from(end) {
        Ok(end) => Ok(Seq(end)),
        Err(_) => Err(StoreError::Conflict { end: Seq((-1 - end).unsigned_abs()) }),
    }
}

/// The rows of a group, column by column; none where an append has no row.
struct Rows<'a> {
    texts: Vec<Option<&'a str>>,
    workflows: Vec<Option<&'a str>>,
    statuses: Vec<Option<&'a str>>,
    owners: Vec<Option<&'a str>>,
    parents: Vec<Option<&'a str>>,
    causes: Vec<Option<&'a str>>,
    created: Vec<Option<i64>>,
    as_ofs: Vec<Option<i64>>,
    recovered: Vec<Option<i64>>,
    tags: Vec<Option<&'a Value>>,
}

impl<'a> Rows<'a> {
    fn of(jobs: &[&'a Prepared]) -> Self {
        fn all<'a, T>(jobs: &[&'a Prepared], get: impl Fn(&'a RowText) -> Option<T>) -> Vec<Option<T>> {
            jobs.iter().map(|job| job.row.as_ref().and_then(&get)).collect()
        }
        Self {
            texts: all(jobs, |row| Some(row.text())),
            workflows: all(jobs, |row| Some(row.said().workflow.as_str())),
            statuses: all(jobs, |row| Some(row.said().status.as_str())),
            owners: all(jobs, |row| row.owner()),
            parents: all(jobs, |row| row.parent()),
            causes: all(jobs, |row| row.cause()),
            created: all(jobs, |row| Some(row.said().created_at.0)),
            as_ofs: all(jobs, |row| Some(sql_int(row.said().as_of.0))),
            recovered: all(jobs, |row| row.said().recovered_at.map(|at| at.0)),
            tags: all(jobs, |row| row.tags()),
        }
    }
}

/// An unsigned number as Postgres keeps it; what does not fit is larger than anything stored.
pub(crate) fn sql_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
