//! The share of code changes that the tests noticed, by area.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Run;

/// The code that makes up recovery; `docs/record/intro.md` says the same.
const RECOVERY: [&str; 7] = [
    "crates/core/src/recovery",
    "crates/engine/src/healer",
    "crates/engine/src/claims",
    "crates/engine/src/node/keeper.rs",
    "crates/engine/src/node/quarantine.rs",
    "crates/engine/src/node/sweep.rs",
    "crates/engine/src/undo.rs",
];

/// The part of the code that a run changed: by its files, or by its package.
fn area<'a>(run: &Run<'a>) -> &'a str {
    let mut words = run.command.split(' ').skip_while(|word| *word != "--file").skip(1);
    match words.next() {
        Some(file) if RECOVERY.iter().any(|part| file.starts_with(part)) => "recovery",
        Some(file) => file,
        None => count(run, "package").unwrap_or("?").trim_start_matches("goldseam-"),
    }
}

fn count<'a>(run: &Run<'a>, key: &str) -> Option<&'a str> {
    run.counts.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
}

/// Runs, changes, noticed changes.
type Sum = [u64; 3];

fn sums<'a>(runs: &[Run<'a>]) -> BTreeMap<&'a str, Sum> {
    let mut areas: BTreeMap<&str, Sum> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.kind == "mutants") {
        let number = |key| count(run, key).and_then(|count| count.parse().ok()).unwrap_or(0);
        let sum = areas.entry(area(run)).or_default();
        for (total, more) in sum.iter_mut().zip([1, number("mutants"), number("noticed")]) {
            *total += more;
        }
    }
    areas
}

/// The part of the page about changes of the code.
pub(super) fn section(runs: &[Run<'_>]) -> String {
    let mut page = String::from(
        "\n## Changes of the code that the tests noticed\n\n\
         All runs of an area together, also those before a test was added for what they missed.\n\n\
         | area | runs of it | changes | noticed | score |\n|---|---|---|---|---|\n",
    );
    for (area, [runs, all, noticed]) in sums(runs) {
        // Rounded down. Writing to a string cannot fail.
        let score = noticed * 100 / all.max(1);
        let _ = writeln!(page, "| {area} | {runs} | {all} | {noticed} | {score} % |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn sums_runs_by_area() {
        let runs = parse(
            "d\tc\tmutants\t1\tcargo mutants -p goldseam-core\tpackage=goldseam-core mutants=48 noticed=40\n\
             d\tc\tmutants\t1\tcargo xtask mutants goldseam-core\tpackage=goldseam-core mutants=32 noticed=32\n\
             d\tc\tmutants\t1\tx --file crates/engine/src/healer/** --shard 1/9\tpackage=e mutants=9 noticed=8\n\
             d\tc\tmutants\t1\tx --file crates/core/src/recovery/**\tpackage=goldseam-core mutants=1 noticed=1\n\
             d\tc\tsim\t1\tx\tmutants=7\n",
        );
        assert_eq!(sums(&runs), [("core", [2, 80, 72]), ("recovery", [2, 10, 9])].into());
        assert!(section(&runs).contains("| core | 2 | 80 | 72 | 90 % |"));
    }
}
