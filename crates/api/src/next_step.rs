//! Next steps for people, as shell commands, and for programs, as documents. The crates below know only the steps.

use goldseam::RunId;
use goldseam::unstable::core::event::Request;
use goldseam::unstable::core::next_step::{Hint, NextStep, Setting};
use goldseam::unstable::core::state::requested_name;
use goldseam::unstable::core::summary::OpenInput;
use goldseam::unstable::core::{Path, SignalName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

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
        NextStep::Signal { run, name, data } => {
            let (verb, name) = match requested_name(name) {
                Some(request) => ("request", request),
                None => ("signal", name.as_str()),
            };
            let data = data
                .as_ref()
                .map_or_else(String::new, |data| format!(" --data {}", quoted(&data.to_string())));
            format!("goldseam {verb} {run} {name}{data}")
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
pub fn signal_command(run: &RunId, name: &SignalName, schema: Option<&Value>) -> String {
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

/// Something that a program can do next: a verb and its arguments. A later release may send verbs that are not listed
/// here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NextStep)]
pub struct NextStepDoc {
    /// The verb: `list`, `show`, `history`, `why`, `explain`, `resume`, `retry`, `terminate`, `recover`, `migrate`,
    /// `withdraw`, `answer`, `signal`, `store_check`, `store_migrate`, `store_move`, `store_restore`, `store_reopen`;
    /// `repeat` means the same request with `setting`.
    pub verb: String,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The error code or rule to explain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// An example of data that the signal accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = goldseam::Payload, required = false)]
    pub data: Option<Value>,
    /// The name of the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SignalName>,
    /// The question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Path>,
    /// The pending request to withdraw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The rule to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The setting with which the same request is accepted: `drop_cancel`, `merge` or `store`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// The URL of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The version to move to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_version: Option<u32>,
    /// An example of an answer that the question accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = goldseam::Payload, required = false)]
    pub value: Option<Value>,
}

impl NextStepDoc {
    /// The steps of a hint.
    pub fn of(hint: &Hint) -> Vec<Self> {
        hint.steps().map(Self::from).collect()
    }
}

impl From<&NextStep> for NextStepDoc {
    fn from(step: &NextStep) -> Self {
        let plain = Self { verb: step.verb().to_owned(), run: step.run().cloned(), ..Self::default() };
        match step.clone() {
            NextStep::Explain { code } => Self { code: Some(code), ..plain },
            NextStep::Recover { rule, .. } => Self { rule, ..plain },
            NextStep::Migrate { to_version, .. } => Self { to_version: Some(to_version), ..plain },
            NextStep::Withdraw { request, .. } => Self { request: Some(request), ..plain },
            NextStep::Answer { question, value, .. } => {
                Self { question: Some(question), value: Some(value), ..plain }
            }
            NextStep::Signal { name, data, .. } => Self { name: Some(name), data, ..plain },
            NextStep::StoreMigrate { store } => Self { store, ..plain },
            NextStep::Repeat { setting } => Self { setting: Some(setting.as_str().to_owned()), ..plain },
            _ => plain,
        }
    }
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
    fn each_step_is_a_command() {
        let run: RunId = "r".parse().unwrap();
        let rule = Some("E2".to_owned());
        let name = SignalName::new("go").unwrap();
        let question = Path::new("ok").unwrap();
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
            (NextStep::StoreMove, "goldseam store move"),
            (NextStep::StoreRestore, "goldseam store restore"),
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

    #[test]
    fn a_step_has_the_same_fields_in_every_document() {
        let run: RunId = "r".parse().unwrap();
        let steps = [
            NextStep::list(),
            NextStep::show(&run),
            NextStep::explain("E2"),
            NextStep::recover(&run),
            NextStep::Recover { run: run.clone(), rule: Some("E2".into()) },
            NextStep::Migrate { run: run.clone(), to_version: 3 },
            NextStep::withdraw(&run, Request::Cancel),
            NextStep::Answer { run: run.clone(), question: Path::new("ok").unwrap(), value: json!(true) },
            NextStep::Signal { run: run.clone(), name: "go".parse().unwrap(), data: None },
            NextStep::Signal { run, name: "go".parse().unwrap(), data: Some(json!([1])) },
            NextStep::StoreMigrate { store: Some("sqlite:x".into()) },
            NextStep::Repeat { setting: Setting::DropCancel },
        ];
        for step in steps {
            let document = serde_json::to_value(NextStepDoc::from(&step)).unwrap();
            assert_eq!(document, serde_json::to_value(&step).unwrap());
        }
        let later: NextStepDoc = serde_json::from_value(json!({ "verb": "dance", "tempo": 3 })).unwrap();
        assert_eq!(later.verb, "dance");
    }
}
