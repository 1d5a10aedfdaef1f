//! Values of user code: JSON text that the engine carries and never interprets.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::hash::Hash;
use crate::limits::Limits;

/// A JSON value, kept as the text it was written as. Cheap to clone.
#[derive(Clone)]
pub struct Payload(Arc<RawValue>);

/// The reason why a value cannot become a payload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Make it smaller, or store it elsewhere and pass a reference.
    #[error("the payload has {bytes} bytes, more than the limit of {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit in force.
        max: usize,
    },
    /// Flatten it.
    #[error("the payload is nested deeper than {max} levels")]
    TooDeep {
        /// The limit in force.
        max: usize,
    },
    /// Remove some of them.
    #[error("there are more than {max} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit in force.
        max: usize,
    },
    /// Fix the text.
    #[error("the payload is not valid JSON: {0}")]
    NotJson(String),
    /// Send the whole character.
    #[error("the payload contains the unpaired surrogate `\\u{0}`, which strict JSON parsers refuse")]
    HalfCharacter(String),
    /// Send it as a string.
    #[error("the payload contains the number {0}, which is too large for JSON parsers")]
    HugeNumber(String),
}

impl Payload {
    /// Returns the JSON value `null`.
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// Serializes `value` and checks it against the limits.
    pub fn of<T: Serialize + ?Sized>(value: &T, limits: &Limits) -> Result<Self, PayloadError> {
        let raw = serde_json::value::to_raw_value(value).map_err(|e| PayloadError::NotJson(e.to_string()))?;
        check(raw.get(), limits)?;
        Ok(Self(Arc::from(raw)))
    }

    /// Parses JSON text and checks it against the limits. Removes the whitespace between tokens: an event is one
    /// line, and the same value with other whitespace is the same input.
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, PayloadError> {
        check(text, limits)?;
        let raw =
            serde_json::from_str::<Box<RawValue>>(text).map_err(|e| PayloadError::NotJson(e.to_string()))?;
        if !raw.get().contains([' ', '\n', '\r', '\t']) {
            return Ok(Self(Arc::from(raw)));
        }
        let raw =
            RawValue::from_string(tight(raw.get())).map_err(|e| PayloadError::NotJson(e.to_string()))?;
        Ok(Self(Arc::from(raw)))
    }

    /// Deserializes the value as a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Returns the hash of the text.
    pub fn hash(&self) -> Hash {
        Hash::of(self.as_str().as_bytes())
    }
}

fn check(text: &str, limits: &Limits) -> Result<(), PayloadError> {
    if text.len() > limits.payload_bytes_max {
        return Err(PayloadError::TooLarge { bytes: text.len(), max: limits.payload_bytes_max });
    }
    if depth(text) > limits.payload_depth_max {
        return Err(PayloadError::TooDeep { max: limits.payload_depth_max });
    }
    readable(text)
}

/// Refuses JSON that strict parsers refuse: an unpaired surrogate, and a number that is infinite as a double.
/// Duplicate names are left to the reader.
fn readable(text: &str) -> Result<(), PayloadError> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut quoted = false;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'\\' if quoted => escape(&text[at..])?,
            b'"' => {
                quoted = !quoted;
                1
            }
            b'-' | b'0'..=b'9' if !quoted => number(&text[at..])?,
            _ => 1,
        };
    }
    Ok(())
}

/// Returns the length of an escape in bytes, including both halves of a pair.
fn escape(text: &str) -> Result<usize, PayloadError> {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u").and_then(|digits| digits.get(..4))?;
        u16::from_str_radix(digits, 16).ok()
    };
    match (unit(text), text.get(6..).and_then(unit)) {
        (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => Ok(12),
        (Some(half @ 0xd800..=0xdfff), _) => Err(PayloadError::HalfCharacter(format!("{half:04x}"))),
        (Some(_), _) => Ok(6),
        // A short escape, or invalid JSON. The character after the backslash may have several bytes.
        (None, _) => Ok(text.chars().take(2).map(char::len_utf8).sum()),
    }
}

/// Returns the length of a number in bytes.
fn number(text: &str) -> Result<usize, PayloadError> {
    let length =
        text.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(text.len());
    let digits = &text[..length];
    match digits.parse::<f64>() {
        Ok(value) if value.is_infinite() => Err(PayloadError::HugeNumber(digits.chars().take(40).collect())),
        _ => Ok(length),
    }
}

/// Returns how deep brackets nest, ignoring strings. It counts on the text, so that nothing recursive is built.
fn depth(text: &str) -> usize {
    let mut now = 0usize;
    let mut most = 0;
    let mut quoted = false;
    let mut escaped = false;
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            // A backslash outside of a string is invalid JSON, so its depth does not matter.
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' if !quoted => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Deserializes a payload that is present even if it is `null`, which an `Option` alone reads as absent.
pub fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

/// Returns JSON text without the whitespace between its tokens.
fn tight(text: &str) -> String {
    let mut quoted = false;
    let mut escaped = false;
    let keeps = |c: &char| {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        quoted || !c.is_ascii_whitespace()
    };
    text.chars().filter(keeps).collect()
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Arc::from(Box::<RawValue>::deserialize(deserializer)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_and_deep_payloads_are_refused() {
        let limits = Limits { payload_bytes_max: 16, payload_depth_max: 2, ..Limits::default() };
        assert_eq!(Payload::of(&"x".repeat(20), &limits), Err(PayloadError::TooLarge { bytes: 22, max: 16 }));
        assert_eq!(Payload::parse("[[[]]]", &limits), Err(PayloadError::TooDeep { max: 2 }));
        assert!(Payload::parse(r#""[[[[\"[""#, &limits).is_ok());
        assert!(Payload::parse("[[],[],[{}]]", &limits).is_err());
        assert!(Payload::parse("[[],[],{}]", &limits).is_ok(), "closed brackets do not count");
        assert!(matches!(Payload::parse("{", &limits), Err(PayloadError::NotJson(_))));
    }

    #[test]
    fn a_payload_of_just_the_limit_is_taken() {
        let limits = Limits { payload_bytes_max: 8, payload_depth_max: 2, ..Limits::default() };
        assert!(Payload::parse("\"123456\"", &limits).is_ok());
        assert_eq!(Payload::parse("\"1234567\"", &limits), Err(PayloadError::TooLarge { bytes: 9, max: 8 }));
        assert!(Payload::parse("[[{", &limits).is_err() && Payload::parse("[{}]", &limits).is_ok());
    }

    #[test]
    fn ignores_brackets_and_quotes_inside_strings() {
        let limits = Limits { payload_depth_max: 2, ..Limits::default() };
        for text in [r#""\"[[[""#, r#""\\\"{{{""#, r#"["[[[",["{{{"]]"#] {
            assert!(Payload::parse(text, &limits).is_ok(), "{text}");
        }
        for text in [r#"["]]",[[]]]"#, r#"{"}}":{"a":{}}}"#, r#"["\\",[[]]]"#, r#"["\"]]",[[]]]"#] {
            assert_eq!(Payload::parse(text, &limits), Err(PayloadError::TooDeep { max: 2 }), "{text}");
        }
    }

    #[test]
    fn refuses_what_strict_json_parsers_refuse() {
        let parse = |text: &str| Payload::parse(text, &Limits::default());
        let half = |digits: &str| Err(PayloadError::HalfCharacter(digits.to_owned()));
        assert_eq!(parse(r#"{"a":"\ud800"}"#), half("d800"));
        for text in [r#""\udC00\ud800""#, r#"["x\uDC00"]"#, r#"{"\udc00":1}"#] {
            assert_eq!(parse(text), half("dc00"), "{text}");
        }
        assert_eq!(parse(r#""\ud83d\u0041""#), half("d83d"));
        for number in ["1e400", "-1e400", "[1E+309]"] {
            assert!(matches!(parse(number), Err(PayloadError::HugeNumber(_))), "{number}");
        }
        assert!(parse(&"9".repeat(400)).is_err());
        for fine in [
            r#""\ud83d\ude00 \\ud800 \u00e9 1e400""#,
            "[1e308,-1.5e-400,18446744073709551616]",
            r#"{"k":1,"k":2}"#,
            r#""ü\\""#,
        ] {
            assert!(parse(fine).is_ok(), "{fine}");
        }
        assert!(matches!(parse("\\ü"), Err(PayloadError::NotJson(_))));
    }

    #[test]
    fn removes_only_whitespace_between_tokens() {
        let payload =
            Payload::parse(" { \"a b\" :\t[ 1 ,\n\"\\\" \\\\\" , \" \" ]\r}", &Limits::default()).unwrap();
        assert_eq!(payload.as_str(), r#"{"a b":[1,"\" \\"," "]}"#);
        assert_eq!(format!("{payload:?}"), payload.as_str());
    }
}
