//! The lists of a search: entries of an index that contain, or do not contain, the runs of a condition.

use goldseam_core::Status;
use goldseam_core::search::{Condition, ConditionSubject, Literal, Operator, RunField};

/// Most lists of one group; a condition with more values is only checked.
const GROUP_MAX: usize = 64;

/// An entry of the table of attributes, as the databases write it.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeEntry {
    /// Name of the attribute.
    pub name: String,
    /// `t` text, also each of a list; `n` number; `d` time; `b` boolean.
    pub kind: &'static str,
    /// The text, or empty.
    pub text: String,
    /// The number, the time in milliseconds, or 0.
    pub number: f64,
}

/// A list of runs that an index has.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchIndex {
    /// All runs.
    All,
    /// All runs that were recovered, by the time of the last recovery.
    Recovered,
    /// Runs of a workflow.
    Workflow(String),
    /// Runs in a status, which is not `completed`.
    Status(Status),
    /// Runs with a cause.
    Cause(String),
    /// Runs with a tag.
    Tag(String, String),
    /// Runs with this value of an attribute.
    Attribute(AttributeEntry),
    /// One run.
    Id(String),
    /// Runs of an owner.
    Owner(String),
    /// Children of a run.
    Parent(String),
    /// Runs with an attribute of this name.
    Named(String),
    /// Runs with a text of an attribute within bounds.
    Texts {
        /// Name of the attribute.
        name: String,
        /// Lowest text.
        low: String,
        /// The first text after the last one; none if there is no such text.
        end: Option<String>,
    },
    /// Runs with a number or time of an attribute within bounds, both inclusive.
    Range {
        /// Name of the attribute.
        name: String,
        /// `n` or `d`.
        kind: &'static str,
        /// Lowest value.
        low: f64,
        /// Highest value.
        high: f64,
    },
}

impl SearchIndex {
    /// Returns whether its entries are in no order of time, so that they must be read as a whole.
    pub fn is_unordered(&self) -> bool {
        match self {
            Self::All
            | Self::Recovered
            | Self::Workflow(_)
            | Self::Status(_)
            | Self::Cause(_)
            | Self::Tag(..)
            | Self::Attribute(_) => false,
            Self::Id(_)
            | Self::Owner(_)
            | Self::Parent(_)
            | Self::Named(_)
            | Self::Texts { .. }
            | Self::Range { .. } => true,
        }
    }

    /// Returns whether it has exactly the runs for which its comparison holds.
    fn is_exact(&self) -> bool {
        match self {
            Self::Attribute(entry) => entry.kind != "n",
            other => !other.is_unordered(),
        }
    }
}

/// Returns the groups of lists of conditions that must all hold.
pub(super) fn groups(parts: &[Condition]) -> Vec<Vec<SearchIndex>> {
    let mut groups: Vec<Vec<SearchIndex>> = parts.iter().filter_map(|part| group(part, false)).collect();
    groups.extend(ranges(parts).into_iter().map(|range| vec![range]));
    groups
}

/// Returns the lists of which none has a run that these conditions select.
pub(super) fn without(parts: &[Condition]) -> Vec<SearchIndex> {
    let mut lists = Vec::new();
    for part in parts {
        let all = match part {
            Condition::Not(inner) => equal(inner),
            Condition::Compare { subject, operator: Operator::NotEqual, value } => {
                one(subject, value).map(|list| vec![list])
            }
            _ => None,
        };
        lists.extend(all.into_iter().flatten().filter(SearchIndex::is_exact));
    }
    lists
}

/// Returns lists of which at least one has each run that the condition, or its negation, selects.
fn group(condition: &Condition, is_negated: bool) -> Option<Vec<SearchIndex>> {
    let lists = match condition {
        Condition::Not(inner) => group(inner, !is_negated)?,
        Condition::And(parts) | Condition::Or(parts) => {
            let mut all = parts.iter().map(|part| group(part, is_negated));
            if matches!(condition, Condition::And(_)) == is_negated {
                all.collect::<Option<Vec<_>>>()?.concat()
            } else {
                all.find_map(|lists| lists)?
            }
        }
        Condition::Has(ConditionSubject::Attribute(name)) if !is_negated => {
            vec![SearchIndex::Named(name.to_string())]
        }
        Condition::Compare { subject, operator: Operator::NotEqual, value } => {
            let equal = Condition::Compare {
                subject: subject.clone(),
                operator: Operator::Equal,
                value: value.clone(),
            };
            group(&equal, !is_negated)?
        }
        Condition::Compare {
            subject: ConditionSubject::Attribute(name),
            operator: Operator::StartsWith,
            value: Literal::Text(low),
        } if !is_negated && is_storable(low) => {
            vec![SearchIndex::Texts { name: name.to_string(), low: low.clone(), end: after_prefix(low) }]
        }
        other if is_negated => other_statuses(other)?,
        other => equal(other)?,
    };
    (lists.len() <= GROUP_MAX).then_some(lists)
}

/// Returns the lists of an equality.
fn equal(condition: &Condition) -> Option<Vec<SearchIndex>> {
    let lists = match condition {
        Condition::Compare { subject, operator: Operator::Equal, value } => vec![one(subject, value)?],
        Condition::In { subject, values } => {
            values.iter().map(|value| one(subject, value)).collect::<Option<Vec<_>>>()?
        }
        _ => return None,
    };
    let mut apart: Vec<SearchIndex> = Vec::new();
    for list in lists {
        if !apart.contains(&list) {
            apart.push(list);
        }
    }
    Some(apart)
}

/// Returns the statuses that a run may have if this comparison does not hold; none if it may have completed.
fn other_statuses(condition: &Condition) -> Option<Vec<SearchIndex>> {
    let status = ConditionSubject::Field(RunField::Status);
    let values = match condition {
        Condition::Compare { subject, operator: Operator::Equal, value } if *subject == status => {
            std::slice::from_ref(value)
        }
        Condition::In { subject, values } if *subject == status => values.as_slice(),
        _ => return None,
    };
    let is_other = |status: &Status| !values.contains(&Literal::Status(*status));
    let others: Vec<Status> = Status::ALL.into_iter().filter(is_other).collect();
    let has_completed = others.contains(&Status::Completed);
    (!has_completed).then(|| others.into_iter().map(SearchIndex::Status).collect())
}

fn one(subject: &ConditionSubject, value: &Literal) -> Option<SearchIndex> {
    match (subject, value) {
        (ConditionSubject::Field(RunField::Status), Literal::Status(status)) => {
            (*status != Status::Completed).then_some(SearchIndex::Status(*status))
        }
        (ConditionSubject::Attribute(name), value) => {
            entry(name.as_str(), value).filter(|entry| is_storable(&entry.text)).map(SearchIndex::Attribute)
        }
        (ConditionSubject::Tag(key), Literal::Text(text)) if is_storable(text) => {
            Some(SearchIndex::Tag(key.to_string(), text.clone()))
        }
        (ConditionSubject::Field(field), Literal::Text(text)) if is_storable(text) => match field {
            RunField::Id => Some(SearchIndex::Id(text.clone())),
            RunField::Workflow => Some(SearchIndex::Workflow(text.clone())),
            RunField::Cause => Some(SearchIndex::Cause(text.clone())),
            RunField::Owner => Some(SearchIndex::Owner(text.clone())),
            RunField::Parent => Some(SearchIndex::Parent(text.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the first text that is greater than all texts with this prefix, in the order of their bytes.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        let mut codes = u32::from(last) + 1..=u32::from(char::MAX);
        if let Some(next) = codes.find_map(char::from_u32) {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}

pub(super) fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

/// Returns the entry of an attribute that equals this value.
pub(super) fn entry(name: &str, value: &Literal) -> Option<AttributeEntry> {
    let make = |kind, text: &str, number| {
        Some(AttributeEntry { name: name.to_owned(), kind, text: text.to_owned(), number })
    };
    match value {
        Literal::Text(text) => make("t", text, 0.0),
        Literal::Integer(_) | Literal::Number(_) | Literal::Time(_) => {
            let (kind, number) = number(value)?;
            make(kind, "", number)
        }
        Literal::Boolean(value) => make("b", "", f64::from(u8::from(*value))),
        Literal::Status(_) => None,
    }
}

/// Returns a number as the table has it. Rounding keeps the order, so bounds are inclusive.
#[expect(clippy::cast_precision_loss, reason = "rounding keeps the order")]
pub(super) fn number(value: &Literal) -> Option<(&'static str, f64)> {
    match value {
        Literal::Integer(number) => Some(("n", *number as f64)),
        Literal::Number(number) => Some(("n", *number)),
        Literal::Time(at) => Some(("d", at.0 as f64)),
        Literal::Text(_) | Literal::Status(_) | Literal::Boolean(_) => None,
    }
}

/// Returns the bounds of attributes that are compared by order.
fn ranges(parts: &[Condition]) -> Vec<SearchIndex> {
    let mut found: Vec<SearchIndex> = Vec::new();
    for part in parts {
        let Condition::Compare { subject: ConditionSubject::Attribute(of), operator, value } = part else {
            continue;
        };
        let Some((of_kind, at)) = number(value).filter(|_| operator.is_order()) else { continue };
        let is_low = matches!(operator, Operator::Greater | Operator::AtLeast);
        let known = found.iter_mut().find_map(|range| match range {
            SearchIndex::Range { name, kind, low, high } if name == of.as_str() && *kind == of_kind => {
                Some((low, high))
            }
            _ => None,
        });
        match known {
            Some((low, _)) if is_low => *low = low.max(at),
            Some((_, high)) => *high = high.min(at),
            None => {
                let low = if is_low { at } else { f64::MIN };
                let high = if is_low { f64::MAX } else { at };
                found.push(SearchIndex::Range { name: of.to_string(), kind: of_kind, low, high });
            }
        }
    }
    found
}
