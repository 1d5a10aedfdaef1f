//! `cargo xtask nth`: every call of every story fails once, in every way; a build lets only some of them fail.

use std::collections::BTreeSet;

use crate::steps::{command, heard};
use crate::tree;

/// What a story prints for each way of failing: its name, the way, and how many cases there were.
const MARK: &str = "nth: ";

/// What was told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Stories, each in one way of failing.
    loops: u64,
    cases: u64,
    /// The ways of failing that were met.
    kinds: BTreeSet<String>,
}

impl Tally {
    fn take(&mut self, line: &str) {
        let Some((_, told)) = line.split_once(MARK) else { return };
        let words: Vec<&str> = told.split(' ').collect();
        let [_, kind, cases] = words.as_slice() else { return };
        let Ok(cases) = cases.parse::<u64>() else { return };
        self.loops += 1;
        self.cases += cases;
        self.kinds.extend((cases > 0).then(|| snake(kind)));
    }
}

/// `FailBefore` as `fail_before`, which is what the simulation calls it.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// Runs the stories whose tests are called like this; the last line is the record.
pub(crate) fn run(tests: &str) -> Result<(), String> {
    let args = format!("test --quiet --package goldseam-sim --test it {tests} -- --nocapture");
    let mut cargo = command(&tree::root()?, &args);
    let mut tally = Tally::default();
    let status = heard(cargo.env("GOLDSEAM_NTH", "all"), |line| {
        println!("{line}");
        tally.take(line);
    })?;
    match (status.success(), &tally) {
        (false, _) => Err(format!("`cargo {args}` ended with {status}")),
        (true, Tally { loops: 0, .. }) => Err(format!("no story is called like {tests}")),
        (true, Tally { loops, cases, kinds }) => {
            let kinds = kinds.iter().cloned().collect::<Vec<_>>().join(",");
            println!("record: tests={tests} loops={loops} cases={cases} failed=0 kinds={kinds}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_summed_and_other_lines_are_not() {
        let mut tally = Tally::default();
        for line in [
            "running 11 tests",
            "nth: saga Crash 61",
            ".nth: signal LoseReply 40",
            "nth: signal Twice 0",
            "test result: ok. 9",
        ] {
            tally.take(line);
        }
        let kinds = ["crash", "lose_reply"].map(str::to_owned).into();
        assert_eq!(tally, Tally { loops: 3, cases: 101, kinds });
    }
}
