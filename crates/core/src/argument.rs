//! Short texts from callers: names, keys, kinds and values of tags.
//!
//! Invariant: such a text holds no control character and no character that changes the direction of the surrounding
//! text. Stores keep these texts in separate columns (Postgres has no U+0000), and terminals print them. Texts that
//! may have several lines, such as reasons, prompts and payloads, stay unchanged; [`escaped`] makes them safe to
//! print.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// The reason why an argument is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {flaw}")]
pub struct ArgumentError {
    /// Which argument, as in `the owner`.
    pub what: &'static str,
    /// The rule that it breaks.
    pub flaw: Flaw,
}

/// The rule that an argument breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It has no characters.
    Empty,
    /// It is 0 and must not be.
    Zero,
    /// It has an unprintable character.
    Control {
        /// The character.
        found: char,
        /// Its position, counted in characters from 1.
        at: usize,
    },
}

impl Flaw {
    /// Returns what the caller should do.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Empty => "give it at least one character",
            Self::Zero => "use 1 or more",
            Self::Control { .. } => {
                "remove control characters and text-direction marks; a payload may contain them"
            }
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("must not be empty"),
            Self::Zero => f.write_str("must not be 0"),
            Self::Control { found, at } => {
                let code = u32::from(*found);
                write!(f, "must not contain the control character U+{code:04X} (character {at})")
            }
        }
    }
}

/// Checks a text that may be empty, such as the value of a tag.
pub fn text(what: &'static str, text: &str) -> Result<(), ArgumentError> {
    match text.chars().enumerate().find(|(_, c)| is_control(*c)) {
        None => Ok(()),
        Some((before, found)) => Err(ArgumentError { what, flaw: Flaw::Control { found, at: before + 1 } }),
    }
}

/// Checks a text that is a name.
pub fn name(what: &'static str, name: &str) -> Result<(), ArgumentError> {
    match name.is_empty() {
        true => Err(ArgumentError { what, flaw: Flaw::Empty }),
        false => text(what, name),
    }
}

/// Checks a number or a span that must not be zero.
pub fn positive(what: &'static str, number: u128) -> Result<(), ArgumentError> {
    match number {
        0 => Err(ArgumentError { what, flaw: Flaw::Zero }),
        _ => Ok(()),
    }
}

/// Returns whether a character is a control character (C0, DEL, C1) or changes the text direction.
pub fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces every such character with its code, as in `\u{1b}`, except those that `keep` returns true for.
pub fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_kept = |c: char| !is_control(c) || keep(c);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match is_kept(c) {
            true => shown.push(c),
            false => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(shown)
}

/// Writes a text in quotes, with escapes.
pub fn write_text(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            c if is_control(c) => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Returns the known words that are most similar to `word`, at most three, the nearest first.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let most = (word.chars().count() / 3).clamp(1, 2);
    let far = known.into_iter().map(|other| (distance(word, other), other));
    let mut near: Vec<(usize, &str)> = far.filter(|(far, _)| *far <= most).collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, other)| other).collect()
}

/// Returns ` (did you mean x?)`, or an empty text if no known word is similar.
pub fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, known).as_slice() {
        [] => String::new(),
        near => format!(" (did you mean {}?)", near.join(", ")),
    }
}

/// Returns the edit distance of two words.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in two.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_refused_with_their_place() {
        for c in
            ['\0', '\t', '\n', '\r', '\x1b', '\x7f', '\u{85}', '\u{9b}', '\u{202e}', '\u{2066}', '\u{2069}']
        {
            let error = text("the key", &format!("ä{c}b")).unwrap_err();
            assert_eq!(error.flaw, Flaw::Control { found: c, at: 2 });
            assert!(is_control(c));
        }
        let error = name("the owner", "w\0").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the owner must not contain the control character U+0000 (character 2)"
        );
    }

    #[test]
    fn printed_characters_of_any_language_are_accepted() {
        for good in ["a b", "Jürgen \"J\" 🏺", "مرحبا", "a/b=c", "\u{200d}", "\u{202f}", "\u{2065}"] {
            assert_eq!(name("the owner", good), Ok(()), "{good:?}");
        }
        assert_eq!(text("the value", ""), Ok(()));
    }

    #[test]
    fn empty_names_and_zero_are_refused() {
        assert_eq!(name("the owner", "").unwrap_err().to_string(), "the owner must not be empty");
        assert_eq!(positive("attempts_max", 0).unwrap_err().to_string(), "attempts_max must not be 0");
        assert_eq!(positive("attempts_max", 1), Ok(()));
        let flaws = [Flaw::Empty, Flaw::Zero, Flaw::Control { found: '\0', at: 1 }];
        assert!(flaws.iter().all(|flaw| !flaw.hint().is_empty()));
    }

    #[test]
    fn escapes_all_control_characters_except_the_kept_ones() {
        assert_eq!(escaped("a\x1b[2J\u{9b}\n\u{202e}", |_| false), "a\\u{1b}[2J\\u{9b}\\u{a}\\u{202e}");
        assert_eq!(escaped("a\x1b\n", |c| c == '\n'), "a\\u{1b}\n");
        assert!(matches!(escaped("plain", |_| false), Cow::Borrowed("plain")));
    }

    #[test]
    fn suggests_only_similar_words() {
        let known = ["failed", "parked", "paused", "A1", "A2"];
        assert_eq!(nearest("faild", known), ["failed"]);
        assert_eq!(nearest("A9", known), ["A1", "A2"]);
        assert_eq!(nearest("XX", known), Vec::<&str>::new());
        assert_eq!(meant("faild", known), " (did you mean failed?)");
        assert_eq!(meant("nonsense", known), "");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
