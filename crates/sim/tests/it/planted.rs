//! The simulation or a model finds every planted mistake.

use goldseam_core::planted::Bug;
use goldseam_sim::journal::Trace;
use goldseam_sim::swarm::{first_to_find, run_seed, twin_of};

/// Number of seeds within which a mistake must be found.
const WITHIN: u64 = 2_000;

/// Returns a seed that found the mistake once. If it no longer does, the other seeds are tried.
fn known(bug: Bug) -> u64 {
    match bug {
        Bug::NoFence | Bug::BlindRetry => 106,
        Bug::BeginsWhileUndoing => 104,
        Bug::JumpDropsCancel => 4,
        Bug::TerminatedGoesOn => 11,
        Bug::ReleaseByName => 1,
        Bug::StaleSnapshot => 2_556,
        Bug::LateIsDead => 18,
        Bug::UndoInOrder | Bug::UndoSkipsOne => 3,
        Bug::RowNotFolded => 2,
        Bug::SilentIsCharged => 45,
        Bug::UndoAgain => 9,
        Bug::OnceWithoutTrace => 6,
        Bug::ResultBeforeLog => 64,
        Bug::ParksUnknownVersion | Bug::NoVersionGrace => 7,
        _ => 0,
    }
}

/// Returns the mistakes that the simulation finds.
fn simulated() -> impl Iterator<Item = Bug> {
    Bug::ALL.into_iter().filter(|bug| twin_of(*bug).is_none())
}

#[test]
fn every_planted_mistake_is_found() {
    let mut missed = Vec::new();
    for bug in simulated() {
        if first_to_find(bug, std::iter::once(known(bug)).chain(0..WITHIN)).is_none() {
            missed.push(bug);
        }
    }
    assert!(missed.is_empty(), "not found within {WITHIN} seeds: {missed:?}");
}

#[test]
fn nothing_is_found_where_nothing_is_planted() {
    let mut seeds: Vec<u64> = simulated().map(known).collect();
    seeds.sort_unstable();
    seeds.dedup();
    for seed in seeds {
        assert_eq!(run_seed(seed, Trace::Hash).violations, [], "seed {seed}");
    }
}
