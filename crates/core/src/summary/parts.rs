//! What a row is made of besides plain fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::event::InputRequested;
use crate::form::Form;
use crate::id::{RunId, SignalName, TaskId};
use crate::path::Path;
use crate::time::Millis;

/// Longest failure message kept in the row.
const MESSAGE_CHARS_MAX: usize = 200;

/// Something a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenWait {
    /// The wait, sleep or step to be retried.
    pub path: Path,
    /// Since when.
    pub since: Millis,
    /// Signals by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalName>,
    /// What the content of a signal must look like, as a JSON Schema by name. A signal that does not fit stays unread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, serde_json::Value>))]
    pub schemas: BTreeMap<SignalName, serde_json::Value>,
    /// Questions by identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Path>,
    /// Children by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<RunId>,
    /// Tasks of a remote step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// The time that ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
}

impl OpenWait {
    pub(super) fn new(path: &Path, since: Millis) -> Self {
        let (signals, inputs, children, tasks) = (vec![], vec![], vec![], vec![]);
        let schemas = BTreeMap::new();
        Self { path: path.clone(), since, signals, schemas, inputs, children, tasks, due: None }
    }

    pub(super) fn until(path: &Path, since: Millis, due: Millis) -> Self {
        Self { due: Some(due), ..Self::new(path, since) }
    }

    /// Whether it looks for this signal, and what its content must look like.
    pub fn wants(&self, name: &SignalName) -> Option<Option<&serde_json::Value>> {
        self.signals.contains(name).then(|| self.schemas.get(name))
    }

    /// Whether only time can end it.
    pub fn is_sleep(&self) -> bool {
        self.signals.is_empty() && self.inputs.is_empty() && self.children.is_empty() && self.tasks.is_empty()
    }
}

/// A question that nobody has answered yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenInput {
    /// Its identity.
    pub path: Path,
    /// What a person reads.
    pub prompt: String,
    /// What an answer must look like.
    pub form: Form,
    /// Since when.
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
    /// Groups failures of the same kind.
    pub cause: String,
    /// What happened, shortened.
    pub message: String,
    /// Code of the rule or error, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl Trouble {
    pub(super) fn of(failure: &Failure) -> Self {
        Self {
            cause: failure.cause(),
            message: failure.message.chars().take(MESSAGE_CHARS_MAX).collect(),
            code: failure.code.clone(),
        }
    }
}

/// Where the log of a run is that only left a tombstone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pruned {
    /// Since when.
    pub at: Millis,
    /// Where.
    pub archive: String,
}
