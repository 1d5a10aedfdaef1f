//! Engines that work on the store, and the workflows that they have.

use goldseam::Millis;
use goldseam::core::{NodeId, WorkflowName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One incarnation of an engine process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Whether it works, as far as can be known.
    pub alive: bool,
    /// When it last gave a sign of life, by the store's clock.
    pub beat_at: Millis,
    /// How many times it has.
    pub beats: u64,
    /// Random per start.
    pub id: NodeId,
    /// For people: host and process id.
    pub name: String,
    /// What the system knows of its process: `held`, `dropped`, `suspect` or `unknown`.
    pub pulse: String,
    /// Runs it takes at once.
    pub slots: u32,
    /// When it joined.
    pub started_at: Millis,
    /// `up`, `leaving`, `left` or `gone`.
    pub state: String,
    /// Workflows it has, as `name@version`.
    pub workflows: Vec<String>,
}

/// A workflow that live nodes have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    /// Its name.
    pub name: WorkflowName,
    /// Live nodes that have a version of it.
    pub nodes: u32,
    /// Its versions.
    pub versions: Vec<u32>,
}
