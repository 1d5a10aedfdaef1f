//! Bytes on disk per small step, indexes included.

use crate::Fallible;
use crate::report::Report;
use crate::work::{Mark, Place, engine};

const RUNS: u32 = 20;
const STEPS: u32 = 500;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let url = place.scratch("disk");
    let before = size(&url, 0).await?;
    let after = size(&url, STEPS).await?;
    let per_step = (after - before) / f64::from(RUNS * STEPS);
    Ok(vec![Report {
        measure: "disk",
        store: place.label(),
        value: per_step,
        unit: "bytes/step",
        baseline: Some(700.0),
        ratio: Some(per_step / 700.0),
        more: vec![],
    }])
}

/// Size of the file after `RUNS` runs of `steps` steps each, everything moved out of the WAL.
async fn size(url: &str, steps: u32) -> Fallible<f64> {
    let engine = engine(url, Mark::default()).await?;
    for run in 0..RUNS {
        engine.run("steps", &format!("disk-{steps}-{run}"), &steps).await?.result::<()>().await?;
    }
    engine.shutdown().await;
    let path = Place::file(url);
    let conn = rusqlite::Connection::open(&path)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    conn.execute_batch("VACUUM")?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(std::fs::metadata(path)?.len() as f64)
}
