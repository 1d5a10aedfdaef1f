//! Calls that only some files may make, and keywords that no file may use.

use super::homes::{HOMES, is_home};
use crate::finding::Finding;
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// Restricted calls outside tests and outside the files that may make them.
pub(super) fn check_homes(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter(|file| !is_test_file(&file.path)).flat_map(homeless).collect()
}

fn homeless(file: &File) -> Vec<Finding> {
    let source = Source::new(&file.text);
    let mut findings = Vec::new();
    for home in HOMES.iter().filter(|home| !is_home(home.places, &file.path)) {
        for call in home.calls {
            for at in source.find_all(call).filter(|at| !source.in_tests(*at)) {
                let what = format!("`{call}` is not allowed in this file");
                findings.push(Finding::new(&file.path, source.line(at), what, home.fix));
            }
        }
    }
    findings
}

/// `unsafe` and `#[allow]`, which are not allowed in tests either.
pub(super) fn check_forbidden(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(forbidden).collect()
}

fn forbidden(file: &File) -> Vec<Finding> {
    let source = Source::new(&file.text);
    let unsafes = source
        .find_all("unsafe")
        .map(|at| (at, "`unsafe`", "write it in safe Rust, or take a crate that wraps it"));
    let allows = source
        .find_all("allow")
        .filter(|at| in_attribute(&source.code, *at))
        .map(|at| (at, "`allow` attribute", "use `#[expect(…, reason = \"…\")]`"));
    let finding = |(at, what, fix): (usize, &str, &str)| Finding::new(&file.path, source.line(at), what, fix);
    unsafes.chain(allows).map(finding).collect()
}

/// Whether the word at `at` opens a list inside an attribute: `#[allow(`, `#![cfg_attr(x, allow(`.
fn in_attribute(code: &str, at: usize) -> bool {
    let opens_list = code[at..].trim_start_matches("allow").trim_start().starts_with('(');
    let Some(open) = code[..at].rfind("#[").max(code[..at].rfind("#![")) else { return false };
    opens_list && !code[open..at].contains(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes(path: &str, text: &str) -> Vec<usize> {
        check_homes(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    fn words(text: &str) -> Vec<usize> {
        check_forbidden(&Tree::of(&[("crates/x/src/lib.rs", text)])).into_iter().map(|f| f.line).collect()
    }

    #[test]
    fn finds_each_call_outside_its_home_file() {
        let text = "fn f() {\n println!();\n eprint!();\n std::time::SystemTime::now();\n \
                    Instant::now();\n tokio::spawn(x);\n thread::Builder::new();\n rand::random();\n}";
        let mut lines = homes("crates/engine/src/ledger/commit.rs", text);
        lines.sort_unstable();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn allows_a_call_in_its_home_file() {
        assert!(homes("crates/cli/src/out.rs", "println!();").is_empty());
        assert!(homes("crates/engine/src/ledger/clock.rs", "Instant::now();").is_empty());
        assert!(homes("crates/engine/src/ledger/spawn.rs", "tokio::spawn(x);").is_empty());
        assert!(homes("crates/engine/src/ledger/entropy.rs", "use rand::Rng;").is_empty());
        assert_eq!(homes("crates/engine/src/ledger/clock.rs", "tokio::spawn(x);"), [1]);
    }

    #[test]
    fn ignores_tests_comments_and_strings() {
        assert!(homes("crates/core/tests/a.rs", "println!();").is_empty());
        assert!(
            homes("crates/core/src/a.rs", "#[cfg(test)]\nmod tests { fn f() { println!(); } }").is_empty()
        );
        assert!(homes("crates/core/src/a.rs", "// println!();\nlet x = \"println!()\";").is_empty());
    }

    #[test]
    fn finds_a_call_after_the_tests() {
        assert_eq!(homes("crates/core/src/a.rs", "#[cfg(test)]\nmod tests { }\nfn f() { print!(); }"), [3]);
    }

    #[test]
    fn finds_unsafe_and_allow_everywhere() {
        assert_eq!(words("unsafe { x }"), [1]);
        assert_eq!(words("#[cfg(test)]\nmod tests {\n unsafe fn f() {}\n}"), [3]);
        assert_eq!(words("#[allow(dead_code)]\nfn f() {}"), [1]);
        assert_eq!(words("#![allow(dead_code)]"), [1]);
        assert_eq!(words("\n#[cfg_attr(test, allow(dead_code))]"), [2]);
        assert_eq!(words("#[ allow (dead_code)]"), [1]);
    }

    #[test]
    fn ignores_similar_code() {
        assert!(words("#![forbid(unsafe_code)]\n// unsafe\nlet allow = allow(1); self.allow(2);").is_empty());
        assert!(words("#[expect(dead_code, reason = \"allow(x)\")]").is_empty());
    }
}
