//! Type names: one name, one type, over the production code of the workspace.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::ratchet::{Counts, Kind, Ratchet};
use crate::source::{Source, is_test_file};
use crate::tree::Tree;

/// The key of the ratchet's number.
const KEY: &str = "crates";
const KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// The number of names with more than one type only shrinks.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    Ratchet::of(tree).0.compare(Kind::Homonyms, &count(tree))
}

/// The number of names with more than one type.
pub(super) fn count(tree: &Tree) -> Counts {
    let count = homonyms(tree).len();
    if count == 0 { Counts::new() } else { [(KEY.to_owned(), count)].into() }
}

/// Every name with more than one type, and where the types are, the most frequent first.
pub(super) fn homonyms(tree: &Tree) -> Vec<(String, Vec<String>)> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_production =
        |path: &str| path.starts_with("crates/") && path.contains("/src/") && !is_test_file(path);
    for file in tree.rust().filter(|file| is_production(&file.path)) {
        let source = Source::new(&file.text);
        for (at, name) in types(&source) {
            places.entry(name.to_owned()).or_default().push(format!("{}:{}", file.path, source.line(at)));
        }
    }
    let mut homonyms: Vec<_> = places.into_iter().filter(|(_, places)| places.len() > 1).collect();
    homonyms.sort_by_key(|(name, places)| (usize::MAX - places.len(), name.clone()));
    homonyms
}

/// The types that a file declares, outside its tests. An alias inside an `impl` or a trait is not a type of its own.
fn types(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    KEYWORDS.iter().flat_map(move |keyword| {
        source.find_all(keyword).filter_map(move |at| {
            let name = source.code[at + keyword.len()..].strip_prefix(' ')?;
            let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
            let line = source.code[..at].rfind('\n').map_or(0, |index| index + 1);
            let is_member = *keyword == "type" && source.code[line..].starts_with(' ');
            let is_type = name.starts_with(|c: char| c.is_uppercase()) && !is_member && !source.in_tests(at);
            is_type.then_some((at, name))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_more_than_one_type_are_listed() {
        let tree = Tree::of(&[
            ("crates/a/src/a.rs", "struct One;\nenum Two {}\npub(crate) type Three = One;\n// struct Two;\n"),
            ("crates/a/src/b.rs", "pub trait Two {}\nimpl X for Y {\n    type Three = One;\n}\n"),
            ("crates/a/src/c.rs", "#[cfg(test)]\nmod tests { struct One; }\nfn f(x: Two) {}\n"),
            ("crates/a/tests/d.rs", "struct One;"),
        ]);
        let places = ["crates/a/src/a.rs:2", "crates/a/src/b.rs:1"].map(str::to_owned).into();
        assert_eq!(homonyms(&tree), [("Two".to_owned(), places)]);
        assert_eq!(count(&tree), [("crates".to_owned(), 1)].into());
    }

    #[test]
    fn the_number_only_shrinks() {
        let files = [("crates/a/src/a.rs", "struct One;"), ("crates/a/src/b.rs", "struct One;")];
        let with = |list: &str| {
            let mut tree = Tree::of(&files);
            tree.files.extend(Tree::of(&[(crate::ratchet::FILE, list)]).files);
            check(&tree).len()
        };
        assert_eq!((with("homonyms crates 1\n"), with("homonyms crates 2\n"), with("")), (0, 1, 1));
    }
}
