//! The kinds of fault that runs survive. A kind counts once, if a recorded search met it or a test of every build
//! injects it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{PAGE, Run};
use crate::finding::Finding;
use crate::test_names;
use crate::tree::Tree;

/// Faults that tests of every build inject: name, description, test.
pub(super) const PLAYED: &str = "docs/record/kinds.tsv";
/// The minimum number of kinds.
const KINDS_MIN: usize = 45;
/// Actions of the simulation that are not faults.
const NO_FAULTS: [&str; 2] = ["start", "leave"];
/// Counts of `kills`, and the kind of each, by its name in the simulation.
const KILLS: [(&str, &str); 3] = [("kills", "crash"), ("freezes", "freeze"), ("server_kills", "server_kill")];

/// A fault that a test injects.
struct Played<'a> {
    name: &'a str,
    what: &'a str,
    test: &'a str,
}

fn played(text: &str) -> Vec<Played<'_>> {
    let row = |line| {
        let mut cells = str::split(line, '\t');
        let mut next = || cells.next().unwrap_or_default();
        Played { name: next(), what: next(), test: next() }
    };
    text.lines().filter(|line| !line.is_empty()).map(row).collect()
}

/// The kinds that one run of a search met.
fn met<'a>(run: &Run<'a>) -> Vec<&'a str> {
    let happened = |(_, count): &&(&str, &str)| count.parse::<u64>().is_ok_and(|count| count > 0);
    match run.kind {
        // The counts by kind follow the sum.
        "simulation" => {
            let behind = run.counts.iter().skip_while(|(key, _)| *key != "faults").skip(1);
            behind.filter(happened).map(|(key, _)| *key).filter(|key| !NO_FAULTS.contains(key)).collect()
        }
        "kills" => {
            let kind = |key: &str| KILLS.iter().find(|(name, _)| *name == key).map(|(_, kind)| *kind);
            run.counts.iter().filter(happened).filter_map(|(key, _)| kind(key)).collect()
        }
        _ => {
            let lists =
                run.counts.iter().filter(|(key, list)| *key == "kinds" && list.parse::<u64>().is_err());
            lists.flat_map(|(_, list)| list.split(',')).collect()
        }
    }
}

fn by_search<'a>(runs: &[Run<'a>]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut kinds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for run in runs {
        let met = met(run);
        if !met.is_empty() {
            kinds.entry(run.kind).or_default().extend(met);
        }
    }
    kinds
}

/// The part of the page about kinds of fault.
pub(super) fn section(runs: &[Run<'_>], text: &str) -> String {
    let searches = by_search(runs);
    let played = played(text);
    let mut page = format!(
        "\n## Kinds of fault\n\n{} in all, each counted once. A search names a kind only when it was met in a run below.\n\n\
         | search | kinds | names |\n|---|---|---|\n",
        distinct(runs, text).len()
    );
    for (search, kinds) in &searches {
        let names = kinds.iter().copied().collect::<Vec<_>>().join(", ");
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {search} | {} | {names} |", kinds.len());
    }
    let names = played.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let _ = writeln!(page, "| tests of every build | {} | {names} |", played.len());
    page.push_str(
        "\nWhat the tests of every build play:\n\n| kind | what goes wrong | test |\n|---|---|---|\n",
    );
    for Played { name, what, test } in played {
        let _ = writeln!(page, "| {name} | {what} | `{test}` |");
    }
    page
}

fn distinct<'a>(runs: &[Run<'a>], text: &'a str) -> BTreeSet<&'a str> {
    let searched = by_search(runs).into_values().flatten();
    searched.chain(played(text).into_iter().map(|row| row.name)).collect()
}

/// Checks that there are enough kinds, and that every named test exists.
pub(super) fn check(tree: &Tree, runs: &[Run<'_>], text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let count = distinct(runs, text).len();
    if count < KINDS_MIN {
        let what = format!("only {count} kinds of fault");
        findings.push(Finding::new(PAGE, 1, what, format!("record searches that meet {KINDS_MIN}")));
    }
    let tests = test_names::of(tree);
    for (number, row) in (1..).zip(played(text)).filter(|(_, row)| !tests.contains(row.test)) {
        let what = format!("{} names the test {}, which does not exist", row.name, row.test);
        findings.push(Finding::new(PLAYED, number, what, "correct the name"));
    }
    findings
}

#[cfg(test)]
mod tests_of_kinds {
    use super::super::parse;
    use super::*;

    const RUNS: &str = "2026-11-16\ta\tsimulation\t1\tx\tseeds=9 faults=12 crash=7 slow=0 start=5 leave=2\n\
                        2026-11-16\ta\tkills\t1\tx\tkills=9 freezes=0 server_kills=1 lost=0\n\
                        2026-11-16\ta\tdisk\t1\tx\timages=3 kinds=24\n\
                        2026-11-16\ta\tdisk\t1\tx\timages=3 kinds=power_cut,disk_full\n";

    #[test]
    fn counts_each_met_kind_once() {
        let runs = parse(RUNS);
        let named = "stale\tit is old\tit_holds\ncrash\tit dies\tit_holds\n";
        let kinds: Vec<&str> = distinct(&runs, named).into_iter().collect();
        assert_eq!(kinds, ["crash", "disk_full", "power_cut", "server_kill", "stale"]);
    }

    #[test]
    fn too_few_kinds_and_missing_tests_are_findings() {
        let tree = Tree::of(&[("a.rs", "#[test]\nfn it_holds() {}")]);
        let named: String = (0..45).map(|kind| format!("k{kind}\tx\tit_holds\n")).collect();
        assert_eq!(check(&tree, &[], &named), []);
        assert_eq!(check(&tree, &[], "k\tx\tit_holds\n").len(), 1);
        assert_eq!(check(&tree, &[], &named.replace("k7\tx\tit_holds", "k7\tx\tit_held")).len(), 1);
    }
}
