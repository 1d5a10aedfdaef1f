//! Nodes and their workflows.

use goldseam::Millis;
use goldseam::unstable::core::{NodeId, WorkflowName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One incarnation of an engine process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeDoc {
    /// Whether the node is up, and neither gone nor silent for longer than its record allows.
    pub alive: bool,
    /// Its last beat, by the store's clock.
    pub beat_at: Millis,
    /// The number of its beats.
    pub beats: u64,
    /// The id, random for each start.
    pub id: NodeId,
    /// Host and process id.
    pub name: String,
    /// What the system knows about its process: `held`, `dropped`, `suspect` or `unknown`.
    pub pulse: String,
    /// The queues from which it takes runs; absent if it does not record them, because it is of an older release or has
    /// more than 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// The release of its engine; absent if that release does not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The runs that it executes now; absent if the store charges per request, or the server is of an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Maximum number of concurrent runs.
    pub slots: u32,
    /// When it joined.
    pub started_at: Millis,
    /// `up`, `leaving`, `left` or `gone`.
    pub state: String,
    /// Why it is not alive; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its workflows, as `name@version`.
    pub workflows: Vec<String>,
}

/// A workflow that live nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Workflow)]
pub struct WorkflowDoc {
    /// Its name.
    pub name: WorkflowName,
    /// Live nodes that have a version of it.
    pub nodes: u32,
    /// The queues from which these nodes take runs; absent if one of them does not record its queues, or if the server is
    /// of an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// Its versions.
    pub versions: Vec<u32>,
}
