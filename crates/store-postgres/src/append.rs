//! Compare-and-append: the events of a run, its cached row and its tasks, for many runs in one transaction.
//!
//! Invariant: the first event of an append is inserted only if the log ends where the append expects, even if the log
//! has gaps; nothing else of the append is written otherwise. A conflict of one append does not affect the others.

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::{Millis, RunId, Seq, TaskId};
use goldseam_store::{Append, StoreError, TaskChange};
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::clock::MonotonicTime;
use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::rows::PgRowText;
use crate::sql::{column, sql_int};
use crate::tasks::TaskRow;
use crate::write_context::WriteContext;
use crate::writer::{JobGroup, WaitingJob};

const APPEND: &str = "SELECT ends, clock FROM goldseam.append_group($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
    $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)";

/// An append of one event without row and tasks: a step of a run on an otherwise idle node.
const APPEND_ONE: &str = "INSERT INTO goldseam.events AS e (rid, seq, body) SELECT r.rid, $2 + 1, $3 \
    FROM goldseam.runs AS r WHERE r.id = $1 \
    AND coalesce((SELECT max(l.seq) FROM goldseam.events AS l WHERE l.rid = r.rid), 0) = $2 \
    ON CONFLICT DO NOTHING RETURNING goldseam.clock()";

const TRIM: &str = "DELETE FROM goldseam.events AS e USING goldseam.runs AS r WHERE r.id = $1 AND e.rid = r.rid \
    AND e.seq < $2 AND EXISTS (SELECT 1 FROM goldseam.events AS f WHERE f.rid = r.rid AND f.seq = $2)";

/// Removes the events before position `first`, if that event exists.
pub(crate) async fn trim(connection: &PgConnection, run: &RunId, first: Seq) -> Result<(), StoreError> {
    let first = sql_int(first.0);
    let values = [(&run.as_str() as _, Type::TEXT), (&first as _, Type::INT8)];
    connection.query(TRIM, &values).await.map(drop).map_err(|fault| fault.to_error("trimming a log"))
}

/// An append whose row and changes are already encoded.
#[derive(Debug)]
pub(crate) struct PgAppend {
    append: Append,
    row: Option<PgRowText>,
    effect: TaskEffect,
}

/// The changes of tasks with an append. Most runs have one task from their first append to their last.
#[derive(Debug)]
enum TaskEffect {
    None,
    /// Creates the advance task with the run.
    CreateOwn(Value),
    /// Removes a task.
    Remove(String),
    /// Any other changes, in order.
    Changes(Value),
}

impl PgAppend {
    pub(crate) fn new(mut append: Append, now: Millis) -> Result<Self, StoreError> {
        if append.bodies.is_empty() {
            return Err(StoreError::empty_append());
        }
        let row = append.row.take().map(PgRowText::new).transpose()?;
        let tasks = std::mem::take(&mut append.tasks);
        let effect = match tasks.as_slice() {
            [] => TaskEffect::None,
            [TaskChange::Remove { task }] => TaskEffect::Remove(task.as_str().to_owned()),
            [TaskChange::Create(task)] if append.after == Seq(0) && row.is_some() && task.is_advance() => {
                TaskEffect::CreateOwn(json(&TaskRow::of(task, now)?)?)
            }
            tasks => TaskEffect::Changes(changes(tasks, now)?),
        };
        Ok(Self { append, row, effect })
    }

    fn first(&self) -> &str {
        self.append.bodies.first().map_or("", String::as_str)
    }

    /// Whether it is one event of an existing run, without row and tasks.
    fn is_single_event(&self) -> bool {
        let one = self.append.bodies.len() == 1 && self.append.after > Seq(0);
        one && self.row.is_none() && matches!(self.effect, TaskEffect::None)
    }

    /// Where its log ends after the append.
    fn end(&self) -> Seq {
        Seq(self.append.after.0.saturating_add(self.append.bodies.len() as u64))
    }
}

fn json(value: &impl Serialize) -> Result<Value, StoreError> {
    serde_json::to_value(value)
        .map_err(|error| StoreError::Damaged { detail: format!("cannot encode a task: {error}") })
}

/// A change as the SQL function takes it.
#[derive(Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum TaskChangeArg {
    Create { task: Box<TaskRow>, advance: bool },
    Rest { id: String, at: i64 },
    Wake { at: i64 },
    Cancel { id: String },
    Remove { id: String },
}

fn changes(tasks: &[TaskChange], now: Millis) -> Result<Value, StoreError> {
    let text = |id: &TaskId| id.as_str().to_owned();
    let flat = tasks.iter().map(|change| {
        Ok(match change {
            TaskChange::Create(task) => {
                TaskChangeArg::Create { advance: task.is_advance(), task: Box::new(TaskRow::of(task, now)?) }
            }
            TaskChange::Rest { task, run_at } => TaskChangeArg::Rest { id: text(task), at: run_at.0 },
            TaskChange::Wake { at } => TaskChangeArg::Wake { at: at.0 },
            TaskChange::Cancel { task } => TaskChangeArg::Cancel { id: text(task) },
            TaskChange::Remove { task } => TaskChangeArg::Remove { id: text(task) },
        })
    });
    json(&flat.collect::<Result<Vec<TaskChangeArg>, StoreError>>()?)
}

/// Writes groups of appends.
#[derive(Debug)]
pub(crate) struct Appends(pub(crate) Arc<WriteContext>);

#[async_trait]
impl JobGroup for Appends {
    type Job = PgAppend;
    type Answer = Seq;

    fn sort(&self, jobs: &mut [WaitingJob<Self>]) {
        jobs.sort_by(|left, right| left.job.append.run.cmp(&right.job.append.run));
    }

    fn exclusive_key(job: &PgAppend) -> Option<&str> {
        // The next append of the run expects the end that this one creates.
        Some(job.append.run.as_str())
    }

    async fn write(
        &self,
        connection: &PgConnection,
        jobs: &[&PgAppend],
    ) -> Result<Vec<Result<Seq, StoreError>>, PgFault> {
        if let [job] = jobs
            && job.is_single_event()
            && connection.keeps_statements()
            && self.write_one(connection, job).await?
        {
            return Ok(vec![Ok(job.end())]);
        }
        let sent = MonotonicTime::now();
        let context = &self.0;
        let now = context.clock.now().0;
        let nodes = context.nodes();
        let logs = EventColumns::of(jobs);
        let tasks = TaskColumns::of(jobs);
        let rows = RowColumns::of(jobs);
        let values = [
            (&now as _, Type::INT8),
            (&nodes as _, Type::TEXT_ARRAY),
            (&context.channel as _, Type::TEXT),
            (&logs.runs as _, Type::TEXT_ARRAY),
            (&logs.afters as _, Type::INT8_ARRAY),
            (&logs.firsts as _, Type::TEXT_ARRAY),
            (&logs.rest_of as _, Type::INT4_ARRAY),
            (&logs.rest_seqs as _, Type::INT8_ARRAY),
            (&logs.rest as _, Type::TEXT_ARRAY),
            (&tasks.created as _, Type::JSONB_ARRAY),
            (&tasks.removed as _, Type::TEXT_ARRAY),
            (&tasks.changes as _, Type::JSONB_ARRAY),
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
        let answer = connection.query(APPEND, &values).await?;
        let row = answer.first().ok_or_else(|| PgFault::Damaged("the append returned no row".to_owned()))?;
        context.clock.observe(column(row, 1)?, sent);
        context.mark.bump();
        let ends: Option<Vec<Option<i64>>> = column(row, 0)?;
        Ok(match ends {
            None => jobs.iter().map(|job| Ok(job.end())).collect(),
            Some(ends) => jobs.iter().zip(ends).map(|(job, end)| outcome(job, end)).collect(),
        })
    }
}

impl Appends {
    /// Appends one event. Returns whether it was inserted; if not, the general statement finds out why.
    async fn write_one(&self, connection: &PgConnection, job: &PgAppend) -> Result<bool, PgFault> {
        let sent = MonotonicTime::now();
        let after = sql_int(job.append.after.0);
        let values = [
            (&job.append.run.as_str() as _, Type::TEXT),
            (&after as _, Type::INT8),
            (&job.first() as _, Type::TEXT),
        ];
        let answer = connection.query(APPEND_ONE, &values).await?;
        let Some(row) = answer.first() else { return Ok(false) };
        self.0.clock.observe(column(row, 0)?, sent);
        self.0.mark.bump();
        Ok(true)
    }
}

fn outcome(job: &PgAppend, end: Option<i64>) -> Result<Seq, StoreError> {
    match end {
        None => Ok(job.end()),
        Some(end) => Err(StoreError::Conflict { end: Seq(end.unsigned_abs()) }),
    }
}

/// The events of a group: the first of each append, and the others with the numbers of their appends.
#[derive(Default)]
struct EventColumns<'a> {
    runs: Vec<&'a str>,
    afters: Vec<i64>,
    firsts: Vec<&'a str>,
    rest_of: Vec<i32>,
    rest_seqs: Vec<i64>,
    rest: Vec<&'a str>,
}

impl<'a> EventColumns<'a> {
    fn of(jobs: &[&'a PgAppend]) -> Self {
        let mut logs = Self::default();
        for (number, job) in (1..).zip(jobs) {
            let after = sql_int(job.append.after.0);
            logs.runs.push(job.append.run.as_str());
            logs.afters.push(after);
            logs.firsts.push(job.first());
            for (body, seq) in job.append.bodies.iter().skip(1).zip(after.saturating_add(2)..) {
                logs.rest_of.push(number);
                logs.rest_seqs.push(seq);
                logs.rest.push(body);
            }
        }
        logs
    }
}

/// One element for each append of a group; empty if no append has one.
fn column_of<'a, T>(jobs: &[&'a PgAppend], get: impl Fn(&'a PgAppend) -> Option<T>) -> Vec<Option<T>> {
    let all: Vec<Option<T>> = jobs.iter().map(|job| get(job)).collect();
    if all.iter().all(Option::is_none) { Vec::new() } else { all }
}

/// The changes of tasks of a group.
struct TaskColumns<'a> {
    created: Vec<Option<&'a Value>>,
    removed: Vec<Option<&'a str>>,
    changes: Vec<Option<&'a Value>>,
}

impl<'a> TaskColumns<'a> {
    fn of(jobs: &[&'a PgAppend]) -> Self {
        Self {
            created: column_of(jobs, |job| {
                if let TaskEffect::CreateOwn(task) = &job.effect { Some(task) } else { None }
            }),
            removed: column_of(jobs, |job| {
                if let TaskEffect::Remove(id) = &job.effect { Some(id.as_str()) } else { None }
            }),
            changes: column_of(jobs, |job| {
                if let TaskEffect::Changes(all) = &job.effect { Some(all) } else { None }
            }),
        }
    }
}

/// The rows of a group, by column.
struct RowColumns<'a> {
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

impl<'a> RowColumns<'a> {
    fn of(jobs: &[&'a PgAppend]) -> Self {
        fn all<'a, T>(jobs: &[&'a PgAppend], get: impl Fn(&'a PgRowText) -> Option<T>) -> Vec<Option<T>> {
            column_of(jobs, |job| job.row.as_ref().and_then(&get))
        }
        Self {
            texts: all(jobs, |row| Some(row.text())),
            workflows: all(jobs, |row| Some(row.summary().workflow.as_str())),
            statuses: all(jobs, |row| Some(row.summary().status.as_str())),
            owners: all(jobs, |row| row.owner()),
            parents: all(jobs, |row| row.parent()),
            causes: all(jobs, |row| row.cause()),
            created: all(jobs, |row| Some(row.summary().created_at.0)),
            as_ofs: all(jobs, |row| Some(sql_int(row.summary().as_of.0))),
            recovered: all(jobs, |row| row.summary().recovered_at.map(|at| at.0)),
            tags: all(jobs, |row| row.tags()),
        }
    }
}
