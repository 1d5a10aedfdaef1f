//! Every kept seed once found a bug, and the record describes the bug.

use super::BUGS;
use crate::finding::Finding;

/// Seeds of the simulation that failed once; tests replay them.
pub(super) const KEPT: &str = "crates/sim/seeds/failed.txt";

/// Kept seeds that no bug of the record names.
pub(super) fn check(kept: &str, bugs: &str) -> Vec<Finding> {
    let named: Vec<&str> = bugs.split(|c: char| !c.is_ascii_digit()).collect();
    (1..)
        .zip(kept.lines())
        .filter_map(|(number, line)| Some((number, line.split('#').next()?.trim())))
        .filter(|(_, seed)| !seed.is_empty() && !named.contains(seed))
        .map(|(number, seed)| {
            let what = format!("no bug in the record names seed {seed}");
            Finding::new(KEPT, number, what, format!("describe the bug in {BUGS}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_names_every_kept_seed() {
        let kept = "# why\n200037 # I1\n1005308\n";
        assert_eq!(check(kept, "d\tsimulation\t`--seed 200037`, 1005308\tx"), []);
        assert_eq!(check(kept, "d\tsimulation\t`--seed 2000371`, 1005308\tx").len(), 1);
    }
}
