//! Benchmarks of Goldseam, as ratios to a raw baseline measured in the same run.
//!
//! `cargo run --release -p goldseam-bench -- latency|throughput|length|crowd|memory|disk [--json]` measure the cost of
//! runs, `restart|takeover|sweep|healthy` the cost of recovery and healing, and `nodes|wake|idle|growth|search` several nodes
//! and large stores. `--store postgres` starts a private server and measures on it. `front` measures an HTTP server
//! under load. `requests --store s3` counts requests to object storage, and fails if they exceed their limits. Rounds
//! of both sides alternate and medians are compared, because machines are noisy.

#![expect(clippy::print_stdout, reason = "a terminal tool")]
#![expect(clippy::print_stderr, reason = "a terminal tool")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod crowd;
mod disk;
mod dormant;
mod front;
mod growth;
mod healthy;
mod idle;
mod latency;
mod length;
mod memory;
mod nodes;
mod raw;
mod report;
mod requests;
mod restart;
mod search;
mod server;
mod sweep;
mod takeover;
mod target;
mod throughput;
mod wake;
mod work;
mod worker;

use clap::{Parser, Subcommand};

use crate::report::Measurement;
use crate::target::Target;

pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Measures Goldseam against a raw baseline in the same run
#[derive(Debug, Parser)]
struct BenchArgs {
    #[command(subcommand)]
    measure: Measure,
    /// Store to measure on: sqlite:PATH (default: a scratch file), postgres://… (in new schemas, removed afterwards),
    /// postgres (a private, durable server on a socket), or s3 (a private server with a bucket)
    #[arg(long, global = true)]
    store: Option<String>,
    /// Print one JSON object per measure
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum Measure {
    /// Step of a workflow of 10 empty steps, compared with a raw durable single-row commit
    Latency,
    /// 2,000 workflows of 5 empty steps, 256 in flight, compared with a plain loop that makes the same row writes
    Throughput,
    /// Step in a history of 10,000 events, compared with one in a history of 10
    Length,
    /// Workflow in a store with 1,000,000 ended runs, compared with an empty store
    Crowd,
    /// Memory of 100,000 sleeping runs, compared with an idle engine
    Memory,
    /// Bytes per small step, including indexes
    Disk,
    /// Restart after a kill with 10,000 runs in a step: time to the first new step, and to all of them
    Restart {
        /// Number of runs in a step
        #[arg(long, default_value_t = RESTART_RUNS)]
        runs: u32,
        /// Number of kills, each on a new store
        #[arg(long, default_value_t = RESTART_ROUNDS)]
        rounds: u32,
    },
    /// Takeover after a kill of one of two processes on a file, or of three on a server: time to the first new step
    Takeover {
        /// Number of kills
        #[arg(long, default_value_t = TAKEOVER_KILLS)]
        kills: u32,
    },
    /// Sweep of 1,000 active runs among 1,000,000 ended ones, compared with the 1,000 alone
    Sweep(sweep::Size),
    /// First page of typical and of hard searches among 1,000,000 runs
    Search(search::SearchSize),
    /// Throughput with all healers on, compared with all off
    Healthy {
        /// Number of rounds of both sides
        #[arg(long, default_value_t = HEALTHY_ROUNDS)]
        rounds: usize,
    },
    /// Four processes on one store, compared with one
    Nodes,
    /// Time from the start by a client until an idle node begins the run
    Wake,
    /// Cost of one idle node and of ten on a server
    Idle,
    /// Appends, claims and a sweep with a growing number of ended runs
    Growth(growth::GrowthArgs),
    /// `doctor` and an idle engine with 1,000,000 dormant runs, compared with their limits
    Dormant(dormant::DormantArgs),
    /// Requests per run, per second of an idle node, and per waiting run; fails if they exceed their limits
    Requests,
    /// HTTP server with 1,000 followers and 2,000 requests per second, reads and writes, while runs make progress
    Front(front::FrontLoad),
    /// All measures of the store
    All,
    /// A process that the benchmarks kill
    #[command(hide = true)]
    Worker(worker::BenchWorkerArgs),
}

const RESTART_RUNS: u32 = 10_000;
const RESTART_ROUNDS: u32 = 3;
const TAKEOVER_KILLS: u32 = 40;
const HEALTHY_ROUNDS: usize = 9;

impl Measure {
    /// Returns all measures of a kind of store. On a server, `growth` covers ended runs.
    fn all(target: &Target) -> Vec<Self> {
        if target.is_bucket() {
            return vec![Self::Requests];
        }
        let mut all = vec![
            Self::Latency,
            Self::Throughput,
            Self::Length,
            Self::Disk,
            Self::Healthy { rounds: HEALTHY_ROUNDS },
            Self::Restart { runs: RESTART_RUNS, rounds: RESTART_ROUNDS },
            Self::Takeover { kills: TAKEOVER_KILLS },
        ];
        all.extend(if target.is_postgres() {
            vec![Self::Nodes, Self::Wake, Self::Idle, Self::Growth(growth::GrowthArgs::default())]
        } else {
            vec![Self::Memory, Self::Crowd, Self::Sweep(sweep::Size::default())]
        });
        all
    }

    async fn take(self, target: &Target) -> Fallible<Vec<Measurement>> {
        match self {
            Self::Latency => latency::measure(target).await,
            Self::Throughput => throughput::measure(target).await,
            Self::Length => length::measure(target).await,
            Self::Crowd => crowd::measure(target).await,
            Self::Memory => memory::measure(target).await,
            Self::Disk => disk::measure(target).await,
            Self::Restart { runs, rounds } => restart::measure(target, runs, rounds).await,
            Self::Takeover { kills } => takeover::measure(target, kills).await,
            Self::Sweep(size) => sweep::measure(target, size).await,
            Self::Search(size) => search::measure(target, &size).await,
            Self::Healthy { rounds } => healthy::measure(target, rounds).await,
            Self::Nodes => nodes::measure(target).await,
            Self::Wake => wake::measure(target).await,
            Self::Idle => idle::measure(target).await,
            Self::Growth(far) => growth::measure(target, &far).await,
            Self::Dormant(args) => dormant::measure(target, &args).await,
            Self::Requests => requests::measure(target).await,
            Self::Front(load) => front::measure(target, &load).await,
            Self::All | Self::Worker(_) => Ok(Vec::new()),
        }
    }
}

fn main() -> Fallible<()> {
    let args = BenchArgs::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if let Measure::Worker(orders) = args.measure {
        let url = args.store.ok_or("a worker needs --store")?;
        match runtime.block_on(worker::work(&url, orders))? {}
    }
    let scratch = tempfile::tempdir()?;
    let target = Target::open(args.store.as_deref(), scratch.path())?;
    let measures = match args.measure {
        Measure::All => Measure::all(&target),
        one => vec![one],
    };
    runtime.block_on(async {
        let mut exceeded = Vec::new();
        for measure in measures {
            let reports = measure.take(&target).await;
            target.clear().await?;
            for report in reports? {
                if args.json {
                    println!("{}", report.json());
                } else {
                    println!("{report}");
                }
                exceeded.extend(requests::exceeded(&report));
            }
        }
        if exceeded.is_empty() { Ok(()) } else { Err(exceeded.join(", ").into()) }
    })
}
