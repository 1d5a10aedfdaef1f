//! Plain words: a list of banned words that may only get rarer.
//!
//! The check reads comments, strings, identifiers, Markdown and file names. Each file has a bound in the ratchet; the
//! places in [`list::CLEAN`] have none. A phrase is found across a line break, too.

mod list;

use std::collections::HashMap;

use list::{BANNED, Banned, CLEAN, PRONOUNS, Part, SERIALIZED, UNCHECKED};

use super::homes::is_home;
use crate::finding::Finding;
use crate::ratchet::{Counts, Kind, Ratchet};
use crate::source::{Source, is_test_file};
use crate::tree::{File, Tree};

/// An occurrence of a banned word.
#[derive(Debug)]
struct Hit {
    line: usize,
    banned: &'static Banned,
    in_string: bool,
    in_rustdoc: bool,
}

/// The banned words of one file.
struct Report {
    path: String,
    hits: Vec<Hit>,
}

/// The banned words of the tree.
pub(super) struct Survey {
    files: Vec<Report>,
    words: usize,
}

impl Survey {
    /// Reads every file of the tree.
    pub(super) fn of(tree: &Tree) -> Self {
        let phrases = Phrases::new();
        let mut survey = Self { files: Vec::new(), words: 0 };
        for file in tree.files.iter().filter(|file| !is_unchecked(&file.path)) {
            let (words, hits) = phrases.read(file);
            survey.words += words;
            if !hits.is_empty() {
                survey.files.push(Report { path: file.path.clone(), hits });
            }
        }
        survey
    }

    /// Banned words by path.
    pub(super) fn by_path(&self) -> Counts {
        self.files.iter().map(|file| (file.path.clone(), file.hits.len())).collect()
    }

    /// Banned words by place that must have none; places without one are left out.
    pub(super) fn by_place(&self) -> Counts {
        let places =
            CLEAN.iter().map(|(place, part)| (name(place, *part), self.within(place, *part).count()));
        places.filter(|(_, count)| *count > 0).collect()
    }

    fn within(&self, place: &'static str, part: Part) -> impl Iterator<Item = (&str, &Hit)> {
        let files = self.files.iter().filter(move |file| is_home(&[place], &file.path));
        let hits = files.flat_map(|file| file.hits.iter().map(|hit| (file.path.as_str(), hit)));
        hits.filter(move |(_, hit)| match part {
            Part::Whole => true,
            Part::Strings => hit.in_string,
            Part::Rustdoc => hit.in_rustdoc,
        })
    }

    /// Files and places over their bound, and every banned word of a place that must have none.
    pub(super) fn check(&self, ratchet: &Ratchet) -> Vec<Finding> {
        let mut findings = ratchet.compare(Kind::Words, &self.by_path());
        findings.extend(ratchet.compare(Kind::Unclean, &self.by_place()));
        for (place, part) in CLEAN {
            if ratchet.get(Kind::Unclean, &name(place, *part)).is_none() {
                findings.extend(self.within(place, *part).map(|(path, hit)| hit.finding(path)));
            }
        }
        findings
    }

    /// Every banned word of the files at or below one of `places`.
    pub(super) fn list(&self, places: &[&str]) -> Vec<Finding> {
        let wanted = |path: &str| {
            let below = |place: &&str| {
                path == *place || path.starts_with(&format!("{}/", place.trim_end_matches('/')))
            };
            places.is_empty() || places.iter().any(below)
        };
        let files = self.files.iter().filter(|file| wanted(&file.path));
        files.flat_map(|file| file.hits.iter().map(|hit| hit.finding(&file.path))).collect()
    }

    /// One line for a person: how far the tree is from plain words.
    pub(super) fn summary(&self) -> String {
        let hits = || self.files.iter().flat_map(|file| &file.hits);
        let pronouns = hits().filter(|hit| PRONOUNS.contains(&hit.banned.words)).count();
        let unclean = self.by_place();
        format!(
            "words: {} banned in {} files; the four pronouns: {:.2} per 10,000 of {} words; places not clean yet: {} of {}",
            hits().count(),
            self.files.len(),
            pronouns as f64 * 10_000.0 / self.words.max(1) as f64,
            self.words,
            unclean.len(),
            CLEAN.len(),
        )
    }
}

impl Hit {
    fn finding(&self, path: &str) -> Finding {
        Finding::new(path, self.line, format!("`{}`", self.banned.words), self.banned.fix)
    }
}

fn name(place: &str, part: Part) -> String {
    match part {
        Part::Whole => place.to_owned(),
        Part::Strings => format!("{place}:strings"),
        Part::Rustdoc => format!("{place}:rustdoc"),
    }
}

fn is_unchecked(path: &str) -> bool {
    UNCHECKED.iter().any(|place| match place.strip_prefix('*') {
        Some(suffix) => path.ends_with(suffix),
        None => is_home(&[place], path),
    })
}

/// A word of a text.
struct Word {
    at: usize,
    text: String,
    /// Whether a letter of another case or a digit touches it: a part of a longer name.
    is_part: bool,
}

/// The banned words, by their first word.
struct Phrases {
    by_first: HashMap<&'static str, Vec<(&'static Banned, Vec<&'static str>)>>,
}

impl Phrases {
    fn new() -> Self {
        let mut by_first: HashMap<_, Vec<_>> = HashMap::new();
        for banned in BANNED {
            let words: Vec<&str> = banned.words.split(' ').collect();
            by_first.entry(words[0]).or_default().push((banned, words));
        }
        Self { by_first }
    }

    /// The number of words of a file, and the banned ones.
    fn read(&self, file: &File) -> (usize, Vec<Hit>) {
        // An escaped line break is a gap between two words, not the letter `n`.
        let text = file.text.replace("\\n", "  ").replace("\\t", "  ");
        let words = split(&text);
        let found = self.find(&text, &words);
        let mut hits: Vec<Hit> = Vec::new();
        if !found.is_empty() {
            let places = Places::of(file);
            hits.extend(found.into_iter().map(|(at, banned)| places.hit(at, banned)));
        }
        let stem = file.path.rsplit('/').next().unwrap_or_default();
        let in_name = self.find(stem, &split(stem)).into_iter();
        hits.extend(in_name.map(|(_, banned)| Hit { line: 1, banned, in_string: false, in_rustdoc: false }));
        (words.len(), hits)
    }

    fn find(&self, text: &str, words: &[Word]) -> Vec<(usize, &'static Banned)> {
        let mut found = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let Some(phrases) = self.by_first.get(word.text.as_str()) else { continue };
            for (banned, phrase) in phrases {
                let matches = words.len() - index >= phrase.len()
                    && phrase.iter().zip(&words[index..]).all(|(wanted, word)| *wanted == word.text);
                if matches && is_meant(text, words, index..index + phrase.len(), banned) {
                    found.push((word.at, *banned));
                }
            }
        }
        found
    }
}

fn is_meant(text: &str, words: &[Word], span: std::ops::Range<usize>, banned: &Banned) -> bool {
    let is_apart = words[span.clone()].windows(2).any(|pair| !joins(text, &pair[0], &pair[1], banned));
    let first = &words[span.start];
    // Two or three letters inside a longer name or a key are an accident.
    let is_accident = span.len() == 1 && first.is_part && first.text.len() < 4;
    let is_serialized = SERIALIZED.contains(&banned.words) && is_whole_literal(text, first);
    let before = span.start.checked_sub(1).map(|index| words[index].text.as_str());
    let after = words.get(span.end).map(|word| word.text.as_str());
    let is_plain = before.is_some_and(|word| banned.unless_after.contains(&word))
        || after.is_some_and(|word| banned.unless_before.contains(&word));
    // `None` is a value of Rust and Python.
    let is_value = banned.in_prose_only && text[words[span.end - 1].at..].starts_with('N');
    !(is_apart || is_accident || is_serialized || is_plain || is_value)
}

/// Whether two words belong to one phrase: a blank, an underscore or one line break between them, with the marks of
/// comments, quotes and emphasis.
fn joins(text: &str, left: &Word, right: &Word, banned: &Banned) -> bool {
    let between = &text[left.at + left.text.len()..right.at];
    match between {
        "" => false,
        "_" => !banned.in_prose_only,
        _ => {
            between.matches('\n').count() < 2
                && between.chars().all(|c| c.is_whitespace() || "*/!>#\\".contains(c))
                && (between.contains('\n') || !between.contains(['/', '!', '>', '#', '\\']))
        }
    }
}

fn is_whole_literal(text: &str, word: &Word) -> bool {
    text[..word.at].ends_with('"') && text[word.at + word.text.len()..].starts_with('"')
}

/// The words of a text in lower case; `camelCase` is two.
fn split(text: &str) -> Vec<Word> {
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_alphabetic() {
            at += 1;
            continue;
        }
        let mut end = at + 1;
        while end < bytes.len() && bytes[end].is_ascii_alphabetic() {
            if bytes[end].is_ascii_uppercase() && bytes[end - 1].is_ascii_lowercase() {
                break;
            }
            end += 1;
        }
        let touches = |index: Option<usize>| {
            index.and_then(|index| bytes.get(index)).is_some_and(|byte| byte.is_ascii_alphanumeric())
        };
        let is_part = touches(at.checked_sub(1)) || touches(Some(end));
        words.push(Word { at, text: text[at..end].to_ascii_lowercase(), is_part });
        at = end;
    }
    words
}

/// The parts of one file.
struct Places<'a> {
    file: &'a File,
    /// The file taken apart, if it is production code.
    source: Option<Source>,
}

impl<'a> Places<'a> {
    fn of(file: &'a File) -> Self {
        let is_production = file.path.ends_with(".rs") && !is_test_file(&file.path);
        Self { file, source: is_production.then(|| Source::new(&file.text)) }
    }

    fn hit(&self, at: usize, banned: &'static Banned) -> Hit {
        let text = &self.file.text;
        let line = crate::source::line_of(text, at);
        let source = self.source.as_ref().filter(|source| !source.in_tests(at));
        let in_literal = |source: &Source| {
            source.strings.iter().any(|literal| (literal.at..literal.at + literal.text.len()).contains(&at))
        };
        let begin = text[..at].rfind('\n').map_or(0, |index| index + 1);
        let head = text[begin..at].trim_start();
        let in_string = source.is_some_and(in_literal);
        let in_rustdoc =
            source.is_some() && !in_string && (head.starts_with("///") || head.starts_with("//!"));
        Hit { line, banned, in_string, in_rustdoc }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The words are put together here, so that this file has none of them.
    const ONE: &str = concat!("some", "body");
    const TELL: &str = concat!("to", "ld");

    fn found(path: &str, text: &str) -> Vec<usize> {
        let survey = Survey::of(&Tree::of(&[(path, text)]));
        survey.list(&[]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_words_in_comments_strings_names_and_markdown() {
        let text = format!("// {ONE} waits\nlet {TELL} = \"{ONE}\";\nfn is_{TELL}_twice() {{}}\n");
        assert_eq!(found("a.rs", &text), [1, 2, 2, 3]);
        assert_eq!(found("a.md", &format!("x\n{ONE}'s\n")), [2]);
        assert_eq!(found(&format!("{ONE}.snap"), ""), [1]);
        assert_eq!(found("a.rs", concat!("struct IsAn", "ew{}")), [1]);
        assert_eq!(found("a.json", &format!("\"a\\n{ONE}\"")), [1]);
    }

    #[test]
    fn finds_a_phrase_across_a_line_break() {
        let stands = concat!("stan", "ds");
        assert_eq!(found("a.rs", &format!("/// it {stands}\n    /// in the log\n")), [1]);
        assert_eq!(found("a.rs", &format!("\"it {stands} \\\n   in the log\"")), [1]);
        assert!(found("a.md", &format!("it {stands}\n\nin the log")).is_empty(), "two paragraphs");
        assert!(found("a.md", &format!("it {stands}, in the log")).is_empty());
    }

    #[test]
    fn leaves_plain_english_and_methods_alone() {
        let not_any = concat!("is ", "none");
        assert!(
            found("a.rs", "x.is_none(); // there is no key; it is no longer held; the theme of this")
                .is_empty()
        );
        assert_eq!(found("a.rs", &format!("// it {not_any}\n")), [1]);
        assert!(found("a.py", "if x is None:").is_empty());
        assert!(found("a.rs", &format!("Self::T => \"{TELL}\"")).is_empty(), "a serialized value");
        assert!(found("Cargo.lock", ONE).is_empty());
        assert!(found("crates/store/migrations/1.sql", ONE).is_empty());
    }

    #[test]
    fn counts_by_place_and_by_part() {
        let text = format!(
            "//! {ONE}\nfn f() {{ g(\"{ONE}\"); }} // {ONE}\n#[cfg(test)]\nmod tests {{ f(\"{ONE}\"); }}\n"
        );
        let survey = Survey::of(&Tree::of(&[("crates/core/src/a.rs", &text)]));
        assert_eq!(survey.by_path(), [("crates/core/src/a.rs".to_owned(), 4)].into());
        let places = [("crates/core/src/:rustdoc".to_owned(), 1), ("crates/core/src/:strings".to_owned(), 1)];
        assert_eq!(survey.by_place(), places.into());
    }

    #[test]
    fn a_clean_place_has_no_exception_and_lists_its_words() {
        let survey = Survey::of(&Tree::of(&[("README.md", &format!("{ONE}\n{TELL}\n"))]));
        let with = |text: &str| survey.check(&Ratchet::parse(text).0).len();
        assert_eq!(with("words README.md 2\nunclean README.md 2\n"), 0);
        assert_eq!(with("words README.md 2\n"), 3, "the place, and each of the two words");
        assert_eq!(with("words README.md 1\nunclean README.md 2\n"), 1);
    }

    #[test]
    fn the_summary_counts_pronouns_per_ten_thousand_words() {
        let text = format!("{ONE} {}", "x ".repeat(9_999));
        let summary = Survey::of(&Tree::of(&[("a.md", &text)])).summary();
        assert!(summary.contains("1.00 per 10,000 of 10000 words"), "{summary}");
    }
}
