//! Compare-and-append: one run's events, its cached row and its tasks, many runs in one transaction.
//!
//! Invariant: the first event goes in only if the log ends where it must, gaps or not; nothing else of an append
//! is written unless it went in. One append's conflict is an answer to that one alone.

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::{Millis, RunId, Seq, TaskId};
use goldseam_store::{Append, StoreError, TaskChange};
use serde::Serialize;
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::clock::Moment;
use crate::connection::Link;
use crate::fault::Fault;
use crate::nodes::Me;
use crate::read::column;
use crate::rows::RowText;
use crate::tasks::Flat;
use crate::writer::{Group, Waiting};

const APPEND: &str = "SELECT ends, clock FROM goldseam.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
    $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)";

/// One append that is one event and nothing else: a step of a run that has the node to itself.
const APPEND_ONE: &str = "INSERT INTO goldseam.events AS e (rid, seq, body) SELECT r.rid, $2 + 1, $3 \
    FROM goldseam.runs AS r WHERE r.id = $1 \
    AND coalesce((SELECT max(l.seq) FROM goldseam.events AS l WHERE l.rid = r.rid), 0) = $2 \
    ON CONFLICT DO NOTHING RETURNING goldseam.clock()";

const TRIM: &str = "DELETE FROM goldseam.events AS e USING goldseam.runs AS r WHERE r.id = $1 AND e.rid = r.rid \
    AND e.seq < $2 AND EXISTS (SELECT 1 FROM goldseam.events AS f WHERE f.rid = r.rid AND f.seq = $2)";

/// Removes what lies before `first`, if that is there.
pub(crate) async fn trim(link: &Link, run: &RunId, first: Seq) -> Result<(), StoreError> {
    let first = sql_int(first.0);
    let values = [(&run.as_str() as _, Type::TEXT), (&first as _, Type::INT8)];
    link.query(TRIM, &values).await.map(drop).map_err(|fault| fault.to_error("trimming a log"))
}

/// An append whose row and changes are text already.
#[derive(Debug)]
pub(crate) struct Prepared {
    append: Append,
    row: Option<RowText>,
    with: With,
}

/// What happens to tasks along with an append. Most runs have one task from their first append to their last.
#[derive(Debug)]
enum With {
    Nothing,
    /// The run's own task is created with the run.
    Born(Value),
    /// A task is removed.
    Gone(String),
    /// Anything else, in its order.
    Changes(Value),
}

impl Prepared {
    pub(crate) fn new(mut append: Append, now: Millis) -> Result<Self, StoreError> {
        if append.bodies.is_empty() {
            return Err(StoreError::empty_append());
        }
        let row = append.row.take().map(RowText::new).transpose()?;
        let tasks = std::mem::take(&mut append.tasks);
        let with = match tasks.as_slice() {
            [] => With::Nothing,
            [TaskChange::Remove { task }] => With::Gone(task.as_str().to_owned()),
            [TaskChange::Create(task)] if append.after == Seq(0) && row.is_some() && task.is_advance() => {
                With::Born(json(&Flat::of(task, now)?)?)
            }
            tasks => With::Changes(changes(tasks, now)?),
        };
        Ok(Self { append, row, with })
    }

    fn first(&self) -> &str {
        self.append.bodies.first().map_or("", String::as_str)
    }

    /// It is one event to a run that is there, and nothing else.
    fn is_plain(&self) -> bool {
        let one = self.append.bodies.len() == 1 && self.append.after > Seq(0);
        one && self.row.is_none() && matches!(self.with, With::Nothing)
    }

    /// Where its log ends once it is in.
    fn end(&self) -> Seq {
        Seq(self.append.after.0.saturating_add(self.append.bodies.len() as u64))
    }
}

fn json(value: &impl Serialize) -> Result<Value, StoreError> {
    serde_json::to_value(value)
        .map_err(|error| StoreError::Damaged { detail: format!("cannot encode a task: {error}") })
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

fn changes(tasks: &[TaskChange], now: Millis) -> Result<Value, StoreError> {
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
    json(&flat.collect::<Result<Vec<Change>, StoreError>>()?)
}

/// How appends are written together.
#[derive(Debug)]
pub(crate) struct Appends(pub(crate) Arc<Me>);

#[async_trait]
impl Group for Appends {
    type Job = Prepared;
    type Answer = Seq;

    fn sort(&self, jobs: &mut [Waiting<Self>]) {
        jobs.sort_by(|left, right| left.job.append.run.cmp(&right.job.append.run));
    }

    fn alone(job: &Prepared) -> Option<&str> {
        // The next one expects what this one makes of the log.
        Some(job.append.run.as_str())
    }

    async fn write(&self, link: &Link, jobs: &[&Prepared]) -> Result<Vec<Result<Seq, StoreError>>, Fault> {
        if let [job] = jobs
            && job.is_plain()
            && link.keeps_plans()
            && self.write_one(link, job).await?
        {
            return Ok(vec![Ok(job.end())]);
        }
        let sent = Moment::now();
        let me = &self.0;
        let (now, nodes) = (me.clock.now().0, me.nodes());
        let (logs, tasks, rows) = (Logs::of(jobs), Tasks::of(jobs), Rows::of(jobs));
        let values = [
            (&now as _, Type::INT8),
            (&nodes as _, Type::TEXT_ARRAY),
            (&me.channel as _, Type::TEXT),
            (&logs.runs as _, Type::TEXT_ARRAY),
            (&logs.afters as _, Type::INT8_ARRAY),
            (&logs.firsts as _, Type::TEXT_ARRAY),
            (&logs.rest_of as _, Type::INT4_ARRAY),
            (&logs.rest_seqs as _, Type::INT8_ARRAY),
            (&logs.rest as _, Type::TEXT_ARRAY),
            (&tasks.born as _, Type::JSONB_ARRAY),
            (&tasks.gone as _, Type::TEXT_ARRAY),
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
        let answer = link.query(APPEND, &values).await?;
        let row = answer.first().ok_or_else(|| Fault::Damaged("the append returned no row".to_owned()))?;
        me.clock.heard(column(row, 1)?, sent);
        me.watch.bump();
        let ends: Option<Vec<Option<i64>>> = column(row, 0)?;
        Ok(match ends {
            None => jobs.iter().map(|job| Ok(job.end())).collect(),
            Some(ends) => jobs.iter().zip(ends).map(|(job, end)| outcome(job, end)).collect(),
        })
    }
}

impl Appends {
    /// Whether it went in; if not, nothing was done, and the other way finds out why.
    async fn write_one(&self, link: &Link, job: &Prepared) -> Result<bool, Fault> {
        let (sent, after) = (Moment::now(), sql_int(job.append.after.0));
        let values = [
            (&job.append.run.as_str() as _, Type::TEXT),
            (&after as _, Type::INT8),
            (&job.first() as _, Type::TEXT),
        ];
        let answer = link.query(APPEND_ONE, &values).await?;
        let Some(row) = answer.first() else { return Ok(false) };
        self.0.clock.heard(column(row, 0)?, sent);
        self.0.watch.bump();
        Ok(true)
    }
}

fn outcome(job: &Prepared, end: Option<i64>) -> Result<Seq, StoreError> {
    match end {
        None => Ok(job.end()),
        Some(end) => Err(StoreError::Conflict { end: Seq(end.unsigned_abs()) }),
    }
}

/// The events of a group: the first of each append, and the others with the number of theirs.
#[derive(Default)]
struct Logs<'a> {
    runs: Vec<&'a str>,
    afters: Vec<i64>,
    firsts: Vec<&'a str>,
    rest_of: Vec<i32>,
    rest_seqs: Vec<i64>,
    rest: Vec<&'a str>,
}

impl<'a> Logs<'a> {
    fn of(jobs: &[&'a Prepared]) -> Self {
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

/// One element for each append of a group; none at all if no append has one.
fn column_of<'a, T>(jobs: &[&'a Prepared], get: impl Fn(&'a Prepared) -> Option<T>) -> Vec<Option<T>> {
    let all: Vec<Option<T>> = jobs.iter().map(|job| get(job)).collect();
    if all.iter().all(Option::is_none) { Vec::new() } else { all }
}

/// What happens to the tasks of a group.
struct Tasks<'a> {
    born: Vec<Option<&'a Value>>,
    gone: Vec<Option<&'a str>>,
    changes: Vec<Option<&'a Value>>,
}

impl<'a> Tasks<'a> {
    fn of(jobs: &[&'a Prepared]) -> Self {
        Self {
            born: column_of(jobs, |job| if let With::Born(task) = &job.with { Some(task) } else { None }),
            gone: column_of(
                jobs,
                |job| if let With::Gone(id) = &job.with { Some(id.as_str()) } else { None },
            ),
            changes: column_of(jobs, |job| if let With::Changes(all) = &job.with { Some(all) } else { None }),
        }
    }
}

/// The rows of a group, column by column.
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
            column_of(jobs, |job| job.row.as_ref().and_then(&get))
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
