//! The cost of idle nodes on a server: one node, and ten.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::healthy::cpu_seconds;
use crate::report::Measurement;
use crate::server::ServerStatistics;
use crate::target::Target;
use crate::work::{FirstStep, engine};

const NODES: [u32; 2] = [1, 10];
/// Time until the work of a start is done.
const SETTLE: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(20);

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let server = ServerStatistics::open(target.server()?).await?;
    let baseline = watch(&server, "none").await?;
    let mut reports = Vec::new();
    for count in NODES {
        let url = target.scratch(&format!("idle-{count}"));
        let mut engines = Vec::new();
        for _ in 0..count {
            engines.push(engine(&url, FirstStep::default()).await?);
        }
        tokio::time::sleep(SETTLE).await;
        let name = url.rsplit_once('=').map_or("", |(_, name)| name);
        let cost = watch(&server, name).await?;
        for engine in engines {
            engine.shutdown().await;
        }
        let each = |cost: f64, baseline: f64| (cost - baseline) / f64::from(count);
        reports.push(Measurement {
            measure: "idle",
            store: target.label(),
            value: each(cost.transactions, baseline.transactions),
            unit: "transactions/s per node",
            baseline: None,
            ratio: None,
            more: vec![
                ("nodes", f64::from(count)),
                ("server_cpu_ms_per_s", each(cost.server_ms, baseline.server_ms)),
                ("own_cpu_ms_per_s", each(cost.own_ms, baseline.own_ms)),
                ("wal_bytes_per_s", each(cost.wal, baseline.wal)),
                ("connections", cost.connections / f64::from(count)),
            ],
        });
    }
    Ok(reports)
}

/// The cost per second.
struct IdleCost {
    transactions: f64,
    server_ms: f64,
    own_ms: f64,
    wal: f64,
    connections: f64,
}

async fn watch(server: &ServerStatistics, name: &str) -> Fallible<IdleCost> {
    let before = server.counts().await?;
    let own_before = cpu_seconds()?;
    let began = Instant::now();
    tokio::time::sleep(WATCHED).await;
    let since = server.counts().await?.since(&before);
    let own = cpu_seconds()?;
    let took = began.elapsed().as_secs_f64();
    Ok(IdleCost {
        transactions: (since.commits + since.rollbacks) / took,
        server_ms: since.cpu_ms() / took,
        own_ms: (own - own_before) * 1e3 / took,
        wal: since.wal / took,
        connections: server.sessions(name).await?,
    })
}
