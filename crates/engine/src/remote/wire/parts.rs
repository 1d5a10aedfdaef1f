//! Parts of doings: how a child is started, and a question.

use goldseam_core::event::Tags;
use goldseam_core::form::Form;
use goldseam_core::{Attributes, QueueName, RunId};
use serde::{Deserialize, Serialize};

/// How a child is started. A field that is left out has the value of the parent, or the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = ChildStart))]
#[serde(deny_unknown_fields)]
pub struct ChildStart {
    /// The id; default: made of parent, branch and path.
    #[serde(default)]
    pub id: Option<RunId>,
    /// The queue; default: that of the parent.
    #[serde(default)]
    pub queue: Option<QueueName>,
    /// The version; default: the newest one of a live node.
    #[serde(default)]
    pub version: Option<u32>,
    /// The priority; default: that of the parent.
    #[serde(default)]
    pub priority: Option<i32>,
    /// Tags besides those of the parent.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub tags: Tags,
    /// Attributes.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, serde_json::Value>))]
    pub attributes: Attributes,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WorkerQuestion))]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The text for the person.
    pub prompt: String,
    /// The form of the answer.
    pub form: Form,
}
