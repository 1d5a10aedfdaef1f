//! What Goldseam costs, as ratios against a raw baseline measured in the same run.
//!
//! `cargo run --release -p goldseam-bench -- latency|throughput|length|crowd|memory|disk [--json]`,
//! `restart|takeover|sweep|healthy` for what happens when something is killed or stalls, or could be, and
//! `nodes|wake|idle|growth` for what matters on a server. `--store postgres` starts one and measures on it.
//! `front` puts a server under load.
//! `requests --store s3` counts what a run costs where every call is a request, and fails past its bounds.
//! Rounds of both sides alternate and medians are compared, because machines are noisy.

#![expect(clippy::print_stdout, reason = "a benchmark reports to its reader")]
#![expect(clippy::print_stderr, reason = "a benchmark reports to its reader")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod crowd;
mod disk;
mod front;
mod growth;
mod healthy;
mod idle;
mod latency;
mod length;
mod memory;
mod nodes;
mod place;
mod raw;
mod report;
mod requests;
mod restart;
mod server;
mod sweep;
mod takeover;
mod throughput;
mod wake;
mod work;
mod worker;

use clap::{Parser, Subcommand};

use crate::place::Place;
use crate::report::Report;

pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Measures Goldseam against a raw baseline in the same run
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    measure: Measure,
    /// Store to measure on: sqlite:PATH (default: a scratch file), postgres://… (in schemas of its own, removed
    /// afterwards), postgres (a private and durable server on a socket), or s3 (a private server with a bucket)
    #[arg(long, global = true)]
    store: Option<String>,
    /// One JSON object per measure
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Clone, Subcommand)]
enum Measure {
    /// One workflow of 10 empty steps against one raw durable single-row commit
    Latency,
    /// 2,000 workflows of 5 empty steps, 256 in flight, against a plain loop making the same row writes
    Throughput,
    /// A step in a history of 10,000 events against one in a history of 10
    Length,
    /// Start to end of a workflow with 1,000,000 finished runs in the store against none
    Crowd,
    /// 100,000 sleeping runs over an idle engine
    Memory,
    /// Bytes per small step, indexes included
    Disk,
    /// A process killed with 10,000 runs in mid-step and started again: the first new step, and all of them
    Restart {
        /// Runs in mid-step
        #[arg(long, default_value_t = RESTART_RUNS)]
        runs: u32,
        /// Kills, each with a store of its own
        #[arg(long, default_value_t = RESTART_ROUNDS)]
        rounds: u32,
    },
    /// One of two processes on a file killed, or of three on a server: the first new step by another
    Takeover {
        /// Kills
        #[arg(long, default_value_t = TAKEOVER_KILLS)]
        kills: u32,
    },
    /// A sweep of 1,000 active runs among 1,000,000 finished ones against one of the 1,000 alone
    Sweep(sweep::Size),
    /// Throughput with every healer at work against none
    Healthy {
        /// Rounds of both sides
        #[arg(long, default_value_t = HEALTHY_ROUNDS)]
        rounds: usize,
    },
    /// Four processes on one store against one
    Nodes,
    /// A run that a client queued until an idle node begins it
    Wake,
    /// What one idle node and ten cost a server
    Idle,
    /// Appends, claims and a sweep among more and more finished runs
    Growth(growth::Far),
    /// Requests per run, per step, per second of an idle node and of a waiting run; fails past the bounds
    Requests,
    /// A server with 1,000 followers and 2,000 requests in a second, reads and writes, while runs progress
    Front(front::Load),
    /// All that the store has
    All,
    /// A process to be killed
    #[command(hide = true)]
    Worker(worker::Orders),
}

const RESTART_RUNS: u32 = 10_000;
const RESTART_ROUNDS: u32 = 3;
const TAKEOVER_KILLS: u32 = 40;
const HEALTHY_ROUNDS: usize = 9;

impl Measure {
    /// All that a file is measured by, or a server: there finished runs are the business of `growth`.
    fn all(place: &Place) -> Vec<Self> {
        if place.is_bucket() {
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
        all.extend(if place.is_postgres() {
            vec![Self::Nodes, Self::Wake, Self::Idle, Self::Growth(growth::Far::default())]
        } else {
            vec![Self::Memory, Self::Crowd, Self::Sweep(sweep::Size::default())]
        });
        all
    }

    async fn take(self, place: &Place) -> Fallible<Vec<Report>> {
        match self {
            Self::Latency => latency::measure(place).await,
            Self::Throughput => throughput::measure(place).await,
            Self::Length => length::measure(place).await,
            Self::Crowd => crowd::measure(place).await,
            Self::Memory => memory::measure(place).await,
            Self::Disk => disk::measure(place).await,
            Self::Restart { runs, rounds } => restart::measure(place, runs, rounds).await,
            Self::Takeover { kills } => takeover::measure(place, kills).await,
            Self::Sweep(size) => sweep::measure(place, size).await,
            Self::Healthy { rounds } => healthy::measure(place, rounds).await,
            Self::Nodes => nodes::measure(place).await,
            Self::Wake => wake::measure(place).await,
            Self::Idle => idle::measure(place).await,
            Self::Growth(far) => growth::measure(place, &far).await,
            Self::Requests => requests::measure(place).await,
            Self::Front(load) => front::measure(place, &load).await,
            Self::All | Self::Worker(_) => Ok(Vec::new()),
        }
    }
}

fn main() -> Fallible<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if let Measure::Worker(orders) = args.measure {
        let url = args.store.ok_or("a worker without --store")?;
        match runtime.block_on(worker::work(&url, orders))? {}
    }
    let scratch = tempfile::tempdir()?;
    let place = Place::open(args.store.as_deref(), scratch.path())?;
    let measures = match args.measure {
        Measure::All => Measure::all(&place),
        one => vec![one],
    };
    runtime.block_on(async {
        let mut broken = Vec::new();
        for measure in measures {
            let reports = measure.take(&place).await;
            place.clear().await?;
            for report in reports? {
                if args.json {
                    println!("{}", report.json());
                } else {
                    println!("{report}");
                }
                broken.extend(requests::broken(&report));
            }
        }
        if broken.is_empty() { Ok(()) } else { Err(broken.join(", ").into()) }
    })
}
