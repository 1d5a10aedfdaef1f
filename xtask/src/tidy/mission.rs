//! The map from promises to tests cannot rot: every row is there, every test that it names exists.

use std::collections::BTreeSet;

use super::Finding;
use crate::tree::Tree;

const PAGE: &str = "docs/mission.md";
/// How many rows each part has.
const ROWS: [(char, u32); 5] = [('0', 8), ('1', 9), ('2', 5), ('3', 6), ('4', 5)];

/// Every promise names tests that exist, or says what is open.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(PAGE) else { return Vec::new() };
    let tests = functions(tree);
    let (mut findings, mut seen) = (Vec::new(), BTreeSet::new());
    for (number, line) in (1..).zip(page.text.lines()) {
        let Some(row) = line.strip_prefix("| S").and_then(|rest| rest.split(' ').next()) else { continue };
        let proof = line.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        seen.insert(format!("S{row}"));
        let named: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if named.is_empty() && !proof.contains("open:") {
            let what = format!("row S{row} names no test");
            findings.push(Finding::new(PAGE, number, what, "name one, or say what is open"));
        }
        for test in named.into_iter().filter(|test| !tests.contains(test)) {
            let what = format!("row S{row} names {test}, and there is no such test");
            findings.push(Finding::new(PAGE, number, what, "correct the name"));
        }
    }
    for (part, count) in ROWS {
        for row in (1..=count).map(|row| format!("S{part}.{row}")).filter(|row| !seen.contains(row)) {
            findings.push(Finding::new(PAGE, 1, format!("row {row} is missing"), "add it"));
        }
    }
    findings
}

/// Names of all functions.
fn functions(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for file in tree.rust() {
        for piece in file.text.split("fn ").skip(1) {
            let end = piece.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(piece.len());
            names.insert(&piece[..end]);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let tree = Tree::of(&[(PAGE, page), ("a.rs", "async fn it_holds() {}")]);
        check(&tree)
            .iter()
            .map(ToString::to_string)
            .filter(|finding| !finding.contains("is missing"))
            .collect()
    }

    #[test]
    fn a_row_names_tests_that_exist_or_says_what_is_open() {
        assert_eq!(
            found("| S0.1 | it holds | `it_holds` |\n| S0.2 | not yet | open: later |"),
            Vec::<String>::new()
        );
        assert_eq!(found("| S0.1 | it holds | `it_held` |").len(), 1);
        assert_eq!(found("| S0.1 | it holds | surely |").len(), 1);
    }

    #[test]
    fn a_row_that_is_gone_is_found() {
        let tree = Tree::of(&[(PAGE, "# Nothing")]);
        assert_eq!(check(&tree).len(), 33);
    }
}
