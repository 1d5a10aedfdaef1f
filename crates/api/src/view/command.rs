//! Next steps as shell commands. The crates below know only the steps.

use goldseam::RunId;
use goldseam::unstable::core::SignalName;
use goldseam::unstable::core::next_step::{Hint, NextStep, Setting};
use goldseam::unstable::core::summary::OpenInput;

/// Returns the shell command that carries out a step; of a repeated call, its flag.
pub fn command(step: &NextStep) -> String {
    match step {
        NextStep::List => "goldseam ls".to_owned(),
        NextStep::Terminate { run } => format!("goldseam terminate {run} --reason REASON"),
        NextStep::Explain { code } => format!("goldseam explain {}", quoted(code)),
        NextStep::Recover { run, rule: None } => format!("goldseam recover {run}"),
        NextStep::Recover { run, rule: Some(rule) } => format!("goldseam recover {run} --rule {rule}"),
        NextStep::Migrate { run, to_version } => {
            format!("goldseam migrate {run} --to-version {to_version} --force")
        }
        NextStep::Withdraw { run, request } => format!("goldseam withdraw {run} --{}", request.as_str()),
        NextStep::Answer { run, question, value } => {
            format!("goldseam answer {run} {question} {}", quoted(&value.to_string()))
        }
        NextStep::Signal { run, name, data: None } => format!("goldseam signal {run} {name}"),
        NextStep::Signal { run, name, data: Some(data) } => {
            format!("goldseam signal {run} {name} --data {}", quoted(&data.to_string()))
        }
        NextStep::StoreMigrate { store: Some(store) } => format!("goldseam store migrate {}", quoted(store)),
        NextStep::Repeat { setting: Setting::DropCancel } => "--drop-cancel".to_owned(),
        NextStep::Repeat { setting: Setting::Merge } => "--merge".to_owned(),
        NextStep::Repeat { setting: Setting::Store } => {
            "--store sqlite:PATH or set GOLDSEAM_STORE".to_owned()
        }
        // The verb and the run are the command.
        step => {
            let verb = step.verb().replace('_', " ");
            let run = step.run().map_or_else(String::new, |run| format!(" {run}"));
            format!("goldseam {verb}{run}")
        }
    }
}

/// Returns the text of a hint, with its steps as shell commands.
pub fn with_commands(hint: &Hint) -> String {
    hint.render(command)
}

/// Returns the command that answers a question.
pub fn answer_command(run: &RunId, input: &OpenInput) -> String {
    command(&NextStep::answer(run, &input.path, &input.form))
}

/// Returns the command that sends a signal to a run.
pub fn signal_command(run: &RunId, name: &SignalName, schema: Option<&serde_json::Value>) -> String {
    command(&NextStep::signal(run, name, schema))
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
    use goldseam::unstable::core::event::Request;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("ship"), "ship");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn each_step_is_a_command() {
        let run: RunId = "r".parse().unwrap();
        let rule = Some("E2".to_owned());
        let name = SignalName::new("go").unwrap();
        let question = goldseam::Path::new("ok").unwrap();
        let data = Some(json!([1]));
        for (step, shown) in [
            (NextStep::list(), "goldseam ls"),
            (NextStep::show(&run), "goldseam show r"),
            (NextStep::history(&run), "goldseam history r"),
            (NextStep::why(&run), "goldseam why r"),
            (NextStep::explain("GS0104"), "goldseam explain GS0104"),
            (NextStep::resume(&run), "goldseam resume r"),
            (NextStep::retry(&run), "goldseam retry r"),
            (NextStep::terminate(&run), "goldseam terminate r --reason REASON"),
            (NextStep::recover(&run), "goldseam recover r"),
            (NextStep::Recover { run: run.clone(), rule }, "goldseam recover r --rule E2"),
            (
                NextStep::Migrate { run: run.clone(), to_version: 3 },
                "goldseam migrate r --to-version 3 --force",
            ),
            (NextStep::withdraw(&run, Request::Jump), "goldseam withdraw r --jump"),
            (NextStep::withdraw(&run, Request::Cancel), "goldseam withdraw r --cancel"),
            (
                NextStep::Answer { run: run.clone(), question, value: json!("a b") },
                r#"goldseam answer r ok '"a b"'"#,
            ),
            (NextStep::Signal { run: run.clone(), name: name.clone(), data: None }, "goldseam signal r go"),
            (NextStep::Signal { run, name, data }, "goldseam signal r go --data '[1]'"),
            (NextStep::StoreCheck, "goldseam store check"),
            (NextStep::StoreMigrate { store: None }, "goldseam store migrate"),
            (
                NextStep::StoreMigrate { store: Some("sqlite:/a b/x.db".into()) },
                "goldseam store migrate 'sqlite:/a b/x.db'",
            ),
            (NextStep::StoreCopy, "goldseam store copy"),
            (NextStep::StoreReopen, "goldseam store reopen"),
            (NextStep::Repeat { setting: Setting::DropCancel }, "--drop-cancel"),
            (NextStep::Repeat { setting: Setting::Merge }, "--merge"),
            (NextStep::Repeat { setting: Setting::Store }, "--store sqlite:PATH or set GOLDSEAM_STORE"),
        ] {
            assert_eq!(command(&step), shown);
            assert_eq!(
                with_commands(&Hint::from("run ").step(step).text(" now")),
                format!("run {shown} now")
            );
        }
    }
}
