//! Whether finished runs cost anything: start to end of a workflow with a million of them, and with none.

use std::path::Path;
use std::time::Instant;

use rusqlite::params;

use crate::Fallible;
use crate::raw;
use crate::report::{Report, median};
use crate::work::{Mark, Place, engine};

const CROWD: i64 = 1_000_000;
/// Copies are numbered from here on.
const RID_FIRST: i64 = 1_000;
const STEPS: u32 = 5;
const ROUNDS: usize = 200;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let (alone, crowded) = (place.scratch("alone"), place.scratch("crowded"));
    let seed = engine(&crowded, Mark::default()).await?;
    seed.run("steps", "pattern", &STEPS).await?.result::<()>().await?;
    seed.shutdown().await;
    eprintln!("filling a store with {CROWD} finished runs …");
    fill(&Place::file(&crowded), CROWD)?;
    let engines = [engine(&alone, Mark::default()).await?, engine(&crowded, Mark::default()).await?];
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for (engine, times) in engines.iter().zip(&mut times) {
            let began = Instant::now();
            let id = format!("crowd-{}-{round}", std::process::id());
            engine.run("steps", &id, &STEPS).await?.result::<()>().await?;
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
    let [alone, crowded] = times.map(median);
    Ok(vec![Report {
        measure: "crowd",
        store: place.label(),
        value: crowded,
        unit: "us/run",
        baseline: Some(alone),
        ratio: Some(crowded / alone),
        more: vec![],
    }])
}

/// How many copies of the one finished run there are.
pub(crate) fn filled(path: &Path) -> Fallible<i64> {
    let last: i64 = raw::open(path)?.query_row("SELECT MAX(rid) FROM runs", [], |row| row.get(0))?;
    Ok((last - RID_FIRST).max(0))
}

/// Copies the one finished run, `pattern`, events and all, so many times under random-looking ids.
pub(crate) fn fill(path: &Path, count: i64) -> Fallible<()> {
    let conn = raw::open(path)?;
    conn.pragma_update(None, "synchronous", "OFF")?;
    conn.execute_batch("BEGIN")?;
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)";
    let runs = [
        numbers,
        "INSERT INTO runs (rid, id, workflow, status, created_at, updated_at, as_of, task, summary) \
         SELECT ?2 + i, 'run-' || lower(hex(randomblob(8))), workflow, status, created_at, updated_at, as_of, task, summary \
         FROM n, runs WHERE id = 'pattern'",
    ];
    conn.execute(&runs.join(" "), params![count, RID_FIRST])?;
    let events = [
        numbers,
        "INSERT INTO events (rid, seq, body) SELECT ?2 + i, seq, body FROM n, events \
         WHERE events.rid = (SELECT rid FROM runs WHERE id = 'pattern')",
    ];
    conn.execute(&events.join(" "), params![count, RID_FIRST])?;
    conn.execute_batch("COMMIT")?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    // Nothing of the filling may still be on its way to the disk while others are measured.
    std::fs::File::open(path)?.sync_all()?;
    Ok(())
}
