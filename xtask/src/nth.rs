//! `cargo xtask nth`: every call of every story fails once, in every way; a build lets only some of them fail.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::steps::command;
use crate::tree;

/// What a story prints for each way of failing: its name, the way, and how many cases there were.
const MARK: &str = "nth: ";

/// What was told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Stories, each in one way of failing.
    loops: u64,
    cases: u64,
}

impl Tally {
    fn take(&mut self, line: &str) {
        let told = line.split_once(MARK).and_then(|(_, told)| told.rsplit(' ').next()?.parse::<u64>().ok());
        if let Some(cases) = told {
            self.loops += 1;
            self.cases += cases;
        }
    }
}

/// Runs the stories whose tests are called like this; the last line is the record.
pub(crate) fn run(tests: &str) -> Result<(), String> {
    let args = format!("test --quiet --package goldseam-sim --test it {tests} -- --nocapture");
    let cannot = |error: std::io::Error| format!("cargo cannot be run: {error}");
    let mut cargo = command(&tree::root()?, &args);
    let mut child = cargo.env("GOLDSEAM_NTH", "all").stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut tally = Tally::default();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(cannot)?;
        println!("{line}");
        tally.take(&line);
    }
    let status = child.wait().map_err(cannot)?;
    match (status.success(), &tally) {
        (false, _) => Err(format!("`cargo {args}` ended with {status}")),
        (true, Tally { loops: 0, .. }) => Err(format!("no story is called like {tests}")),
        (true, Tally { loops, cases }) => {
            println!("record: tests={tests} loops={loops} cases={cases} failed=0");
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
        for line in
            ["running 11 tests", "nth: saga Crash 61", ".nth: signal LostReply 40", "test result: ok. 9"]
        {
            tally.take(line);
        }
        assert_eq!(tally, Tally { loops: 2, cases: 101 });
    }
}
