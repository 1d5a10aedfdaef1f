//! JSON documents, filtered as text: order, numbers and spelling of everything else stay unchanged.

use std::borrow::Cow;
use std::ops::Range;

use super::names::Names;
use super::values::Values;

/// The mark as a JSON value.
const QUOTED: &str = "\"[secret]\"";

pub(super) fn hidden<'a>(text: &'a str, values: &Values, names: &Names) -> Cow<'a, str> {
    let mut pass = Pass { text, values, names, out: String::new(), kept: 0 };
    let mut at = 0;
    while let Some(byte) = pass.byte(at) {
        at = match byte {
            b'"' => pass.string(at),
            b'-' | b'0'..=b'9' => pass.number(at),
            _ => at + 1,
        };
    }
    match pass.kept {
        0 => Cow::Borrowed(text),
        kept => Cow::Owned(pass.out + &text[kept..]),
    }
}

/// A pass over a text, which need not be JSON: the pass always reaches the end.
struct Pass<'a> {
    text: &'a str,
    values: &'a Values,
    names: &'a Names,
    out: String,
    /// The text up to here is already in `out`.
    kept: usize,
}

impl Pass<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn replace(&mut self, span: Range<usize>, by: &str) {
        self.out.push_str(&self.text[self.kept..span.start]);
        self.out.push_str(by);
        self.kept = span.end;
    }

    /// Filters a string and, if it is the name of a secret, its value. Returns where to continue.
    fn string(&mut self, at: usize) -> usize {
        let end = self.string_end(at);
        let colon = self.behind_blanks(end);
        let is_secret = self.byte(colon) == Some(b':') && self.names.has(&self.unescaped(at..end));
        self.filter(at..end);
        if !is_secret {
            return end;
        }
        let from = self.behind_blanks(colon + 1);
        let to = self.value_end(from);
        if !matches!(&self.text[from..to], "" | "null" | "true" | "false") {
            self.replace(from..to, QUOTED);
        }
        to
    }

    /// Replaces the values in a string.
    fn filter(&mut self, span: Range<usize>) {
        let raw = &self.text[span.clone()];
        if !raw.contains('\\') {
            if let Cow::Owned(hidden) = self.values.hidden(raw) {
                self.replace(span, &hidden);
            }
            return;
        }
        let unescaped = self.unescaped(span.clone()).into_owned();
        if let Cow::Owned(hidden) = self.values.hidden(&unescaped) {
            let quoted = serde_json::to_string(&hidden).unwrap_or_else(|_| QUOTED.to_owned());
            self.replace(span, &quoted);
        }
    }

    /// Returns a string without its quotes and escapes, or unchanged if the escapes are invalid.
    fn unescaped(&self, span: Range<usize>) -> Cow<'_, str> {
        let raw = &self.text[span];
        match serde_json::from_str(raw).ok().filter(|_| raw.contains('\\')) {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(raw.trim_matches('"')),
        }
    }

    fn number(&mut self, at: usize) -> usize {
        let end = self.literal_end(at);
        if self.values.find(&self.text[at..end], 0).is_some() {
            self.replace(at..end, QUOTED);
        }
        end
    }

    /// Returns the position after the closing quote, or the end of the text.
    fn string_end(&self, at: usize) -> usize {
        let mut escaped = false;
        for (offset, byte) in self.text.as_bytes()[at + 1..].iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return at + 2 + offset,
                _ => {}
            }
        }
        self.text.len()
    }

    fn behind_blanks(&self, at: usize) -> usize {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
    }

    /// Returns the position after a value of any kind.
    fn value_end(&self, from: usize) -> usize {
        let mut at = from;
        let mut depth = 0usize;
        loop {
            at = match self.byte(at) {
                None => return self.text.len(),
                Some(b'"') => self.string_end(at),
                Some(b'[' | b'{') => {
                    depth += 1;
                    at + 1
                }
                Some(b']' | b'}') if depth == 0 => return at,
                Some(b']' | b'}') => {
                    depth -= 1;
                    at + 1
                }
                Some(_) if depth == 0 => return self.literal_end(at),
                Some(_) => at + 1,
            };
            if depth == 0 {
                return at;
            }
        }
    }

    fn literal_end(&self, at: usize) -> usize {
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b'"') || byte.is_ascii_whitespace();
        self.text.as_bytes()[at..].iter().position(ends).map_or(self.text.len(), |length| at + length)
    }
}
