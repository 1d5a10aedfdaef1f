//! A store in a schema of its own, and harm to it, for tests of other crates. Feature `testing`.
//!
//! Invariant: the harm is done by a plain connection of its own; the store itself can damage nothing.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::{RunId, Seq, TaskId};
use goldseam_store::conformance::damage::{Garble, Target as Aim};
use goldseam_store::conformance::views::Cells;
use goldseam_store::conformance::{Capabilities, Damage, Fixture, Views};
use goldseam_store::{Clock, ManualClock};
use tokio::sync::OnceCell;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::PostgresStore;
use crate::append::sql_int;
use crate::connection::{Ended, Role, Target};
use crate::url::{self, Options};

/// Of one run, or of all if there is none to name.
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

/// A store in a new schema of the shared server, with a clock to move. The schema is dropped with the fixture.
pub async fn fixture() -> Fixture {
    let clock = ManualClock::default();
    on(&shared_url(), Some(clock.clock()), clock).await
}

/// The same by the database's clock.
pub async fn fixture_on_real_clock() -> Fixture {
    let capabilities = Capabilities { manual_clock: false, ..Capabilities::default() };
    on(&shared_url(), None, ManualClock::default()).await.with(capabilities)
}

/// The same through the shared pooler, which gives every transaction another session; liveness goes past it.
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

async fn on(url: &str, clock: Option<Clock>, moved: ManualClock) -> Fixture {
    let schema = Schema::fresh_at(url);
    let options = Options { clock, ..url::parse(&schema.url).unwrap() };
    let onlooker = Arc::new(Onlooker::of(options.clone()));
    let store = PostgresStore::open(options).await.unwrap();
    let fixture = Fixture::new(Arc::new(store), moved).damaged_by(Arc::clone(&schema.vandal) as _);
    fixture.viewed_by(onlooker).keeping(schema)
}

/// A schema that nobody else has; dropped with this.
#[derive(Debug)]
pub struct Schema {
    url: String,
    vandal: Arc<Vandal>,
}

impl Schema {
    /// On the shared server; a store makes it when it is opened.
    pub fn fresh() -> Self {
        Self::fresh_at(&shared_url())
    }

    /// On the server that this URL names.
    pub fn fresh_at(url: &str) -> Self {
        let more = if url.contains('?') { '&' } else { '?' };
        let name = RandomState::new().build_hasher().finish();
        let url = format!("{url}{more}schema=t_{name:016x}");
        let vandal = Arc::new(Vandal::of(url::parse(&url).unwrap()));
        Self { url, vandal }
    }

    /// The URL of a store in it.
    pub fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let vandal = Arc::clone(&self.vandal);
        let dropping = std::thread::Builder::new().spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(vandal.drop_schema());
        });
        // The server is removed after the tests anyway.
        let _ = dropping.map(std::thread::JoinHandle::join);
    }
}

/// Somebody who reads the views past the store.
#[derive(Debug)]
pub struct Onlooker {
    target: Target,
    session: OnceCell<(Client, Ended)>,
}

impl Onlooker {
    /// Of this schema.
    pub fn of(options: Options) -> Self {
        Self { target: Target::new(options).unwrap(), session: OnceCell::new() }
    }
}

#[async_trait]
impl Views for Onlooker {
    async fn ask(&self, sql: &str) -> Vec<Cells> {
        let connecting = || async { self.target.connect(Role::Work, drop).await.unwrap() };
        let (client, _) = self.session.get_or_init(connecting).await;
        // A pooler's next transaction may be in another session.
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

/// Somebody who writes into the tables past the store.
#[derive(Debug)]
pub struct Vandal {
    target: Target,
}

impl Vandal {
    /// Of this schema.
    pub fn of(options: Options) -> Self {
        Self { target: Target::new(options).unwrap() }
    }

    /// Does harm at one moment; says to how many rows.
    async fn harm(&self, sql: &str, values: &[(&(dyn ToSql + Sync), Type)]) -> u64 {
        let (client, _ended) = self.target.connect(Role::Work, drop).await.unwrap();
        client.execute_typed(&self.target.sql(sql), values).await.unwrap()
    }

    async fn lose_rows(&self, run: Option<&RunId>) {
        let run = run.map(|run| run.as_str());
        self.harm(LOSE_TAGS, &[(&run, Type::TEXT)]).await;
        self.harm(LOSE_ROWS, &[(&run, Type::TEXT)]).await;
    }

    async fn drop_schema(&self) {
        let Ok((client, _ended)) = self.target.connect(Role::Work, drop).await else { return };
        let words = ["DROP SCHEMA IF EXISTS ", &self.target.options.schema, " CASCADE"].concat();
        let _ = client.batch_execute(&words).await;
    }
}

#[async_trait]
impl Damage for Vandal {
    async fn lose_row(&self, run: &RunId) {
        self.lose_rows(Some(run)).await;
    }

    async fn lose_task(&self, task: &TaskId) {
        self.harm(LOSE_TASK, &[(&task.as_str(), Type::TEXT)]).await;
    }

    async fn lose_event(&self, run: &RunId, seq: Seq) {
        let values = [(&run.as_str() as _, Type::TEXT), (&sql_int(seq.0) as _, Type::INT8)];
        assert_eq!(self.harm(LOSE_EVENT, &values).await, 1, "{run} has no event {seq} to lose");
    }

    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str) {
        let values =
            [(&run.as_str() as _, Type::TEXT), (&sql_int(seq.0) as _, Type::INT8), (&body as _, Type::TEXT)];
        assert_eq!(self.harm(CORRUPT, &values).await, 1, "{run} has no event {seq} to change");
    }

    async fn garble(&self, what: Aim<'_>, how: Garble) {
        let (table, key, name, text, word) = match what {
            Aim::Row(run) => ("runs", "id", run.as_str(), "summary", None),
            Aim::Task(task) => ("tasks", "id", task.as_str(), "payload", Some("state")),
            Aim::Lock(lock) => ("locks", "name", lock.as_str(), "audit", None),
            Aim::Node(node) => ("nodes", "id", node.as_str(), "workflows", Some("state")),
        };
        let set = match (how, word) {
            (Garble::Later, Some(word)) => [word, " = 'hibernating'"].concat(),
            (Garble::Later, None) if table == "runs" => "status = 'hibernating', summary = \
                jsonb_set(summary::jsonb, '{status}', '\"hibernating\"')::text"
                .to_owned(),
            // A table of texts in UTF-8 has no other bytes.
            (Garble::Bytes | Garble::Type, _) => [text, " = '{\"a\": 1'"].concat(),
            (Garble::Torn | Garble::Later, _) => [text, " = '{bad'"].concat(),
        };
        let sql = ["UPDATE goldseam.", table, " SET ", &set, " WHERE ", key, " = $1"].concat();
        let changed = self.harm(&sql, &[(&name, Type::TEXT)]).await;
        assert_eq!(changed, 1, "{what:?} does not exist");
    }

    async fn lose_hints(&self) {
        self.lose_rows(None).await;
        self.harm(LOSE_ADVANCE_TASKS, &[]).await;
    }
}
