//! What a person or a program can do next, as values, and hints that contain them.
//!
//! This crate and those above it do not know how a step is carried out: as a shell command, as an HTTP request or as a
//! call of a method. A frontend renders each step with [`Hint::render`]; [`Hint`] and [`NextStep`] themselves display the
//! neutral form, the verb with its arguments in backticks.

use std::fmt;
use std::ops::{Deref, Range};

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::Value;

use crate::event::Request;
use crate::form::Form;
use crate::id::{RunId, SignalName};
use crate::path::Path;
use crate::shape::example_of;

/// Something that a person or a program can do next. The name of a variant is the verb that every layer has.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum NextStep {
    /// List the runs of the store.
    List,
    /// Show everything about a run.
    Show {
        /// The run.
        run: RunId,
    },
    /// Read the log of a run.
    History {
        /// The run.
        run: RunId,
    },
    /// Ask why a run is in its status.
    Why {
        /// The run.
        run: RunId,
    },
    /// Read the page of an error code or of a rule.
    Explain {
        /// The code.
        code: String,
    },
    /// Resume a paused or parked run.
    Resume {
        /// The run.
        run: RunId,
    },
    /// Retry a failed run.
    Retry {
        /// The run.
        run: RunId,
    },
    /// End a run without its code and without compensation; needs a reason.
    Terminate {
        /// The run.
        run: RunId,
    },
    /// Heal a run.
    Recover {
        /// The run.
        run: RunId,
        /// The rule to apply; any rule if it is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
    },
    /// Move a run to another version even if it would park.
    Migrate {
        /// The run.
        run: RunId,
        /// The version.
        to_version: u32,
    },
    /// Take back a pending request.
    Withdraw {
        /// The run.
        run: RunId,
        /// The request.
        request: Request,
    },
    /// Answer a question.
    Answer {
        /// The run.
        run: RunId,
        /// The question.
        question: Path,
        /// An example of an answer that is accepted.
        value: Value,
    },
    /// Send a signal.
    Signal {
        /// The run.
        run: RunId,
        /// The name of the signal.
        name: SignalName,
        /// An example of data that is accepted; missing if the signal needs none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Read and verify the whole store.
    StoreCheck,
    /// Create the store, or migrate it to this release.
    StoreMigrate {
        /// The URL; missing if it is the URL that the caller used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        store: Option<String>,
    },
    /// Move the store to another one, or continue a move.
    StoreMove,
    /// Restore a backup to an empty store.
    StoreRestore,
    /// Open a store again that was closed by a copy.
    StoreReopen,
    /// Repeat the same call with a setting.
    Repeat {
        /// The setting.
        setting: Setting,
    },
}

/// A setting with which a refused call is accepted.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Drop a pending request to cancel.
    DropCancel,
    /// Merge two stores.
    Merge,
    /// Another store.
    Store,
}

impl Setting {
    /// Returns the name in JSON and in the neutral form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DropCancel => "drop_cancel",
            Self::Merge => "merge",
            Self::Store => "store",
        }
    }
}

impl NextStep {
    /// Returns the step that lists the runs.
    pub fn list() -> Self {
        Self::List
    }

    /// Returns the step that shows a run.
    pub fn show(run: &RunId) -> Self {
        Self::Show { run: run.clone() }
    }

    /// Returns the step that reads the log of a run.
    pub fn history(run: &RunId) -> Self {
        Self::History { run: run.clone() }
    }

    /// Returns the step that asks why a run is in its status.
    pub fn why(run: &RunId) -> Self {
        Self::Why { run: run.clone() }
    }

    /// Returns the step that reads the page of a code.
    pub fn explain(code: impl fmt::Display) -> Self {
        Self::Explain { code: code.to_string() }
    }

    /// Returns the step that resumes a run.
    pub fn resume(run: &RunId) -> Self {
        Self::Resume { run: run.clone() }
    }

    /// Returns the step that retries a failed run.
    pub fn retry(run: &RunId) -> Self {
        Self::Retry { run: run.clone() }
    }

    /// Returns the step that terminates a run.
    pub fn terminate(run: &RunId) -> Self {
        Self::Terminate { run: run.clone() }
    }

    /// Returns the step that heals a run.
    pub fn recover(run: &RunId) -> Self {
        Self::Recover { run: run.clone(), rule: None }
    }

    /// Returns the step that takes back a pending request.
    pub fn withdraw(run: &RunId, request: Request) -> Self {
        Self::Withdraw { run: run.clone(), request }
    }

    /// Returns the step that answers a question with a value that its form accepts. If no such value is known, returns
    /// the step that shows the form.
    pub fn answer(run: &RunId, question: &Path, form: &Form) -> Self {
        match example_of(form) {
            Some(value) => Self::Answer { run: run.clone(), question: question.clone(), value },
            None => Self::show(run),
        }
    }

    /// Returns the step that sends a signal with data that its schema accepts. If no such data is known, returns the
    /// step that shows the schema.
    pub fn signal(run: &RunId, name: &SignalName, schema: Option<&Value>) -> Self {
        let data = match schema.map(|schema| example_of(&Form::Schema(schema.clone()))) {
            None | Some(Some(Value::Null)) => None,
            Some(Some(data)) => Some(data),
            Some(None) => return Self::show(run),
        };
        Self::Signal { run: run.clone(), name: name.clone(), data }
    }

    /// Returns the verb: what every layer calls this step.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Show { .. } => "show",
            Self::History { .. } => "history",
            Self::Why { .. } => "why",
            Self::Explain { .. } => "explain",
            Self::Resume { .. } => "resume",
            Self::Retry { .. } => "retry",
            Self::Terminate { .. } => "terminate",
            Self::Recover { .. } => "recover",
            Self::Migrate { .. } => "migrate",
            Self::Withdraw { .. } => "withdraw",
            Self::Answer { .. } => "answer",
            Self::Signal { .. } => "signal",
            Self::StoreCheck => "store_check",
            Self::StoreMigrate { .. } => "store_migrate",
            Self::StoreMove => "store_move",
            Self::StoreRestore => "store_restore",
            Self::StoreReopen => "store_reopen",
            Self::Repeat { .. } => "repeat",
        }
    }

    /// Returns the run that the step is about.
    pub fn run(&self) -> Option<&RunId> {
        match self {
            Self::Show { run }
            | Self::History { run }
            | Self::Why { run }
            | Self::Resume { run }
            | Self::Retry { run }
            | Self::Terminate { run }
            | Self::Recover { run, .. }
            | Self::Migrate { run, .. }
            | Self::Withdraw { run, .. }
            | Self::Answer { run, .. }
            | Self::Signal { run, .. } => Some(run),
            _ => None,
        }
    }
}

/// The neutral form: the verb with its arguments in backticks, as in `` `resume o-1` ``.
impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeat { setting: Setting::Store } => return f.write_str("the URL of another store"),
            Self::Repeat { setting } => return write!(f, "`{}`", setting.as_str()),
            _ => {}
        }
        write!(f, "`{}", self.verb().replace('_', " "))?;
        if let Some(run) = self.run() {
            write!(f, " {run}")?;
        }
        match self {
            Self::Explain { code } => write!(f, " {code}")?,
            Self::Recover { rule: Some(rule), .. } => write!(f, " rule={rule}")?,
            Self::Migrate { to_version, .. } => write!(f, " to_version={to_version} force=true")?,
            Self::Withdraw { request, .. } => write!(f, " {}", request.as_str())?,
            Self::Answer { question, value, .. } => write!(f, " {question} {value}")?,
            Self::Signal { name, data: Some(data), .. } => write!(f, " {name} {data}")?,
            Self::Signal { name, data: None, .. } => write!(f, " {name}")?,
            Self::StoreMigrate { store: Some(store) } => write!(f, " {store}")?,
            _ => {}
        }
        f.write_str("`")
    }
}

/// Words for a person, with next steps inside. Dereferences to the neutral text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hint {
    text: String,
    /// The steps, with the place of their neutral form in the text.
    steps: Vec<(Range<usize>, NextStep)>,
}

/// A part of a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum HintPart<'a> {
    /// Words.
    Text(&'a str),
    /// A step.
    Step(&'a NextStep),
}

impl Hint {
    /// Appends words.
    #[must_use]
    pub fn text(mut self, text: impl AsRef<str>) -> Self {
        self.text.push_str(text.as_ref());
        self
    }

    /// Appends a step.
    #[must_use]
    pub fn step(mut self, step: NextStep) -> Self {
        let from = self.text.len();
        self.text.push_str(&step.to_string());
        self.steps.push((from..self.text.len(), step));
        self
    }

    /// Appends another hint.
    #[must_use]
    pub fn hint(mut self, other: &Self) -> Self {
        let by = self.text.len();
        self.text.push_str(&other.text);
        let moved = |(at, step): &(Range<usize>, NextStep)| (at.start + by..at.end + by, step.clone());
        self.steps.extend(other.steps.iter().map(moved));
        self
    }

    /// Joins hints, with `between` in between.
    #[must_use]
    pub fn join(hints: impl IntoIterator<Item = Self>, between: &str) -> Self {
        let mut hints = hints.into_iter();
        let first = hints.next().unwrap_or_default();
        hints.fold(first, |joined, hint| joined.text(between).hint(&hint))
    }

    /// Returns the text, with each step in its neutral form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the steps, in the order of the text.
    pub fn steps(&self) -> impl Iterator<Item = &NextStep> {
        self.steps.iter().map(|(_, step)| step)
    }

    /// Returns words and steps in their order.
    pub fn parts(&self) -> Vec<HintPart<'_>> {
        let mut parts = Vec::new();
        let mut done = 0;
        for (at, step) in &self.steps {
            if done < at.start {
                parts.push(HintPart::Text(&self.text[done..at.start]));
            }
            parts.push(HintPart::Step(step));
            done = at.end;
        }
        if done < self.text.len() {
            parts.push(HintPart::Text(&self.text[done..]));
        }
        parts
    }

    /// Returns the text, with each step in the form that a frontend gives it.
    pub fn render(&self, form: impl Fn(&NextStep) -> String) -> String {
        let part = |part: &HintPart<'_>| match part {
            HintPart::Text(text) => (*text).to_owned(),
            HintPart::Step(step) => form(step),
        };
        self.parts().iter().map(part).collect()
    }
}

impl Deref for Hint {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Compares the neutral text.
impl PartialEq<str> for Hint {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

/// Compares the neutral text.
impl PartialEq<&str> for Hint {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

/// Compares the neutral text.
impl PartialEq<String> for Hint {
    fn eq(&self, other: &String) -> bool {
        self.text == *other
    }
}

impl From<String> for Hint {
    fn from(text: String) -> Self {
        Self { text, steps: Vec::new() }
    }
}

impl From<&str> for Hint {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<NextStep> for Hint {
    fn from(step: NextStep) -> Self {
        Self::default().step(step)
    }
}

/// A list of texts and steps.
impl Serialize for Hint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = self.parts();
        let mut list = serializer.serialize_seq(Some(parts.len()))?;
        for part in &parts {
            list.serialize_element(part)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Hint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum OwnedPart {
            Text(String),
            Step(NextStep),
        }
        let parts = Vec::<OwnedPart>::deserialize(deserializer)?;
        Ok(parts.into_iter().fold(Self::default(), |hint, part| match part {
            OwnedPart::Text(text) => hint.text(text),
            OwnedPart::Step(step) => hint.step(step),
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run() -> RunId {
        RunId::new("r").unwrap()
    }

    fn steps() -> Vec<(NextStep, &'static str)> {
        let rule = Some("E2".to_owned());
        let name = SignalName::new("go").unwrap();
        let question = Path::new("ok").unwrap();
        vec![
            (NextStep::list(), "`list`"),
            (NextStep::show(&run()), "`show r`"),
            (NextStep::history(&run()), "`history r`"),
            (NextStep::why(&run()), "`why r`"),
            (NextStep::explain("GS0104"), "`explain GS0104`"),
            (NextStep::resume(&run()), "`resume r`"),
            (NextStep::retry(&run()), "`retry r`"),
            (NextStep::terminate(&run()), "`terminate r`"),
            (NextStep::recover(&run()), "`recover r`"),
            (NextStep::Recover { run: run(), rule }, "`recover r rule=E2`"),
            (NextStep::Migrate { run: run(), to_version: 3 }, "`migrate r to_version=3 force=true`"),
            (NextStep::withdraw(&run(), Request::Jump), "`withdraw r jump`"),
            (NextStep::Answer { run: run(), question, value: json!(true) }, "`answer r ok true`"),
            (NextStep::Signal { run: run(), name: name.clone(), data: None }, "`signal r go`"),
            (NextStep::Signal { run: run(), name, data: Some(json!([1])) }, "`signal r go [1]`"),
            (NextStep::StoreCheck, "`store check`"),
            (NextStep::StoreMigrate { store: None }, "`store migrate`"),
            (NextStep::StoreMigrate { store: Some("sqlite:x".into()) }, "`store migrate sqlite:x`"),
            (NextStep::StoreMove, "`store move`"),
            (NextStep::StoreRestore, "`store restore`"),
            (NextStep::StoreReopen, "`store reopen`"),
            (NextStep::Repeat { setting: Setting::DropCancel }, "`drop_cancel`"),
            (NextStep::Repeat { setting: Setting::Merge }, "`merge`"),
            (NextStep::Repeat { setting: Setting::Store }, "the URL of another store"),
        ]
    }

    #[test]
    fn each_step_has_a_neutral_form_and_survives_json() {
        for (step, form) in steps() {
            assert_eq!(step.to_string(), form);
            let document = serde_json::to_value(&step).unwrap();
            assert_eq!(document["verb"], step.verb(), "{document}");
            assert_eq!(document["run"].as_str(), step.run().map(RunId::as_str), "{document}");
            assert_eq!(serde_json::from_value::<NextStep>(document).unwrap(), step);
        }
        for setting in [Setting::DropCancel, Setting::Merge, Setting::Store] {
            assert_eq!(serde_json::to_value(setting).unwrap(), setting.as_str());
        }
    }

    #[test]
    fn a_hint_keeps_its_steps_and_their_places() {
        let inner = Hint::from("then: ").step(NextStep::resume(&run()));
        let hint = Hint::from(NextStep::show(&run()))
            .text(" shows ü; ")
            .hint(&inner)
            .step(NextStep::list())
            .text(".");
        assert_eq!(hint.as_str(), "`show r` shows ü; then: `resume r``list`.");
        assert_eq!(hint.render(|step| step.verb().to_uppercase()), "SHOW shows ü; then: RESUMELIST.");
        assert_eq!(hint.steps().map(NextStep::verb).collect::<Vec<_>>(), ["show", "resume", "list"]);
        let document = serde_json::to_value(&hint).unwrap();
        assert_eq!(document[0], json!({ "verb": "show", "run": "r" }));
        assert_eq!(document[1], " shows ü; then: ");
        assert_eq!(serde_json::from_value::<Hint>(document).unwrap(), hint);
        assert!(serde_json::from_value::<Hint>(json!([{ "verb": "dance" }])).is_err());
        assert_eq!(Hint::from("plain").render(ToString::to_string), "plain");
        assert_eq!(Hint::join([Hint::from("a"), inner], "; "), "a; then: `resume r`");
        assert!(Hint::default().is_empty() && Hint::default().parts().is_empty());
    }

    #[test]
    fn an_answer_and_a_signal_have_a_value_that_is_accepted() {
        let question = Path::new("ok").unwrap();
        let answer = |form: Form| NextStep::answer(&run(), &question, &form).to_string();
        assert_eq!(answer(Form::Text), r#"`answer r ok "text"`"#);
        assert_eq!(answer(Form::Choice(vec!["1".into()])), r#"`answer r ok "1"`"#);
        assert_eq!(answer(Form::Schema(json!({ "type": "boolean" }))), "`answer r ok true`");
        assert_eq!(answer(Form::Schema(json!({ "pattern": "^x{9}$", "type": "string" }))), "`show r`");
        let name = SignalName::new("go").unwrap();
        let signal = |schema: Option<Value>| NextStep::signal(&run(), &name, schema.as_ref()).to_string();
        assert_eq!(signal(None), "`signal r go`");
        assert_eq!(signal(Some(json!({ "type": "null" }))), "`signal r go`");
        assert_eq!(signal(Some(json!({ "type": "integer" }))), "`signal r go 1`");
        assert_eq!(signal(Some(json!({ "pattern": "^x{9}$", "type": "string" }))), "`show r`");
    }
}
