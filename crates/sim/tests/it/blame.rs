//! Crash loops from outside blame no run, and a poisonous run is the only one that is stopped.

use goldseam_sim::book::Trace;
use goldseam_sim::swarm::run_seed;

/// Even ones have a poisonous run, the others none.
const LOOPS: [u64; 6] = [6, 13, 20, 27, 34, 41];

#[test]
fn crash_loops_stop_the_poisonous_run_and_no_other() {
    for seed in LOOPS {
        let outcome = run_seed(seed, Trace::Hash);
        assert_eq!(outcome.violations, [], "seed {seed}");
        let count = |what| outcome.faults.get(what).copied().unwrap_or(0);
        assert!(count("crash_loop") == 1 && count("crash") > 20, "seed {seed}: {:?}", outcome.faults);
    }
}
