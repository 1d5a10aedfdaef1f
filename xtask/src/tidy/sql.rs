//! SQL statements are constants; values are bound, never formatted in.

use crate::finding::Finding;
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// Macros that format values into text.
const FORMATTING: &[&str] = &["format!", "format_args!", "write!", "writeln!"];
const VERBS: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE"];
/// A verb and a later keyword, in any case.
const PHRASES: &[(&str, &str)] =
    &[("select ", " from "), ("insert ", "into "), ("update ", " set "), ("delete ", "from ")];

/// Formatted statements outside tests.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().filter(|file| !is_test_file(&file.path)).flat_map(formatted).collect()
}

fn formatted(file: &File) -> Vec<Finding> {
    let source = Source::new(&file.text);
    let calls = FORMATTING.iter().flat_map(|name| source.find_all(name).map(|at| at + name.len()));
    let mut findings = Vec::new();
    for open in calls.filter(|open| !source.in_tests(*open)) {
        let span = source.bracketed(open);
        let inside = source.strings.iter().filter(|literal| span.contains(&literal.at));
        for literal in inside.filter(|literal| is_sql(&literal.text)) {
            let line = source.line(literal.at);
            let fix = "keep the statement constant and bind the values";
            findings.push(Finding::new(&file.path, line, "SQL is formatted", fix));
        }
    }
    findings
}

fn is_sql(text: &str) -> bool {
    let lower = text.to_lowercase();
    let words = || text.split(|c: char| !c.is_alphanumeric());
    let phrase = |(verb, then): &(&str, &str)| {
        lower.split_once(verb).is_some_and(|(before, rest)| {
            !before.ends_with(|c: char| c.is_alphanumeric()) && format!(" {rest}").contains(then)
        })
    };
    words().any(|word| VERBS.contains(&word)) || PHRASES.iter().any(phrase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_formatted_statements() {
        let path = "crates/store-sqlite/src/read.rs";
        assert_eq!(lines(path, "let q = format!(\"SELECT * FROM {table}\");"), [1]);
        assert_eq!(lines(path, "let q = format!(\n  \"{} DELETE FROM x\", a);"), [2]);
        assert_eq!(lines(path, "write!(q, \"insert into {t} values (1)\")"), [1]);
        assert_eq!(lines(path, "format!(r#\"update {t} set x = 1\"#)"), [1]);
    }

    #[test]
    fn ignores_constants_and_other_texts() {
        let path = "crates/store-sqlite/src/read.rs";
        assert!(lines(path, "const Q: &str = \"SELECT 1\"; format!(\"run {run}\");").is_empty());
        assert!(lines(path, "format!(\"it was updated since {at}, deleted or selected\")").is_empty());
        assert!(lines(path, "format!(\"an update of {run} is due\")").is_empty());
        assert!(lines("crates/store-sqlite/tests/a.rs", "format!(\"SELECT {x}\")").is_empty());
    }
}
