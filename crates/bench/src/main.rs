//! What Goldseam costs, as ratios against a raw baseline measured in the same run.
//!
//! `cargo run --release -p goldseam-bench -- latency|throughput|length|crowd|memory|disk [--json]`,
//! and `restart|takeover|sweep|healthy` for what happens when something is killed or stalls, or could be.
//! Rounds of both sides alternate and medians are compared, because machines are noisy.

#![expect(clippy::print_stdout, reason = "a benchmark reports to its reader")]
#![expect(clippy::print_stderr, reason = "a benchmark reports to its reader")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod crowd;
mod disk;
mod healthy;
mod latency;
mod length;
mod memory;
mod raw;
mod report;
mod restart;
mod sweep;
mod takeover;
mod throughput;
mod work;
mod worker;

use clap::{Parser, Subcommand};

use crate::report::Report;

pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Measures Goldseam against a raw baseline in the same run
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    measure: Measure,
    /// Store to measure on: sqlite:PATH (default: a scratch file)
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
    /// One of two processes on a file killed: the first new step by the other
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
    /// All of them
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
    fn all() -> Vec<Self> {
        vec![
            Self::Latency,
            Self::Throughput,
            Self::Length,
            Self::Disk,
            Self::Memory,
            Self::Crowd,
            Self::Healthy { rounds: HEALTHY_ROUNDS },
            Self::Restart { runs: RESTART_RUNS, rounds: RESTART_ROUNDS },
            Self::Takeover { kills: TAKEOVER_KILLS },
            Self::Sweep(sweep::Size::default()),
        ]
    }
}

fn main() -> Fallible<()> {
    let args = Args::parse();
    let scratch = tempfile::tempdir()?;
    let url =
        args.store.clone().unwrap_or_else(|| format!("sqlite:{}", scratch.path().join("bench.db").display()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let place = work::Place { url, dir: scratch.path().to_owned() };
    let one = |measure| -> Fallible<Vec<Report>> {
        Ok(match measure {
            Measure::Latency => runtime.block_on(latency::measure(&place))?,
            Measure::Throughput => runtime.block_on(throughput::measure(&place))?,
            Measure::Length => runtime.block_on(length::measure(&place))?,
            Measure::Crowd => runtime.block_on(crowd::measure(&place))?,
            Measure::Memory => runtime.block_on(memory::measure(&place))?,
            Measure::Disk => runtime.block_on(disk::measure(&place))?,
            Measure::Restart { runs, rounds } => restart::measure(&place, runs, rounds)?,
            Measure::Takeover { kills } => takeover::measure(&place, kills)?,
            Measure::Sweep(size) => runtime.block_on(sweep::measure(&place, size))?,
            Measure::Healthy { rounds } => runtime.block_on(healthy::measure(&place, rounds))?,
            Measure::Worker(orders) => match runtime.block_on(worker::work(&place.url, orders))? {},
            Measure::All => Vec::new(),
        })
    };
    let measures = match args.measure {
        Measure::All => Measure::all(),
        one => vec![one],
    };
    for measure in measures {
        for report in one(measure)? {
            if args.json {
                println!("{}", report.json());
            } else {
                println!("{report}");
            }
        }
    }
    Ok(())
}
