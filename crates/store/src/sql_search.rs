//! Searches in a database: which index a page walks, and what SQL checks before a row is decoded.
//!
//! Invariant: SQL only narrows. It never leaves out a run that the filter selects; [`RunFilter::selects`] decides. Values
//! are always bound.

use goldseam_core::search::{Condition, ConditionSubject, Literal, Operator, RunField};
use goldseam_core::{RunId, Status};

use crate::cursor::{Cursor, OrderKey};
use crate::types::{Page, RecordKind, Row, RunFilter, Unreadable};

/// Most rows that one page walks over.
pub const SCAN_MAX: usize = 20_000;
/// Most rows that one page decodes.
pub const DECODE_MAX: usize = 5_000;
/// A range of an attribute with at most this number of entries is read as a whole and sorted.
pub const RANGE_MAX: usize = 5_000;
/// Entries of an index that are counted to compare it with others.
pub const PROBE_MAX: usize = 2_000;

/// The names that differ between databases.
#[derive(Debug, Clone, Copy)]
pub struct Dialect {
    /// The table of tags.
    pub tags: &'static str,
    /// The table of attributes.
    pub attributes: &'static str,
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

/// An entry of the table of attributes, as the triggers of the databases write it.
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

/// The entries that a page walks over.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchIndex {
    /// All runs by the time of the order.
    All,
    /// One run.
    Id(String),
    /// Runs of a workflow.
    Workflow(String),
    /// Runs in one of these statuses, none of them `completed`.
    Status(Vec<Status>),
    /// Runs with a cause.
    Cause(String),
    /// Runs of an owner.
    Owner(String),
    /// Children of a run.
    Parent(String),
    /// Runs with a tag.
    Tag(String, String),
    /// Runs with this value of an attribute.
    Attribute(AttributeEntry),
    /// Runs with an attribute of this name; only if they are few.
    Named(String),
    /// Runs with a number or time of an attribute within bounds, both inclusive; only if they are few.
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

/// How to find the runs of a filter.
#[derive(Debug)]
pub struct Plan {
    /// Indexes that contain every run of the filter.
    pub drivers: Vec<SearchIndex>,
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
    let mut drivers: Vec<SearchIndex> = match filter.order.key() {
        OrderKey::Created => parts.iter().filter_map(driver).collect(),
        OrderKey::Recovered => Vec::new(),
    };
    if let Some(range) = ranges(&parts).filter(|_| filter.order.key() == OrderKey::Created) {
        drivers.push(range);
    }
    let checks: Vec<SqlParts> = parts.iter().filter_map(|part| translate(part, false, dialect)).collect();
    let created = CreatedBounds::of(&parts);
    Plan { drivers, check: (!checks.is_empty()).then(|| joined(checks, " AND ")), created }
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
    all.extend(filter.condition.iter().flat_map(|condition| condition.conjuncts().iter().cloned()));
    all
}

fn is_storable(text: &str) -> bool {
    !text.contains('\0')
}

impl SearchIndex {
    /// Returns whether its entries have no order, so that they must be read as a whole.
    pub fn is_unordered(&self) -> bool {
        matches!(self, Self::Range { .. } | Self::Named(_))
    }
}

fn driver(part: &Condition) -> Option<SearchIndex> {
    let (subject, values) = match part {
        Condition::Compare { subject, operator: Operator::Equal, value } => {
            (subject, std::slice::from_ref(value))
        }
        Condition::In { subject, values } => (subject, values.as_slice()),
        Condition::Has(ConditionSubject::Attribute(name)) => {
            return Some(SearchIndex::Named(name.to_string()));
        }
        _ => return None,
    };
    if *subject == ConditionSubject::Field(RunField::Status) {
        let mut statuses: Vec<Status> = Vec::new();
        for value in values {
            let Literal::Status(status) = value else { return None };
            if !statuses.contains(status) {
                statuses.push(*status);
            }
        }
        return (!statuses.contains(&Status::Completed)).then_some(SearchIndex::Status(statuses));
    }
    let [value] = values else { return None };
    match (subject, value) {
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

/// Returns the entry of an attribute that equals this value.
fn entry(name: &str, value: &Literal) -> Option<AttributeEntry> {
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
fn number(value: &Literal) -> Option<(&'static str, f64)> {
    match value {
        Literal::Integer(number) => Some(("n", *number as f64)),
        Literal::Number(number) => Some(("n", *number)),
        Literal::Time(at) => Some(("d", at.0 as f64)),
        Literal::Text(_) | Literal::Status(_) | Literal::Boolean(_) => None,
    }
}

/// Returns the bounds of the first attribute that is compared by order.
fn ranges(parts: &[Condition]) -> Option<SearchIndex> {
    let mut found: Option<SearchIndex> = None;
    for part in parts {
        let Condition::Compare { subject: ConditionSubject::Attribute(of), operator, value } = part else {
            continue;
        };
        let Some((of_kind, at)) = number(value).filter(|_| operator.is_order()) else { continue };
        let is_low = matches!(operator, Operator::Greater | Operator::AtLeast);
        match &mut found {
            None => {
                let (low, high) = if is_low { (at, f64::MAX) } else { (f64::MIN, at) };
                found = Some(SearchIndex::Range { name: of.to_string(), kind: of_kind, low, high });
            }
            Some(SearchIndex::Range { name, kind, low, high }) if name == of.as_str() && *kind == of_kind => {
                if is_low {
                    *low = low.max(at);
                } else {
                    *high = high.min(at);
                }
            }
            Some(_) => {}
        }
    }
    found
}

fn joined(parts: Vec<SqlParts>, word: &'static str) -> SqlParts {
    let mut all = vec![SqlPart::Sql("(")];
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            all.push(SqlPart::Sql(word));
        }
        all.extend(part);
    }
    all.push(SqlPart::Sql(")"));
    all
}

/// Translates a condition, or its negation, to SQL that holds for every run that it selects, and perhaps for others.
fn translate(condition: &Condition, is_negated: bool, dialect: Dialect) -> Option<SqlParts> {
    match condition {
        Condition::Not(inner) => translate(inner, !is_negated, dialect),
        Condition::And(parts) | Condition::Or(parts) => {
            let all = parts.iter().map(|part| translate(part, is_negated, dialect));
            if matches!(condition, Condition::And(_)) != is_negated {
                let some: Vec<SqlParts> = all.flatten().collect();
                (!some.is_empty()).then(|| joined(some, " AND "))
            } else {
                all.collect::<Option<Vec<SqlParts>>>().map(|all| joined(all, " OR "))
            }
        }
        Condition::Compare { subject, operator: Operator::NotEqual, value } => {
            let equal = Condition::Compare {
                subject: subject.clone(),
                operator: Operator::Equal,
                value: value.clone(),
            };
            translate(&equal, !is_negated, dialect)
        }
        Condition::In { subject, values } => {
            let equal = |value: &Literal| Condition::Compare {
                subject: subject.clone(),
                operator: Operator::Equal,
                value: value.clone(),
            };
            let any = values.iter().map(|value| translate(&equal(value), is_negated, dialect));
            if is_negated {
                let some: Vec<SqlParts> = any.flatten().collect();
                (!some.is_empty()).then(|| joined(some, " AND "))
            } else {
                any.collect::<Option<Vec<SqlParts>>>().map(|all| joined(all, " OR "))
            }
        }
        Condition::Compare { subject, operator, value } => {
            let (sql, is_exact) = compare(subject, *operator, value, dialect)?;
            negate(sql, is_exact, is_negated)
        }
        Condition::Has(subject) => {
            let (sql, is_exact) = has(subject, dialect)?;
            negate(sql, is_exact, is_negated)
        }
    }
}

/// The negation of SQL that holds for too many runs would leave runs out.
fn negate(sql: SqlParts, is_exact: bool, is_negated: bool) -> Option<SqlParts> {
    match (is_negated, is_exact) {
        (false, _) => Some(sql),
        (true, false) => None,
        (true, true) => {
            let mut all = vec![SqlPart::Sql("(")];
            all.extend(sql);
            all.push(SqlPart::Sql(" IS NOT TRUE)"));
            Some(all)
        }
    }
}

fn column(field: RunField) -> Option<&'static str> {
    match field {
        RunField::Id => Some("r.id"),
        RunField::Workflow => Some("r.workflow"),
        RunField::Owner => Some("r.owner"),
        RunField::Parent => Some("r.parent"),
        RunField::Cause => Some("r.cause"),
        RunField::Created => Some("r.created_at"),
        RunField::Recovered => Some("r.recovered_at"),
        RunField::Status => Some("r.status"),
        _ => None,
    }
}

/// The statuses of ended runs.
const ENDED: &str = "(r.status IN ('completed', 'failed', 'cancelled'))";

/// Translates a comparison; also returns whether it holds for exactly the runs that it selects.
fn compare(
    subject: &ConditionSubject,
    operator: Operator,
    value: &Literal,
    dialect: Dialect,
) -> Option<(SqlParts, bool)> {
    if let Literal::Text(text) = value
        && !is_storable(text)
    {
        return None;
    }
    match subject {
        ConditionSubject::Field(field) => match (column(*field), field, value) {
            (Some(column), _, value) => Some((column_holds(column, operator, value, dialect)?, true)),
            (None, RunField::Root, Literal::Boolean(true)) => sql("(r.parent IS NULL)", true),
            (None, RunField::Root, Literal::Boolean(false)) => sql("(r.parent IS NOT NULL)", true),
            (None, RunField::Ended, _) => sql(ENDED, false),
            (None, RunField::Error | RunField::Code, _) => sql("(r.cause IS NOT NULL)", false),
            (None, RunField::Terminated, Literal::Boolean(true)) => sql("(r.status = 'cancelled')", false),
            _ => None,
        },
        ConditionSubject::Tag(key) => match (operator, value) {
            (Operator::Equal, Literal::Text(text)) => {
                let parts = vec![
                    SqlPart::Sql("EXISTS (SELECT 1 FROM "),
                    SqlPart::Sql(dialect.tags),
                    SqlPart::Sql(" AS c WHERE c.rid = r.rid AND c.created_at = r.created_at AND c.tag = "),
                    SqlPart::Text(key.to_string()),
                    SqlPart::Sql(" AND c.value = "),
                    SqlPart::Text(text.clone()),
                    SqlPart::Sql(")"),
                ];
                Some((parts, true))
            }
            _ => None,
        },
        ConditionSubject::Attribute(name) => attribute_holds(name.as_str(), operator, value, dialect),
    }
}

fn sql(text: &'static str, is_exact: bool) -> Option<(SqlParts, bool)> {
    Some((vec![SqlPart::Sql(text)], is_exact))
}

fn column_holds(
    column: &'static str,
    operator: Operator,
    value: &Literal,
    dialect: Dialect,
) -> Option<SqlParts> {
    let bound = match value {
        Literal::Text(text) => SqlPart::Text(text.clone()),
        Literal::Status(status) => SqlPart::Text(status.as_str().to_owned()),
        Literal::Time(at) => SqlPart::Integer(at.0),
        Literal::Integer(_) | Literal::Number(_) | Literal::Boolean(_) => return None,
    };
    let sign = match operator {
        Operator::Equal => " = ",
        Operator::Less => " < ",
        Operator::AtMost => " <= ",
        Operator::Greater => " > ",
        Operator::AtLeast => " >= ",
        Operator::NotEqual => return None,
        Operator::Contains => {
            let open =
                [SqlPart::Sql("("), SqlPart::Sql(dialect.position), SqlPart::Sql("("), SqlPart::Sql(column)];
            return Some(
                open.into_iter().chain([SqlPart::Sql(", "), bound, SqlPart::Sql(") > 0)")]).collect(),
            );
        }
        Operator::StartsWith => {
            return Some(vec![
                SqlPart::Sql("(substr("),
                SqlPart::Sql(column),
                SqlPart::Sql(", 1, length("),
                bound.clone(),
                SqlPart::Sql(")) = "),
                bound,
                SqlPart::Sql(")"),
            ]);
        }
    };
    Some(vec![SqlPart::Sql("("), SqlPart::Sql(column), SqlPart::Sql(sign), bound, SqlPart::Sql(")")])
}

fn attribute_holds(
    name: &str,
    operator: Operator,
    value: &Literal,
    dialect: Dialect,
) -> Option<(SqlParts, bool)> {
    let mut parts = vec![
        SqlPart::Sql("EXISTS (SELECT 1 FROM "),
        SqlPart::Sql(dialect.attributes),
        SqlPart::Sql(" AS c WHERE c.rid = r.rid AND c.name = "),
        SqlPart::Text(name.to_owned()),
    ];
    let is_exact = match operator {
        Operator::Equal => {
            let AttributeEntry { kind, text, number, .. } = entry(name, value)?;
            parts.extend([SqlPart::Sql(" AND c.kind = "), SqlPart::Text(kind.to_owned())]);
            parts.extend([SqlPart::Sql(" AND c.text = "), SqlPart::Text(text)]);
            parts.extend([SqlPart::Sql(" AND c.number = "), SqlPart::Number(number)]);
            kind != "n"
        }
        Operator::Less | Operator::AtMost | Operator::Greater | Operator::AtLeast => {
            let (kind, number) = number(value)?;
            let is_low = matches!(operator, Operator::Greater | Operator::AtLeast);
            parts.extend([SqlPart::Sql(" AND c.kind = "), SqlPart::Text(kind.to_owned())]);
            let sign = if is_low { " AND c.number >= " } else { " AND c.number <= " };
            parts.extend([SqlPart::Sql(sign), SqlPart::Number(number)]);
            false
        }
        Operator::Contains | Operator::StartsWith => {
            parts.push(SqlPart::Sql(" AND c.kind = 't'"));
            false
        }
        Operator::NotEqual => return None,
    };
    parts.push(SqlPart::Sql(")"));
    Some((parts, is_exact))
}

fn has(subject: &ConditionSubject, dialect: Dialect) -> Option<(SqlParts, bool)> {
    match subject {
        ConditionSubject::Field(RunField::Owner) => sql("(r.owner IS NOT NULL)", true),
        ConditionSubject::Field(RunField::Parent) => sql("(r.parent IS NOT NULL)", true),
        ConditionSubject::Field(RunField::Cause | RunField::Error) => sql("(r.cause IS NOT NULL)", true),
        ConditionSubject::Field(RunField::Code) => sql("(r.cause IS NOT NULL)", false),
        ConditionSubject::Field(RunField::Recovered) => sql("(r.recovered_at IS NOT NULL)", true),
        ConditionSubject::Field(RunField::Ended) => sql(ENDED, true),
        ConditionSubject::Field(_) | ConditionSubject::Tag(_) => None,
        ConditionSubject::Attribute(name) => {
            let parts = vec![
                SqlPart::Sql("EXISTS (SELECT 1 FROM "),
                SqlPart::Sql(dialect.attributes),
                SqlPart::Sql(" AS c WHERE c.rid = r.rid AND c.name = "),
                SqlPart::Text(name.to_string()),
                SqlPart::Sql(")"),
            ];
            Some((parts, true))
        }
    }
}

/// Where a walk stopped, and what it found.
#[derive(Debug)]
pub struct Walk {
    /// The rows that match and the unreadable ones, in the order of the list.
    pub found: Vec<(Cursor, Result<Row, String>)>,
    /// The last row that it looked at, if there may be more.
    pub stopped: Option<Cursor>,
}

/// Returns the page from walks over several indexes.
pub fn merged(filter: &RunFilter, walks: Vec<Walk>) -> Page<Row> {
    let is_latest_first = filter.order.is_latest_first();
    let is_after =
        |place: &Cursor, other: &Cursor| if is_latest_first { place < other } else { place > other };
    let mut frontier: Option<Cursor> = None;
    let mut found = Vec::new();
    for walk in walks {
        found.extend(walk.found);
        if let Some(stopped) = walk.stopped
            && frontier.as_ref().is_none_or(|frontier| is_after(frontier, &stopped))
        {
            frontier = Some(stopped);
        }
    }
    if let Some(frontier) = &frontier {
        found.retain(|(place, _)| !is_after(place, frontier));
    }
    found.sort_by(|(left, _), (right, _)| if is_latest_first { right.cmp(left) } else { left.cmp(right) });
    found.dedup_by(|(left, _), (right, _)| left.run == right.run);
    let limit = filter.limit as usize;
    let next = if found.len() > limit {
        found.truncate(limit);
        found.last().map(|(place, _)| place.clone())
    } else {
        frontier
    };
    let mut page = Page { next: next.map(|place| place.to_string()), ..Page::default() };
    for (place, row) in found {
        match row {
            Ok(row) => page.items.push(row),
            Err(reason) => page.unreadable.push(Unreadable::new(RecordKind::Row, place.run.as_str(), reason)),
        }
    }
    page
}

/// Returns the place of a row in the list.
pub fn place(filter: &RunFilter, at: Option<i64>, id: &str) -> Option<Cursor> {
    Some(Cursor { by: filter.order.key(), at: goldseam_core::Millis(at?), run: RunId::new(id).ok()? })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use goldseam_core::Millis;

    use super::*;

    const DIALECT: Dialect = Dialect { tags: "tags", attributes: "attributes", position: "instr" };

    fn filter(text: &str) -> RunFilter {
        let condition = Some(Arc::new(Condition::parse(text, Millis(0)).unwrap()));
        RunFilter { condition, limit: 2, ..RunFilter::default() }
    }

    /// Returns the SQL of the check, with `?` for values; empty without a check.
    fn check(text: &str) -> String {
        let parts = plan(&filter(text), DIALECT).check.unwrap_or_default();
        parts.iter().map(|part| if let SqlPart::Sql(sql) = part { sql } else { "?" }).collect()
    }

    #[test]
    fn sql_narrows_and_never_negates_what_it_only_approximates() {
        assert_eq!(check("cause = x"), "((r.cause = ?))");
        assert_eq!(check("not cause = x"), "(((r.cause = ?) IS NOT TRUE))");
        assert_eq!(check("ended > now"), "((r.status IN ('completed', 'failed', 'cancelled')))");
        for unknown in
            ["not ended > now", "version = 2", "not n = 5", "cause = x or version = 2", "id = \"\\u{0}\""]
        {
            assert_eq!(check(unknown), "", "{unknown}");
        }
        assert_eq!(check("not (cause = x or version = 2)"), "((((r.cause = ?) IS NOT TRUE)))");
        assert_eq!(check("version = 2 and root"), "((r.parent IS NULL))");
    }

    #[test]
    fn only_what_must_hold_drives_a_walk() {
        let drivers = |text: &str| plan(&filter(text), DIALECT).drivers;
        assert_eq!(drivers("cause = x or cause = y"), []);
        assert_eq!(drivers("not cause = x"), []);
        assert_eq!(drivers("status in (completed, failed)"), []);
        assert_eq!(drivers("status in (failed, failed)"), [SearchIndex::Status(vec![Status::Failed])]);
        assert_eq!(drivers("workflow = w and cause = x").len(), 2);
        let name = "n".to_owned();
        let kind = "n";
        assert_eq!(drivers("n > 5 and n <= 9"), [SearchIndex::Range { name, kind, low: 5.0, high: 9.0 }]);
        let bounds = plan(&filter("created > 1970-01-02 and created <= 1970-01-03"), DIALECT).created;
        assert_eq!(bounds, CreatedBounds { low: Some(86_400_000), high: Some(172_800_000) });
    }

    #[test]
    fn pages_end_where_the_first_walk_stopped() {
        let filter = filter("status in (failed, parked)");
        let place = |at: i64| place(&filter, Some(at), &format!("r{at}")).unwrap();
        let found = |at: &[i64]| at.iter().map(|at| (place(*at), Err("x".to_owned()))).collect();
        let names =
            |page: &Page<Row>| page.unreadable.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
        let walks = vec![
            Walk { found: found(&[9, 3]), stopped: None },
            Walk { found: vec![], stopped: Some(place(5)) },
        ];
        let page = merged(&filter, walks);
        assert_eq!((names(&page), page.next), (vec!["r9".to_owned()], Some("5:r5".to_owned())));
        let page = merged(&filter, vec![Walk { found: found(&[9, 7, 3]), stopped: Some(place(3)) }]);
        assert_eq!((names(&page).len(), page.next), (2, Some("7:r7".to_owned())));
        let page = merged(&filter, vec![Walk { found: found(&[9]), stopped: None }]);
        assert_eq!((names(&page).len(), page.next), (1, None));
    }
}
