//! Next steps as documents.

use goldseam::RunId;
use goldseam::unstable::core::event::Request;
use goldseam::unstable::core::next_step::{Hint, NextStep};
use goldseam::unstable::core::{Path, SignalName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Something that a program can do next: a verb and its arguments. A later release may send verbs that are not listed
/// here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NextStep)]
pub struct NextStepDoc {
    /// The verb: `list`, `show`, `history`, `why`, `explain`, `resume`, `retry`, `terminate`, `recover`, `migrate`,
    /// `withdraw`, `answer`, `signal`, `store_check`, `store_migrate`, `store_copy`, `store_reopen`; `repeat` means the
    /// same request with `setting`.
    pub verb: String,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The error code or rule to explain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// An example of data that the signal accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    use goldseam::unstable::core::next_step::Setting;
    use serde_json::json;

    use super::*;

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
