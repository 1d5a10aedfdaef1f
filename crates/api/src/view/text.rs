//! Text helpers of the views.

use goldseam::recovery::Code;
use goldseam::unstable::core::form::Form;

/// Describes the form of an answer.
pub fn form(form: &Form) -> String {
    match form {
        Form::Text => "any text".to_owned(),
        Form::Choice(choices) => format!("one of: {}", choices.join(", ")),
        Form::Schema(schema) => match schema["description"].as_str() {
            Some(described) => described.to_owned(),
            None => format!("JSON that fits {schema}"),
        },
        Form::Any => "any JSON".to_owned(),
    }
}

/// Returns the name and code of a rule that a log names, as in `worker-lost (O2)`.
pub fn rule(code: &str) -> String {
    Code::from_code(code).map_or_else(|| code.to_owned(), Code::label)
}

/// Collapses white space, including line breaks.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Shortens `text` to at most `most` characters.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
