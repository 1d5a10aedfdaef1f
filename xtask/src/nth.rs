//! `cargo xtask nth`: fails every store call of every story once, in every way. `cargo xtask test` fails some calls.

use std::collections::BTreeSet;

use crate::cargo::{command, for_each_line};
use crate::tree;

/// The prefix of the line that a story prints per kind of failure: name, kind, number of cases.
const MARK: &str = "nth: ";

/// The counted cases.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Pairs of story and kind of failure.
    loops: u64,
    cases: u64,
    /// Kinds of failure with at least one case.
    kinds: BTreeSet<String>,
}

impl Tally {
    fn take(&mut self, line: &str) {
        let Some((_, fields)) = line.split_once(MARK) else { return };
        let words: Vec<&str> = fields.split(' ').collect();
        let [_, kind, cases] = words.as_slice() else { return };
        let Ok(cases) = cases.parse::<u64>() else { return };
        self.loops += 1;
        self.cases += cases;
        self.kinds.extend((cases > 0).then(|| snake(kind)));
    }
}

/// `FailBefore` as `fail_before`, the name in the simulation.
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

/// Runs the stories whose test names contain `tests`; the last line is the record.
pub(crate) fn run(tests: &str) -> Result<(), String> {
    let args = format!("test --quiet --package goldseam-sim --test it {tests} -- --nocapture");
    let mut cargo = command(&tree::root()?, &args);
    let mut tally = Tally::default();
    let status = for_each_line(cargo.env("GOLDSEAM_NTH", "all"), |line| {
        println!("{line}");
        tally.take(line);
    })?;
    match (status.success(), &tally) {
        (false, _) => Err(format!("`cargo {args}` ended with {status}")),
        (true, Tally { loops: 0, .. }) => Err(format!("no story has a name with {tests}")),
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
    fn sums_cases_and_ignores_other_lines() {
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
