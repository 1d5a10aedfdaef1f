//! Plants each bug in turn and searches for a seed that finds it.

#![expect(clippy::print_stdout, reason = "a terminal tool")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use goldseam_core::planted::{Bug, plant};
use goldseam_sim::check::Violation;
use goldseam_sim::journal::Trace;
use goldseam_sim::swarm::run_seed;

/// Number of seeds within which a bug must be found.
const WITHIN: u64 = 2_000;

/// Plant each bug in turn and search for a seed that finds it
#[derive(Debug, Parser)]
#[command(name = "planted")]
struct Args {
    /// Plant only this bug
    #[arg(long, value_name = "NAME")]
    bug: Option<String>,
    /// Search from seed 0 on, instead of starting with the seed that is known to find the bug
    #[arg(long)]
    search: bool,
}

/// How a search for a bug ended.
enum Found {
    BySeed(u64, Violation),
    ByModel(&'static str),
    Missed,
}

/// Returns a seed that found the bug once. If it no longer does, the other seeds are tried.
fn known(bug: Bug) -> u64 {
    match bug {
        Bug::NoFence | Bug::BlindRetry => 190,
        Bug::StaleSnapshot => 369,
        Bug::LateIsDead => 18,
        Bug::SilentIsCharged => 45,
        Bug::UndoInOrder | Bug::UndoSkipsOne => 3,
        Bug::UndoAgain => 16,
        Bug::BeginsWhileUndoing => 104,
        Bug::OnceWithoutTrace => 11,
        Bug::RowNotFolded => 55,
        Bug::ResultBeforeLog => 68,
        Bug::SweepStopsAtUnreadable => 4,
        Bug::JumpDropsCancel => 13,
        Bug::TerminatedGoesOn => 5,
        Bug::ParksUnknownVersion => 7,
        Bug::NoVersionGrace => 27,
        _ => 0,
    }
}

/// Returns the broken twin that covers `bug` in a model, if healing hides the bug in the simulation.
fn twin_of(bug: Bug) -> Option<&'static str> {
    match bug {
        // A sweep finds the missed mail shortly after.
        Bug::CheckThenWait => Some("`RestsOnAStaleView` of the model of mail"),
        _ => None,
    }
}

fn search(bug: Bug, from_zero: bool) -> Found {
    if let Some(twin) = twin_of(bug) {
        return Found::ByModel(twin);
    }
    plant(Some(bug));
    let first = (!from_zero).then(|| known(bug));
    let found = first.into_iter().chain(0..WITHIN).find_map(|seed| Some((seed, violation(seed)?)));
    plant(None);
    found.map_or(Found::Missed, |(seed, violation)| Found::BySeed(seed, violation))
}

fn violation(seed: u64) -> Option<Violation> {
    run_seed(seed, Trace::Hash).violations.into_iter().next()
}

/// Runs `work` on each item, on all cores. A bug is planted for one thread only.
fn on_all_cores<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

fn main() -> ExitCode {
    let args = Args::parse();
    let is_wanted = |bug: &Bug| args.bug.as_ref().is_none_or(|name| *name == format!("{bug:?}"));
    let bugs: Vec<Bug> = Bug::ALL.into_iter().filter(is_wanted).collect();
    if bugs.is_empty() {
        println!("unknown bug; the bugs are {:?}", Bug::ALL);
        return ExitCode::FAILURE;
    }
    let [caught, by_model, missed, false_alarms] = [const { AtomicUsize::new(0) }; 4];
    on_all_cores(&bugs, |bug| {
        let name = format!("{bug:?}");
        let count = match search(*bug, args.search) {
            Found::BySeed(seed, violation) => {
                println!("{name:<22} seed {seed:<6} {} {}", violation.rule, violation.what);
                &caught
            }
            Found::ByModel(twin) => {
                println!("{name:<22} found by a model: {twin}");
                &by_model
            }
            Found::Missed => {
                println!("{name:<22} NOT FOUND in {WITHIN} seeds");
                &missed
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    });
    // The seeds that find a bug find nothing if none is planted.
    let mut seeds: Vec<u64> = bugs.iter().map(|bug| known(*bug)).collect();
    seeds.sort_unstable();
    seeds.dedup();
    on_all_cores(&seeds, |seed| {
        if let Some(violation) = violation(*seed) {
            println!("seed {seed} FAILS without a planted bug: {} {}", violation.rule, violation.what);
            false_alarms.fetch_add(1, Ordering::Relaxed);
        }
    });
    let [caught, by_model, missed, false_alarms] =
        [caught, by_model, missed, false_alarms].map(AtomicUsize::into_inner);
    let planted = bugs.len();
    println!("record: planted={planted} caught={caught} by_model={by_model} missed={missed} false_alarms={false_alarms}");
    if missed + false_alarms == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
