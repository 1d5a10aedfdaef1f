//! Files stay short. (Functions are clippy's: `too_many_lines`.)

use super::Finding;
use crate::ratchet::{FILE, Ratchet};
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// Most lines of a file, tests apart.
pub(crate) const LINES_MAX: usize = 600;
/// Most lines of an inline test module.
const TEST_LINES_MAX: usize = 150;

/// No file is over its limit, no exception wider than it needs to be.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (ratchet, _) = Ratchet::of(tree);
    let files = || tree.rust().filter(|file| !is_test_file(&file.path));
    let mut findings: Vec<Finding> = files().filter_map(|file| too_long(file, &ratchet)).collect();
    findings.extend(files().flat_map(long_tests));
    let gone = ratchet.lines.keys().filter(|path| !files().any(|file| file.path == **path));
    findings.extend(gone.map(|path| slack(FILE, format!("{path} is not there any more"))));
    findings
}

fn too_long(file: &File, ratchet: &Ratchet) -> Option<Finding> {
    let lines = code_lines(&file.text);
    let most = ratchet.lines.get(&file.path).copied();
    let bound = most.unwrap_or(LINES_MAX);
    if lines > bound {
        let what = format!("the file has {lines} lines without its tests, {bound} are allowed");
        return Some(Finding::new(&file.path, bound, what, "split it by what its parts are about"));
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

/// Lines of a file, inline tests apart.
pub(crate) fn code_lines(text: &str) -> usize {
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
    fn a_long_file_is_found() {
        assert_eq!(count(&[("crates/a/src/b.rs", &lines(600))]), 0);
        assert_eq!(count(&[("crates/a/src/b.rs", &lines(601))]), 1);
        assert_eq!(count(&[("crates/a/tests/b.rs", &lines(601))]), 0);
        assert_eq!(count(&[("crates/a/src/conformance/b.rs", &lines(601))]), 0);
    }

    #[test]
    fn inline_tests_do_not_count_but_have_a_bound_of_their_own() {
        let with_tests = |count| format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(590), lines(count));
        assert_eq!(code_lines(&with_tests(100)), 590);
        assert_eq!(count(&[("crates/a/src/b.rs", &with_tests(100))]), 0);
        assert_eq!(count(&[("crates/a/src/b.rs", &with_tests(151))]), 1);
    }

    #[test]
    fn an_exception_must_fit_exactly() {
        let list = |most: usize| format!("lines crates/a/src/b.rs {most}\n");
        let with = |most, long| count(&[("crates/a/src/b.rs", &lines(long)), (FILE, &list(most))]);
        assert_eq!(with(700, 700), 0);
        assert_eq!(with(700, 701), 1, "it grew");
        assert_eq!(with(700, 699), 1, "the exception is too wide");
        assert_eq!(with(700, 600), 1, "the exception is not needed");
        assert_eq!(count(&[(FILE, &list(700))]), 1, "the file is gone");
    }
}
