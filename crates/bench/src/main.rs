//! What Goldseam costs, as ratios against a raw baseline measured in the same run.
//!
//! `cargo run --release -p goldseam-bench -- latency|throughput|length|crowd|memory|disk [--json]`.
//! Rounds of both sides alternate and medians are compared, because machines are noisy.

#![expect(clippy::print_stdout, reason = "a benchmark reports to its reader")]
#![expect(clippy::print_stderr, reason = "a benchmark reports to its reader")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod crowd;
mod disk;
mod latency;
mod length;
mod memory;
mod raw;
mod report;
mod throughput;
mod work;

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

#[derive(Debug, Clone, Copy, Subcommand)]
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
    /// All of them
    All,
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
            Measure::All => Vec::new(),
        })
    };
    let all = [
        Measure::Latency,
        Measure::Throughput,
        Measure::Length,
        Measure::Disk,
        Measure::Memory,
        Measure::Crowd,
    ];
    let measures = if matches!(args.measure, Measure::All) { all.to_vec() } else { vec![args.measure] };
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
