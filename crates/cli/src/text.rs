//! Short sentences about runs that several commands share.

use goldseam::core::form::Form;
use goldseam::core::summary::{OpenInput, OpenWait};
use goldseam::{Millis, Summary};

use crate::when;

/// What a run is about right now, in a few words.
pub(crate) fn note(summary: &Summary, now: Millis) -> String {
    if let Some(trouble) = &summary.trouble {
        return format!("{} (cause {})", one_line(&trouble.message), trouble.cause);
    }
    if let Some(input) = summary.inputs.first() {
        return format!("asks: {}", one_line(&input.prompt));
    }
    match summary.waits.first() {
        Some(wait) => waits_for(wait, now),
        None => done(summary),
    }
}

fn done(summary: &Summary) -> String {
    match (summary.steps, summary.recoveries) {
        (0, _) => String::new(),
        (steps, 0) => format!("{steps} steps"),
        (steps, 1) => format!("{steps} steps, recovered once"),
        (steps, recoveries) => format!("{steps} steps, recovered {recoveries} times"),
    }
}

/// What ends a wait.
pub(crate) fn waits_for(wait: &OpenWait, now: Millis) -> String {
    let mut things: Vec<String> = wait.signals.iter().map(|name| format!("signal {name}")).collect();
    things.extend(wait.inputs.iter().map(|path| format!("an answer to {path}")));
    things.extend(wait.children.iter().map(|run| format!("child {run}")));
    things.extend(wait.tasks.iter().map(|task| format!("a worker to do {} (task {task})", wait.path)));
    if let Some(due) = wait.due {
        things.push(match due > now {
            true => format!("{} ({} left)", when::iso(due), when::span(due.since(now))),
            false => format!("{} (due)", when::iso(due)),
        });
    }
    match things.is_empty() {
        true => "nothing".to_owned(),
        false => things.join(" or "),
    }
}

/// An answer that would fit, for a command to copy.
pub(crate) fn sample_answer(input: &OpenInput) -> String {
    match &input.form {
        Form::Text => "'some text'".to_owned(),
        Form::Choice(choices) => quoted(choices.first().map_or("yes", String::as_str)),
        Form::Schema(schema) => quoted(&sample(schema).to_string()),
        Form::Any => "'{}'".to_owned(),
    }
}

/// What may be answered.
pub(crate) fn form(form: &Form) -> String {
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
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:#~@=+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `12,345`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 run`, `2 runs`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// `text` without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn numbers_are_grouped_and_nouns_follow_them() {
        assert_eq!(
            [0, 999, 1_000, 12_345, 1_234_567].map(thousands),
            ["0", "999", "1,000", "12,345", "1,234,567"]
        );
        assert_eq!((count(1, "run"), count(2_000, "run")), ("1 run".to_owned(), "2,000 runs".to_owned()));
    }

    #[test]
    fn a_sample_has_what_the_schema_requires() {
        let schema = json!({"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}});
        assert_eq!(sample(&schema), json!({"ok": true}));
    }
}
