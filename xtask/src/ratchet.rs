//! Exceptions that may only shrink: `xtask/tidy-ratchet.txt`.
//!
//! One entry a line: `lines PATH NUMBER` lets a file be that long; `unraised CODE` lets a page in
//! `docs/codes` stand although no code raises its code yet. `cargo xtask generate` tightens entries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::Finding;
use crate::tree::{Tree, git};

/// Where the exceptions are listed.
pub(crate) const FILE: &str = "xtask/tidy-ratchet.txt";
/// How many earlier versions of the list are looked at.
const VERSIONS_MAX: usize = 20;

const HEADER: &str = "\
# What is over the bar today. Entries may only shrink or go; `cargo xtask generate` tightens them.
";

/// The exceptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ratchet {
    /// Files over the limit, with the length they may have.
    pub(crate) lines: BTreeMap<String, usize>,
    /// Pages whose code nothing raises yet.
    pub(crate) unraised: BTreeSet<String>,
}

impl Ratchet {
    /// Reads the list; the second part is what cannot be understood.
    pub(crate) fn parse(text: &str) -> (Self, Vec<Finding>) {
        let (mut ratchet, mut findings) = (Self::default(), Vec::new());
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                [first, ..] if first.starts_with('#') => {}
                ["lines", path, most] if most.parse::<usize>().is_ok() => {
                    ratchet.lines.insert((*path).to_owned(), most.parse().unwrap_or_default());
                }
                ["unraised", code] => {
                    ratchet.unraised.insert((*code).to_owned());
                }
                _ => findings.push(Finding::new(
                    FILE,
                    number + 1,
                    format!("{line:?} is no entry"),
                    "write `lines PATH NUMBER` or `unraised CODE`",
                )),
            }
        }
        (ratchet, findings)
    }

    /// The list of `tree`.
    pub(crate) fn of(tree: &Tree) -> (Self, Vec<Finding>) {
        tree.get(FILE).map(|file| Self::parse(&file.text)).unwrap_or_default()
    }

    /// The list as text.
    pub(crate) fn to_text(&self) -> String {
        let lines = self.lines.iter().map(|(path, most)| format!("lines {path} {most}\n"));
        let unraised = self.unraised.iter().map(|code| format!("unraised {code}\n"));
        HEADER.to_owned() + &lines.chain(unraised).collect::<String>()
    }

    /// The same list with nothing in it that an earlier version did not allow.
    pub(crate) fn loosened(&self, earlier: &[Self]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (path, most) in &self.lines {
            let before = earlier.iter().map(|old| old.lines.get(path).copied()).min().flatten();
            let known = earlier.iter().all(|old| old.lines.contains_key(path));
            if !known {
                findings.push(finding(format!("{path} is a new exception"), "split the file instead"));
            } else if before.is_some_and(|before| *most > before) {
                let what = format!("{path} may have {most} lines, it had less");
                findings.push(finding(what, "an exception only shrinks: split the file"));
            }
        }
        for code in &self.unraised {
            if !earlier.iter().all(|old| old.unraised.contains(code)) {
                let what = format!("{code} is a new exception");
                findings.push(finding(what, "add its page together with the code that raises it"));
            }
        }
        findings
    }
}

fn finding(what: String, fix: &str) -> Finding {
    Finding::new(FILE, 1, what, fix)
}

/// Compares the list with its earlier versions, as far as this clone has them.
pub(crate) fn check(root: &Path, tree: &Tree) -> Result<Vec<Finding>, String> {
    let (now, mut findings) = Ratchet::of(tree);
    let most = format!("-{VERSIONS_MAX}");
    let commits = git(root, &["log", &most, "--format=%H", "--", FILE])?.unwrap_or_default();
    let mut earlier = Vec::new();
    for commit in commits.lines() {
        if let Some(text) = git(root, &["show", &format!("{commit}:{FILE}")])? {
            earlier.push(Ratchet::parse(&text).0);
        }
    }
    findings.extend(now.loosened(&earlier));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratchet(text: &str) -> Ratchet {
        Ratchet::parse(text).0
    }

    #[test]
    fn the_list_goes_there_and_back() {
        let list = ratchet("# x\n\nlines a.rs 700\nunraised GS0101\n");
        assert_eq!(ratchet(&list.to_text()), list);
        assert_eq!(list.lines.get("a.rs"), Some(&700));
    }

    #[test]
    fn nonsense_is_a_finding() {
        assert_eq!(Ratchet::parse("lines a.rs many\nallow b.rs\n").1.len(), 2);
    }

    #[test]
    fn entries_only_shrink() {
        let old = [ratchet("lines a.rs 700\nunraised GS0101\n")];
        assert!(ratchet("lines a.rs 690\n").loosened(&old).is_empty());
        assert!(ratchet("").loosened(&old).is_empty());
        assert_eq!(ratchet("lines a.rs 701\n").loosened(&old).len(), 1);
        assert_eq!(ratchet("lines a.rs 700\nlines b.rs 650\n").loosened(&old).len(), 1);
        assert_eq!(ratchet("unraised GS0102\n").loosened(&old).len(), 1);
    }

    #[test]
    fn the_tightest_earlier_version_counts() {
        let old = [ratchet("lines a.rs 650\n"), ratchet("lines a.rs 700\n")];
        assert_eq!(ratchet("lines a.rs 651\n").loosened(&old).len(), 1);
        assert!(ratchet("lines a.rs 650\n").loosened(&old).is_empty());
        assert!(ratchet("lines a.rs 900\n").loosened(&[]).is_empty(), "the first version may say anything");
    }
}
