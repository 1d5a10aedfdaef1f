//! File lengths. (Clippy checks functions: `too_many_lines`.)

use crate::finding::Finding;
use crate::ratchet::{Counts, FILE, Kind, Ratchet};
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// The most lines of a file, without its inline tests.
const LINES_MAX: usize = 600;
/// The most lines of an inline test module.
const TEST_LINES_MAX: usize = 150;

/// Files over their limit, and exceptions that allow more than the file has.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (ratchet, _) = Ratchet::of(tree);
    let files = || tree.rust().filter(|file| !is_test_file(&file.path));
    let mut findings: Vec<Finding> = files().filter_map(|file| too_long(file, &ratchet)).collect();
    findings.extend(files().flat_map(long_tests));
    let gone = ratchet.entries(Kind::Lines).filter(|(path, _)| !files().any(|file| file.path == *path));
    findings.extend(gone.map(|(path, _)| slack(FILE, format!("{path} does not exist"))));
    findings
}

/// Lines of each file over the limit.
pub(super) fn count(tree: &Tree) -> Counts {
    let files = tree.rust().filter(|file| !is_test_file(&file.path));
    let lines = files.map(|file| (file.path.clone(), code_lines(&file.text)));
    lines.filter(|(_, lines)| *lines > LINES_MAX).collect()
}

fn too_long(file: &File, ratchet: &Ratchet) -> Option<Finding> {
    let lines = code_lines(&file.text);
    let most = ratchet.get(Kind::Lines, &file.path);
    let bound = most.unwrap_or(LINES_MAX);
    if lines > bound {
        let what = format!("the file has {lines} lines without its tests, {bound} are allowed");
        return Some(Finding::new(&file.path, bound, what, "split it by topic"));
    }
    let slackens = most.is_some_and(|most| lines < most || lines <= LINES_MAX);
    slackens.then(|| slack(&file.path, format!("the file has {lines} lines, its exception says {bound}")))
}

fn slack(path: &str, what: String) -> Finding {
    Finding::new(path, 1, what, "run `cargo xtask generate`, which tightens the exception")
}

fn long_tests(file: &File) -> Vec<Finding> {
    let source = Source::new(&file.text);
    let span = |span: &std::ops::Range<usize>| (source.line(span.start), source.line(span.end));
    let long = |(from, to): &(usize, usize)| to - from + 1 > TEST_LINES_MAX;
    let finding = |(from, to): (usize, usize)| {
        let what = format!("the tests have {} lines, {TEST_LINES_MAX} are allowed inline", to - from + 1);
        Finding::new(&file.path, from, what, "move them to a `tests.rs` of the module")
    };
    source.tests.iter().map(span).filter(long).map(finding).collect()
}

/// Lines of a file without its inline tests.
fn code_lines(text: &str) -> usize {
    let source = Source::new(text);
    let tests = source.tests.iter().map(|span| source.line(span.end) - source.line(span.start) + 1);
    text.lines().count().saturating_sub(tests.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(files: &[(&str, &str)]) -> usize {
        check(&Tree::of(files)).len()
    }

    fn lines(count: usize) -> String {
        "x();\n".repeat(count)
    }

    #[test]
    fn finds_a_long_file() {
        assert_eq!(count(&[("crates/a/src/b.rs", &lines(600))]), 0);
        assert_eq!(count(&[("crates/a/src/b.rs", &lines(601))]), 1);
        assert_eq!(count(&[("crates/a/tests/b.rs", &lines(601))]), 0);
        assert_eq!(count(&[("crates/a/src/conformance/b.rs", &lines(601))]), 0);
    }

    #[test]
    fn inline_tests_have_a_separate_bound() {
        let with_tests = |count| format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(590), lines(count));
        assert_eq!(code_lines(&with_tests(100)), 590);
        assert_eq!(count(&[("crates/a/src/b.rs", &with_tests(100))]), 0);
        assert_eq!(count(&[("crates/a/src/b.rs", &with_tests(151))]), 1);
    }

    #[test]
    fn an_exception_fits_exactly() {
        let list = |most: usize| format!("lines crates/a/src/b.rs {most}\n");
        let with = |most, long| count(&[("crates/a/src/b.rs", &lines(long)), (FILE, &list(most))]);
        assert_eq!(with(700, 700), 0);
        assert_eq!(with(700, 701), 1, "it grew");
        assert_eq!(with(700, 699), 1, "the exception is too wide");
        assert_eq!(with(700, 600), 1, "the exception is not needed");
        assert_eq!(count(&[(FILE, &list(700))]), 1, "the file is gone");
    }
}
