//! Raw access to Postgres.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use super::{EndedRun, RID_FIRST, Raw, RawAppend};
use crate::Fallible;

/// Connects to the database of a store's URL.
pub(crate) async fn connect(url: &str) -> Fallible<Client> {
    let (target, options) = url.split_once('?').unwrap_or((url, ""));
    let own = ["schema=", "application_name="];
    let known = options.split('&').filter(|option| !own.iter().any(|name| option.starts_with(name)));
    let plain = [target, &known.collect::<Vec<_>>().join("&")].join("?");
    let (client, connection) = tokio_postgres::connect(&plain, NoTls).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("a connection to Postgres broke: {error}");
        }
    });
    client.batch_execute("SET jit = off; SET client_min_messages = warning").await?;
    Ok(client)
}

/// Returns the schema of a store's URL.
fn schema_of(url: &str) -> &str {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    options.split('&').rev().find_map(|option| option.strip_prefix("schema=")).unwrap_or("goldseam")
}

/// A session, and the schema of the store.
pub(crate) struct RawPostgres {
    client: Client,
    schema: String,
    prepared: HashMap<&'static str, Statement>,
    pipelined: bool,
}

/// A statement with its values.
type Write<'a> = (&'static str, Vec<Box<dyn ToSql + Sync + 'a>>);

impl RawPostgres {
    pub(crate) async fn open(url: &str) -> Fallible<Self> {
        let client = connect(url).await?;
        let schema = schema_of(url).to_owned();
        Ok(Self { client, schema, prepared: HashMap::new(), pipelined: false })
    }

    /// Returns the statement for this store's schema.
    fn sql(&self, text: &str) -> String {
        text.replace("goldseam.", &[&self.schema, "."].concat())
    }

    async fn prepare(&mut self, text: &'static str) -> Fallible<Statement> {
        if let Some(known) = self.prepared.get(text) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(&self.sql(text)).await?;
        self.prepared.insert(text, statement.clone());
        Ok(statement)
    }

    async fn execute(&self, (text, values): &Write<'_>) -> Fallible<u64> {
        let statement = self.prepared.get(text).ok_or("a statement was not prepared")?;
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value as _).collect();
        Ok(self.client.execute(statement, &values).await?)
    }
}

/// The row writes of an append.
fn writes<'a>(piece: &RawAppend<'a>) -> Vec<Write<'a>> {
    let rid = piece.rid;
    let run = piece.run;
    let mut all: Vec<Write<'a>> = Vec::new();
    if piece.is_first() {
        let kind = format!("advance:{}@1", run.workflow);
        let owner = "n-0123456789abcdef";
        let pool = format!("default/{kind}");
        all.push((
            TASK,
            vec![
                Box::new(&run.task),
                Box::new(pool),
                Box::new(kind),
                Box::new(&run.id),
                Box::new(owner),
                Box::new(run.updated_at),
            ],
        ));
        all.push((
            RUN,
            vec![
                Box::new(rid),
                Box::new(&run.id),
                Box::new(&run.workflow),
                Box::new(owner),
                Box::new(run.created_at),
                Box::new(run.updated_at),
                Box::new(run.as_of),
                Box::new(&run.task),
                Box::new(&run.summary),
            ],
        ));
    }
    for seq in piece.events() {
        let position = i64::try_from(seq).unwrap_or(i64::MAX);
        all.push((EVENT, vec![Box::new(rid), Box::new(position), Box::new(&run.bodies[seq - 1])]));
    }
    if piece.is_last() {
        let values: Vec<Box<dyn ToSql + Sync + 'a>> =
            vec![Box::new(rid), Box::new(run.updated_at), Box::new(run.as_of), Box::new(&run.summary)];
        all.push((RUN_END, values));
        all.push((TASK_END, vec![Box::new(&run.task)]));
    }
    all
}

#[async_trait(?Send)]
impl Raw for RawPostgres {
    async fn commits(&mut self, count: u32) -> Fallible<f64> {
        if !self.prepared.contains_key(SINGLE) {
            let schema = format!("CREATE SCHEMA IF NOT EXISTS {}", self.schema);
            self.client.batch_execute(&schema).await?;
            self.client.batch_execute(&self.sql(SINGLE_TABLE)).await?;
        }
        let single = self.prepare(SINGLE).await?;
        let body = "x".repeat(200);
        let began = Instant::now();
        for _ in 0..count {
            self.client.execute(&single, &[&body]).await?;
        }
        Ok(began.elapsed().as_secs_f64() / f64::from(count))
    }

    async fn written(&mut self) -> Fallible<Vec<EndedRun>> {
        let rows = self.client.query(&self.sql(WRITTEN), &[]).await?;
        let written = rows.iter().map(|row| {
            Ok(EndedRun {
                id: row.try_get(0)?,
                workflow: row.try_get(1)?,
                created_at: row.try_get(2)?,
                updated_at: row.try_get(3)?,
                as_of: row.try_get(4)?,
                task: row.try_get(5)?,
                summary: row.try_get(6)?,
                bodies: row.try_get(7)?,
            })
        });
        written.collect()
    }

    async fn write(&mut self, group: &[RawAppend<'_>]) -> Fallible<u64> {
        for text in [TASK, RUN, EVENT, RUN_END, TASK_END] {
            self.prepare(text).await?;
        }
        let mut rows = 0;
        self.client.batch_execute("BEGIN").await?;
        let all = group.iter().flat_map(writes);
        if self.pipelined {
            let all: Vec<Write<'_>> = all.collect();
            rows += try_join_all(all.iter().map(|write| self.execute(write))).await?.iter().sum::<u64>();
        } else {
            for write in all {
                rows += self.execute(&write).await?;
            }
        }
        self.client.batch_execute("COMMIT").await?;
        Ok(rows)
    }

    fn pipeline(&mut self) -> bool {
        self.pipelined = true;
        true
    }

    async fn row_writes(&mut self) -> Fallible<Option<[f64; 3]>> {
        // A session reports its counts at the latest when it ends.
        while self.client.query_one(SESSIONS, &[&self.schema]).await?.try_get::<_, i64>(0)? > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let row = self.client.query_one(ROW_WRITES, &[&self.schema]).await?;
        Ok(Some([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?]))
    }

    async fn open_runs(&mut self) -> Fallible<u32> {
        let count = self.prepare("SELECT count(*) FROM goldseam.tasks").await?;
        let count: i64 = self.client.query_one(&count, &[]).await?.try_get(0)?;
        Ok(u32::try_from(count)?)
    }

    async fn completions(&mut self, step: &str) -> Fallible<(u64, u64)> {
        let row = self.client.query_one(&self.sql(COMPLETIONS), &[&step]).await?;
        Ok((row.try_get::<_, i64>(0)?.unsigned_abs(), row.try_get::<_, i64>(1)?.unsigned_abs()))
    }

    async fn filled(&mut self) -> Fallible<i64> {
        let last: i64 =
            self.client.query_one(&self.sql("SELECT max(rid) FROM goldseam.runs"), &[]).await?.try_get(0)?;
        Ok((last - RID_FIRST).max(0))
    }

    async fn fill(&mut self, count: i64) -> Fallible<()> {
        let there = self.filled().await?;
        for sql in FILL {
            self.client.execute(&self.sql(sql), &[&there, &count, &RID_FIRST]).await?;
        }
        let next = self.sql(
            "SELECT setval(pg_get_serial_sequence('goldseam.runs', 'rid'), max(rid)) FROM goldseam.runs",
        );
        self.client.execute(&next, &[]).await?;
        self.client.batch_execute(&self.sql(VACUUM)).await?;
        self.settle().await
    }

    async fn settle(&mut self) -> Fallible<()> {
        Ok(self.client.batch_execute("CHECKPOINT").await?)
    }

    async fn bytes(&mut self) -> Fallible<f64> {
        self.client.batch_execute(&self.sql(VACUUM)).await?;
        let bytes: i64 = self.client.query_one(BYTES, &[&self.schema]).await?.try_get(0)?;
        Ok(bytes as f64)
    }
}

const SINGLE_TABLE: &str = "CREATE TABLE IF NOT EXISTS goldseam.raw \
    (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)";
const SINGLE: &str = "INSERT INTO goldseam.raw (body) VALUES ($1)";
const EVENT: &str = "INSERT INTO goldseam.events (rid, seq, body) VALUES ($1, $2, $3)";
const RUN: &str = "INSERT INTO goldseam.runs (rid, id, workflow, status, owner, created_at, updated_at, as_of, task, summary) \
    OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, 'running', $4, $5, $6, $7, $8, $9)";
const RUN_END: &str = "UPDATE goldseam.runs SET status = 'completed', owner = NULL, updated_at = $2, as_of = $3, summary = $4 \
    WHERE rid = $1";
const TASK: &str = "INSERT INTO goldseam.tasks (id, pool, kind, queue, priority, state, ripe, run_at, run, owner, poked, version, \
    fence, deliveries, attempts, attempts_max, started_at, heartbeat_at, created_at, changed_at, payload) \
    VALUES ($1, $2, $3, 'default', 0, 'claimed', true, $6, $4, $5, false, 2, 1, 0, 0, 1, $6, $6, $6, $6, 'null')";
const TASK_END: &str = "DELETE FROM goldseam.tasks WHERE id = $1";
const WRITTEN: &str = "SELECT r.id, r.workflow, r.created_at, r.updated_at, r.as_of, r.task, r.summary, \
    (SELECT array_agg(e.body ORDER BY e.seq) FROM goldseam.events AS e WHERE e.rid = r.rid) \
    FROM goldseam.runs AS r WHERE r.id <> 'warm' ORDER BY r.rid";
const COMPLETIONS: &str = "SELECT count(*), count(DISTINCT e.rid) FROM goldseam.events AS e \
    WHERE e.body::jsonb->'event'->>'type' = 'step.completed' AND e.body::jsonb->'event'->'data'->>'path' = $1";
const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
const ROW_WRITES: &str = "SELECT sum(n_tup_ins)::float8, sum(n_tup_upd)::float8, sum(n_tup_del)::float8 \
    FROM pg_stat_user_tables WHERE schemaname = $1 AND relname IN ('events', 'runs', 'tasks', 'run_tags')";
const BYTES: &str = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c \
    WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r'";
const VACUUM: &str = "VACUUM (ANALYZE) goldseam.runs, goldseam.events, goldseam.tasks";
const FILL: [&str; 2] = [
    "INSERT INTO goldseam.runs (rid, id, workflow, status, created_at, updated_at, as_of, task, summary) \
     OVERRIDING SYSTEM VALUE \
     SELECT $3::bigint + i, 'run-' || left(md5(i::text), 16), workflow, status, created_at, updated_at, as_of, task, summary \
     FROM generate_series($1::bigint + 1, $2::bigint) AS i, goldseam.runs WHERE id = 'pattern'",
    "INSERT INTO goldseam.events (rid, seq, body) SELECT $3::bigint + i, seq, body \
     FROM generate_series($1::bigint + 1, $2::bigint) AS i, \
     (SELECT seq, body FROM goldseam.events WHERE rid = (SELECT rid FROM goldseam.runs WHERE id = 'pattern') ORDER BY seq) AS e",
];
