//! `cargo xtask mutants`: changes the code in one place at a time and counts how often the tests fail.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tree;

const USAGE: &str =
    "cargo xtask mutants PACKAGE [--file GLOB] [--shard K/N] [--tests PACKAGES] [--filter EXPRESSION]";
/// Seconds after which a run of tests counts as failed.
const TIMEOUT_S: &str = "40";
/// The output folder of cargo-mutants.
const OUTPUT: &str = "target/mutants";

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order<'a> {
    package: &'a str,
    file: Option<&'a str>,
    shard: Option<&'a str>,
    tests: &'a str,
    filter: Option<&'a str>,
}

impl<'a> Order<'a> {
    fn parse(args: &[&'a str]) -> Option<Self> {
        let (package, rest) = args.split_first().filter(|(package, _)| !package.starts_with('-'))?;
        let mut order = Self { package, file: None, shard: None, tests: package, filter: None };
        for pair in rest.chunks(2) {
            match *pair {
                ["--file", glob] => order.file = Some(glob),
                ["--shard", shard] => order.shard = Some(shard),
                ["--tests", packages] => order.tests = packages,
                ["--filter", expression] => order.filter = Some(expression),
                _ => return None,
            }
        }
        Some(order)
    }

    /// The arguments of cargo-mutants. A shard takes every N-th change, always the same ones.
    fn arguments(&self) -> Vec<&'a str> {
        let mut arguments = vec!["mutants", "--package", self.package, "--test-package", self.tests];
        arguments.extend(self.file.iter().flat_map(|glob| ["--file", glob]));
        arguments.extend(self.shard.iter().flat_map(|shard| ["--sharding", "round-robin", "--shard", shard]));
        arguments.extend(["--profile", "mutated", "--timeout", TIMEOUT_S, "--no-times", "--output", OUTPUT]);
        match self.filter {
            // Doc tests are examples, and each one is a program to link.
            None => arguments.extend(["--", "--lib", "--tests"]),
            Some(expression) => arguments.extend(["--test-tool", "nextest", "--", "-E", expression]),
        }
        arguments
    }
}

/// Tries the changes; the last line is the record. Lists the changes that no test fails for; these are not an error,
/// since some changes do not alter behaviour.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let Some(order) = Order::parse(args) else { return Err(format!("usage: {USAGE}")) };
    let root = tree::root()?;
    let mut mutants = Command::new("cargo");
    mutants.args(order.arguments()).current_dir(&root);
    let status = mutants.status().map_err(|error| format!("cargo-mutants: {error}"))?;
    // Exit code 2: some changes were missed; 3: some timed out.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!(
            "cargo-mutants ended with {status}; install it with `cargo install cargo-mutants`"
        ));
    }
    let output = root.join(OUTPUT).join("mutants.out");
    let [caught, missed, hung, unviable] = ["caught", "missed", "timeout", "unviable"]
        .map(|name| lines(&output.join(name).with_extension("txt")));
    for miss in &missed {
        println!("missed: {miss}");
    }
    let noticed = caught.len() + hung.len();
    let all = caught.len() + hung.len() + missed.len();
    println!(
        "record: package={} mutants={all} noticed={noticed} of_these_hung={} missed={} unviable={} score={}%",
        order.package,
        hung.len(),
        missed.len(),
        unviable.len(),
        score(noticed, all)
    );
    Ok(())
}

/// Percent, rounded down.
fn score(noticed: usize, all: usize) -> usize {
    noticed * 100 / all.max(1)
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_arguments() {
        let order = Order::parse(&["goldseam-core", "--shard", "0/5"]).unwrap();
        assert_eq!(
            (order.package, order.shard, order.tests),
            ("goldseam-core", Some("0/5"), "goldseam-core")
        );
        assert_eq!(Order::parse(&[]), None);
        assert_eq!(Order::parse(&["goldseam-core", "--shard"]), None);
    }

    #[test]
    fn rounds_the_score_down() {
        assert_eq!((score(899, 1_000), score(10, 10), score(0, 0)), (89, 100, 0));
    }
}
