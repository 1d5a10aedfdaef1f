//! Compares appends through the store with a bare loop over one connection with the same statements:
//! `cargo run --release -p goldseam-store-sqlite --example append_cost [FOLDER]`.
//!
//! Rounds of both alternate, so that noise of the machine affects both equally. The medians are compared.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use goldseam_core::{RunId, Seq};
use goldseam_store::{Append, Store};
use goldseam_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::{Connection, params};

const ROUNDS: usize = 15;
const SEQUENTIAL: u64 = 400;
const CALLERS: u64 = 256;
const PER_CALLER: u64 = 40;
const GROUP: u64 = 128;
const FIRST: &str = "INSERT INTO events (rid, seq, body) SELECT ?1, ?2 + 1, ?3 \
    WHERE COALESCE((SELECT MAX(seq) FROM events WHERE rid = ?1), 0) = ?2";

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> Fallible<()> {
    let folder = match std::env::args().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let current = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let multi = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for (name, runtime) in [("current-thread", &current), ("multi-thread(2)", &multi)] {
        let bare = Bare::open(&folder.path().join(format!("{name}-bare.db")))?;
        let store = Arc::new(SqliteStore::open(
            &folder.path().join(format!("{name}-store.db")),
            SqliteOptions::default(),
        )?);
        let mut times = [const { Vec::new() }; 4];
        for round in 0..ROUNDS {
            times[0].push(bare.one_by_one(round)?);
            times[1].push(runtime.block_on(one_by_one(&store, round))?);
            times[2].push(bare.in_groups(round)?);
            times[3].push(runtime.block_on(concurrently(&store, round))?);
        }
        let [bare_one, store_one, bare_many, store_many] = times.map(median);
        let each = |total: Duration, count: u64| total.as_secs_f64() * 1e6 / count as f64;
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
        println!("{name}");
        println!(
            "  one by one: bare {:.1} us, store {:.1} us, ratio {:.2}",
            each(bare_one, SEQUENTIAL),
            each(store_one, SEQUENTIAL),
            ratio(store_one, bare_one)
        );
        println!(
            "  {CALLERS} at once: bare loop in groups of {GROUP} {:.2} us, store {:.2} us, throughput {:.2} of bare",
            each(bare_many, CALLERS * PER_CALLER),
            each(store_many, CALLERS * PER_CALLER),
            ratio(bare_many, store_many)
        );
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn body() -> String {
    format!(r#"{{"v":1,"at":1,"branch":1,"event":{{"type":"step.completed","data":"{}"}}}}"#, "x".repeat(230))
}

/// One connection with the schema and the statements of the store.
struct Bare(Connection);

impl Bare {
    fn open(path: &Path) -> Fallible<Self> {
        drop(SqliteStore::open(path, SqliteOptions::default())?);
        let conn = Connection::open(path)?;
        conn.pragma_update(None, "synchronous", "full")?;
        conn.pragma_update(None, "cache_size", -16_384)?;
        Ok(Self(conn))
    }

    fn run(&self, id: &str) -> Fallible<i64> {
        self.0.execute("INSERT INTO runs (id) VALUES (?1)", [id])?;
        let rid = self.0.last_insert_rowid();
        self.0.execute("INSERT INTO events (rid, seq, body) VALUES (?1, 1, ?2)", params![rid, body()])?;
        Ok(rid)
    }

    fn one_by_one(&self, round: usize) -> Fallible<Duration> {
        let rid = self.run(&format!("one-{round}"))?;
        let begun = Instant::now();
        for seq in 1..=SEQUENTIAL {
            self.0.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.0.prepare_cached(FIRST)?.execute(params![rid, seq as i64, body()])?;
            self.0.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(begun.elapsed())
    }

    fn in_groups(&self, round: usize) -> Fallible<Duration> {
        let rids: Vec<i64> = (0..CALLERS)
            .map(|caller| self.run(&format!("many-{round}-{caller}")))
            .collect::<Fallible<_>>()?;
        let begun = Instant::now();
        for seq in 1..=PER_CALLER {
            for group in rids.chunks(GROUP as usize) {
                self.0.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
                for rid in group {
                    self.0.prepare_cached(FIRST)?.execute(params![rid, seq as i64, body()])?;
                }
                self.0.prepare_cached("COMMIT")?.execute([])?;
            }
        }
        Ok(begun.elapsed())
    }
}

async fn append(store: &SqliteStore, run: &RunId, after: u64) -> Fallible<()> {
    let append =
        Append { run: run.clone(), after: Seq(after), bodies: vec![body()], row: None, tasks: Vec::new() };
    store.append(append).await?;
    Ok(())
}

async fn one_by_one(store: &SqliteStore, round: usize) -> Fallible<Duration> {
    let run = RunId::new(format!("one-{round}"))?;
    append(store, &run, 0).await?;
    let begun = Instant::now();
    for seq in 1..=SEQUENTIAL {
        append(store, &run, seq).await?;
    }
    Ok(begun.elapsed())
}

async fn concurrently(store: &Arc<SqliteStore>, round: usize) -> Fallible<Duration> {
    let mut runs = Vec::new();
    for caller in 0..CALLERS {
        let run = RunId::new(format!("many-{round}-{caller}"))?;
        append(store, &run, 0).await?;
        runs.push(run);
    }
    let begun = Instant::now();
    let callers: Vec<_> = runs
        .into_iter()
        .map(|run| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for seq in 1..=PER_CALLER {
                    append(&store, &run, seq).await.map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(begun.elapsed())
}
