//! Fingerprints of failures: failures of the same kind share one, whatever ids, numbers and paths their messages name.

use crate::hash::Hash;

/// Hexadecimal digits of a fingerprint.
const DIGITS: usize = 6;
/// Letters from which on a word of `a` to `f` counts as a hexadecimal number.
const HEX_LETTERS_MIN: usize = 8;

/// What a fingerprint is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symptom<'a> {
    /// The run, whose id the fingerprint leaves out.
    pub run: &'a str,
    /// The step that failed, if a step did.
    pub step: Option<&'a str>,
    /// Code of the failure or of the rule.
    pub code: Option<&'a str>,
    /// What happened.
    pub message: &'a str,
}

impl Symptom<'_> {
    /// Returns the fingerprint: the step, the code, and the message without its variable parts.
    pub fn fingerprint(&self) -> String {
        let without_run = |text: &str| match self.run.is_empty() {
            true => text.to_owned(),
            false => text.replace(self.run, "0"),
        };
        let step = self.step.map(called).unwrap_or_default();
        let message = shape(&without_run(self.message));
        Hash::of_parts(&[&step, self.code.unwrap_or(""), &message]).to_string()[..DIGITS].to_owned()
    }
}

/// Returns the names in the path of a step, without keys, counts and the indices of joins.
fn called(path: &str) -> String {
    let name = |segment: &str| match segment.split([':', '#']).next().unwrap_or_default() {
        index if index.bytes().all(|b| b.is_ascii_digit()) => "#".to_owned(),
        name => name.to_owned(),
    };
    path.split('/').map(name).collect::<Vec<_>>().join("/")
}

/// Returns a message without its variable parts. Numbers, ids, timestamps, hexadecimal, quoted values and paths become
/// a placeholder, and a list of placeholders becomes one.
fn shape(text: &str) -> String {
    let mut shape = ShapeBuilder::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = after_quoted(rest, shape.is_inside_word()) {
            shape.variable();
            rest = after;
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            shape.word(word);
            rest = after;
        } else {
            shape.separator(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    shape.out
}

/// A shape that is being built.
#[derive(Default)]
struct ShapeBuilder {
    out: String,
    /// Separators since the last placeholder, if nothing else followed it.
    since_variable: Option<String>,
    ends_in_word: bool,
}

impl ShapeBuilder {
    fn is_inside_word(&self) -> bool {
        self.ends_in_word
    }

    fn variable(&mut self) {
        // `1, 2, 3` and `1, 2` have the same shape.
        let continues = self.since_variable.as_ref().is_some_and(|between| {
            !between.is_empty() && between.chars().all(|c| c.is_whitespace() || matches!(c, ',' | ';' | '|'))
        });
        if continues {
            let length = self.since_variable.as_ref().map_or(0, String::len);
            self.out.truncate(self.out.len() - length);
        } else {
            self.out.push('#');
        }
        self.since_variable = Some(String::new());
        self.ends_in_word = false;
    }

    fn word(&mut self, word: &str) {
        if is_variable(word) {
            self.variable();
            return;
        }
        self.out.push_str(word);
        self.since_variable = None;
        self.ends_in_word = true;
    }

    fn separator(&mut self, c: char) {
        let c = if c.is_whitespace() { ' ' } else { c };
        if c == ' ' && self.out.ends_with(' ') {
            return;
        }
        self.out.push(c);
        if let Some(between) = &mut self.since_variable {
            between.push(c);
        }
        self.ends_in_word = false;
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '\\' | ':' | '@' | '~' | '+' | '%')
}

/// Whether a word names one of many: it has a digit, is a path, or is hexadecimal.
fn is_variable(word: &str) -> bool {
    let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
    let is_hex = bare.len() >= HEX_LETTERS_MIN && bare.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex || word.chars().any(|c| c.is_numeric() || matches!(c, '/' | '\\'))
}

/// Returns the text after a quoted value at the start of `text`. An apostrophe inside a word quotes nothing.
fn after_quoted(text: &str, is_inside_word: bool) -> Option<&str> {
    let open = text.chars().next()?;
    let close = match open {
        '"' | '`' => open,
        '\'' if !is_inside_word => open,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let body = &text[open.len_utf8()..];
    let ends = |at: usize| {
        let after = &body[at + close.len_utf8()..];
        close != '\'' || !after.starts_with(char::is_alphanumeric)
    };
    let end = body.match_indices(close).map(|(at, _)| at).find(|at| ends(*at))?;
    Some(&body[end + close.len_utf8()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &str) -> String {
        Symptom { run: "order-alpha", step: Some("charge"), code: None, message }.fingerprint()
    }

    #[test]
    fn variable_parts_do_not_split_a_group() {
        for (one, other) in [
            ("order 17: card declined", "order 18: card declined"),
            ("order ord-17 declined", "order x9 declined"),
            ("run order-alpha failed", "run order-17 failed"),
            ("no row 0b5c1a52-6d5f-4a39-9d0e-2f3a5b1c7d8e", "no row 11111111-aaaa-4bbb-8ccc-deadbeef0000"),
            ("expired at 2026-01-31T10:00:00Z", "expired at 2027-12-01T23:59:59.123+02:00"),
            ("digest deadbeefcafe differs", "digest 00ff00ff differs"),
            ("user \"ada\" is unknown", "user \"bob lee\" is unknown"),
            ("user 'ada' is unknown", "user 'bob's mother' is unknown"),
            ("user `ada` is unknown", "user `bob` is unknown"),
            ("cannot open /var/lib/a: denied", "cannot open /srv/other/file.txt: denied"),
            ("cannot open C:\\a\\b", "cannot open D:\\other"),
            ("GET https://a.example/x failed", "GET http://b.example:80/y/z failed"),
            ("items 1, 2, 3 are missing", "items 7, 8 are missing"),
            ("took 17ms", "took 1800ms"),
            ("took  17ms\n", "took 9ms "),
        ] {
            assert_eq!(of(one), of(other), "{one} | {other}");
        }
    }

    #[test]
    fn failures_of_different_kinds_differ() {
        let messages = [
            "card declined",
            "card refused",
            "can't connect",
            "can't write",
            "order 17: card declined",
            "order 17 and 18: card declined",
            "no such order",
            "",
        ];
        for (at, one) in messages.iter().enumerate() {
            for other in &messages[at + 1..] {
                assert_ne!(of(one), of(other), "{one} | {other}");
            }
        }
    }

    #[test]
    fn step_and_code_are_part_of_the_fingerprint() {
        let base = Symptom { run: "r", step: Some("charge"), code: None, message: "timeout" };
        let other_step = Symptom { step: Some("ship"), ..base };
        let no_step = Symptom { step: None, ..base };
        let code = Symptom { code: Some("card"), ..base };
        let all = [base, other_step, no_step, code].map(|symptom| symptom.fingerprint());
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one), "{all:?}");
            assert_eq!(one.len(), DIGITS);
        }
        for (one, other) in [("charge#3", "charge#4"), ("all/1/charge:eu", "all/2/charge:us")] {
            let [one, other] = [one, other].map(|step| Symptom { step: Some(step), ..base }.fingerprint());
            assert_eq!(one, other);
        }
        let [one, other] =
            ["a/charge", "b/charge"].map(|step| Symptom { step: Some(step), ..base }.fingerprint());
        assert_ne!(one, other);
    }
}
