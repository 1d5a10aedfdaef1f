//! Conditions: which runs a list, a count or a bulk operation selects, as text.
//!
//! `status in (failed, parked) and region = "eu" and amount > 100 and created > -2h`
//!
//! Invariant: [`Condition::matches`] is the definition of what a condition selects; stores only find candidates faster.
//! The canonical text of a condition, its `Display`, parses to the same condition: relative times are resolved when the
//! text is parsed.

mod error;
mod field;
mod group;
mod lexer;
mod matching;
mod parser;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::attribute::AttributeValue;
use crate::id::TagKey;
use crate::status::Status;
use crate::time::Millis;

use crate::argument::write_text;
pub use crate::moment::{iso, parse_iso};
pub use error::{ConditionError, ConditionProblem};
pub use field::{RunField, RunFieldKind};
pub use group::{Group, GroupBy, GroupByError, Grouping, WORKFLOWS_MAX};

/// Longest text of a condition, in bytes.
pub const LENGTH_MAX: usize = 4_096;
/// Deepest nesting of parentheses and `not`.
pub const DEPTH_MAX: usize = 32;
/// Most comparisons in one condition.
pub const TERMS_MAX: usize = 64;
/// Most values in one `in (…)`.
pub const VALUES_MAX: usize = 256;

/// Which runs are selected.
///
/// ```
/// use goldseam_core::search::Condition;
/// use goldseam_core::Millis;
///
/// let now = Millis(1_700_000_000_000);
/// let condition = Condition::parse("status in (failed, parked) and created > -2h", now).unwrap();
/// assert_eq!(condition.to_string(), "status in (failed, parked) and created > 2023-11-14T20:13:20.000Z");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A comparison with one value.
    Compare {
        /// What is compared.
        subject: ConditionSubject,
        /// How.
        operator: Operator,
        /// With what.
        value: Literal,
    },
    /// The subject equals one of these values.
    In {
        /// What is compared.
        subject: ConditionSubject,
        /// At least one value.
        values: Vec<Literal>,
    },
    /// The run has a value for the subject.
    Has(ConditionSubject),
    /// The condition does not hold.
    Not(Box<Self>),
    /// All hold; at least two.
    And(Vec<Self>),
    /// At least one holds; at least two.
    Or(Vec<Self>),
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionSubject {
    /// A field that every run has, or may have.
    Field(RunField),
    /// A tag.
    Tag(TagKey),
    /// An attribute.
    Attribute(TagKey),
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`: holds exactly if `=` does not, also for a run without the value.
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `contains`: a part of the text.
    Contains,
    /// `starts_with`: the beginning of the text.
    StartsWith,
}

impl Operator {
    /// Returns the operator as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Contains => "contains",
            Self::StartsWith => "starts_with",
        }
    }

    /// Returns whether it compares by order, which only numbers and times have.
    pub fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::AtMost | Self::Greater | Self::AtLeast)
    }

    /// Returns whether it looks into a text.
    pub fn is_part(self) -> bool {
        matches!(self, Self::Contains | Self::StartsWith)
    }
}

/// A value in a condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A text.
    Text(String),
    /// A status.
    Status(Status),
    /// A whole number.
    Integer(i64),
    /// A number with a decimal point.
    Number(f64),
    /// A point in time.
    Time(Millis),
    /// True or false.
    Boolean(bool),
}

impl Condition {
    /// Parses a condition. Relative times, as in `-2h`, are relative to `now`.
    pub fn parse(text: &str, now: Millis) -> Result<Self, ConditionError> {
        parser::parse(text, now)
    }

    /// Returns the condition under which both hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let parts = |one: Self| match one {
            Self::And(parts) => parts,
            one => vec![one],
        };
        let mut all = parts(self);
        all.extend(parts(other));
        Self::And(all)
    }

    /// Returns the conditions that must all hold.
    pub fn conjuncts(&self) -> &[Self] {
        match self {
            Self::And(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns the attributes that it names, in order of appearance, each with the first literal it is compared with.
    pub fn attributes(&self) -> Vec<(&TagKey, Option<&Literal>)> {
        let mut found = Vec::new();
        self.collect_attributes(&mut found);
        found
    }

    /// Returns the names of the tags and attributes that it names.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.visit(&mut |subject, _| {
            if let Some(ConditionSubject::Tag(name) | ConditionSubject::Attribute(name)) = subject {
                names.push(name.as_str());
            }
        });
        names
    }

    /// Returns the texts that it compares with.
    pub fn texts(&self) -> Vec<&str> {
        let mut texts = Vec::new();
        self.visit(&mut |_, value| {
            if let Some(Literal::Text(text)) = value {
                texts.push(text.as_str());
            }
        });
        texts
    }

    /// Calls `visit` with each subject and each value.
    fn visit<'a>(&'a self, visit: &mut impl FnMut(Option<&'a ConditionSubject>, Option<&'a Literal>)) {
        match self {
            Self::Compare { subject, value, .. } => visit(Some(subject), Some(value)),
            Self::In { subject, values } => {
                visit(Some(subject), None);
                values.iter().for_each(|value| visit(None, Some(value)));
            }
            Self::Has(subject) => visit(Some(subject), None),
            Self::Not(inner) => inner.visit(visit),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.visit(visit)),
        }
    }

    fn collect_attributes<'a>(&'a self, found: &mut Vec<(&'a TagKey, Option<&'a Literal>)>) {
        let mut add = |subject: &'a ConditionSubject, value: Option<&'a Literal>| {
            if let ConditionSubject::Attribute(name) = subject {
                found.push((name, value));
            }
        };
        match self {
            Self::Compare { subject, value, .. } => add(subject, Some(value)),
            Self::In { subject, values } => add(subject, values.first()),
            Self::Has(subject) => add(subject, None),
            Self::Not(inner) => inner.collect_attributes(found),
            Self::And(parts) | Self::Or(parts) => {
                parts.iter().for_each(|part| part.collect_attributes(found));
            }
        }
    }
}

impl Literal {
    /// Returns the word for its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Status(_) => "a status",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::Time(_) => "a time",
            Self::Boolean(_) => "true or false",
        }
    }

    /// Returns whether an attribute with this value can be compared with it.
    pub fn compares_with(&self, value: &AttributeValue) -> bool {
        match self {
            Self::Text(_) => matches!(value, AttributeValue::Text(_) | AttributeValue::List(_)),
            Self::Integer(_) | Self::Number(_) => {
                matches!(value, AttributeValue::Integer(_) | AttributeValue::Number(_))
            }
            Self::Time(_) => matches!(value, AttributeValue::Time(_)),
            Self::Boolean(_) => matches!(value, AttributeValue::Boolean(_)),
            Self::Status(_) => false,
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write_text(f, text),
            Self::Status(status) => f.write_str(status.as_str()),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Time(at) => f.write_str(&iso(*at)),
            Self::Boolean(value) => write!(f, "{value}"),
        }
    }
}

impl fmt::Display for ConditionSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => f.write_str(field.as_str()),
            Self::Tag(key) => write!(f, "tag.{key}"),
            Self::Attribute(name) if lexer::is_bare_attribute(name.as_str()) => f.write_str(name.as_str()),
            Self::Attribute(name) => write!(f, "attr.{name}"),
        }
    }
}

impl fmt::Display for Condition {
    /// Writes the canonical text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, values: &[Literal]| {
            f.write_str("(")?;
            for (at, value) in values.iter().enumerate() {
                f.write_str(if at == 0 { "" } else { ", " })?;
                value.fmt(f)?;
            }
            f.write_str(")")
        };
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], word: &str| {
            for (at, part) in parts.iter().enumerate() {
                f.write_str(if at == 0 { "" } else { word })?;
                match part {
                    Self::And(_) | Self::Or(_) => write!(f, "({part})")?,
                    part => part.fmt(f)?,
                }
            }
            Ok(())
        };
        match self {
            Self::Compare { subject, operator, value } => {
                write!(f, "{subject} {} {value}", operator.as_str())
            }
            Self::In { subject, values } => {
                write!(f, "{subject} in ")?;
                list(f, values)
            }
            Self::Has(subject) => write!(f, "has {subject}"),
            Self::Not(inner) => match inner.as_ref() {
                Self::And(_) | Self::Or(_) => write!(f, "not ({inner})"),
                inner => write!(f, "not {inner}"),
            },
            Self::And(parts) => joined(f, parts, " and "),
            Self::Or(parts) => joined(f, parts, " or "),
        }
    }
}
