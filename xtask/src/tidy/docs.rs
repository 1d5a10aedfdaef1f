//! Pages for contributors: the glossary defines a term once, and recipes name files that exist.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::ratchet::{Counts, Kind, Ratchet};
use crate::tree::{File, Tree};

const GLOSSARY: &str = "docs/glossary.md";
/// The folder with recipes.
const RECIPES: &str = "docs/dev/";
/// Sections that list the values of one field, such as `completed` of a run and of a task.
const ENUMERATIONS: &[&str] = &["## Status", "## State"];
/// Directories of the root: a path in a recipe begins with one of them.
const ROOTS: &[&str] = &[".cargo/", ".ci/", ".config/", "crates/", "docs/", "examples/", "fuzz/", "xtask/"];

/// Terms defined twice, and paths in recipes that do not exist.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (ratchet, _) = Ratchet::of(tree);
    let mut findings = ratchet.compare(Kind::Terms, &count(tree));
    if ratchet.get(Kind::Terms, GLOSSARY).is_none() {
        findings.extend(twice(tree).into_iter().map(|(line, term)| {
            Finding::new(GLOSSARY, line, format!("`{term}` is defined twice"), "merge the definitions")
        }));
    }
    let recipes = tree.with_suffix(".md").filter(|file| file.path.starts_with(RECIPES));
    findings.extend(recipes.flat_map(|file| dangling(tree, file)));
    findings
}

/// The number of second definitions.
pub(super) fn count(tree: &Tree) -> Counts {
    let count = twice(tree).len();
    if count == 0 { Counts::new() } else { [(GLOSSARY.to_owned(), count)].into() }
}

/// Line and term of every second definition.
fn twice(tree: &Tree) -> Vec<(usize, String)> {
    let Some(file) = tree.get(GLOSSARY) else { return Vec::new() };
    let mut seen = BTreeMap::new();
    let mut twice = Vec::new();
    let mut section = "";
    for (number, line) in (1..).zip(file.text.lines()) {
        if line.starts_with("## ") {
            section = if ENUMERATIONS.iter().any(|begin| line.starts_with(begin)) { line } else { "" };
        }
        let Some((term, _)) = line.strip_prefix("- **").and_then(|rest| rest.split_once("**")) else {
            continue;
        };
        if seen.insert((section, term), number).is_some() {
            twice.push((number, term.to_owned()));
        }
    }
    twice
}

/// Every path in backticks that names no file and no folder. Patterns and placeholders (`CODE.md`) are not checked.
fn dangling(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for span in line.split('`').skip(1).step_by(2) {
            let path = span.split([':', '#']).next().unwrap_or_default().trim_end_matches('/');
            let is_path = ROOTS.iter().any(|root| span.starts_with(root))
                && !span.contains([' ', '*', '{', '<'])
                && !path.split('/').any(is_placeholder);
            if is_path && !tree.has(path) {
                let what = format!("`{span}` does not exist");
                findings.push(Finding::new(&file.path, number, what, "correct the path"));
            }
        }
    }
    findings
}

/// Whether a part of a path is a name for the reader to replace: `CODE.md`, `NAME`.
fn is_placeholder(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default();
    stem.len() > 1 && stem != "README" && stem.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::of(&[(path, text), ("crates/core/src/state.rs", "")]);
        check(&tree).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_term_is_defined_once() {
        let page = "## Log\n- **run**: one\n- **log**: all\n## More\n- **run** (of a test): two\n";
        assert_eq!(lines(GLOSSARY, page), [1, 5], "the number, and the place");
        assert!(lines(GLOSSARY, "- **run**: one\n- **rune**: two, a **run**\n").is_empty());
        let states = "## Statuses of a run\n- **failed**: x\n## States of a task\n- **failed**: y\n";
        assert!(lines(GLOSSARY, states).is_empty());
    }

    #[test]
    fn a_recipe_names_files_that_exist() {
        let good =
            "see `crates/core/src/state.rs`, `crates/core/`, `crates/core/src/state.rs:12`, `cargo test`";
        assert!(lines("docs/dev/add.md", good).is_empty());
        assert!(
            lines("docs/dev/add.md", "`docs/codes/CODE.md`, `crates/NAME/src`, `crates/*/src`").is_empty()
        );
        assert_eq!(lines("docs/dev/add.md", "x\n`crates/core/src/gone.rs`\n"), [2]);
        assert!(lines("docs/guides/add.md", "`crates/core/src/gone.rs`").is_empty());
    }
}
