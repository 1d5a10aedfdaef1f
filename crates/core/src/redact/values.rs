//! Registered values, in every encoding.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{MARK, VALUE_BYTES_MIN};

/// Minimum length of a line of a longer value that is also hidden separately, in bytes.
const LINE_BYTES_MIN: usize = 16;
/// The end of a text that was cut.
const CUT: char = '…';
/// Minimum length of the visible part of a value at the end of a text that was cut, in bytes.
const CUT_BYTES_MIN: usize = 3;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Registered values. One pass over a text finds all of them.
#[derive(Clone, Default)]
pub(super) struct Values {
    /// All encodings, the longest first.
    forms: Vec<String>,
    /// The first bytes of the encodings, one bit each.
    first: [u64; 4],
}

impl Values {
    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    pub(super) fn add(&mut self, value: &str) {
        let mut forms: BTreeSet<String> = std::mem::take(&mut self.forms).into_iter().collect();
        forms.extend(forms_of(value));
        self.forms = forms.into_iter().filter(|form| form.len() >= VALUE_BYTES_MIN).collect();
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        self.first = [0; 4];
        for byte in self.forms.iter().filter_map(|form| form.bytes().next()) {
            self.first[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    /// Returns the span of the first value at or after `from`. Adjacent and overlapping values are one span.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        if self.is_empty() {
            return None;
        }
        let bytes = text.as_bytes();
        let begin = (from..bytes.len()).find(|at| self.at(bytes, *at).is_some())?;
        let mut at = begin;
        let mut end = begin;
        while at <= end {
            end = end.max(self.at(bytes, at).unwrap_or(0));
            at += 1;
        }
        Some((begin, end))
    }

    /// Returns the end of the longest value that begins here.
    fn at(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let first = *bytes.get(at)?;
        if self.first[usize::from(first >> 6)] & (1 << (first & 63)) == 0 {
            return None;
        }
        let form = self.forms.iter().find(|form| bytes[at..].starts_with(form.as_bytes()))?;
        Some(at + form.len())
    }

    /// Replaces the values in a text.
    pub(super) fn hidden<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = String::new();
        let mut kept = 0;
        while let Some((from, to)) = self.find(text, kept) {
            out.push_str(&text[kept..from]);
            out.push_str(MARK);
            kept = to;
        }
        if let Some(from) = self.cut_off(&text[kept..]) {
            out.push_str(&text[kept..kept + from]);
            out.push_str(MARK);
            kept = text.len() - CUT.len_utf8();
        }
        if kept == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[kept..]);
        Cow::Owned(out)
    }

    /// Returns where the beginning of a value is at the end of a text that was cut.
    fn cut_off(&self, text: &str) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let left = text.strip_suffix(CUT)?.as_bytes();
        let longest = self.forms.first().map_or(0, String::len);
        let begins = |at: &usize| self.forms.iter().any(|form| form.as_bytes().starts_with(&left[*at..]));
        (left.len().saturating_sub(longest)..=left.len().checked_sub(CUT_BYTES_MIN)?).find(begins)
    }
}

/// Returns a value and its encodings.
fn forms_of(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::new();
    let lines = value.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN);
    // The first and last lines of PEM keys are public.
    let lines = lines.filter(|line| !line.starts_with("-----"));
    for piece in std::iter::once(value).chain(lines) {
        forms.insert(piece.to_owned());
        let escaped = unquoted(serde_json::to_string(piece).ok());
        forms.extend(unquoted(escaped.as_ref().and_then(|once| serde_json::to_string(once).ok())));
        forms.extend(escaped);
        forms.extend(unquoted(Some(format!("{piece:?}"))));
        // Writers of URLs differ in the characters that they escape.
        for plain in [&b"-._~"[..], b"-._~!*'()", b"-._~!*'();:@&=+$,"] {
            forms.insert(percent(piece, plain, |byte| format!("%{byte:02X}")));
            forms.insert(percent(piece, plain, |byte| format!("%{byte:02x}")));
            let form = |byte| if byte == b' ' { "+".to_owned() } else { format!("%{byte:02X}") };
            forms.insert(percent(piece, plain, form));
        }
        for before in 0..3 {
            let standard = base64_within(piece, before);
            forms.insert(standard.replace('+', "-").replace('/', "_"));
            forms.insert(standard);
        }
    }
    forms
}

fn unquoted(text: Option<String>) -> Option<String> {
    text?.strip_prefix('"')?.strip_suffix('"').map(str::to_owned)
}

fn percent(value: &str, plain: &[u8], written: impl Fn(u8) -> String) -> String {
    let one = |byte: u8| match byte.is_ascii_alphanumeric() || plain.contains(&byte) {
        true => char::from(byte).to_string(),
        false => written(byte),
    };
    value.bytes().map(one).collect()
}

/// Returns the base64 characters that depend only on a value which follows `before` other bytes, such as a password
/// after its user.
fn base64_within(value: &str, before: usize) -> String {
    let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(value.bytes()).collect();
    let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    let first = (before * 8).div_ceil(6);
    let sextet = |at: usize| (0..6).fold(0, |value, offset| value << 1 | bit(at * 6 + offset));
    (first..bytes.len() * 8 / 6).map(|at| char::from(BASE64[usize::from(sextet(at))])).collect()
}
