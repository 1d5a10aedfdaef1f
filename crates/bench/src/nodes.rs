//! Four processes on one store, compared with one: together they execute the same number of runs, 256 in flight each.
//! On a server it also reports connections, rollbacks and conflicts.

use std::time::{Duration, Instant};

use crate::Fallible;
use crate::report::{Measurement, median};
use crate::server::ServerStatistics;
use crate::target::{Target, with};
use crate::worker::{BenchWorkerArgs, WorkerProcess};

const NODES: usize = 4;
const RUNS: usize = 4_000;
const STEPS: f64 = 5.0;
const ROUNDS: usize = 5;
/// Interval of the server statistics.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let server = match target.server() {
        Ok(url) => Some(ServerStatistics::open(url).await?),
        Err(_) => None,
    };
    let mut one = Vec::new();
    let mut many = Vec::new();
    let mut seen = Contention::default();
    for round in 0..ROUNDS {
        for (count, rates) in [(1, &mut one), (NODES, &mut many)] {
            let mut team = Team::start(target, count, round)?;
            // The first round only warms up.
            team = team.work(server.as_ref(), &mut Contention::default()).await?.0;
            let (_, seconds) = team.work(server.as_ref(), &mut seen).await?;
            rates.push(RUNS as f64 * STEPS / seconds);
        }
        eprintln!("nodes {round}: {:.0?} and {:.0?} steps/s", one.last(), many.last());
    }
    let one = median(one);
    let many = median(many);
    let mut more = vec![("nodes", NODES as f64)];
    if server.is_some() {
        more.extend([
            ("connections_max", seen.connections),
            ("rollbacks", seen.rollbacks),
            ("conflicts", seen.conflicts),
        ]);
    }
    Ok(vec![Measurement {
        measure: "nodes",
        store: target.label(),
        value: many,
        unit: "steps/s",
        baseline: Some(one),
        ratio: Some(many / one),
        more,
    }])
}

/// Statistics of the server.
#[derive(Debug, Default)]
struct Contention {
    /// Maximum number of connections of one node.
    connections: f64,
    rollbacks: f64,
    conflicts: f64,
}

/// Processes that share a store.
struct Team {
    names: Vec<String>,
    workers: Vec<WorkerProcess>,
}

impl Team {
    fn start(target: &Target, count: usize, round: usize) -> Fallible<Self> {
        let url = target.scratch(&format!("nodes-{count}-{round}"));
        let mut team = Self { names: Vec::new(), workers: Vec::new() };
        for index in 0..count {
            let name = format!("node-{count}-{round}-{index}");
            let url = if target.is_postgres() { with(&url, "application_name", &name) } else { url.clone() };
            let args = BenchWorkerArgs {
                name: name.clone(),
                load: Some(RUNS / count),
                ..BenchWorkerArgs::default()
            };
            let mut worker = WorkerProcess::spawn(&url, &args)?;
            worker.wait_for("up")?;
            team.workers.push(worker);
            team.names.push(name);
        }
        Ok(team)
    }

    /// Executes all runs; returns the duration in seconds.
    async fn work(
        mut self,
        server: Option<&ServerStatistics>,
        seen: &mut Contention,
    ) -> Fallible<(Self, f64)> {
        let before = match server {
            Some(server) => Some(server.counts().await?),
            None => None,
        };
        let names = self.names.clone();
        let began = Instant::now();
        let mut working = tokio::task::spawn_blocking(move || {
            let done = self.workers.iter_mut().try_for_each(|worker| worker.send("go"));
            let done =
                done.and_then(|()| self.workers.iter_mut().try_for_each(|worker| worker.wait_for("done")));
            done.map(|()| (self, began.elapsed().as_secs_f64())).map_err(|error| error.to_string())
        });
        loop {
            tokio::select! {
                done = &mut working => {
                    if let Some((server, before)) = server.zip(before) {
                        let since = server.counts().await?.since(&before);
                        seen.rollbacks += since.rollbacks;
                        seen.conflicts += since.conflicts;
                    }
                    return Ok(done??);
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if let Some(server) = server {
                for name in &names {
                    seen.connections = server.sessions(name).await?.max(seen.connections);
                }
            }
        }
    }
}
