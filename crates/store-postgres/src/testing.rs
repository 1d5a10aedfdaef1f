//! Stores for tests of other crates, and damage to them. Feature `testing`.
//!
//! Invariant: damage is done by a separate connection; the store itself cannot damage anything.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_conformance::damage::{Garble, Target};
use goldseam_conformance::views::Cells;
use goldseam_conformance::{Capabilities, Damage, Fixture, Views};
use goldseam_core::{RunId, Seq, TaskId};
use goldseam_store::{ClockFn, ManualClock};
use tokio::sync::OnceCell;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::PostgresStore;
use crate::connection::{ConnectionGuard, ConnectionTarget, SessionRole};
use crate::sql::sql_int;
use crate::url::{self, PostgresOptions};

/// Loses the row of one run, or all rows if the parameter is null.
const LOSE_ROWS: &str = "UPDATE goldseam.runs SET workflow = NULL, status = NULL, owner = NULL, parent = NULL, \
    cause = NULL, created_at = NULL, recovered_at = NULL, as_of = 0, task = NULL, summary = NULL \
    WHERE $1::text IS NULL OR id = $1";
const LOSE_TAGS: &str = "DELETE FROM goldseam.run_tags \
    WHERE $1::text IS NULL OR rid = (SELECT rid FROM goldseam.runs WHERE id = $1)";
const LOSE_ADVANCE_TASKS: &str = "DELETE FROM goldseam.tasks WHERE kind >= 'advance:' AND kind < 'advance;'";
const LOSE_TASK: &str = "DELETE FROM goldseam.tasks WHERE id = $1";
const LOSE_EVENT: &str = "DELETE FROM goldseam.events \
    WHERE rid = (SELECT rid FROM goldseam.runs WHERE id = $1) AND seq = $2";
const CORRUPT: &str = "UPDATE goldseam.events SET body = $3 \
    WHERE rid = (SELECT rid FROM goldseam.runs WHERE id = $1) AND seq = $2";

/// A store in a new schema of the shared server, with a manual clock. The schema is dropped with the fixture.
pub async fn fixture() -> Fixture {
    let clock = ManualClock::default();
    on(&shared_url(), Some(clock.clock()), clock).await
}

/// A store in a new schema, with the database's clock.
pub async fn fixture_on_real_clock() -> Fixture {
    let capabilities = Capabilities { manual_clock: false, ..Capabilities::default() };
    on(&shared_url(), None, ManualClock::default()).await.with(capabilities)
}

/// A store behind the shared pooler, which gives every transaction another session. The liveness session bypasses it.
pub async fn fixture_behind_pooler() -> Fixture {
    let clock = ManualClock::default();
    on(&pooled_url(), Some(clock.clock()), clock).await
}

fn shared_url() -> String {
    goldseam_testbed::postgres::shared().unwrap().to_owned()
}

fn pooled_url() -> String {
    let direct = url::parse(&shared_url()).unwrap();
    let port = direct.config.get_ports().first().copied().unwrap_or(5432);
    let pooler = goldseam_testbed::pgbouncer::shared().unwrap();
    let more = if pooler.contains('?') { "&" } else { "?" };
    format!("{pooler}{more}pooler=transaction&direct=127.0.0.1:{port}")
}

async fn on(url: &str, clock: Option<ClockFn>, moved: ManualClock) -> Fixture {
    let schema = Schema::fresh_at(url);
    let options = PostgresOptions { clock, ..url::parse(&schema.url).unwrap() };
    let view_reader = Arc::new(PgViewReader::of(options.clone()));
    let store = PostgresStore::open(options).await.unwrap();
    let fixture = Fixture::new(Arc::new(store), moved).damaged_by(Arc::clone(&schema.saboteur) as _);
    fixture.viewed_by(view_reader).keeping(schema)
}

/// A new schema, which is dropped with this value.
#[derive(Debug)]
pub struct Schema {
    url: String,
    saboteur: Arc<PgSaboteur>,
}

impl Schema {
    /// A new schema on the shared server. A store creates it.
    pub fn fresh() -> Self {
        Self::fresh_at(&shared_url())
    }

    /// A new schema on the server at this URL.
    pub fn fresh_at(url: &str) -> Self {
        let more = if url.contains('?') { '&' } else { '?' };
        let name = RandomState::new().build_hasher().finish();
        let url = format!("{url}{more}schema=t_{name:016x}");
        let saboteur = Arc::new(PgSaboteur::of(url::parse(&url).unwrap()));
        Self { url, saboteur }
    }

    /// The URL of a store in it.
    pub fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let saboteur = Arc::clone(&self.saboteur);
        let dropping = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(saboteur.drop_schema());
        });
        // The server is removed after the tests anyway.
        let _ = dropping.map(std::thread::JoinHandle::join);
    }
}

/// Reads the views past the store.
#[derive(Debug)]
pub struct PgViewReader {
    target: ConnectionTarget,
    session: OnceCell<(Client, ConnectionGuard)>,
}

impl PgViewReader {
    /// For this schema.
    pub fn of(options: PostgresOptions) -> Self {
        Self { target: ConnectionTarget::new(options).unwrap(), session: OnceCell::new() }
    }
}

#[async_trait]
impl Views for PgViewReader {
    async fn ask(&self, sql: &str) -> Vec<Cells> {
        let connecting = || async { self.target.connect(SessionRole::Work, drop).await.unwrap() };
        let (client, _) = self.session.get_or_init(connecting).await;
        // Behind a pooler, the next transaction may be in another session.
        let sql = format!("BEGIN; SET LOCAL search_path = {}; {sql}; COMMIT", self.target.options.schema);
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        };
        client.simple_query(&sql).await.unwrap().into_iter().filter_map(row).collect()
    }

    fn millis(&self, column: &str) -> String {
        format!("(extract(epoch FROM {column}) * 1000)::bigint")
    }
}

/// Writes into the tables past the store.
#[derive(Debug)]
pub struct PgSaboteur {
    target: ConnectionTarget,
}

impl PgSaboteur {
    /// For this schema.
    pub fn of(options: PostgresOptions) -> Self {
        Self { target: ConnectionTarget::new(options).unwrap() }
    }

    /// Runs a statement. Returns the number of changed rows.
    async fn write(&self, sql: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> u64 {
        let (client, _guard) = self.target.connect(SessionRole::Work, drop).await.unwrap();
        client.execute_typed(&self.target.sql(sql), values).await.unwrap()
    }

    async fn lose_rows(&self, run: Option<&RunId>) {
        let run = run.map(|run| run.as_str());
        self.write(LOSE_TAGS, &[(&run, Type::TEXT)]).await;
        self.write(LOSE_ROWS, &[(&run, Type::TEXT)]).await;
    }

    async fn drop_schema(&self) {
        let Ok((client, _guard)) = self.target.connect(SessionRole::Work, drop).await else { return };
        let sql = ["DROP SCHEMA IF EXISTS ", &self.target.options.schema, " CASCADE"].concat();
        let _ = client.batch_execute(&sql).await;
    }
}

#[async_trait]
impl Damage for PgSaboteur {
    async fn lose_row(&self, run: &RunId) {
        self.lose_rows(Some(run)).await;
    }

    async fn lose_task(&self, task: &TaskId) {
        self.write(LOSE_TASK, &[(&task.as_str(), Type::TEXT)]).await;
    }

    async fn lose_event(&self, run: &RunId, seq: Seq) {
        let values = [(&run.as_str() as _, Type::TEXT), (&sql_int(seq.0) as _, Type::INT8)];
        assert_eq!(self.write(LOSE_EVENT, &values).await, 1, "{run} has no event {seq} to lose");
    }

    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str) {
        let values =
            [(&run.as_str() as _, Type::TEXT), (&sql_int(seq.0) as _, Type::INT8), (&body as _, Type::TEXT)];
        assert_eq!(self.write(CORRUPT, &values).await, 1, "{run} has no event {seq} to change");
    }

    async fn garble(&self, what: Target<'_>, how: Garble) {
        let (table, key, name, text, word) = match what {
            Target::Row(run) => ("runs", "id", run.as_str(), "summary", None),
            Target::Task(task) => ("tasks", "id", task.as_str(), "payload", Some("state")),
            Target::Lock(lock) => ("locks", "name", lock.as_str(), "audit", None),
            Target::Node(node) => ("nodes", "id", node.as_str(), "workflows", Some("state")),
        };
        let set = match (how, word) {
            (Garble::Later, Some(word)) => [word, " = 'hibernating'"].concat(),
            (Garble::Later, None) if table == "runs" => "status = 'hibernating', summary = \
                jsonb_set(summary::jsonb, '{status}', '\"hibernating\"')::text"
                .to_owned(),
            // Postgres accepts no text that is not UTF-8.
            (Garble::Bytes | Garble::Type, _) => [text, " = '{\"a\": 1'"].concat(),
            (Garble::Torn | Garble::Later, _) => [text, " = '{bad'"].concat(),
        };
        let sql = ["UPDATE goldseam.", table, " SET ", &set, " WHERE ", key, " = $1"].concat();
        let changed = self.write(&sql, &[(&name, Type::TEXT)]).await;
        assert_eq!(changed, 1, "{what:?} does not exist");
    }

    async fn lose_hints(&self) {
        self.lose_rows(None).await;
        self.write(LOSE_ADVANCE_TASKS, &[]).await;
    }
}
