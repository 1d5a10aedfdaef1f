//! Tuples that only save lines: several bindings in one `let`, several parameters in one.

use super::homes::is_home;
use crate::finding::Finding;
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// The crates that users run. Tooling and test support may take a pair as it is.
const SHIPPED: &[&str] = &[
    "crates/admin/src/",
    "crates/api/src/",
    "crates/cli/src/",
    "crates/core/src/",
    "crates/embed/src/",
    "crates/engine/src/",
    "crates/goldseam/src/",
    "crates/server/src/",
    "crates/store/src/",
    "crates/store-object/src/",
    "crates/store-postgres/src/",
    "crates/store-sqlite/src/",
];

/// `let (a, b) = (x, y);` anywhere, and tuple parameters of functions in shipped crates.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(packed).collect()
}

fn packed(file: &File) -> Vec<Finding> {
    let source = Source::new(&file.text);
    let lets = source.find_all("let (").filter(|at| is_packed_let(&source, *at));
    let lets = lets.map(|at| {
        Finding::new(
            &file.path,
            source.line(at),
            "one `let` packs several bindings",
            "write one `let` for each",
        )
    });
    let is_shipped = is_home(SHIPPED, &file.path) && !is_test_file(&file.path);
    let is_counted = |at: &usize| is_shipped && !source.in_tests(*at);
    let parameters = source.find_all("fn ").filter(is_counted).filter_map(|at| tuple_parameter(&source, at));
    let parameters = parameters.map(|at| {
        let what = "a tuple parameter packs several values";
        Finding::new(&file.path, source.line(at), what, "use a struct with named fields")
    });
    lets.chain(parameters).collect()
}

/// Whether the `let (` at `at` takes a tuple of names from a tuple of expressions.
fn is_packed_let(source: &Source, at: usize) -> bool {
    let open = at + "let ".len();
    let names = source.bracketed(open);
    let after = source.code[names.end..].trim_start();
    let Some(value) = after.strip_prefix('=').map(str::trim_start) else { return false };
    let begin = source.code.len() - value.len();
    if !value.starts_with('(') {
        return false;
    }
    let value = source.bracketed(begin);
    let is_name = |part: &str| {
        let name = part.trim().trim_start_matches("mut ");
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let names = source.code[names.start + 1..names.end - 1].trim_end_matches([',', ' ', '\n']);
    names.split(',').all(is_name) && source.code[value.end..].starts_with(';') && has_comma(source, &value)
}

/// Whether the bracket at `range` is a tuple: a comma is directly inside.
fn has_comma(source: &Source, range: &std::ops::Range<usize>) -> bool {
    let mut depth = 0usize;
    source.code[range.start..range.end].bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        byte == b',' && depth == 1
    })
}

/// The place of a parameter such as `(a, b): (A, B)` of the function at `at`. A conversion from a tuple takes one by
/// its nature.
fn tuple_parameter(source: &Source, at: usize) -> Option<usize> {
    let head = &source.code[at..];
    let open = at + head.find(['(', '{', ';'])?;
    if !source.code[open..].starts_with('(') || head.starts_with("fn from(") {
        return None;
    }
    let list = source.bracketed(open);
    let mut depth = 0usize;
    let mut begins = true;
    for (offset, byte) in source.code[list.clone()].bytes().enumerate() {
        match byte {
            b'(' if depth == 1 && begins => return Some(list.start + offset),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        begins = byte == b',' || begins && (byte.is_ascii_whitespace() || offset == 0);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_packed_lets_everywhere() {
        let text = "fn f() {\nlet (a, mut b) = (one(1, 2), 2);\nlet (a, b) = (\n  1,\n  2,\n);\n}";
        assert_eq!(lines("crates/core/src/a.rs", text), [2, 3]);
        assert_eq!(lines("crates/core/tests/a.rs", text), [2, 3]);
    }

    #[test]
    fn ignores_returned_tuples_and_patterns() {
        let text = "fn f() {\nlet (a, b) = pair();\nlet (a, b) = (left, right).max();\nlet (a, b) = (pair)(1, 2);\n\
                    if let (Some(a), Some(b)) = (x, y) {}\nlet (Some(a), _) = (x, y) else { return };\n}";
        assert!(lines("crates/core/src/a.rs", text).is_empty());
    }

    #[test]
    fn finds_tuple_parameters_in_shipped_crates() {
        let text = "fn f(a: u8, (b, c): (u8, u8)) {}\nfn g(\n    (a, b): (u8, u8),\n) {}\nfn h(a: (u8, u8), b: fn(u8)) {}";
        assert_eq!(lines("crates/core/src/a.rs", text), [1, 3]);
        assert!(lines("crates/core/tests/a.rs", text).is_empty());
        assert!(
            lines("crates/core/src/a.rs", "impl From<(u8, u8)> for A { fn from((a, b): (u8, u8)) -> A {} }")
                .is_empty()
        );
    }
}
