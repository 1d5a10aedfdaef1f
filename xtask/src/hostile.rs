//! `cargo xtask hostile`: serves the built binary on loopback and runs third-party tools and clients against it.
//!
//! | part | content |
//! |---|---|
//! | [`lint`] | linters read the served description |
//! | [`clients`] | clients generated from it start, signal and finish a run |
//! | [`schemas`] | schemathesis sends requests that the description allows and requests that it forbids |
//! | [`crowd`] | thousands of idle and slow clients |
//! | [`memory`] | memory before, under and after a flood |
//!
//! Tools are installed into the cache folder in the exact versions of the lists in `xtask/hostile`.

mod clients;
mod crowd;
mod lint;
mod memory;
mod report;
mod schemas;
mod server;
mod tools;

use std::time::Instant;

use report::Report;
use server::Ground;

use crate::{cargo, tree};

const USAGE: &str =
    "cargo xtask hostile [lint] [clients] [schemas] [crowd] [memory] [--seed S] [--examples N]";

/// A part: its name and its function.
type Part = (&'static str, fn(&Ground, &Order, &mut Report) -> Result<(), String>);

const PARTS: &[Part] = &[
    ("lint", lint::run),
    ("clients", clients::run),
    ("schemas", schemas::run),
    ("crowd", crowd::run),
    ("memory", memory::run),
];

/// The parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order {
    parts: Vec<&'static str>,
    /// The random seed of schemathesis.
    seed: u64,
    /// Random requests of schemathesis per operation, besides its boundary cases.
    examples: u64,
}

impl Order {
    fn parse(args: &[&str]) -> Option<Self> {
        let mut order = Self { parts: Vec::new(), seed: 1, examples: 40 };
        let mut args = args.iter();
        while let Some(word) = args.next() {
            match *word {
                "--seed" => order.seed = args.next()?.parse().ok()?,
                "--examples" => order.examples = args.next()?.parse().ok().filter(|count| *count > 0)?,
                name => order.parts.push(PARTS.iter().find(|(part, _)| *part == name)?.0),
            }
        }
        if order.parts.is_empty() {
            order.parts = PARTS.iter().map(|(name, _)| *name).collect();
        }
        Some(order)
    }
}

/// Runs the named parts, or all of them.
#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let Some(order) = Order::parse(args) else { return Err(format!("usage: {USAGE}")) };
    let root = tree::root()?;
    cargo::run(&root, "build --quiet --release --package goldseam-cli", &[])?;
    let begin = Instant::now();
    let report = carry_out(&Ground::new(&root, "release")?, &order);
    println!("\n{}", report.table());
    println!("record: {} seconds={}", report.counts(), begin.elapsed().as_secs());
    report.outcome()
}

/// The parts of `cargo xtask test`: the linters and the generated clients, with the binary that the tests use.
pub(crate) fn quick() -> Result<(), String> {
    let root = tree::root()?;
    cargo::build_test_binary(&root)?;
    let order = Order { parts: vec!["lint", "clients"], seed: 1, examples: 1 };
    let report = carry_out(&Ground::new(&root, "debug")?, &order);
    println!("{}", report.table());
    report.outcome()
}

fn carry_out(ground: &Ground, order: &Order) -> Report {
    let mut report = Report::default();
    for (name, part) in PARTS.iter().filter(|(name, _)| order.parts.contains(name)) {
        report.begin(name);
        if let Err(message) = part(ground, order, &mut report) {
            report.failed("did not finish", &message);
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_all_parts_by_default() {
        let all = Order::parse(&["--seed", "7"]).unwrap();
        assert_eq!((all.parts.len(), all.seed), (PARTS.len(), 7));
        let some = Order::parse(&["lint", "--examples", "20", "schemas"]).unwrap();
        assert_eq!((some.parts, some.examples), (vec!["lint", "schemas"], 20));
    }

    #[test]
    fn rejects_invalid_arguments() {
        for args in [&["tape"][..], &["--seed"], &["--examples", "0"], &["--seed", "x"]] {
            assert_eq!(Order::parse(args), None, "{args:?}");
        }
    }
}
