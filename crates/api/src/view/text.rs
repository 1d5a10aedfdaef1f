//! Words that several views share.

use goldseam::RunId;
use goldseam::core::form::Form;
pub use goldseam::core::lines::{quoted, signal_line};
use goldseam::core::summary::OpenInput;

/// What may be answered.
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

/// The line that would answer a question.
pub fn answer_line(run: &RunId, input: &OpenInput) -> String {
    goldseam::core::lines::answer_line(run, &input.path, &input.form)
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
