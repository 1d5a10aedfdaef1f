//! Memory of an engine with 100,000 sleeping runs, compared with an idle engine.

use crate::Fallible;
use crate::report::Measurement;
use crate::target::{Target, with};
use crate::work::{FirstStep, engine};

const RUNS: u32 = 100_000;
const IN_FLIGHT: u32 = 500;

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let scratch = target.scratch("memory");
    let url = if target.is_postgres() { scratch } else { with(&scratch, "durability", "process") };
    let engine = std::sync::Arc::new(engine(&url, FirstStep::default()).await?);
    engine.start("steps", "warm", &5u32).await?.result::<()>().await?;
    let idle = resident()?;
    for block in 0..RUNS / IN_FLIGHT {
        let starts = (0..IN_FLIGHT).map(|index| {
            let engine = std::sync::Arc::clone(&engine);
            tokio::spawn(async move {
                let id = format!("nap-{}", block * IN_FLIGHT + index);
                engine.start("nap", &id, &86_400u64).await.map(|_| ())
            })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await??;
        }
    }
    while engine.live_runs() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let full = resident()?;
    let more = (full - idle) / (1024.0 * 1024.0);
    Ok(vec![Measurement {
        measure: "memory",
        store: target.label(),
        value: more,
        unit: "MiB",
        baseline: Some(64.0),
        ratio: Some(more / 64.0),
        more: vec![("idle_mib", idle / (1024.0 * 1024.0))],
    }])
}

/// Returns the resident bytes of this process.
pub(crate) fn resident() -> Fallible<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no figure")?.parse()?;
    Ok(kib * 1024.0)
}
