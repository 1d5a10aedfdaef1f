//! Parts of a row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::event::InputRequested;
use crate::fingerprint::Symptom;
use crate::form::Form;
use crate::id::{RunId, SignalName, TaskId};
use crate::path::Path;
use crate::time::Millis;

/// Longest failure message kept in the row, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// An open wait of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenWait {
    /// The wait, the sleep, or the step that will be retried.
    pub path: Path,
    /// When it began.
    pub since: Millis,
    /// Names of signals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalName>,
    /// JSON Schemas of signals, by name. A signal that does not match stays unread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, serde_json::Value>))]
    pub schemas: BTreeMap<SignalName, serde_json::Value>,
    /// Paths of questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Path>,
    /// Ids of children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
    /// Tasks of a remote step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// When the wait ends at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
}

impl OpenWait {
    pub(super) fn new(path: &Path, since: Millis) -> Self {
        Self {
            path: path.clone(),
            since,
            signals: Vec::new(),
            schemas: BTreeMap::new(),
            inputs: Vec::new(),
            children: Vec::new(),
            tasks: Vec::new(),
            due: None,
        }
    }

    pub(super) fn until(path: &Path, since: Millis, due: Millis) -> Self {
        Self { due: Some(due), ..Self::new(path, since) }
    }

    /// Returns whether it looks for this signal, and the schema of the signal, if it has one.
    pub fn wants(&self, name: &SignalName) -> Option<Option<&serde_json::Value>> {
        self.signals.contains(name).then(|| self.schemas.get(name))
    }

    /// Returns whether only time can end it.
    pub fn is_sleep(&self) -> bool {
        self.signals.is_empty() && self.inputs.is_empty() && self.children.is_empty() && self.tasks.is_empty()
    }
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenInput {
    /// Path of the question.
    pub path: Path,
    /// The question in words.
    pub prompt: String,
    /// The form that an answer must have.
    pub form: Form,
    /// When it was asked.
    pub since: Millis,
}

impl OpenInput {
    pub(crate) fn of(asked: &InputRequested, since: Millis) -> Self {
        let InputRequested { path, prompt, form, .. } = asked.clone();
        Self { path, prompt, form, since }
    }
}

/// How a run ended, or why it is parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Trouble {
    /// The fingerprint, which groups failures of the same kind. An older release computes another one.
    pub cause: String,
    /// What happened, shortened.
    pub message: String,
    /// Code of the rule or error, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The step that failed, if a step did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Path>,
}

impl Trouble {
    pub(super) fn of(run: &RunId, step: Option<&Path>, failure: &Failure) -> Self {
        let Failure { message, code, .. } = failure;
        let symptom =
            Symptom { run: run.as_str(), step: step.map(Path::as_str), code: code.as_deref(), message };
        Self {
            cause: symptom.fingerprint(),
            message: message.chars().take(MESSAGE_CHARS_MAX).collect(),
            code: code.clone(),
            step: step.cloned(),
        }
    }

    /// Returns this trouble without what a release that computes another fingerprint records differently.
    pub(super) fn without_fingerprint(&self) -> Self {
        Self { cause: String::new(), step: None, ..self.clone() }
    }
}

/// Where the log of a pruned run is archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pruned {
    /// When it was pruned.
    pub at: Millis,
    /// Where the archive is.
    pub archive: String,
}
