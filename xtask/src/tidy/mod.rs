//! What no compiler checks. Each check is a function from the tree to findings.

mod calls;
mod codes;
mod deps;
mod homes;
mod length;
mod links;
mod places;
mod proofs;
mod sql;

use std::fmt;

use crate::ratchet;
use crate::tree::{self, Tree};

pub(crate) use codes::{is_raised, pages};
pub(crate) use length::{LINES_MAX, code_lines};
pub(crate) use proofs::tests;

/// Something to put right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    fix: String,
}

impl Finding {
    /// What is wrong at a place, and what to do.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} → {}", self.path, self.line, self.what, self.fix)
    }
}

/// The checks that need nothing but the files.
const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    deps::check,
    length::check,
    calls::check_homes,
    calls::check_forbidden,
    sql::check,
    codes::check,
    links::check,
    places::check,
    proofs::check,
    crate::generate::check,
    crate::record::check,
];

/// Runs all checks and prints the findings.
pub(crate) fn run() -> Result<(), String> {
    let root = tree::root()?;
    let tree = Tree::read(&root)?;
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    findings.extend(ratchet::check(&root, &tree)?);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err("tidy: 1 finding".to_owned()),
        count => Err(format!("tidy: {count} findings")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let finding = Finding::new("a.rs", 3, "it is wrong", "right it");
        assert_eq!(finding.to_string(), "a.rs:3: it is wrong → right it");
    }
}
