//! A seed that is kept had found a bug, and the record says which.

use super::BUGS;
use crate::tidy::Finding;

/// Seeds of the simulation that failed once; tests replay them.
pub(super) const KEPT: &str = "crates/sim/seeds/failed.txt";

/// Every kept seed is named by a bug.
pub(super) fn check(kept: &str, bugs: &str) -> Vec<Finding> {
    let named: Vec<&str> = bugs.split(|c: char| !c.is_ascii_digit()).collect();
    (1..)
        .zip(kept.lines())
        .filter_map(|(number, line)| Some((number, line.split('#').next()?.trim())))
        .filter(|(_, seed)| !seed.is_empty() && !named.contains(seed))
        .map(|(number, seed)| {
            let what = format!("seed {seed} found a bug that nobody names");
            Finding::new(KEPT, number, what, format!("say in {BUGS} what it was"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_seed_is_named_in_full() {
        let kept = "# why\n200037 # I1\n1005308\n";
        assert_eq!(check(kept, "d\tsimulation\t`--seed 200037`, 1005308\tx"), []);
        assert_eq!(check(kept, "d\tsimulation\t`--seed 2000371`, 1005308\tx").len(), 1);
    }
}
