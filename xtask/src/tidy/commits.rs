//! Subjects of commits: `area: summary`, short, one topic.

use std::path::Path;

use crate::finding::Finding;
use crate::tree::git;

/// The commit that introduces the check. The check reads its descendants, so a branch from before it stays as it is.
const BASE: &str = "6e27450e48aa710296d6118b13c9376d025e9875";
const SUBJECT_CHARS_MAX: usize = 72;

/// Checks the subjects of all commits after [`BASE`]; prints a line and checks nothing if the clone does not have it.
pub(super) fn check(root: &Path) -> Vec<Finding> {
    let range = format!("{BASE}..HEAD");
    let is_known = git(root, &["merge-base", "--is-ancestor", BASE, "HEAD"]);
    let listed = git(root, &["log", &range, "--ancestry-path", "--no-merges", "--format=%h %s"]);
    match (is_known, listed) {
        (Ok(Some(_)), Ok(Some(text))) => text.lines().filter_map(commit).collect(),
        _ => {
            println!("commit subjects are not checked: this clone does not have {}", &BASE[..12]);
            Vec::new()
        }
    }
}

fn commit(line: &str) -> Option<Finding> {
    let (hash, subject) = line.split_once(' ')?;
    let what = wrong(subject)?;
    let fix = "reword it: `area: imperative summary`, at most 72 characters, one topic";
    Some(Finding::new(&format!("commit {hash}"), 1, format!("{what}: {subject:?}"), fix))
}

fn wrong(subject: &str) -> Option<&'static str> {
    let area = subject.split_once(": ").map(|(area, _)| area).unwrap_or_default();
    let is_area_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_., /".contains(c);
    if subject.starts_with("Revert \"") {
        None
    } else if subject.chars().count() > SUBJECT_CHARS_MAX {
        Some("the subject is too long")
    } else if subject.contains(';') {
        Some("the subject joins topics with `;`")
    } else if area.is_empty() || !area.chars().all(is_area_char) {
        Some("the subject does not begin with its area")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_an_area_and_a_short_summary() {
        for good in [
            "xtask: check commit subjects",
            "store-object, store: share the codec",
            "docs: fix",
            "Revert \"x; y\"",
        ] {
            assert_eq!(wrong(good), None, "{good}");
        }
        let long = format!("docs: {}", "x".repeat(67));
        assert_eq!(wrong(&long[..72]), None);
        for bad in [long.as_str(), "docs: one; two", "fix it", "Fix: it", "a thing (x): y", "docs:x"] {
            assert!(wrong(bad).is_some(), "{bad}");
        }
        let finding = commit("abc1234 fix it").unwrap();
        assert!(finding.to_string().starts_with("commit abc1234:1: "), "{finding}");
    }

    #[test]
    fn without_git_or_the_base_nothing_is_checked() {
        assert!(check(&std::env::temp_dir()).is_empty());
        assert!(check(Path::new("does-not-exist")).is_empty());
    }
}
