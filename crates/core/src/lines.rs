//! Shell commands for people, with example values that are accepted.

use crate::form::Form;
use crate::id::{RunId, SignalName};
use crate::path::Path;
use crate::shape::example_of;

/// Returns the command that answers a question.
pub fn answer_line(run: &RunId, question: &Path, form: &Form) -> String {
    match example_of(form) {
        Some(example) => format!("goldseam answer {run} {question} {}", quoted(&example.to_string())),
        // No accepted value is known; `show` prints the form.
        None => format!("goldseam show {run}"),
    }
}

/// Returns the command that sends a signal to a run.
pub fn signal_line(run: &RunId, name: &SignalName, schema: Option<&serde_json::Value>) -> String {
    let Some(schema) = schema else { return format!("goldseam signal {run} {name}") };
    match example_of(&Form::Schema(schema.clone())) {
        Some(serde_json::Value::Null) => format!("goldseam signal {run} {name}"),
        Some(example) => format!("goldseam signal {run} {name} --data {}", quoted(&example.to_string())),
        None => format!("goldseam show {run}"),
    }
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:#~@=+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("ship"), "ship");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn a_line_has_a_value_that_fits() {
        let run = RunId::new("r").unwrap();
        let question = Path::new("ok").unwrap();
        let line = |form: Form| answer_line(&run, &question, &form);
        assert_eq!(line(Form::Text), r#"goldseam answer r ok '"text"'"#);
        assert_eq!(line(Form::Choice(vec!["1".into()])), r#"goldseam answer r ok '"1"'"#);
        assert_eq!(line(Form::Schema(json!({ "type": "boolean" }))), "goldseam answer r ok true");
        assert_eq!(line(Form::Schema(json!({ "pattern": "^x{9}$", "type": "string" }))), "goldseam show r");
        let name = SignalName::new("go").unwrap();
        assert_eq!(signal_line(&run, &name, None), "goldseam signal r go");
        let number = json!({ "type": "integer" });
        assert_eq!(signal_line(&run, &name, Some(&number)), "goldseam signal r go --data 1");
    }
}
