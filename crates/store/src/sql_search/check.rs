//! What SQL checks before a row is decoded.

use goldseam_core::search::{Condition, ConditionSubject, Literal, Operator, RunField};

use super::lists::{AttributeEntry, entry, is_storable, number};
use super::{Dialect, SqlPart, SqlParts};

pub(super) fn joined(parts: Vec<SqlParts>, word: &'static str) -> SqlParts {
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
pub(super) fn translate(condition: &Condition, is_negated: bool, dialect: Dialect) -> Option<SqlParts> {
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
                    SqlPart::Sql(" WHERE c.rid = r.rid AND c.created_at = r.created_at AND c.tag = "),
                    SqlPart::Text(key.to_string()),
                    SqlPart::Sql(" AND c.value = "),
                    SqlPart::Text(text.clone()),
                    SqlPart::Sql(dialect.exists_end),
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
        SqlPart::Sql(" WHERE c.rid = r.rid AND "),
        SqlPart::Sql(dialect.attribute_name),
        SqlPart::Sql(" = "),
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
    parts.push(SqlPart::Sql(dialect.exists_end));
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
                SqlPart::Sql(" WHERE c.rid = r.rid AND "),
                SqlPart::Sql(dialect.attribute_name),
                SqlPart::Sql(" = "),
                SqlPart::Text(name.to_string()),
                SqlPart::Sql(dialect.exists_end),
            ];
            Some((parts, true))
        }
    }
}
