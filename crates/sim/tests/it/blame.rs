//! In crash loops from outside, no run is blamed except a poisonous one.

use goldseam_sim::journal::Trace;
use goldseam_sim::swarm::run_seed;

/// Seeds with crash loops. The even ones have a poisonous run.
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
