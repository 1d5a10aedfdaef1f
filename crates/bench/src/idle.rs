//! What nodes that have nothing to do cost the server: one of them, and ten.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::healthy::cpu_seconds;
use crate::place::Place;
use crate::report::Report;
use crate::server::Server;
use crate::work::{Mark, engine};

const NODES: [u32; 2] = [1, 10];
/// Until everything that a start brings with it is over.
const SETTLE: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(20);

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let server = Server::open(place.server()?).await?;
    let nobody = watch(&server, "nobody").await?;
    let mut reports = Vec::new();
    for count in NODES {
        let url = place.scratch(&format!("idle-{count}"));
        let mut engines = Vec::new();
        for _ in 0..count {
            engines.push(engine(&url, Mark::default()).await?);
        }
        tokio::time::sleep(SETTLE).await;
        let name = url.rsplit_once('=').map_or("", |(_, name)| name);
        let cost = watch(&server, name).await?;
        for engine in engines {
            engine.shutdown().await;
        }
        let each = |cost: f64, nobody: f64| (cost - nobody) / f64::from(count);
        reports.push(Report {
            measure: "idle",
            store: place.label(),
            value: each(cost.transactions, nobody.transactions),
            unit: "transactions/s per node",
            baseline: None,
            ratio: None,
            more: vec![
                ("nodes", f64::from(count)),
                ("server_cpu_ms_per_s", each(cost.server_ms, nobody.server_ms)),
                ("own_cpu_ms_per_s", each(cost.own_ms, nobody.own_ms)),
                ("wal_bytes_per_s", each(cost.wal, nobody.wal)),
                ("connections", cost.connections / f64::from(count)),
            ],
        });
    }
    Ok(reports)
}

/// What a second costs.
struct Cost {
    transactions: f64,
    server_ms: f64,
    own_ms: f64,
    wal: f64,
    connections: f64,
}

async fn watch(server: &Server, name: &str) -> Fallible<Cost> {
    let (before, own_before, began) = (server.counts().await?, cpu_seconds()?, Instant::now());
    tokio::time::sleep(WATCHED).await;
    let (since, own, took) =
        (server.counts().await?.since(&before), cpu_seconds()?, began.elapsed().as_secs_f64());
    Ok(Cost {
        transactions: (since.commits + since.rollbacks) / took,
        server_ms: since.cpu_ms() / took,
        own_ms: (own - own_before) * 1e3 / took,
        wal: since.wal / took,
        connections: server.sessions(name).await?,
    })
}
