//! Audit entries: recent changes of a record, and which of them are heals.
//!
//! A record keeps its last entries itself. A heal says so in its entry, with the version that it made; a store copies
//! such an entry into its own audit in the transaction that writes the record.

use serde::{Deserialize, Serialize};

use crate::id::{NodeId, RunId, WorkState};
use crate::payload::Payload;
use crate::time::Millis;

/// Most audit entries kept in a record.
const AUDIT_MAX: usize = 8;

/// The rule that the audit names for a heal of a foreign state, which no rule of the catalogue covers.
pub const FOREIGN_RULE: &str = "foreign";

/// An entry in the audit of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Audit {
    /// When it happened.
    pub at: Millis,
    /// What happened.
    pub what: String,
    /// Progress details of the claimant: only in the entry of the last heartbeat that carried some.
    #[serde(default, deserialize_with = "crate::payload::present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Payload, required = false))]
    pub details: Option<Payload>,
    /// The heal, if the change was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<Box<AuditHeal>>,
    /// The state of its work that the claimant reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkState>,
}

impl Audit {
    /// Creates an entry without details.
    pub fn new(at: Millis, what: impl Into<String>) -> Self {
        Self { at, what: what.into(), details: None, heal: None, state: None }
    }

    /// Returns the heal if it made this version of the record.
    pub fn heal_of(&self, version: u64) -> Option<&AuditHeal> {
        self.heal.as_deref().filter(|heal| heal.version == version)
    }
}

/// A heal of a record that has no log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AuditHeal {
    /// The rule: `L1`, `L2`, or `foreign`.
    pub rule: String,
    /// The version of the record that the heal made.
    pub version: u64,
    /// Why it was done: `infrastructure_restart`, `stale_detection` or `manual`.
    pub reason: String,
    /// Number of the heal: of a task, its claims that ended by a crash; else 1.
    pub attempt: u32,
    /// How long the holder had given no sign of life, if known.
    #[serde(default)]
    pub stale_ms: u64,
    /// The node that healed the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// The claimant or holder that lost the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// How the heal ended the record instead: `dead`, if too many claimants crashed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The foreign state that got this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunId>,
}

/// Adds an audit entry and drops the oldest one if there are too many.
pub fn note(audit: &mut Vec<Audit>, at: Millis, what: impl Into<String>) {
    audit.push(Audit::new(at, what));
    while audit.len() > AUDIT_MAX {
        // The next claimant needs the details, however old they are.
        let oldest = audit.iter().position(|entry| entry.details.is_none()).unwrap_or_default();
        audit.remove(oldest);
    }
}

/// Marks the newest entry as a heal.
pub(crate) fn mark_heal(audit: &mut [Audit], heal: AuditHeal) {
    if let Some(entry) = audit.last_mut() {
        entry.heal = Some(Box::new(heal));
    }
}
