//! Attributes: typed values of a run, to search by. Set at the start, changed by the workflow.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::argument;
use crate::id::TagKey;
use crate::time::Millis;

/// Most attributes of one run.
pub const ATTRIBUTES_MAX: usize = 32;
/// Longest text of an attribute, in characters.
pub const TEXT_CHARS_MAX: usize = 256;
/// Most texts in a list.
pub const LIST_MAX: usize = 16;

/// Attributes of a run by name.
pub type Attributes = BTreeMap<TagKey, AttributeValue>;

/// The value of an attribute.
///
/// In JSON, a time is `{"time": MILLISECONDS}`; the other types are the JSON values of their kind. An integer is a number
/// without a decimal point.
#[derive(Debug, Clone, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a decimal point.
    Number(f64),
    /// A point in time.
    Time(Millis),
    /// True or false.
    Boolean(bool),
    /// A list of texts.
    List(Vec<String>),
}

/// The reason why attributes are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// The run would have too many.
    #[error("a run has at most {ATTRIBUTES_MAX} attributes, and this would be {0}")]
    TooMany(usize),
    /// A text is too long.
    #[error("attribute {name} has a text of {chars} characters; the limit is {TEXT_CHARS_MAX}")]
    TooLong {
        /// The attribute.
        name: String,
        /// Length of the text.
        chars: usize,
    },
    /// A list has too many texts.
    #[error("attribute {name} has a list of {count} texts; the limit is {LIST_MAX}")]
    ListTooLong {
        /// The attribute.
        name: String,
        /// Length of the list.
        count: usize,
    },
    /// A number is not finite.
    #[error("attribute {0} must be a finite number")]
    NotFinite(String),
    /// A text has a character that is not allowed.
    #[error("attribute {name}: {flaw}")]
    Text {
        /// The attribute.
        name: String,
        /// What is wrong with it.
        flaw: argument::ArgumentError,
    },
}

impl AttributeError {
    /// Code of the error.
    pub const CODE: &'static str = "GS0142";
}

impl AttributeValue {
    /// Returns the word for its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "integer",
            Self::Number(_) => "number",
            Self::Time(_) => "time",
            Self::Boolean(_) => "boolean",
            Self::List(_) => "list",
        }
    }

    /// Checks the limits of one value.
    pub fn check(&self, name: &TagKey) -> Result<(), AttributeError> {
        let text = |text: &String| {
            let chars = text.chars().count();
            if chars > TEXT_CHARS_MAX {
                return Err(AttributeError::TooLong { name: name.to_string(), chars });
            }
            argument::text("the value", text)
                .map_err(|flaw| AttributeError::Text { name: name.to_string(), flaw })
        };
        match self {
            Self::Text(value) => text(value),
            Self::Number(value) if !value.is_finite() => Err(AttributeError::NotFinite(name.to_string())),
            Self::List(values) if values.len() > LIST_MAX => {
                Err(AttributeError::ListTooLong { name: name.to_string(), count: values.len() })
            }
            Self::List(values) => values.iter().try_for_each(text),
            Self::Integer(_) | Self::Number(_) | Self::Time(_) | Self::Boolean(_) => Ok(()),
        }
    }
}

/// Checks all attributes of a run.
pub fn check(attributes: &Attributes) -> Result<(), AttributeError> {
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(AttributeError::TooMany(attributes.len()));
    }
    attributes.iter().try_for_each(|(name, value)| value.check(name))
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<i32> for AttributeValue {
    fn from(number: i32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Millis> for AttributeValue {
    fn from(at: Millis) -> Self {
        Self::Time(at)
    }
}

impl From<std::time::SystemTime> for AttributeValue {
    fn from(at: std::time::SystemTime) -> Self {
        Self::Time(at.into())
    }
}

impl From<Vec<String>> for AttributeValue {
    fn from(texts: Vec<String>) -> Self {
        Self::List(texts)
    }
}

impl<const N: usize> From<[&str; N]> for AttributeValue {
    fn from(texts: [&str; N]) -> Self {
        Self::List(texts.map(str::to_owned).to_vec())
    }
}

impl fmt::Display for AttributeValue {
    /// Writes the value as a condition would, a list in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => argument::write_text(f, text),
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Time(at) => f.write_str(&crate::moment::iso(*at)),
            Self::Boolean(value) => value.fmt(f),
            Self::List(texts) => {
                f.write_str("[")?;
                for (at, text) in texts.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    argument::write_text(f, text)?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The key of a time in JSON.
const TIME: &str = "time";

impl Serialize for AttributeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::List(texts) => texts.serialize(serializer),
            Self::Time(at) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(TIME, at)?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for AttributeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

/// A time as received: milliseconds, or text.
#[derive(Deserialize)]
#[serde(untagged)]
enum TimeWire {
    Millis(i64),
    Text(String),
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = AttributeValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false, a list of texts, or {\"time\": MILLISECONDS}")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<AttributeValue, E> {
        Ok(AttributeValue::Boolean(value))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<AttributeValue, E> {
        Ok(AttributeValue::Integer(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<AttributeValue, E> {
        i64::try_from(number)
            .map(AttributeValue::Integer)
            .map_err(|_| E::custom(format!("integer {number} is larger than {}", i64::MAX)))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<AttributeValue, E> {
        match number.is_finite() {
            true => Ok(AttributeValue::Number(number)),
            false => Err(E::custom("the number is not finite")),
        }
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<AttributeValue, E> {
        Ok(AttributeValue::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<AttributeValue, E> {
        Ok(AttributeValue::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<AttributeValue, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = seq.next_element::<String>()? {
            texts.push(text);
        }
        Ok(AttributeValue::List(texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AttributeValue, A::Error> {
        let wrong = || de::Error::custom("an object must be {\"time\": MILLISECONDS}");
        let key: String = map.next_key()?.ok_or_else(wrong)?;
        if key != TIME {
            return Err(wrong());
        }
        let at = match map.next_value::<TimeWire>()? {
            TimeWire::Millis(at) => Millis(at),
            TimeWire::Text(text) => crate::moment::parse_iso(&text)
                .ok_or_else(|| de::Error::custom(format!("invalid time {text:?}")))?,
        };
        match map.next_key::<String>()? {
            None => Ok(AttributeValue::Time(at)),
            Some(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip_as_json() {
        for (value, text) in [
            (AttributeValue::from("eu"), r#""eu""#),
            (AttributeValue::from(i64::MAX), "9223372036854775807"),
            (AttributeValue::from(2.0), "2.0"),
            (AttributeValue::from(true), "true"),
            (AttributeValue::from(["a", "b"]), r#"["a","b"]"#),
            (AttributeValue::Time(Millis(7)), r#"{"time":7}"#),
        ] {
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(serde_json::from_str::<AttributeValue>(text).unwrap(), value);
        }
        let time: AttributeValue = serde_json::from_str(r#"{"time":"1970-01-01T00:00:01Z"}"#).unwrap();
        assert_eq!(time, AttributeValue::Time(Millis(1_000)));
    }

    #[test]
    fn refuses_json_that_is_not_a_value() {
        for text in ["null", "[1]", "{}", r#"{"at":1}"#, r#"{"time":1,"x":2}"#, "18446744073709551615"] {
            assert!(serde_json::from_str::<AttributeValue>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn checks_limits_and_characters() {
        let name = TagKey::new("n").unwrap();
        let list = |count| AttributeValue::List(vec!["x".to_owned(); count]);
        for good in [AttributeValue::from("x".repeat(TEXT_CHARS_MAX)), list(LIST_MAX)] {
            assert_eq!(good.check(&name), Ok(()));
        }
        for wrong in [
            AttributeValue::from("x".repeat(TEXT_CHARS_MAX + 1)),
            list(LIST_MAX + 1),
            AttributeValue::from("a\u{0}"),
            AttributeValue::from(f64::NAN),
            AttributeValue::from(["\u{1b}"]),
        ] {
            assert!(wrong.check(&name).is_err(), "{wrong:?}");
        }
        let many = |count| {
            let names = (0..count).map(|n| TagKey::new(format!("n{n}")).unwrap());
            names.map(|name| (name, AttributeValue::from(1))).collect::<Attributes>()
        };
        assert_eq!(check(&many(ATTRIBUTES_MAX)), Ok(()));
        assert_eq!(check(&many(ATTRIBUTES_MAX + 1)), Err(AttributeError::TooMany(33)));
    }

    #[test]
    fn a_jump_restores_attributes_and_continue_as_new_keeps_them() {
        use crate::command::{Command, Owned};
        use crate::event::AttributesChanged;
        use crate::testing::*;

        let name = || TagKey::new("stage").unwrap();
        let change = |text: &str, ord, value: &str| {
            let set = Attributes::from([(name(), value.into())]);
            Owned::Attributes(AttributesChanged { path: path(text), ord, set, removed: Default::default() })
        };
        let stage = |log: &Log| log.state().summary.attributes.get(&name()).cloned();
        let log = Log::running().owned(vec![change("attributes", 0, "new")]).completed("a");
        let log = log.owned(vec![change("attributes#2", 2, "paid")]);
        assert_eq!(stage(&log), Some("paid".into()));
        let at = log.state().summary.attributes_at;
        let log = log.act(Command::Jump(jump_to("j", "a"))).claimed("n-2");
        assert_eq!(stage(&log), Some("new".into()), "the branch does not see the later change");
        assert_eq!(log.state().summary.attributes_at, at, "stores must still remove the later value");
        let log = log.owned(vec![Owned::ContinueAsNew(json("[2]"))]).claimed("n-2");
        assert_eq!(stage(&log), Some("new".into()));
        let removal = AttributesChanged {
            path: path("attributes"),
            ord: 0,
            set: Attributes::new(),
            removed: [name()].into(),
        };
        assert_eq!(stage(&log.owned(vec![Owned::Attributes(removal)])), None);
    }
}
