//! Searches in a database: which lists of its indexes a page intersects, and what SQL checks before a row is decoded.
//!
//! Invariant: SQL only narrows. It never leaves out a run that the filter selects; [`RunFilter::selects`] decides. Values
//! are always bound.

mod check;
mod intersect;
mod lists;
mod page;
#[cfg(test)]
mod tests;

use goldseam_core::search::{Condition, ConditionSubject, Literal, Operator, RunField};

use crate::types::RunFilter;

pub use intersect::{ListEntry, SearchSource, SearchedRow, TimeSpan, search};
pub use lists::{AttributeEntry, SearchIndex};
pub use page::place;

/// The names that differ between databases.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The table of tags as `c`.
    pub tags: &'static str,
    /// The table of attributes as `c`.
    pub attributes: &'static str,
    /// The name of an attribute, so that the entries are found by run and not by name.
    pub attribute_name: &'static str,
    /// The end of `EXISTS (…`, so that the query runs once per row and not once for all runs.
    pub exists_end: &'static str,
    /// The function that finds a part of a text.
    pub position: &'static str,
}

/// A part of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlPart {
    /// SQL.
    Sql(&'static str),
    /// A bound text.
    Text(String),
    /// A bound integer.
    Integer(i64),
    /// A bound number.
    Number(f64),
}

/// SQL with bound values.
pub type SqlParts = Vec<SqlPart>;

/// How to find the runs of a filter.
#[derive(Debug)]
pub struct Plan {
    /// Each group has every run of the filter in at least one of its lists.
    pub groups: Vec<Vec<SearchIndex>>,
    /// Lists that have no run of the filter.
    pub without: Vec<SearchIndex>,
    /// What SQL checks; none if it can check nothing.
    pub check: Option<SqlParts>,
    /// The times between which the runs were queued, so that a walk ends there.
    pub created: CreatedBounds,
}

/// Bounds of the time when a run was queued, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreatedBounds {
    /// The earliest time.
    pub low: Option<i64>,
    /// The latest time.
    pub high: Option<i64>,
}

impl CreatedBounds {
    fn of(parts: &[Condition]) -> Self {
        let mut bounds = Self::default();
        for part in parts {
            let Condition::Compare {
                subject: ConditionSubject::Field(RunField::Created),
                operator,
                value: Literal::Time(at),
            } = part
            else {
                continue;
            };
            if matches!(operator, Operator::Greater | Operator::AtLeast | Operator::Equal) {
                bounds.low = bounds.low.max(Some(at.0));
            }
            if matches!(operator, Operator::Less | Operator::AtMost | Operator::Equal) {
                bounds.high = Some(bounds.high.map_or(at.0, |high| high.min(at.0)));
            }
        }
        bounds
    }
}

/// Plans a search.
pub fn plan(filter: &RunFilter, dialect: Dialect) -> Plan {
    let parts = conjuncts(filter);
    let checks: Vec<SqlParts> =
        parts.iter().filter_map(|part| check::translate(part, false, dialect)).collect();
    Plan {
        groups: lists::groups(&parts),
        without: lists::without(&parts),
        check: (!checks.is_empty()).then(|| check::joined(checks, " AND ")),
        created: CreatedBounds::of(&parts),
    }
}

/// Returns all conditions of a filter, which must all hold.
fn conjuncts(filter: &RunFilter) -> Vec<Condition> {
    let equal = |field: RunField, text: &str| Condition::Compare {
        subject: ConditionSubject::Field(field),
        operator: Operator::Equal,
        value: Literal::Text(text.to_owned()),
    };
    let mut all = Vec::new();
    all.extend(filter.workflow.as_ref().map(|name| equal(RunField::Workflow, name.as_str())));
    all.extend(filter.cause.as_ref().map(|cause| equal(RunField::Cause, cause)));
    all.extend(filter.owner.as_ref().map(|owner| equal(RunField::Owner, owner.as_str())));
    all.extend(filter.parent.as_ref().map(|parent| equal(RunField::Parent, parent.as_str())));
    if !filter.statuses.is_empty() {
        let values = filter.statuses.iter().map(|status| Literal::Status(*status)).collect();
        all.push(Condition::In { subject: ConditionSubject::Field(RunField::Status), values });
    }
    all.extend(filter.tag.as_ref().map(|(key, value)| Condition::Compare {
        subject: ConditionSubject::Tag(key.clone()),
        operator: Operator::Equal,
        value: Literal::Text(value.clone()),
    }));
    all.extend(filter.since.map(|since| Condition::Compare {
        subject: ConditionSubject::Field(RunField::Created),
        operator: Operator::AtLeast,
        value: Literal::Time(since),
    }));
    if let Some(condition) = &filter.condition {
        flatten(condition, false, &mut all);
    }
    all
}

/// Adds the parts of a condition, or of its negation, that must all hold.
fn flatten(condition: &Condition, is_negated: bool, all: &mut Vec<Condition>) {
    match condition {
        Condition::Not(inner) => flatten(inner, !is_negated, all),
        Condition::And(parts) if !is_negated => parts.iter().for_each(|part| flatten(part, false, all)),
        Condition::Or(parts) if is_negated => parts.iter().for_each(|part| flatten(part, true, all)),
        other if is_negated => all.push(Condition::Not(Box::new(other.clone()))),
        other => all.push(other.clone()),
    }
}
