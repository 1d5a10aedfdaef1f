//! Shell commands in library crates. A hint there holds next steps as values; only frontends write commands.

use super::homes::is_home;
use crate::finding::Finding;
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// The crates that know nothing of the command line.
const LIBRARIES: &[&str] = &[
    "crates/admin/src/",
    "crates/core/src/",
    "crates/engine/src/",
    "crates/goldseam/src/",
    "crates/store/src/",
    "crates/store-object/src/",
    "crates/store-postgres/src/",
    "crates/store-sqlite/src/",
];

/// Commands of other programs, which may have flags.
const FOREIGN: &[&str] = &["createdb "];

const FIX: &str = "use a `NextStep` inside a `Hint` (core/src/next_step.rs); crates/api renders it";

/// Our commands and flags in strings of library crates, outside tests and comments.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let libraries = tree.rust().filter(|file| is_home(LIBRARIES, &file.path) && !is_test_file(&file.path));
    libraries.flat_map(commands).collect()
}

fn commands(file: &File) -> Vec<Finding> {
    let source = Source::new(&file.text);
    let mut findings = Vec::new();
    for literal in source.strings.iter().filter(|literal| !source.in_tests(literal.at)) {
        if FOREIGN.iter().any(|program| literal.text.contains(program)) {
            continue;
        }
        let places = literal.text.match_indices("goldseam ").chain(literal.text.match_indices("--"));
        for (at, found) in places.filter(|(at, found)| is_ours(&literal.text, *at, found)) {
            let words: String = literal.text[at..].split_inclusive(' ').take(2).collect();
            let what = format!("`{}` is a shell command", if found == "--" { found } else { words.trim() });
            findings.push(Finding::new(&file.path, source.line(literal.at + at), what, FIX));
        }
    }
    findings
}

/// Whether a command or a flag begins at `at`: a verb or a placeholder follows, and no name precedes.
fn is_ours(text: &str, at: usize, found: &str) -> bool {
    let before = text[..at].chars().next_back();
    let after = text[at + found.len()..].chars().next();
    let begins = !before.is_some_and(|c| c.is_alphanumeric() || "_-/.".contains(c));
    begins && after.is_some_and(|c| c.is_ascii_lowercase() || c == '{')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_commands_and_flags_in_strings_of_libraries() {
        let text = "fn f() {\n\"then: goldseam resume {run}\";\n\"`goldseam {verb}`\";\n\"pass --merge\";\n\
                    r#\"goldseam ls\"#;\n}";
        for krate in LIBRARIES {
            assert_eq!(lines(&format!("{krate}a.rs"), text), [2, 3, 4, 5], "{krate}");
        }
        assert!(lines("crates/cli/src/a.rs", text).is_empty());
        assert!(lines("crates/api/src/a.rs", text).is_empty());
    }

    #[test]
    fn ignores_comments_tests_and_other_words() {
        let core = "crates/core/src/a.rs";
        assert!(lines(core, "/// `goldseam resume o-1`\nfn f() {}").is_empty());
        assert!(lines(core, "#[cfg(test)]\nmod tests { const A: &str = \"goldseam ls\"; }").is_empty());
        assert!(lines("crates/core/src/recovery/tests/a.rs", "\"goldseam ls\"").is_empty());
        for plain in
            ["goldseam-mail", "use a newer goldseam; see", "goldseam", "a -- b", "a_goldseam x", "x--y"]
        {
            assert!(lines(core, &format!("\"{plain}\"")).is_empty(), "{plain}");
        }
        assert!(lines(core, "\"createdb --encoding=UTF8 NAME\"").is_empty());
    }
}
