//! 2,000 workflows of 5 empty steps, 256 in flight, against a plain loop that makes the same row
//! writes: the same statements and bytes, on one connection, in transactions of 128 appends.

use std::sync::Arc;
use std::time::Instant;

use goldseam::Engine;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use tokio::sync::Semaphore;

use crate::Fallible;
use crate::raw;
use crate::report::{Report, median};
use crate::work::{Mark, Place, engine};

const RUNS: usize = 2_000;
const STEPS: u32 = 5;
const IN_FLIGHT: usize = 256;
const GROUP: usize = 128;
const ROUNDS: usize = 5;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let (mut ours, mut theirs, mut writes) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..ROUNDS {
        let url = place.scratch(&format!("throughput-{round}"));
        ours.push(run_all(Arc::new(engine(&url, Mark::default()).await?), RUNS).await?);
        let replay = Replay::read(&Place::file(&url), place, round).await?;
        let (seconds, rows) = replay.run()?;
        theirs.push(seconds);
        writes = rows;
    }
    let steps = RUNS as f64 * f64::from(STEPS);
    let (ours, theirs) = (steps / median(ours), steps / median(theirs));
    Ok(vec![Report {
        measure: "throughput",
        store: place.label(),
        value: ours,
        unit: "steps/s",
        baseline: Some(theirs),
        ratio: Some(ours / theirs),
        more: vec![("row_writes_per_run", writes)],
    }])
}

/// Seconds for so many runs from first start to last result; the engine leaves afterwards.
pub(crate) async fn run_all(engine: Arc<Engine>, runs: usize) -> Fallible<f64> {
    engine.run("steps", "warm", &STEPS).await?.result::<()>().await?;
    let slots = Arc::new(Semaphore::new(IN_FLIGHT));
    let began = Instant::now();
    let mut all = Vec::with_capacity(runs);
    for index in 0..runs {
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let engine = Arc::clone(&engine);
        all.push(tokio::spawn(async move {
            let run = engine.run("steps", &format!("run-{index:06}"), &STEPS).await?;
            let result = run.result::<()>().await;
            drop(slot);
            result
        }));
    }
    for run in all {
        run.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    if let Some(engine) = Arc::into_inner(engine) {
        engine.shutdown().await;
    }
    Ok(seconds)
}

/// What the runs wrote, to be written again without an engine.
struct Replay {
    path: std::path::PathBuf,
    bodies: Vec<Vec<String>>,
    runs: Vec<Vec<Value>>,
    task: Vec<Value>,
}

impl Replay {
    async fn read(file: &std::path::Path, place: &Place, round: usize) -> Fallible<Self> {
        let conn = Connection::open(file)?;
        let mut bodies: Vec<Vec<String>> = Vec::new();
        let mut runs = Vec::new();
        let mut rows = conn.prepare("SELECT rid, id, workflow, owner, created_at, updated_at, as_of, task, summary FROM runs WHERE id <> 'warm' ORDER BY rid")?;
        let mut found = rows.query([])?;
        while let Some(row) = found.next()? {
            let rid: i64 = row.get(0)?;
            runs.push((1..9).map(|column| row.get::<_, Value>(column)).collect::<Result<Vec<_>, _>>()?);
            let mut events = conn.prepare_cached("SELECT body FROM events WHERE rid = ?1 ORDER BY seq")?;
            bodies.push(events.query_map([rid], |row| row.get(0))?.collect::<Result<_, _>>()?);
        }
        let pool = "default/advance:steps".to_owned();
        let task = vec![
            Value::Text(pool),
            Value::Text("advance:steps".into()),
            Value::Text("n-0123456789abcdef".into()),
        ];
        // An empty store of the same schema for the plain loop.
        let url = place.scratch(&format!("throughput-raw-{round}"));
        drop(goldseam::open_store(&url).await?);
        Ok(Self { path: Place::file(&url), bodies, runs, task })
    }

    /// Seconds, and row writes per run.
    fn run(&self) -> Fallible<(f64, f64)> {
        let conn = raw::open(&self.path)?;
        conn.set_prepared_statement_cache_capacity(32);
        let before = conn.total_changes();
        let began = Instant::now();
        let mut pending = 0;
        conn.execute_batch("BEGIN IMMEDIATE")?;
        for first in (0..self.runs.len()).step_by(IN_FLIGHT) {
            let block = first..(first + IN_FLIGHT).min(self.runs.len());
            for append in 0..=STEPS as usize {
                for index in block.clone() {
                    self.append(&conn, index, append)?;
                    pending += 1;
                    if pending == GROUP {
                        conn.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
                        pending = 0;
                    }
                }
            }
        }
        conn.execute_batch("COMMIT")?;
        let seconds = began.elapsed().as_secs_f64();
        let rows = (conn.total_changes() - before) as f64 / self.runs.len() as f64;
        Ok((seconds, rows))
    }

    /// The `append`-th append of a run: its start, one of its steps, or the last step with its end.
    fn append(&self, conn: &Connection, index: usize, append: usize) -> Fallible<()> {
        let rid = i64::try_from(index)? + 1;
        let (bodies, run) = (&self.bodies[index], &self.runs[index]);
        let task = format!("t-{index:032}");
        let event = |seq: usize| -> Fallible<()> {
            let statement = if seq == 1 { FIRST_OF_ALL } else { FIRST };
            let mut insert = conn.prepare_cached(statement)?;
            match seq {
                1 => insert.execute(params![rid, bodies[0]])?,
                _ => insert.execute(params![rid, i64::try_from(seq - 1)?, bodies[seq - 1]])?,
            };
            Ok(())
        };
        match append {
            0 => {
                let fixed = vec![
                    Value::Text(task),
                    self.task[0].clone(),
                    self.task[1].clone(),
                    run[0].clone(),
                    self.task[2].clone(),
                    run[3].clone(),
                ];
                conn.prepare_cached(TASK)?.execute(params_from_iter(fixed))?;
                let mut values = vec![Value::Integer(rid)];
                values.extend(run.iter().cloned());
                values[3] = self.task[2].clone();
                conn.prepare_cached(RUN)?.execute(params_from_iter(values))?;
                (1..=3).try_for_each(event)
            }
            5 => {
                event(8)?;
                event(9)?;
                conn.prepare_cached(END_RUN)?.execute(params![rid, run[4], run[5], run[7]])?;
                conn.prepare_cached("DELETE FROM tasks WHERE id = ?1")?.execute([task])?;
                Ok(())
            }
            step => event(step + 3),
        }
    }
}

const FIRST_OF_ALL: &str = "INSERT OR IGNORE INTO events (rid, seq, body) VALUES (?1, 1, ?2)";
const FIRST: &str = "INSERT OR IGNORE INTO events (rid, seq, body) \
    SELECT ?1, ?2 + 1, ?3 WHERE EXISTS (SELECT 1 FROM events WHERE rid = ?1 AND seq = ?2)";
const RUN: &str = "INSERT INTO runs (rid, id, workflow, status, owner, created_at, updated_at, as_of, task, summary) \
    VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9)";
const END_RUN: &str = "UPDATE runs SET status = 'completed', owner = NULL, updated_at = ?2, as_of = ?3, summary = ?4 WHERE rid = ?1";
const TASK: &str = "INSERT INTO tasks (id, pool, kind, queue, priority, state, ripe, run_at, run, owner, poked, version, fence, \
    deliveries, attempts, attempts_max, started_at, heartbeat_at, created_at, changed_at, payload) \
    VALUES (?1, ?2, ?3, 'default', 0, 'claimed', 1, ?6, ?4, ?5, 0, 2, 1, 0, 0, 1, ?6, ?6, ?6, ?6, 'null')";
