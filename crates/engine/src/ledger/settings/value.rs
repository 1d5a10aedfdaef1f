//! Types, ranges and texts of settings.

use std::fmt;
use std::time::Duration;

use goldseam_core::{IdError, QueueName};

use super::given::SettingFlaw;
use super::per_workflow::WorkflowSection;

/// The units of a span in milliseconds, the largest first.
const UNITS: [(&str, u64); 6] =
    [("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// The units of a size.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// The type and range of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A text; empty: not set.
    Text,
    /// Texts with commas between them.
    List,
    /// The id of a queue.
    Queue,
    /// Ids of queues, at least one.
    Queues,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Count {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// The word for "not set", if there is one.
        word: Option<&'static str>,
    },
    /// A number of bytes, as in `65536` or `64KiB`.
    Bytes {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A time with its unit, as in `20s`.
    Span {
        /// Shortest time.
        min: Duration,
        /// Longest time.
        max: Duration,
        /// The word for "not set", if there is one.
        word: Option<&'static str>,
    },
    /// A positive number that need not be whole; may be empty.
    Rate,
    /// Fields of a section for single workflows: `order:attempts_max=5, order:park=false`.
    Workflows(WorkflowSection),
    /// A text that its own part of the configuration parses, with the words that describe it.
    Own(&'static str),
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// Not set: the word of its kind, or an empty text.
    Unset,
    /// A text.
    Text(String),
    /// Texts.
    List(Vec<String>),
    /// A flag.
    Flag(bool),
    /// A count or a size.
    Number(u64),
    /// A time.
    Span(Duration),
}

impl SettingKind {
    /// Parses and checks a text.
    pub(super) fn parse(self, text: &str) -> Result<SettingValue, SettingFlaw> {
        let text = text.trim();
        let word = self.word();
        if word.is_some_and(|word| word.eq_ignore_ascii_case(text)) {
            return Ok(SettingValue::Unset);
        }
        let value = match self {
            Self::Text | Self::Own(_) if text.is_empty() => SettingValue::Unset,
            Self::Rate if text.is_empty() => SettingValue::Unset,
            Self::Text | Self::Own(_) => SettingValue::Text(text.to_owned()),
            Self::List => SettingValue::List(list(text)),
            Self::Queue => {
                check_queue(text)?;
                SettingValue::Text(text.to_owned())
            }
            Self::Queues => {
                let names = list(text);
                names.iter().try_for_each(|name| check_queue(name))?;
                if names.is_empty() {
                    return Err(SettingFlaw::NotA("at least one queue"));
                }
                SettingValue::List(names)
            }
            Self::Workflows(section) => {
                let entries = list(text);
                entries.iter().try_for_each(|entry| section.parse(entry).map(drop))?;
                SettingValue::List(entries)
            }
            Self::Flag => match text {
                "true" => SettingValue::Flag(true),
                "false" => SettingValue::Flag(false),
                _ => return Err(SettingFlaw::NotA("true or false")),
            },
            Self::Count { .. } => {
                let number = text.replace('_', "").parse().map_err(|_| match word {
                    Some(_) => SettingFlaw::NotA("a whole number, or the word for the default"),
                    None => SettingFlaw::NotA("a whole number"),
                })?;
                SettingValue::Number(number)
            }
            Self::Bytes { .. } => SettingValue::Number(bytes(text)?),
            Self::Span { .. } => SettingValue::Span(span(text)?),
            Self::Rate => {
                let rate: f64 = text.parse().map_err(|_| SettingFlaw::NotA("a number, as in 5000"))?;
                if !rate.is_finite() || rate < 1.0 {
                    return Err(SettingFlaw::OutOfRange(self.range()));
                }
                SettingValue::Text(text.to_owned())
            }
        };
        self.check(value)
    }

    /// Checks the range.
    pub(super) fn check(self, value: SettingValue) -> Result<SettingValue, SettingFlaw> {
        let fits = match (&value, self) {
            (SettingValue::Number(number), Self::Count { min, max, .. } | Self::Bytes { min, max }) => {
                (min..=max).contains(number)
            }
            (SettingValue::Span(span), Self::Span { min, max, .. }) => (min..=max).contains(span),
            _ => true,
        };
        match fits {
            true => Ok(value),
            false => Err(SettingFlaw::OutOfRange(self.range())),
        }
    }

    /// The word for "not set".
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Count { word, .. } | Self::Span { word, .. } => word,
            _ => None,
        }
    }

    /// The name of the type, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::List | Self::Queues => "list",
            Self::Queue => "queue",
            Self::Flag => "true or false",
            Self::Count { .. } => "number",
            Self::Bytes { .. } => "bytes",
            Self::Span { .. } => "time",
            Self::Rate => "number per second",
            Self::Workflows(_) => "WORKFLOW:FIELD=VALUE, …",
            Self::Own(words) => words,
        }
    }

    /// The range, for people; empty if every value is allowed.
    pub fn range(self) -> String {
        let range = match self {
            Self::Count { min, max, .. } if max == u64::MAX || max == u64::from(u32::MAX) => {
                format!("at least {min}")
            }
            Self::Count { min, max, .. } => format!("{min} to {max}"),
            Self::Bytes { min, max } => format!("{} to {}", size_text(min), size_text(max)),
            Self::Span { min, max, .. } => format!("{} to {}", span_text(min), span_text(max)),
            Self::Rate => "at least 1".to_owned(),
            _ => String::new(),
        };
        match self.word() {
            Some(word) => format!("{range}, or {word}"),
            None => range,
        }
    }

    /// The text of a value, which parses to the same value.
    pub fn text(self, value: &SettingValue) -> String {
        match (value, self) {
            (SettingValue::Unset, _) => self.word().unwrap_or_default().to_owned(),
            (SettingValue::Number(number), Self::Bytes { .. }) => size_text(*number),
            (value, _) => value.to_string(),
        }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::List(items) => f.write_str(&items.join(",")),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Span(span) => f.write_str(&span_text(*span)),
        }
    }
}

fn check_queue(name: &str) -> Result<(), SettingFlaw> {
    let wrong = |error: IdError| SettingFlaw::Entry { entry: name.to_owned(), why: error.to_string() };
    QueueName::new(name).map(drop).map_err(wrong)
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Parses `20s`, `500ms` or `1h30m`. 0 needs no unit.
fn span(text: &str) -> Result<Duration, SettingFlaw> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.parse::<f64>().is_ok() {
        return Err(SettingFlaw::NoUnit(format!("{text}s")));
    }
    let wrong = || SettingFlaw::NotA("a time with its unit: 500ms, 20s, 5m, 1h30m, 7d or 2w");
    let mut rest = text;
    let mut ms = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &rest[..end]).ok_or_else(wrong)?;
        ms = number.checked_mul(*unit).and_then(|more| ms.checked_add(more)).ok_or_else(wrong)?;
        rest = &rest[end..];
    }
    if ms == 0 && text.is_empty() { Err(wrong()) } else { Ok(Duration::from_millis(ms)) }
}

/// Parses `65536`, `64KiB` or `2MiB`.
fn bytes(text: &str) -> Result<u64, SettingFlaw> {
    let wrong = || SettingFlaw::NotA("a number of bytes: 65536, 64KiB or 2MiB");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (_, unit) = SIZES.iter().find(|(name, _)| *name == text[digits..].trim()).ok_or_else(wrong)?;
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    number.checked_mul(*unit).ok_or_else(wrong)
}

/// The shortest text of a time, in milliseconds at the finest.
pub fn span_text(span: Duration) -> String {
    let mut ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, unit) in UNITS {
        // Weeks are read and not written: 90d is plainer than 12w6d.
        if name != "w" && ms >= unit {
            text.push_str(&format!("{}{name}", ms / unit));
            ms %= unit;
        }
    }
    text
}

fn size_text(bytes: u64) -> String {
    let fits = |(_, unit): &&(&str, u64)| bytes >= *unit && bytes.is_multiple_of(*unit);
    let (name, unit) = SIZES.iter().find(fits).copied().unwrap_or(("", 1));
    format!("{}{name}", bytes / unit)
}
