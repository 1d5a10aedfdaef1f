//! Seeds of the simulation: the first ones, those that failed once, and repeated ones.

use goldseam_sim::failed_seeds;
use goldseam_sim::journal::Trace;
use goldseam_sim::swarm::run_seed;

fn check(seed: u64) {
    let outcome = run_seed(seed, Trace::Hash);
    if outcome.violations.is_empty() {
        return;
    }
    let rule = outcome.violations[0].rule;
    failed_seeds::keep(seed, rule).unwrap();
    panic!("repeat with `cargo run -p goldseam-sim -- --seed {seed}`:\n{:#?}", outcome.violations);
}

fn range(from: u64) {
    (from..from + 50).for_each(check);
}

#[test]
fn seeds_from_0() {
    range(0);
}

#[test]
fn seeds_from_50() {
    range(50);
}

#[test]
fn seeds_from_100() {
    range(100);
}

#[test]
fn seeds_that_failed_once_pass() {
    let failed_seeds = failed_seeds::read().unwrap();
    assert!(!failed_seeds.is_empty(), "no seed is kept");
    failed_seeds.into_iter().for_each(check);
}

#[test]
fn same_seed_gives_the_same_trace() {
    for seed in [3, 17, 42, 99, 1_000_003] {
        let first = run_seed(seed, Trace::Keep);
        let again = run_seed(seed, Trace::Keep);
        let differ = first.trace.iter().zip(&again.trace).position(|(left, right)| left != right);
        if let Some(line) = differ {
            panic!("seed {seed}, line {line}:\n{}\n{}", first.trace[line], again.trace[line]);
        }
        assert_eq!(first.hash, again.hash, "seed {seed}");
        assert!(first.calls > 100 && first.runs > 3, "seed {seed} did nothing");
    }
    assert_ne!(run_seed(1, Trace::Hash).hash, run_seed(2, Trace::Hash).hash);
}
