//! What a condition selects, by definition.

use std::cmp::Ordering;

use super::field::RunField;
use super::{Condition, ConditionSubject, Literal, Operator};
use crate::attribute::AttributeValue;
use crate::status::Status;
use crate::summary::Summary;
use crate::time::Millis;

/// A value of a run.
enum Value<'a> {
    Text(&'a str),
    Status(Status),
    Integer(i64),
    Number(f64),
    Time(Millis),
    Boolean(bool),
    List(&'a [String]),
}

impl Condition {
    /// Returns whether the condition selects this run.
    ///
    /// A comparison with a value that the run does not have, or that has another type, does not hold; its negation
    /// does. For a list, a comparison holds if it holds for one of its texts.
    pub fn matches(&self, run: &Summary) -> bool {
        match self {
            Self::Compare { subject, operator: Operator::NotEqual, value } => {
                !holds(run, subject, Operator::Equal, value)
            }
            Self::Compare { subject, operator, value } => holds(run, subject, *operator, value),
            Self::In { subject, values } => {
                values.iter().any(|value| holds(run, subject, Operator::Equal, value))
            }
            Self::Has(subject) => value_of(run, subject).is_some(),
            Self::Not(inner) => !inner.matches(run),
            Self::And(parts) => parts.iter().all(|part| part.matches(run)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(run)),
        }
    }
}

fn holds(run: &Summary, subject: &ConditionSubject, operator: Operator, literal: &Literal) -> bool {
    match (value_of(run, subject), literal) {
        (Some(Value::Text(text)), Literal::Text(wanted)) => text_holds(text, operator, wanted),
        (Some(Value::List(texts)), Literal::Text(wanted)) => {
            texts.iter().any(|text| text_holds(text, operator, wanted))
        }
        (Some(Value::Status(status)), Literal::Status(wanted)) => {
            operator == Operator::Equal && status == *wanted
        }
        (Some(Value::Boolean(value)), Literal::Boolean(wanted)) => {
            operator == Operator::Equal && value == *wanted
        }
        (Some(Value::Time(at)), Literal::Time(wanted)) => order_holds(Some(at.cmp(wanted)), operator),
        (Some(Value::Integer(number)), Literal::Integer(wanted)) => {
            order_holds(Some(number.cmp(wanted)), operator)
        }
        (Some(Value::Integer(number)), Literal::Number(wanted)) => {
            order_holds(compare(number, *wanted), operator)
        }
        (Some(Value::Number(number)), Literal::Integer(wanted)) => {
            order_holds(compare(*wanted, number).map(Ordering::reverse), operator)
        }
        (Some(Value::Number(number)), Literal::Number(wanted)) => {
            order_holds(number.partial_cmp(wanted), operator)
        }
        _ => false,
    }
}

fn text_holds(text: &str, operator: Operator, wanted: &str) -> bool {
    match operator {
        Operator::Equal => text == wanted,
        Operator::Contains => text.contains(wanted),
        Operator::StartsWith => text.starts_with(wanted),
        _ => false,
    }
}

fn order_holds(order: Option<Ordering>, operator: Operator) -> bool {
    let Some(order) = order else { return false };
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::Less => order.is_lt(),
        Operator::AtMost => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::AtLeast => order.is_ge(),
        Operator::NotEqual | Operator::Contains | Operator::StartsWith => false,
    }
}

/// Compares exactly: an integer that a float cannot represent is not rounded.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked before")]
#[expect(clippy::cast_precision_loss, reason = "both bounds are powers of two")]
fn compare(integer: i64, number: f64) -> Option<Ordering> {
    if number.is_nan() {
        return None;
    }
    if number >= -(i64::MIN as f64) {
        return Some(Ordering::Less);
    }
    if number < i64::MIN as f64 {
        return Some(Ordering::Greater);
    }
    let whole = number.floor();
    Some(match integer.cmp(&(whole as i64)) {
        Ordering::Equal if number > whole => Ordering::Less,
        order => order,
    })
}

fn value_of<'a>(run: &'a Summary, subject: &ConditionSubject) -> Option<Value<'a>> {
    match subject {
        ConditionSubject::Field(field) => field_of(run, *field),
        ConditionSubject::Tag(key) => run.tags.get(key).map(|value| Value::Text(value)),
        ConditionSubject::Attribute(name) => run.attributes.get(name).map(|value| match value {
            AttributeValue::Text(text) => Value::Text(text),
            AttributeValue::Integer(number) => Value::Integer(*number),
            AttributeValue::Number(number) => Value::Number(*number),
            AttributeValue::Time(at) => Value::Time(*at),
            AttributeValue::Boolean(value) => Value::Boolean(*value),
            AttributeValue::List(texts) => Value::List(texts),
        }),
    }
}

fn field_of(run: &Summary, field: RunField) -> Option<Value<'_>> {
    let trouble = run.trouble.as_ref();
    match field {
        RunField::Id => Some(Value::Text(run.run.as_str())),
        RunField::Workflow => Some(Value::Text(run.workflow.as_str())),
        RunField::Version => Some(Value::Integer(run.version.into())),
        RunField::Status => Some(Value::Status(run.status)),
        RunField::Queue => Some(Value::Text(run.queue.as_str())),
        RunField::Priority => Some(Value::Integer(run.priority.into())),
        RunField::Parent => run.parent.as_ref().map(|id| Value::Text(id.as_str())),
        RunField::Root => Some(Value::Boolean(run.parent.is_none())),
        RunField::Branch => Some(Value::Integer(run.branch.0.into())),
        RunField::Owner => run.owner.as_ref().map(|id| Value::Text(id.as_str())),
        RunField::Cause => trouble.map(|trouble| Value::Text(&trouble.cause)),
        RunField::Error => trouble.map(|trouble| Value::Text(&trouble.message)),
        RunField::Code => trouble.and_then(|trouble| trouble.code.as_deref()).map(Value::Text),
        RunField::Step => run.step.as_ref().map(|path| Value::Text(path.as_str())),
        RunField::Created => Some(Value::Time(run.created_at)),
        RunField::Updated => Some(Value::Time(run.last_event_at)),
        RunField::Ended => run.finished_at.map(Value::Time),
        RunField::Recovered => run.recovered_at.map(Value::Time),
        RunField::Recoveries => Some(Value::Integer(run.recoveries.into())),
        RunField::Attempt => Some(Value::Integer(run.attempt.into())),
        RunField::Terminated => Some(Value::Boolean(run.terminated)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_compare_without_rounding() {
        let big = (1_i64 << 53) + 1;
        for (integer, number, order) in [
            (big, 9_007_199_254_740_992.0, Ordering::Greater),
            (i64::MAX, 9_223_372_036_854_775_807.0, Ordering::Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal),
            (i64::MIN, -1e300, Ordering::Greater),
            (2, 2.5, Ordering::Less),
            (-2, -2.5, Ordering::Greater),
            (3, 3.0, Ordering::Equal),
            (0, f64::INFINITY, Ordering::Less),
        ] {
            assert_eq!(compare(integer, number), Some(order), "{integer} {number}");
        }
        assert_eq!(compare(1, f64::NAN), None);
    }
}
