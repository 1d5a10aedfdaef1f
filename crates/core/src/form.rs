//! Forms: what an answer to a question must look like.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::payload::Payload;
use crate::shape::Shape;

/// The form that an answer must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Any text.
    Text,
    /// One of these texts.
    Choice(Vec<String>),
    /// JSON that this JSON Schema accepts.
    Schema(Value),
    /// Any JSON.
    Any,
}

/// The reason why an answer was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Form {
    /// Checks that `answer` has this form.
    pub fn check(&self, answer: &Payload) -> Result<(), Invalid> {
        let value: Value =
            answer.read().map_err(|e| Invalid(format!("the answer is not valid JSON: {e}")))?;
        match self {
            Self::Any => Ok(()),
            Self::Text if value.is_string() => Ok(()),
            Self::Text => Err(Invalid(format!("the answer must be a string, not {value}"))),
            Self::Choice(choices) => match value.as_str() {
                Some(text) if choices.iter().any(|choice| choice == text) => Ok(()),
                _ => Err(Invalid(format!("the answer must be one of: {}", choices.join(", ")))),
            },
            Self::Schema(schema) => check_signal(schema, answer),
        }
    }

    /// Checks that the form is valid; called when the question is asked.
    pub fn check_itself(&self) -> Result<(), Invalid> {
        match self {
            Self::Text | Self::Any => Ok(()),
            Self::Choice(choices) if choices.is_empty() => {
                Err(Invalid("a choice must have at least one option".into()))
            }
            Self::Choice(_) => Ok(()),
            Self::Schema(schema) => jsonschema::validator_for(schema)
                .map(|_| ())
                .map_err(|e| Invalid(format!("the JSON Schema of the question is invalid: {e}"))),
        }
    }
}

/// Checks that `content` matches the schema of a signal.
pub fn check_signal(schema: &Value, content: &Payload) -> Result<(), Invalid> {
    let value: Value = content.read().map_err(|e| Invalid(format!("the content is not valid JSON: {e}")))?;
    let Err(Invalid(reason)) = check_schema(schema, &value) else { return Ok(()) };
    Err(Invalid(match schema["description"].as_str() {
        Some(expected) => format!("expected {expected}, got {}", Shape::of_value(&value)),
        None => reason,
    }))
}

/// Checks that a schema is valid.
pub fn check_schema_itself(schema: &Value) -> Result<(), Invalid> {
    jsonschema::validator_for(schema)
        .map(|_| ())
        .map_err(|e| Invalid(format!("the JSON Schema of the signal is invalid: {e}")))
}

/// Returns whether `content` matches the schema of a signal. An invalid schema accepts everything.
pub fn fits(schema: &Value, content: &Payload) -> bool {
    match (jsonschema::validator_for(schema), content.read::<Value>()) {
        (Ok(validator), Ok(value)) => validator.is_valid(&value),
        _ => true,
    }
}

fn check_schema(schema: &Value, value: &Value) -> Result<(), Invalid> {
    let validator = jsonschema::validator_for(schema)
        .map_err(|e| Invalid(format!("the JSON Schema of the question is invalid: {e}")))?;
    let reasons: Vec<String> = validator
        .iter_errors(value)
        .take(5)
        .map(|error| match error.instance_path().to_string() {
            place if place.is_empty() => error.to_string(),
            place => format!("{place}: {error}"),
        })
        .collect();
    if reasons.is_empty() { Ok(()) } else { Err(Invalid(reasons.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use serde_json::json;

    fn check(form: &Form, answer: &Value) -> Result<(), String> {
        form.check(&Payload::of(answer, &Limits::default()).unwrap()).map_err(|e| e.0)
    }

    #[test]
    fn answers_are_checked_against_the_form() {
        assert_eq!(check(&Form::Text, &json!("yes")), Ok(()));
        assert!(check(&Form::Text, &json!(1)).is_err());
        assert_eq!(check(&Form::Any, &json!([1])), Ok(()));
        let choice = Form::Choice(vec!["ship".into(), "hold".into()]);
        assert_eq!(check(&choice, &json!("ship")), Ok(()));
        assert_eq!(check(&choice, &json!("burn")).unwrap_err(), "the answer must be one of: ship, hold");
        let schema = Form::Schema(
            json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}),
        );
        assert_eq!(check(&schema, &json!({"ok": true})), Ok(()));
        assert!(check(&schema, &json!({"ok": "maybe"})).unwrap_err().starts_with("/ok: "));
        assert_eq!(check(&schema, &json!({})).unwrap_err(), r#""ok" is a required property"#);
    }

    #[test]
    fn refuses_an_invalid_form() {
        assert!(Form::Choice(vec![]).check_itself().is_err());
        let nonsense = Form::Schema(json!({"type": "nonsense"}));
        assert!(nonsense.check_itself().is_err());
        assert!(check(&nonsense, &json!(1)).unwrap_err().contains("JSON Schema of the question is invalid"));
        let sound = [Form::Text, Form::Any, Form::Choice(vec!["ship".into()]), Form::Schema(json!(true))];
        for form in sound {
            assert_eq!(form.check_itself(), Ok(()), "{form:?}");
        }
    }
}
