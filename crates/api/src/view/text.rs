//! Words that several views share.

use goldseam::RunId;
use goldseam::core::form::Form;
use goldseam::core::summary::OpenInput;

/// An answer that would fit, for a command to copy.
pub fn sample_answer(input: &OpenInput) -> String {
    match &input.form {
        Form::Text => "'some text'".to_owned(),
        Form::Choice(choices) => quoted(choices.first().map_or("yes", String::as_str)),
        Form::Schema(schema) => quoted(&sample(schema).to_string()),
        Form::Any => "'{}'".to_owned(),
    }
}

/// What may be answered.
pub fn form(form: &Form) -> String {
    match form {
        Form::Text => "any text".to_owned(),
        Form::Choice(choices) => format!("one of: {}", choices.join(", ")),
        Form::Schema(schema) => format!("JSON that fits {schema}"),
        Form::Any => "any JSON".to_owned(),
    }
}

/// A value that has what a schema requires, as far as its types tell.
fn sample(schema: &serde_json::Value) -> serde_json::Value {
    use serde_json::{Value, json};
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([]),
        Some("object") => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let names = required.iter().filter_map(Value::as_str);
            names.map(|name| (name.to_owned(), sample(&schema["properties"][name]))).collect()
        }
        _ => json!("…"),
    }
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:#~@=+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The line that would answer a question.
pub fn answer_line(run: &RunId, input: &OpenInput) -> String {
    format!("goldseam answer {run} {} {}", input.path, sample_answer(input))
}

/// `text` without line breaks.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The beginning of `text`, at most so many characters.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("ship"), "ship");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn a_sample_has_what_the_schema_requires() {
        let schema = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
        assert_eq!(sample(&schema), json!({"ok": true}));
    }
}
