//! Absolute paths of one machine.

use crate::finding::Finding;
use crate::source::line_of;
use crate::tree::{File, Tree};

/// Written in two halves, so that this file passes the check.
const PLACES: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

/// Absolute paths below a home folder.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(named).collect()
}

fn named(file: &File) -> Vec<Finding> {
    let begins = |at: usize| {
        let before = file.text[..at].chars().next_back();
        // After a name, a dot or a brace it is part of a relative path or of a URL.
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}$)*".contains(c))
    };
    let places = PLACES.iter().flat_map(|place| file.text.match_indices(place));
    let finding = |(at, place): (usize, &str)| {
        let what = format!("`{place}` exists on one machine only");
        Finding::new(&file.path, line_of(&file.text, at), what, "write a relative path, or a variable")
    };
    places.filter(|(at, _)| begins(*at)).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Tree::of(&[("a.md", text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_absolute_paths() {
        for place in PLACES {
            assert_eq!(lines(&format!("x\nsee {place}ana/x")), [2], "{place}");
            assert_eq!(lines(&format!("{place}x")), [1], "{place}");
            assert_eq!(lines(&format!("\"{place}x\"")), [1], "{place}");
        }
    }

    #[test]
    fn ignores_relative_paths_and_urls() {
        for place in PLACES {
            assert!(lines(&format!("see docs{place}x, https://example.org{place}x")).is_empty(), "{place}");
        }
    }
}
