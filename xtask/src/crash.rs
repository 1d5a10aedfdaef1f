//! `cargo xtask crash`: kills the binary at every crash point, on every store.

use std::collections::BTreeSet;

use crate::cargo::{command, for_each_line};
use crate::servers::{Servers, Which};
use crate::tree;

const TESTS: &str =
    "test --quiet --package goldseam-cli --features crash-points --test it crash:: -- --nocapture";
/// The prefix of the line that a test prints for each survived crash: store and crash point.
const MARK: &str = "crash: ";

/// The survived crashes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    deaths: u64,
    points: BTreeSet<String>,
    stores: BTreeSet<String>,
}

impl Tally {
    fn take(&mut self, line: &str) {
        let fields = line.split_once(MARK).and_then(|(_, rest)| rest.split_once(' '));
        if let Some((store, point)) = fields {
            self.deaths += 1;
            self.points.insert(point.to_owned());
            self.stores.insert(store.to_owned());
        }
    }

    /// The record line. The simulation counts crashes before and after a write under the same kinds.
    fn record(&self) -> String {
        let stores: Vec<&str> = self.stores.iter().map(String::as_str).collect();
        format!(
            "record: points={} stores={} deaths={} kinds=crash,crash_before,crash_after",
            self.points.len(),
            stores.join(","),
            self.deaths
        )
    }
}

/// Runs the crash-point tests with servers; the last line is the record.
pub(crate) fn run() -> Result<(), String> {
    let servers = Servers::start(Which::All)?;
    let mut cargo = command(&tree::root()?, TESTS);
    cargo.env("GOLDSEAM_CRASH_STORES", "all").envs(servers.variables());
    let mut tally = Tally::default();
    let status = for_each_line(&mut cargo, |line| {
        println!("{line}");
        tally.take(line);
    })?;
    match (status.success(), tally.deaths) {
        (false, _) => Err(format!("`cargo {TESTS}` ended with {status}")),
        (true, 0) => Err("no test printed a crash".to_owned()),
        (true, _) => {
            println!("{}", tally.record());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_crashes_by_point_and_store() {
        let mut tally = Tally::default();
        for line in
            ["running 24 tests", "crash: sqlite claim:before", "..crash: s3 claim:before", "crash: s3 x"]
        {
            tally.take(line);
        }
        let record = "record: points=2 stores=s3,sqlite deaths=3 kinds=crash,crash_before,crash_after";
        assert_eq!(tally.record(), record);
    }
}
