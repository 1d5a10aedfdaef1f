//! Exceptions that only shrink: `xtask/tidy-ratchet.txt`.
//!
//! One entry per line, `KIND KEY NUMBER` or `unraised CODE`; [`Kind`] lists the kinds. A line `kind NAME EPOCH` opens a
//! kind. An entry is compared with the earlier versions of the file that have the same epoch. `cargo xtask generate`
//! tightens entries; `cargo xtask tidy --ratchet` measures all of them again and refuses to raise one;
//! `--ratchet --raise` raises it and begins a new epoch.

use std::collections::BTreeMap;
use std::path::Path;

use crate::finding::Finding;
use crate::tree::{Tree, git};

/// The file that lists the exceptions.
pub(crate) const FILE: &str = "xtask/tidy-ratchet.txt";
/// Number of earlier versions of the file that the check reads.
const VERSIONS_MAX: usize = 20;

const HEADER: &str = "\
# Exceptions from the checks of `cargo xtask tidy`. Entries only shrink. `cargo xtask generate` tightens them;
# `cargo xtask tidy --ratchet` measures them again. See xtask/src/ratchet.rs.
";

/// A measured quantity per key.
pub(crate) type Counts = BTreeMap<String, usize>;

/// A kind of exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Lines of a file over the limit, by path.
    Lines,
    /// Pages whose code no crate raises yet, by code.
    Unraised,
    /// Banned words, by path.
    Words,
    /// Banned words in places that must have none, by place.
    Unclean,
    /// Modules in the largest import cycle, by crate.
    Cycle,
    /// Imports against the layers inside a crate, by crate.
    Upward,
    /// Type names with more than one type, for the workspace.
    Homonyms,
    /// Glossary terms with more than one definition, by page.
    Terms,
}

impl Kind {
    /// Every kind, in the order of the file.
    pub(crate) const ALL: [Self; 8] = [
        Self::Lines,
        Self::Unraised,
        Self::Words,
        Self::Unclean,
        Self::Cycle,
        Self::Upward,
        Self::Homonyms,
        Self::Terms,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Unraised => "unraised",
            Self::Words => "words",
            Self::Unclean => "unclean",
            Self::Cycle => "cycle",
            Self::Upward => "upward",
            Self::Homonyms => "homonyms",
            Self::Terms => "terms",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The unit of the number.
    fn unit(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Unraised => "pages",
            Self::Words | Self::Unclean => "banned words",
            Self::Cycle => "modules in one import cycle",
            Self::Upward => "imports of a higher layer",
            Self::Homonyms => "type names with more than one type",
            Self::Terms => "terms with more than one definition",
        }
    }

    /// How to avoid the exception.
    fn fix(self) -> &'static str {
        match self {
            Self::Lines => "split the file instead",
            Self::Unraised => "add its page together with the code that raises it",
            Self::Words => "`cargo xtask tidy --words PATH` lists them: name the actor and the action",
            Self::Unclean => "`cargo xtask tidy --words PATH` lists them: this place must have none",
            Self::Cycle => "move what both modules need below them",
            Self::Upward => "import from lower layers only (LAYERS_INSIDE in xtask/src/tidy/homes.rs)",
            Self::Homonyms => "`cargo xtask tidy --homonyms` lists them: give the new type its own name",
            Self::Terms => "merge the definitions",
        }
    }

    /// Whether a new key is accepted while the sum of the kind does not grow: a renamed file keeps its words.
    fn may_move(self) -> bool {
        matches!(self, Self::Words)
    }

    /// The epoch of files that do not open their kinds.
    fn first_epoch(self) -> Option<u32> {
        matches!(self, Self::Lines | Self::Unraised).then_some(1)
    }
}

/// The exceptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ratchet {
    entries: BTreeMap<Kind, Counts>,
    epochs: BTreeMap<Kind, u32>,
}

impl Ratchet {
    /// Parses the file; the second part reports lines that are not entries.
    pub(crate) fn parse(text: &str) -> (Self, Vec<Finding>) {
        let mut ratchet = Self::default();
        let mut findings = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if ratchet.take(line).is_none() {
                let fix = "write `KIND KEY NUMBER`, `unraised CODE` or `kind NAME EPOCH`";
                findings.push(Finding::new(FILE, number + 1, format!("{line:?} is not an entry"), fix));
            }
        }
        (ratchet, findings)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["kind", name, epoch] => {
                self.epochs.insert(Kind::named(name)?, epoch.parse().ok()?);
            }
            ["unraised", code] => self.set(Kind::Unraised, code, 1),
            [name, key, number] => self.set(Kind::named(name)?, key, number.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    fn set(&mut self, kind: Kind, key: &str, number: usize) {
        self.entries.entry(kind).or_default().insert(key.to_owned(), number);
    }

    /// The exceptions of `tree`.
    pub(crate) fn of(tree: &Tree) -> (Self, Vec<Finding>) {
        tree.get(FILE).map(|file| Self::parse(&file.text)).unwrap_or_default()
    }

    /// The number that `key` may have, if it has an exception.
    pub(crate) fn get(&self, kind: Kind, key: &str) -> Option<usize> {
        self.entries.get(&kind)?.get(key).copied()
    }

    /// The entries of one kind.
    pub(crate) fn entries(&self, kind: Kind) -> impl Iterator<Item = (&str, usize)> {
        self.entries.get(&kind).into_iter().flatten().map(|(key, number)| (key.as_str(), *number))
    }

    /// Replaces the entries of one kind.
    pub(crate) fn replace(&mut self, kind: Kind, counts: Counts) {
        self.entries.insert(kind, counts);
    }

    /// Starts a new epoch of `kind`, so that its entries are not compared with earlier versions.
    pub(crate) fn begin_epoch(&mut self, kind: Kind) {
        let epoch = self.epoch(kind).unwrap_or_default() + 1;
        self.epochs.insert(kind, epoch);
    }

    fn epoch(&self, kind: Kind) -> Option<u32> {
        self.epochs.get(&kind).copied().or(kind.first_epoch())
    }

    /// The exceptions as text.
    pub(crate) fn to_text(&self) -> String {
        let mut text = HEADER.to_owned();
        for kind in Kind::ALL {
            text.push_str(&format!("kind {} {}\n", kind.name(), self.epoch(kind).unwrap_or(1)));
            for (key, number) in self.entries(kind) {
                match kind {
                    Kind::Unraised => text.push_str(&format!("unraised {key}\n")),
                    _ => text.push_str(&format!("{} {key} {number}\n", kind.name())),
                }
            }
        }
        text
    }

    /// The same exceptions, none above `measured`, and none without a measurement.
    pub(crate) fn tightened(mut self, kind: Kind, measured: &Counts) -> Self {
        let entries = self.entries.remove(&kind).unwrap_or_default();
        let kept = entries
            .into_iter()
            .filter_map(|(key, number)| measured.get(&key).map(|measured| (key, number.min(*measured))));
        self.entries.insert(kind, kept.collect());
        self
    }

    /// Compares a measurement with the exceptions: nothing above its exception, no exception above its measurement.
    pub(crate) fn compare(&self, kind: Kind, measured: &Counts) -> Vec<Finding> {
        let unit = kind.unit();
        let mut findings = Vec::new();
        for (key, number) in measured {
            let bound = self.get(kind, key).unwrap_or_default();
            if *number > bound {
                let what = format!("{number} {unit}, {bound} are allowed");
                findings.push(Finding::new(key, 1, what, kind.fix()));
            }
        }
        for (key, bound) in self.entries(kind) {
            let number = measured.get(key).copied().unwrap_or_default();
            if number < bound {
                let what = format!("{key} has {number} {unit}, its exception allows {bound}");
                findings.push(Finding::new(FILE, 1, what, "run `cargo xtask generate`, which tightens it"));
            }
        }
        findings
    }

    /// The kinds in which this list allows more than an earlier version, with the reasons.
    pub(crate) fn loosened(&self, earlier: &[Self]) -> Vec<(Kind, Finding)> {
        let mut findings = Vec::new();
        for kind in Kind::ALL {
            let same_epoch = |old: &&Self| old.epoch(kind).is_some() && old.epoch(kind) == self.epoch(kind);
            for old in earlier.iter().filter(same_epoch) {
                findings.extend(self.loosened_since(old, kind).into_iter().map(|finding| (kind, finding)));
            }
        }
        findings.sort();
        findings.dedup();
        findings
    }

    fn loosened_since(&self, old: &Self, kind: Kind) -> Vec<Finding> {
        let sum = |ratchet: &Self| ratchet.entries(kind).map(|(_, number)| number).sum::<usize>();
        let moved = kind.may_move() && sum(self) <= sum(old);
        let mut findings = Vec::new();
        for (key, number) in self.entries(kind) {
            let what = match old.get(kind, key) {
                Some(before) if number > before => {
                    format!("{key} has {number} {}, an earlier version allows {before}", kind.unit())
                }
                None if !moved => format!("{key} ({}) is a new exception", kind.name()),
                _ => continue,
            };
            findings.push(Finding::new(FILE, 1, what, kind.fix()));
        }
        findings
    }
}

/// Compares the file with its earlier versions, as far as this clone has them.
pub(crate) fn check(root: &Path, tree: &Tree) -> Result<Vec<Finding>, String> {
    let (now, mut findings) = Ratchet::of(tree);
    findings.extend(now.loosened(&earlier(root)?).into_iter().map(|(_, finding)| finding));
    Ok(findings)
}

/// The committed versions of the file, as far as this clone has them.
pub(crate) fn earlier(root: &Path) -> Result<Vec<Ratchet>, String> {
    let most = format!("-{VERSIONS_MAX}");
    let commits = git(root, &["log", &most, "--format=%H", "--", FILE])?.unwrap_or_default();
    let mut earlier = Vec::new();
    for commit in commits.lines() {
        if let Some(text) = git(root, &["show", &format!("{commit}:{FILE}")])? {
            earlier.push(Ratchet::parse(&text).0);
        }
    }
    Ok(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratchet(text: &str) -> Ratchet {
        Ratchet::parse(text).0
    }

    fn counts(entries: &[(&str, usize)]) -> Counts {
        entries.iter().map(|(key, number)| ((*key).to_owned(), *number)).collect()
    }

    #[test]
    fn list_round_trips_through_text() {
        let list = ratchet("# x\n\nkind words 2\nlines a.rs 700\nunraised GS0101\nwords b.rs 3\n");
        assert_eq!(ratchet(&list.to_text()).to_text(), list.to_text());
        assert_eq!(list.get(Kind::Lines, "a.rs"), Some(700));
        assert!(list.to_text().contains("kind words 2\nwords b.rs 3\n"));
    }

    #[test]
    fn unknown_lines_are_findings() {
        assert_eq!(Ratchet::parse("lines a.rs many\nallow b.rs\nkind x 1\n").1.len(), 3);
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
    fn compares_with_every_earlier_version() {
        let old = [ratchet("lines a.rs 650\n"), ratchet("lines a.rs 700\n")];
        assert_eq!(ratchet("lines a.rs 651\n").loosened(&old).len(), 1);
        assert!(ratchet("lines a.rs 650\n").loosened(&old).is_empty());
        assert!(ratchet("lines a.rs 900\n").loosened(&[]).is_empty(), "the first version may say anything");
    }

    #[test]
    fn a_new_kind_and_a_new_epoch_are_not_compared() {
        let before = [ratchet("lines a.rs 700\n"), ratchet("kind words 1\nwords a.rs 2\n")];
        let mut now = ratchet("kind words 1\nkind cycle 1\nwords a.rs 5\ncycle crates/a 9\n");
        assert_eq!(now.loosened(&before).len(), 1);
        now.begin_epoch(Kind::Words);
        assert!(now.loosened(&before).is_empty());
    }

    #[test]
    fn words_may_move_to_a_renamed_file() {
        let old = [ratchet("kind words 1\nwords a.rs 5\nwords b.rs 1\n")];
        assert!(ratchet("kind words 1\nwords c.rs 5\nwords b.rs 1\n").loosened(&old).is_empty());
        assert_eq!(ratchet("kind words 1\nwords c.rs 6\nwords b.rs 1\n").loosened(&old).len(), 1);
        assert_eq!(ratchet("kind words 1\nwords a.rs 3\nwords b.rs 2\n").loosened(&old).len(), 1);
    }

    #[test]
    fn an_exception_fits_its_measurement_exactly() {
        let list = ratchet("words a.rs 2\nwords b.rs 2\nwords c.rs 2\nwords gone.rs 2\n");
        let measured = counts(&[("a.rs", 2), ("b.rs", 3), ("c.rs", 1), ("new.rs", 1)]);
        assert_eq!(list.compare(Kind::Words, &measured).len(), 4);
        let tight = list.tightened(Kind::Words, &measured);
        assert_eq!(tight.entries(Kind::Words).collect::<Vec<_>>(), [("a.rs", 2), ("b.rs", 2), ("c.rs", 1)]);
    }
}
