//! Liveness of nodes: the only module that judges whether a node is alive.
//!
//! A lock that the operating system drops, or a record in which the node says so, proves an end. Without a proof, only
//! silence shows it, and a node is silent after the time that its own record names. Each kind of evidence has one
//! wording, in logs, audits, findings and explanations.

mod serving;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use goldseam_core::recovery::{Lived, Owner};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Hint, Millis, NextStep, NodeId, Summary, WorkflowName};
use goldseam_store::{NodeSeen, NodeState, Pulse, Timing};

use crate::ledger::commit::Ledger;
use crate::ledger::config::{Config, Newest};
use crate::ledger::error::EngineError;

pub use self::serving::Coverage;

/// What shows that a node is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The store has no record of it. A node beats before it claims, so it was there.
    NoRecord,
    /// Its record says that it has left.
    Left,
    /// Its record says that it ended without handing over its work.
    Ended,
    /// Its process no longer holds its lock.
    Dropped,
    /// It has not beaten for this long.
    Silent(Duration),
}

/// A sign of the loss of a node, in words.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    sign: Sign,
    node: &'a str,
    /// The display name, if the store has a record of the node.
    name: Option<&'a str>,
}

impl Sign {
    /// Returns the sign in words, for a node that the store has a record of.
    pub(crate) fn of(self, seen: &NodeSeen) -> Evidence<'_> {
        Evidence { sign: self, node: seen.record.id.as_str(), name: Some(&seen.record.name) }
    }

    /// Returns the words for a node without a record.
    pub(crate) fn no_record(node: &str) -> Evidence<'_> {
        Evidence { sign: Self::NoRecord, node, name: None }
    }
}

impl fmt::Display for Evidence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sign == Sign::Dropped {
            f.write_str("the process of ")?;
        }
        write!(f, "node {}", self.node)?;
        if let Some(name) = self.name {
            write!(f, " ({name})")?;
        }
        match self.sign {
            Sign::NoRecord => f.write_str(" is gone: the store has no record of it"),
            Sign::Left => f.write_str(" has left"),
            Sign::Ended | Sign::Dropped => f.write_str(" is gone"),
            Sign::Silent(span) if span < Duration::from_secs(1) => {
                write!(f, " has not beaten for {} ms", span.as_millis())
            }
            Sign::Silent(span) => write!(f, " has not beaten for {} s", span.as_secs()),
        }
    }
}

/// The judgement of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is alive, or nothing says otherwise.
    Alive,
    /// Its end is proven.
    Gone(Sign),
    /// It has not beaten for too long. It may be alive.
    Silent(Sign),
}

/// What an observer knows about a node, beside the record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Observed {
    /// Time since the last beat, by one clock.
    pub(crate) silence: Duration,
    /// How long its lock has been suspect; none if that is unknown or it is not.
    pub(crate) suspect: Option<Duration>,
}

/// Returns the proof that a node has ended, if its record or its lock is one.
pub(crate) fn proof(seen: &NodeSeen) -> Option<Sign> {
    match (seen.record.state, seen.pulse) {
        (NodeState::Left, _) => Some(Sign::Left),
        (NodeState::Gone, _) => Some(Sign::Ended),
        (NodeState::Up | NodeState::Leaving, Pulse::Dropped) => Some(Sign::Dropped),
        (NodeState::Up | NodeState::Leaving, Pulse::Held | Pulse::Suspect | Pulse::Unknown) => None,
    }
}

/// Limits by which a process judges nodes whose records name none, and how long it lets a node be suspect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thresholds {
    pub(crate) silence_max: Duration,
    pub(crate) beat: Duration,
    pub(crate) doubt: Duration,
    pub(crate) grace: Duration,
}

impl Thresholds {
    pub(crate) fn of(config: &Config) -> Self {
        let Config { silence_max, beat, grace, .. } = *config;
        Self { silence_max, beat, doubt: config.recovery.doubt(), grace }
    }

    /// Returns the intervals of a node: those of its record or, if it is of an older release, which records none,
    /// those of this process.
    pub(crate) fn timing(self, seen: &NodeSeen) -> Timing {
        seen.record.timing.unwrap_or(Timing { beat: self.beat, silence_max: self.silence_max })
    }

    /// Judges a node.
    pub(crate) fn judge(self, seen: &NodeSeen, observed: Observed) -> Verdict {
        if let Some(sign) = proof(seen) {
            return Verdict::Gone(sign);
        }
        if observed.suspect.is_some_and(|span| span >= self.grace) {
            return Verdict::Gone(Sign::Dropped);
        }
        match observed.silence >= self.timing(seen).silence_max {
            true => Verdict::Silent(Sign::Silent(observed.silence)),
            false => Verdict::Alive,
        }
    }
}

/// All nodes at one moment.
#[derive(Debug, Clone)]
pub struct Liveness {
    /// Every node with a record in the store.
    pub nodes: Vec<NodeSeen>,
    /// The time of the reading, by the store's clock.
    pub now: Millis,
    pub(crate) thresholds: Thresholds,
}

impl Ledger {
    /// Reads the state of all nodes.
    pub(crate) async fn liveness(&self, thresholds: Thresholds) -> Result<Liveness, EngineError> {
        // Read the clock after the beats: no beat is then in the future.
        let nodes = self.store.nodes().await?;
        Ok(Liveness { nodes, now: self.store.now().await?, thresholds })
    }
}

impl Liveness {
    fn find(&self, node: &str) -> Option<&NodeSeen> {
        self.nodes.iter().find(|seen| seen.record.id.as_str() == node)
    }

    /// Whether the store has a record of this node.
    pub fn knows(&self, node: &str) -> bool {
        self.find(node).is_some()
    }

    /// Judges `owner`, which has owned a run since `since`.
    pub fn owner(&self, owner: Option<&NodeId>, since: Option<Millis>) -> Owner {
        owner.map_or(Owner::None, |owner| self.holder(owner.as_str(), since))
    }

    /// Judges a claimant that may not be a node.
    pub fn holder(&self, holder: &str, since: Option<Millis>) -> Owner {
        let Some(seen) = self.find(holder) else {
            let evidence = Sign::no_record(holder).to_string();
            return self.lost(holder, since, true, evidence);
        };
        match self.verdict(seen) {
            Verdict::Alive => Owner::Alive,
            Verdict::Gone(sign) => self.lost(holder, since, true, sign.of(seen).to_string()),
            Verdict::Silent(sign) => self.lost(holder, since, false, sign.of(seen).to_string()),
        }
    }

    fn lost(&self, node: &str, since: Option<Millis>, proven: bool, evidence: String) -> Owner {
        Owner::Lost { proven, evidence, lived: self.lived(node, since.unwrap_or(self.now)) }
    }

    /// Judges a node by this reading alone, which cannot show for how long a lock has been suspect.
    fn verdict(&self, seen: &NodeSeen) -> Verdict {
        let silence = self.now.since(seen.beat_at);
        self.thresholds.judge(seen, Observed { silence, suspect: None })
    }

    /// Judges the owner of a run by this reading and by `watched`, the verdict of a process that has watched it: that
    /// process may take the run over. Silence by the store's clock alone permits no takeover.
    pub(crate) fn watched(&self, owner: &NodeId, since: Option<Millis>, watched: Verdict) -> Owner {
        let read = self.owner(Some(owner), since);
        let (proven, sign) = match (&read, watched) {
            (Owner::Lost { proven: true, .. }, _) => return read,
            (_, Verdict::Alive) => return Owner::Alive,
            (_, Verdict::Gone(sign)) => (true, sign),
            // If a death can never be proven, silence counts as one: a run that crashes its process must be stopped
            // at some point.
            (_, Verdict::Silent(sign)) => (!self.can_prove(owner), sign),
        };
        let Some(seen) = self.find(owner.as_str()) else { return read };
        self.lost(owner.as_str(), since, proven, sign.of(seen).to_string())
    }

    /// Whether the store can prove the death of `node`. If not, only silence shows it.
    fn can_prove(&self, node: &NodeId) -> bool {
        self.find(node.as_str()).is_none_or(|seen| seen.pulse != Pulse::Unknown)
    }

    /// How long a lost owner lived after `since`: at least until its last beat, at most until its next one.
    fn lived(&self, node: &str, since: Millis) -> Lived {
        let until_now = self.now.since(since);
        let doubt = self.thresholds.doubt;
        match self.find(node) {
            Some(seen) => {
                let least = seen.beat_at.since(since);
                let next = least + self.thresholds.timing(seen).beat * 2;
                let process = seen.beat_at.since(seen.record.started_at);
                Lived { least, most: next.min(until_now).max(least), doubt, process }
            }
            None => Lived { most: until_now, doubt, ..Lived::default() },
        }
    }

    /// Nodes that are alive and up.
    pub fn working(&self) -> impl Iterator<Item = &NodeSeen> {
        self.nodes
            .iter()
            .filter(|seen| seen.record.state == NodeState::Up && self.verdict(seen) == Verdict::Alive)
    }

    /// The versions of a workflow that live nodes have, ascending.
    pub fn versions(&self, workflow: &WorkflowName) -> Vec<u32> {
        let of_it = |(name, version): (&str, u32)| (name == workflow.as_str()).then_some(version);
        let all: BTreeSet<u32> = self.working().flat_map(labels).filter_map(of_it).collect();
        all.into_iter().collect()
    }

    /// Whether a live node can execute this version of the workflow, or any version if the run's version is
    /// undecided.
    pub fn can_execute(&self, workflow: &WorkflowName, version: u32) -> bool {
        let fits =
            |label: (&str, u32)| label.0 == workflow.as_str() && (version == UNDECIDED || label.1 == version);
        self.working().flat_map(labels).any(fits)
    }

    /// The ids of live nodes.
    pub(crate) fn alive(&self) -> Vec<String> {
        let is_alive = |seen: &&NodeSeen| self.verdict(seen) == Verdict::Alive;
        self.nodes.iter().filter(is_alive).map(|seen| seen.record.id.as_str().to_owned()).collect()
    }

    /// The last beat of a node that has this version, live or dead; none if the store has no record of one.
    pub fn last_had(&self, workflow: &WorkflowName, version: u32) -> Option<Millis> {
        let has = |seen: &&NodeSeen| labels(seen).any(|label| label == (workflow.as_str(), version));
        self.nodes.iter().filter(has).map(|seen| seen.beat_at).max()
    }

    /// The newest version of each workflow that live nodes have.
    pub(crate) fn newest(&self) -> Newest {
        let mut newest = Newest::new();
        for (name, version) in self.working().flat_map(labels) {
            if let Ok(name) = WorkflowName::new(name) {
                let known = newest.entry(name).or_default();
                *known = version.max(*known);
            }
        }
        newest
    }
}

/// The workflow names and versions that a node has registered.
fn labels(seen: &NodeSeen) -> impl Iterator<Item = (&str, u32)> {
    let parse = |label: &'_ String| {
        let (name, version) = label.rsplit_once('@')?;
        Some((name.len(), version.parse::<u32>().ok()?))
    };
    seen.record.workflows.iter().filter_map(move |label| {
        let (end, version) = parse(label)?;
        Some((&label[..end], version))
    })
}

impl Liveness {
    /// Whether a live node has code that can continue this run: its current version, or its initial one.
    pub fn can_run(&self, summary: &Summary) -> bool {
        let wanted = [summary.version, summary.initial_version];
        let is_it = |label: &String| {
            label.rsplit_once('@').is_some_and(|(name, version)| {
                let version = version.parse().ok();
                name == summary.workflow.as_str() && wanted.into_iter().any(|one| Some(one) == version)
            })
        };
        self.working().any(|seen| seen.record.workflows.iter().any(is_it))
    }

    /// Describes the worker that a request to this run waits for.
    pub fn worker_for(&self, summary: &Summary) -> Hint {
        let code = format!("{}@{}", summary.workflow, summary.version);
        let resume = || Hint::from(NextStep::resume(&summary.run));
        match &summary.owner {
            Some(owner) if self.owner(Some(owner), summary.claimed_at).is_alive() => {
                format!("node {owner}, which owns the run").into()
            }
            _ if summary.paused => resume().text(": the run is paused"),
            _ if summary.parked => resume().text(": the run is parked"),
            _ if self.can_run(summary) => format!("a worker with {code}").into(),
            _ => format!("a worker with {code} (none is live)").into(),
        }
    }
}

#[cfg(test)]
mod tests;
