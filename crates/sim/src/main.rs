//! `goldseam-sim`: runs seeds until one fails, or time is up.

#![expect(clippy::print_stdout, reason = "a terminal tool")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use goldseam_sim::failed_seeds;
use goldseam_sim::journal::Trace;
use goldseam_sim::swarm::{SeedOutcome, run_seed};

/// Simulate engines, faults and clients from seeds, and check every invariant
#[derive(Debug, Parser)]
#[command(name = "goldseam-sim", version)]
struct SimArgs {
    /// Run this one seed
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "minutes"])]
    seed: Option<u64>,
    /// Print every call, effect and acknowledgement
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Number of seeds to run
    #[arg(long, value_name = "N", default_value_t = 100)]
    seeds: u64,
    /// First seed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// Run seeds for M minutes instead
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// Do not add failed seeds to the file of failed seeds
    #[arg(long)]
    forget: bool,
}

#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    runs: usize,
    calls: u64,
    simulated: Duration,
    faults: BTreeMap<&'static str, u64>,
    late_effects: u64,
    longest_gap: i64,
    failed: Vec<u64>,
}

impl Sum {
    fn add(&mut self, outcome: &SeedOutcome, forget: bool) {
        self.seeds += 1;
        self.runs += outcome.runs;
        self.calls += outcome.calls;
        self.simulated += outcome.simulated;
        self.late_effects += outcome.late_effects;
        self.longest_gap = self.longest_gap.max(outcome.longest_gap);
        if outcome.late_effects > 0 {
            println!("seed {}: {} late effects", outcome.seed, outcome.late_effects);
        }
        for (kind, count) in &outcome.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        if outcome.violations.is_empty() {
            return;
        }
        self.failed.push(outcome.seed);
        println!("seed {} failed: cargo run -p goldseam-sim -- --seed {}", outcome.seed, outcome.seed);
        for violation in &outcome.violations {
            println!("  {} {}", violation.rule, violation.what);
        }
        let first = outcome.violations.first().map_or("", |violation| violation.rule);
        if !forget && let Err(error) = failed_seeds::keep(outcome.seed, first) {
            println!("  failed to save the seed: {error}");
        }
    }

    fn print(&self, took: Duration) {
        let Self { seeds, runs, calls, simulated, faults, late_effects, longest_gap, failed } = self;
        println!("seeds {seeds}, failed {}, in {:.1} s", failed.len(), took.as_secs_f64());
        println!(
            "runs {runs}, store operations {calls}, simulated time {:.1} h",
            simulated.as_secs_f64() / 3600.0
        );
        println!("effects repeated by superseded owners: {late_effects}");
        let faults: Vec<String> = faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        println!("faults: {}", faults.join(", "));
        let sum: u64 = self.faults.values().sum();
        let failed = failed.len();
        let hours = simulated.as_secs() / 3_600;
        println!(
            "record: seeds={seeds} failed={failed} runs={runs} operations={calls} simulated_hours={hours} \
             late_effects={late_effects} longest_gap_ms={longest_gap} faults={sum} {}",
            self.faults.iter().map(|(kind, count)| format!("{kind}={count}")).collect::<Vec<_>>().join(" ")
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "the duration of the simulation is measured in real time")]
fn main() -> ExitCode {
    let args = SimArgs::parse();
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    }
    let began = Instant::now();
    let mut sum = Sum::default();
    if let Some(seed) = args.seed {
        let outcome = run_seed(seed, if args.trace { Trace::Keep } else { Trace::Hash });
        for line in &outcome.trace {
            println!("{line}");
        }
        println!("trace hash {:016x}", outcome.hash);
        sum.add(&outcome, true);
    } else {
        let until = args.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
        for seed in args.from.. {
            let done = until.map_or(sum.seeds >= args.seeds, |until| began.elapsed() >= until);
            if done {
                break;
            }
            sum.add(&run_seed(seed, Trace::Hash), args.forget);
        }
    }
    sum.print(began.elapsed());
    if sum.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
