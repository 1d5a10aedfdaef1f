//! Tasks: one row each with typed columns, changed by compare-and-set or with an append.
//!
//! Invariant: unique indexes ensure that no two live tasks share a key, and no two claimed tasks a lane. A change that
//! goes with an append never fails the append.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, Payload, TaskId};
use goldseam_store::{Expect, Page, RecordKind, StoreError, TaskFilter, Unreadable, Written};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::Type;

use crate::clock::MonotonicTime;
use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::sql::{PgQuery, column, json, json_text, sql_int};
use crate::write_context::WriteContext;
use crate::writer::{JobGroup, WaitingJob};

const PUT: &str = "SELECT lost, clock FROM goldseam.put_tasks($1, $2, $3, $4, $5)";
const SELECT: &str = "SELECT row_to_json(t)::text FROM goldseam.tasks AS t WHERE true";

/// Tasks that their columns do not prove readable. Repeats the condition of the index verbatim, so that the server uses
/// it.
const UNPROVEN: &str = "SELECT row_to_json(t)::text, t.id FROM goldseam.tasks AS t WHERE t.id > $1 \
    AND NOT (t.state = 'ready' AND t.kind >= 'advance:' AND t.kind < 'advance;' AND t.payload = 'null' \
    AND left(t.id, 2) = 't-' AND length(t.id) = 34 \
    AND coalesce(t.owner, t.result, t.failure, t.step, t.lane, t.audit) IS NULL) ORDER BY t.id LIMIT $2";

/// The columns of a task.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TaskRow {
    id: String,
    pool: String,
    kind: String,
    queue: String,
    lane: Option<String>,
    priority: i64,
    key: Option<String>,
    state: String,
    ripe: bool,
    run_at: i64,
    run: Option<String>,
    owner: Option<String>,
    poked: bool,
    version: u64,
    fence: u64,
    deliveries: u32,
    attempts: u32,
    attempts_max: u32,
    started_at: Option<i64>,
    heartbeat_at: Option<i64>,
    silence_max_ms: Option<u64>,
    created_at: i64,
    changed_at: i64,
    payload: String,
    result: Option<String>,
    failure: Option<String>,
    audit: Option<String>,
    step: Option<String>,
}

impl TaskRow {
    /// Encodes a task.
    pub(crate) fn of(task: &Task, now: Millis) -> Result<Self, StoreError> {
        Ok(Self {
            id: task.id.as_str().to_owned(),
            pool: task.pool(),
            kind: task.kind.clone(),
            queue: task.queue.as_str().to_owned(),
            lane: task.lane.as_ref().map(|lane| lane.as_str().to_owned()),
            priority: task.priority.into(),
            key: task.key.clone(),
            state: task.state.as_str().to_owned(),
            ripe: task.run_at <= now.max(task.changed_at),
            run_at: task.run_at.0,
            run: task.run.as_ref().map(|run| run.as_str().to_owned()),
            owner: task.owner.clone(),
            poked: task.poked,
            version: task.version.min(i64::MAX.unsigned_abs()),
            fence: task.fence.min(i64::MAX.unsigned_abs()),
            deliveries: task.deliveries,
            attempts: task.attempts,
            attempts_max: task.attempts_max,
            started_at: task.started_at.map(|at| at.0),
            heartbeat_at: task.heartbeat_at.map(|at| at.0),
            silence_max_ms: task.silence_max.map(silence),
            created_at: task.created_at.0,
            changed_at: task.changed_at.0,
            payload: task.payload.as_str().to_owned(),
            result: task.result.as_ref().map(|result| result.as_str().to_owned()),
            failure: json_text(task.failure.as_ref())?,
            audit: json_text(Some(&task.audit).filter(|audit| !audit.is_empty()))?,
            step: json_text(task.step.as_ref())?,
        })
    }

    /// Decodes a row that the database returned as JSON.
    pub(crate) fn parse(text: &str) -> Result<Task, PgFault> {
        let flat: Self = serde_json::from_str(text).map_err(|error| PgFault::unreadable("a task", &error))?;
        let id = flat.id.clone();
        flat.task().map_err(|error| PgFault::unreadable("task", &[&id, ": ", &error].concat()))
    }

    fn task(self) -> Result<Task, String> {
        Ok(Task {
            id: name(self.id)?,
            kind: self.kind,
            queue: name(self.queue)?,
            lane: self.lane.map(name).transpose()?,
            priority: i32::try_from(self.priority).map_err(|error| error.to_string())?,
            key: self.key,
            state: TaskState::parse(&self.state).ok_or_else(|| format!("unknown state {:?}", self.state))?,
            run_at: Millis(self.run_at),
            run: self.run.map(name).transpose()?,
            owner: self.owner,
            poked: self.poked,
            version: self.version,
            fence: self.fence,
            deliveries: self.deliveries,
            attempts: self.attempts,
            attempts_max: self.attempts_max,
            started_at: self.started_at.map(Millis),
            heartbeat_at: self.heartbeat_at.map(Millis),
            silence_max: self.silence_max_ms.map(Duration::from_millis),
            created_at: Millis(self.created_at),
            changed_at: Millis(self.changed_at),
            payload: json::<Payload>(Some(&self.payload))?.ok_or("the payload is missing")?,
            result: json(self.result.as_deref())?,
            failure: json(self.failure.as_deref())?,
            audit: json(self.audit.as_deref())?.unwrap_or_default(),
            step: json(self.step.as_deref())?,
        })
    }
}

/// Longest silence that is stored, so that a moment plus a silence never overflows.
const SILENCE_MAX_MS: u64 = 1 << 62;

fn silence(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).min(SILENCE_MAX_MS)
}

fn name<T: TryFrom<String>>(text: String) -> Result<T, String>
where
    T::Error: std::fmt::Display,
{
    T::try_from(text).map_err(|error| error.to_string())
}

/// A task to be written by compare-and-set.
#[derive(Debug)]
pub(crate) struct TaskPut {
    id: String,
    task: Value,
    version: Option<i64>,
}

impl TaskPut {
    pub(crate) fn new(task: &Task, expect: Expect, now: Millis) -> Result<Self, StoreError> {
        let flat = serde_json::to_value(TaskRow::of(task, now)?)
            .map_err(|error| StoreError::Damaged { detail: format!("cannot encode a task: {error}") })?;
        let version = match expect {
            Expect::Absent => None,
            Expect::Version(version) => Some(sql_int(version)),
        };
        Ok(Self { id: task.id.as_str().to_owned(), task: flat, version })
    }
}

/// Writes groups of tasks.
#[derive(Debug)]
pub(crate) struct TaskPuts(pub(crate) Arc<WriteContext>);

#[async_trait]
impl JobGroup for TaskPuts {
    type Job = TaskPut;
    type Answer = Written<Task>;

    fn sort(&self, jobs: &mut [WaitingJob<Self>]) {
        jobs.sort_by(|left, right| left.job.id.cmp(&right.job.id));
    }

    async fn write(
        &self,
        connection: &PgConnection,
        jobs: &[&TaskPut],
    ) -> Result<Vec<Result<Written<Task>, StoreError>>, PgFault> {
        let context = &self.0;
        let sent = MonotonicTime::now();
        let now = context.clock.now().0;
        let nodes = context.nodes();
        let tasks: Vec<&Value> = jobs.iter().map(|job| &job.task).collect();
        let versions: Vec<Option<i64>> = jobs.iter().map(|job| job.version).collect();
        let values = [
            (&now as _, Type::INT8),
            (&nodes as _, Type::TEXT_ARRAY),
            (&context.channel as _, Type::TEXT),
            (&tasks as _, Type::JSONB_ARRAY),
            (&versions as _, Type::INT8_ARRAY),
        ];
        let answer = connection.query(PUT, &values).await?;
        let row = answer.first().ok_or_else(|| PgFault::Damaged("put_tasks returned no row".to_owned()))?;
        context.clock.observe(column(row, 1)?, sent);
        let lost: Vec<Option<String>> = column(row, 0)?;
        if lost.iter().any(Option::is_none) {
            context.mark.bump();
        }
        Ok(lost.into_iter().map(written).collect())
    }
}

fn written(lost: Option<String>) -> Result<Written<Task>, StoreError> {
    match lost.as_deref() {
        None => Ok(Written::Done),
        // An unreadable rival is not shown.
        Some(text) => Ok(Written::Lost(TaskRow::parse(text).ok())),
    }
}

/// Lists tasks in order of id. Skips unreadable tasks, which do not count toward the limit.
pub(crate) async fn list(connection: &PgConnection, filter: &TaskFilter) -> Result<Vec<Task>, StoreError> {
    let mut tasks = Vec::new();
    let mut rest = filter.clone();
    loop {
        let query = query(&rest);
        let rows = connection.read(&query.sql, &query.values()).await?;
        for row in &rows {
            let text: &str = column(row, 0).map_err(|fault: PgFault| fault.to_read_error())?;
            match TaskRow::parse(text) {
                Ok(task) => tasks.push(task),
                Err(fault) => tracing::debug!(?fault, "skipped an unreadable task"),
            }
        }
        let left = (filter.limit as usize).saturating_sub(tasks.len());
        let last = rows.last().and_then(|row| column::<&str>(row, 0).ok()).and_then(id_of);
        match last.map(TaskId::new) {
            Some(Ok(last)) if left > 0 && rows.len() == rest.limit as usize => {
                rest.after = Some(last);
                rest.limit = u32::try_from(left).unwrap_or(u32::MAX);
            }
            _ => return Ok(tasks),
        }
    }
}

/// The id of a task whose row the database returned as JSON, and whether it is an advance task.
fn about(text: &str) -> (Option<String>, bool) {
    #[derive(Deserialize)]
    struct About {
        id: String,
        kind: String,
    }
    let about: Option<About> = serde_json::from_str(text).ok();
    about.map_or((None, false), |about| (Some(about.id), about.kind.starts_with("advance:")))
}

fn id_of(text: &str) -> Option<String> {
    about(text).0
}

/// Reads the next tasks in order of id. Returns the unreadable ones.
pub(crate) async fn unreadable(
    connection: &PgConnection,
    after: &str,
    limit: u32,
) -> Result<Page<Unreadable>, StoreError> {
    let most = i64::from(limit);
    let rows = connection.read(UNPROVEN, &[(&after as _, Type::TEXT), (&most as _, Type::INT8)]).await?;
    let mut page = Page::default();
    for row in &rows {
        let text: &str = column(row, 0).map_err(|fault: PgFault| fault.to_read_error())?;
        let id: String = column(row, 1).map_err(|fault: PgFault| fault.to_read_error())?;
        if let Err(fault) = TaskRow::parse(text) {
            let found = Unreadable::new(RecordKind::Task, id.clone(), fault.to_read_error());
            page.items.push(Unreadable { advance: about(text).1, ..found });
        }
        page.next = Some(id);
    }
    page.next = page.next.filter(|_| rows.len() == limit as usize);
    Ok(page)
}

fn is_about_claims(filter: &TaskFilter) -> bool {
    filter.state == Some(TaskState::Claimed)
        || filter.owner.is_some()
        || filter.quiet_since.is_some()
        || filter.owner_prefix.is_some()
        || filter.owner_none_of.is_some()
}

/// Builds the statement of a list with its values. Repeats the condition of a partial index verbatim, so that Postgres
/// uses the index.
fn query(filter: &TaskFilter) -> PgQuery {
    let mut query = PgQuery::new(SELECT);
    query.add_text(" AND t.id = ", filter.id.as_ref().map(|id| id.as_str()));
    query.add_text(" AND t.run = ", filter.run.as_ref().map(|run| run.as_str()));
    let is_live = " AND t.state IN ('ready', 'claimed') AND t.key IS NOT NULL AND t.key = ";
    query.add_text(is_live, filter.key.as_deref());
    query.add_text(" AND t.state = ", filter.state.map(TaskState::as_str));
    query.add_if(" AND t.state = 'claimed'", is_about_claims(filter));
    query.add_text(" AND t.owner = ", filter.owner.as_deref());
    query.add_text(" AND t.queue = ", filter.queue.as_deref());
    query.add_if(" AND t.kind >= 'advance:' AND t.kind < 'advance;'", filter.advance == Some(true));
    query.add_if(" AND NOT (t.kind >= 'advance:' AND t.kind < 'advance;')", filter.advance == Some(false));
    query.add_if(" AND t.poked", filter.poked);
    query.add_if(" AND t.state IN ('ready', 'claimed', 'dead')", filter.open);
    query.add_number(
        " AND t.state = 'claimed' AND t.silence_max_ms IS NOT NULL \
        AND coalesce(t.heartbeat_at, t.started_at, t.changed_at) + t.silence_max_ms <= ",
        filter.silent_at.map(|at| at.0),
    );
    query.add_number(
        " AND t.silence_max_ms IS NULL AND coalesce(t.heartbeat_at, t.started_at, t.changed_at) <= ",
        filter.quiet_since.map(|since| since.0),
    );
    if let Some(prefix) = &filter.owner_prefix {
        // A range, so that Postgres uses the index; no name continues after the largest character.
        query.add_text(" AND t.owner >= ", Some(prefix));
        query.add_text(" AND t.owner < ", Some(&format!("{prefix}\u{10ffff}")));
    }
    query.add_texts(" AND coalesce(t.owner, '') <> ALL ", filter.owner_none_of.as_deref());
    query.add_text(" AND t.id > ", filter.after.as_ref().map(|id| id.as_str()));
    query.add_number(" ORDER BY t.id LIMIT ", Some(filter.limit.into()));
    query
}
