//! The banned words, and the places that must have none. This file may name them, and so may the page about prose.

/// A banned word or phrase, in lower case, and what to write instead.
#[derive(Debug)]
pub(super) struct Banned {
    pub(super) words: &'static str,
    pub(super) fix: &'static str,
    /// Whether an identifier may have it: `is_none` is a method of `Option`.
    pub(super) in_prose_only: bool,
    /// The phrase is plain English after one of these words.
    pub(super) unless_after: &'static [&'static str],
    /// The phrase is plain English before one of these words.
    pub(super) unless_before: &'static [&'static str],
}

const fn banned(words: &'static str, fix: &'static str) -> Banned {
    Banned { words, fix, in_prose_only: false, unless_after: &[], unless_before: &[] }
}

const fn in_prose(words: &'static str, fix: &'static str) -> Banned {
    Banned { in_prose_only: true, ..banned(words, fix) }
}

const ACTOR: &str = "name the actor: owner, node, worker, caller, operator, store, server, follower";
const TELL: &str = "say who reports what to whom: returns, reports, notifies, responds, receives";
const HEAL: &str = "repair, heal";
const FOLLOW: &str = "use, follow, depend on";
const CONTAIN: &str = "is in, is stored in, contains";
const REST: &str = "stalls, does not progress";
const RELEASE: &str = "release";
const HOLD: &str = "held by";
const RECEIVE: &str = "receive, read";
const REPRESENT: &str = "acts for, represents";
const MEAN: &str = "represents, means";
const NUMBER: &str = "give the number or name it: `count`";
const NOT: &str = "is not a, cannot, has no";

/// Every banned word.
pub(super) const BANNED: &[Banned] = &[
    banned("whoever", ACTOR),
    banned("whosoever", ACTOR),
    banned("whomever", ACTOR),
    banned("somebody", ACTOR),
    banned("nobody", ACTOR),
    banned("anybody", ACTOR),
    banned("everybody", ACTOR),
    banned("himself", ACTOR),
    banned("he", ACTOR),
    banned("his", ACTOR),
    banned("him", ACTOR),
    banned("anew", "again, from the start"),
    banned("mend", HEAL),
    banned("mends", HEAL),
    banned("mended", HEAL),
    banned("mending", HEAL),
    banned("go by", FOLLOW),
    banned("goes by", FOLLOW),
    banned("went by", FOLLOW),
    banned("going by", FOLLOW),
    banned("told", TELL),
    banned("so many", NUMBER),
    banned("stand in", CONTAIN),
    banned("stands in", CONTAIN),
    banned("stands for", MEAN),
    banned("stand still", REST),
    banned("stands still", REST),
    banned("stood still", REST),
    banned("for ever", "forever, without limit"),
    banned("any more", "no longer"),
    Banned { unless_after: &["there"], unless_before: &["longer"], ..banned("is no", NOT) },
    in_prose("is none", NOT),
    in_prose("are none", NOT),
    banned("let go of", RELEASE),
    banned("lets go of", RELEASE),
    banned("in the hands of", HOLD),
    banned("bears", "survives, supports"),
    banned("hears", RECEIVE),
    banned("heard", RECEIVE),
    banned("speaks for", REPRESENT),
    banned("spoke for", REPRESENT),
    banned("means it", "asks for it explicitly"),
];

/// The words that the report counts per 10,000.
pub(super) const PRONOUNS: &[&str] = &["whoever", "somebody", "nobody", "anybody"];

/// Values of the interface that are banned words: a literal that is exactly one of them is not counted.
pub(super) const SERIALIZED: &[&str] = &["told"];

/// Files that the check does not read: this list and the page that explains it, the list of exceptions, files that
/// tools write, licences, and data that is stored or hashed byte for byte. A place that begins with `*` is a suffix.
pub(super) const UNCHECKED: &[&str] = &[
    "xtask/src/tidy/words/list.rs",
    "docs/dev/prose.md",
    "xtask/tidy-ratchet.txt",
    "xtask/hostile/package-lock.json",
    "xtask/hostile/requirements.txt",
    "*Cargo.lock",
    "*.sql",
    "*.jsonl",
    "*.pem",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "fuzz/corpus/",
    "crates/server/dashboard/",
    "ui/package-lock.json",
];

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// String literals of production code: errors, hints, help texts, log lines, HTTP problems.
    Strings,
    /// Doc comments of production code.
    Rustdoc,
}

/// Places without any banned word. An `unclean` entry of the ratchet says that a place is not clean yet, and how many
/// words are left; without an entry there must be none.
pub(super) const CLEAN: &[(&str, Part)] = &[
    ("README.md", Part::Whole),
    ("CONTRIBUTING.md", Part::Whole),
    ("docs/guides/", Part::Whole),
    ("docs/codes/", Part::Whole),
    ("docs/dev/", Part::Whole),
    ("docs/openapi.json", Part::Whole),
    ("xtask/", Part::Whole),
    ("crates/goldseam/src/", Part::Rustdoc),
    ("crates/core/src/", Part::Rustdoc),
    ("crates/store/src/", Part::Rustdoc),
    ("crates/admin/src/", Part::Strings),
    ("crates/api/src/", Part::Strings),
    ("crates/bench/src/", Part::Strings),
    ("crates/cli/src/", Part::Strings),
    ("crates/core/src/", Part::Strings),
    ("crates/engine/src/", Part::Strings),
    ("crates/fake-s3/src/", Part::Strings),
    ("crates/goldseam/src/", Part::Strings),
    ("crates/server/src/", Part::Strings),
    ("crates/sim/src/", Part::Strings),
    ("crates/store-object/src/", Part::Strings),
    ("crates/store-postgres/src/", Part::Strings),
    ("crates/store-sqlite/src/", Part::Strings),
    ("crates/store/src/", Part::Strings),
    ("crates/testbed/src/", Part::Strings),
];
