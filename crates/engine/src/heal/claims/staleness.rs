//! Decides whether a claim or a lock is stale. Pure: the verdicts on the known nodes and the store's clock decide.

use std::collections::HashMap;
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_core::delivery::is_delivery;
use goldseam_core::lock::Lock;
use goldseam_core::recovery::Reason;
use goldseam_core::task::{Task, TaskState};
use goldseam_store::NodeSeen;

use crate::ledger::config::QUEUE_DETAILS;
use crate::ledger::liveness::{self, Sign};

/// Prefix of node ids; sixteen hexadecimal digits follow.
pub(crate) const NODE_PREFIX: &str = "n-";

/// Creates the id of a new node.
pub(crate) fn node_name(random: u64) -> String {
    format!("{NODE_PREFIX}{random:016x}")
}

/// Whether the name is a node id.
pub fn is_node_name(name: &str) -> bool {
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    name.strip_prefix(NODE_PREFIX).is_some_and(|rest| rest.len() == 16 && rest.chars().all(hex))
}

/// Why a record is stale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stale {
    /// A label for metrics; few values.
    pub(super) reason: &'static str,
    /// The reason, for the audit and for people.
    pub(crate) why: String,
    /// For how long, if known.
    pub(super) span: Option<Duration>,
}

impl Stale {
    /// The reason that the audit records, in the words of the log.
    pub(super) fn recorded_reason(&self) -> Reason {
        match self.reason {
            "node_gone" => Reason::InfrastructureRestart,
            "manual" => Reason::Manual,
            _ => Reason::StaleDetection,
        }
    }
}

/// The nodes of a store at one moment.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    known: HashMap<String, Seen>,
    own: Option<String>,
}

#[derive(Debug)]
struct Seen {
    /// The evidence, if the node is proven gone.
    gone: Option<String>,
    beat_at: Millis,
}

impl Roster {
    /// Creates a roster of `nodes`; `own` is the node of this process, which is alive.
    pub(crate) fn new(nodes: &[NodeSeen], own: Option<&str>) -> Self {
        let seen = |node: &NodeSeen| {
            let gone = liveness::proof(node).map(|sign| sign.of(node).to_string());
            (node.record.id.as_str().to_owned(), Seen { gone, beat_at: node.beat_at })
        };
        Self { known: nodes.iter().map(seen).collect(), own: own.map(str::to_owned) }
    }

    /// Nodes that are not proven gone. Silence is not a proof.
    pub(super) fn alive(&self) -> Vec<String> {
        let alive = self.known.iter().filter(|(_, seen)| seen.gone.is_none()).map(|(name, _)| name.clone());
        alive.chain(self.own.clone()).collect()
    }

    /// The proof that a node is gone, if there is one.
    fn proof(&self, node: &str, now: Millis) -> Option<Stale> {
        if self.own.as_deref() == Some(node) {
            return None;
        }
        let (why, span) = match self.known.get(node) {
            None => (Sign::no_record(node).to_string(), None),
            Some(seen) => (seen.gone.clone()?, Some(now.since(seen.beat_at))),
        };
        Some(Stale { reason: "node_gone", why, span })
    }

    fn is_node(&self, name: &str) -> bool {
        self.known.contains_key(name) || self.own.as_deref() == Some(name) || is_node_name(name)
    }
}

/// Why a lock is stale (rule L1): expired, or held by a node that is proven gone.
pub(super) fn lock(lock: &Lock, roster: &Roster, now: Millis) -> Option<Stale> {
    if lock.is_stale(now) {
        let span = now.since(lock.expires_at);
        return Some(Stale { reason: "expired", why: "it expired".to_owned(), span: Some(span) });
    }
    let node = lock.node.as_deref().filter(|_| lock.holder.is_some())?;
    roster.proof(node, now)
}

/// Why a user's task has no live claimant (rule L2).
pub(crate) fn task(task: &Task, roster: &Roster, now: Millis, lease: Duration) -> Option<Stale> {
    if task.state != TaskState::Claimed || is_engines_own(task) {
        return None;
    }
    let quiet = now.since(task.last_sign());
    let Some(owner) = task.owner.as_deref() else {
        let why = "it was claimed without an owner".to_owned();
        return Some(Stale { reason: "no_owner", why, span: Some(quiet) });
    };
    let node = roster.is_node(owner);
    if node && let Some(proof) = roster.proof(owner, now) {
        return Some(proof);
    }
    let allowed = match task.silence_max {
        Some(own) => own,
        None if node => return None,
        None => lease,
    };
    // The silence of a remote step is judged by its step first (rule H1).
    let allowed = if task.run.is_some() { allowed.saturating_add(lease) } else { allowed };
    (quiet >= allowed).then(|| silent(quiet, "silent"))
}

/// Why a task is reclaimed on request: silent for `threshold`. The engine's own tasks are left to live nodes.
pub(super) fn silent_past(task: &Task, roster: &Roster, now: Millis, threshold: Duration) -> Option<Stale> {
    let quiet = now.since(task.last_sign());
    if task.state != TaskState::Claimed || quiet < threshold || task.queue.as_str() == QUEUE_DETAILS {
        return None;
    }
    let owner = task.owner.as_deref().unwrap_or_default();
    let lives = roster.is_node(owner) && roster.proof(owner, now).is_none();
    (!is_engines_own(task) || !lives).then(|| silent(quiet, "manual"))
}

fn silent(quiet: Duration, reason: &'static str) -> Stale {
    let why = format!("no sign of life for {} ms", quiet.as_millis());
    Stale { reason, why, span: Some(quiet) }
}

/// Whether the engine created this task for itself. Takeover and drivers handle those.
pub(super) fn is_engines_own(task: &Task) -> bool {
    task.is_advance() || is_delivery(task) || task.queue.as_str() == QUEUE_DETAILS
}

#[cfg(test)]
mod tests;
