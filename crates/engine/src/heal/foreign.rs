//! Foreign states: workflow states of other programs in the same store. Stalled ones get a new task.
//!
//! Concurrent sweepers do no harm: the id of the new task is derived from the state and its previous task, and the
//! state takes it by compare-and-set.

use std::collections::HashMap;
use std::time::Duration;

use goldseam_core::audit::{AuditHeal, FOREIGN_RULE};
use goldseam_core::recovery::foreign::{Foreign, Standing};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, RunId};
use goldseam_store::{Expect, ForeignState, ForeignStates, Written};

use super::sweeper::Fate;
use super::{Healer, Liveness};
use crate::heal::claims::staleness::{self, Roster};
use crate::ledger::error::EngineError;

pub use crate::ledger::foreign::{ForeignOptions, TaskLookup};
pub use goldseam_core::recovery::foreign::TaskStanding;

/// A stalled foreign state and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignStalled {
    /// The id of the state.
    pub id: RunId,
    /// The evidence.
    pub evidence: String,
    /// Whether the state itself cannot be read, so that its task is unknown.
    pub is_unreadable: bool,
    /// When the stall was first seen.
    pub since: Millis,
    /// What happened to it.
    pub fate: Fate,
}

/// The findings of a sweep among foreign states.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForeignReport {
    /// Number of states examined.
    pub scanned: u64,
    /// Number of states that have ended, are paused, have no task, or cannot be parsed.
    pub skipped: u64,
    /// Number of states whose task will move them.
    pub healthy: u64,
    /// Number of states that got a new task.
    pub healed: u64,
    /// All stalled states with their reasons.
    pub stalled: Vec<ForeignStalled>,
    /// Ids of states that are not valid run ids. They are not examined.
    pub unnamed: Vec<String>,
}

impl ForeignReport {
    /// Adds the report of a later tick of the same sweep.
    pub fn add(&mut self, later: Self) {
        self.scanned += later.scanned;
        self.skipped += later.skipped;
        self.healthy += later.healthy;
        self.healed += later.healed;
        self.stalled.extend(later.stalled);
        self.unnamed.extend(later.unnamed);
    }
}

/// When a stalled state was first seen.
#[derive(Debug, Clone)]
struct ForeignSighting {
    version: String,
    since: Millis,
}

/// The stalled foreign states that a sweeper remembers.
#[derive(Debug, Default)]
pub(super) struct ForeignSightings {
    /// Stalled states of the previous sweep.
    before: HashMap<RunId, ForeignSighting>,
    /// Stalled states of this sweep so far.
    now: HashMap<RunId, ForeignSighting>,
}

impl ForeignSightings {
    /// Ends a sweep over all states.
    pub(super) fn end_of_sweep(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    fn seen_since(&mut self, state: &ForeignState, now: Millis) -> Millis {
        let same = |sighting: &&ForeignSighting| sighting.version == state.version;
        let since = self.before.get(&state.id).filter(same).map_or(now, |sighting| sighting.since);
        self.now.insert(state.id.clone(), ForeignSighting { version: state.version.clone(), since });
        since
    }
}

/// A foreign state and the part of the store that keeps it.
#[derive(Clone, Copy)]
pub(super) struct ForeignSubject<'a> {
    pub(super) states: &'a dyn ForeignStates,
    pub(super) state: &'a ForeignState,
}

/// How stalled states are healed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Treatment<'a> {
    pub(super) options: &'a ForeignOptions,
    pub(super) stale_after: Duration,
    pub(super) dry_run: bool,
}

/// What heals a stalled state.
#[derive(Clone, Copy)]
struct Remedy<'a> {
    evidence: &'a str,
    options: &'a ForeignOptions,
}

impl Healer {
    /// Examines one state, and heals it if it has been stalled for long enough.
    pub(super) async fn examine_foreign(
        &self,
        subject: ForeignSubject<'_>,
        sightings: &mut ForeignSightings,
        treatment: Treatment<'_>,
        liveness: &Liveness,
    ) -> Result<ForeignReport, EngineError> {
        let ForeignSubject { states, state } = subject;
        let mut report = ForeignReport { scanned: 1, ..ForeignReport::default() };
        let foreign = match Foreign::parse(&state.id, &state.body) {
            Ok(foreign) => foreign,
            Err(error) => {
                tracing::debug!(%error, "skipping foreign workflow state");
                states.settled(&state.id, &state.version);
                report.skipped = 1;
                return Ok(report);
            }
        };
        let (task, found) = match self.task_of(&foreign, treatment.options, liveness).await? {
            Ok(found) => found,
            Err(error) => {
                let evidence = format!("failed to look up its task {}", foreign.task().unwrap_or_default());
                let since = sightings.seen_since(state, liveness.now);
                let fate = Fate::Failed(error.to_string());
                let id = state.id.clone();
                report.stalled.push(ForeignStalled { id, evidence, is_unreadable: false, since, fate });
                return Ok(report);
            }
        };
        let (evidence, can_heal) = match foreign.standing_by(&found) {
            Standing::Skipped => {
                // Only a change of the state itself can make it relevant.
                states.settled(&state.id, &state.version);
                report.skipped = 1;
                return Ok(report);
            }
            Standing::Well => {
                report.healthy = 1;
                return Ok(report);
            }
            Standing::Stalled { evidence } => (evidence, true),
            Standing::NeedsHelp { evidence } => (evidence, false),
        };
        let since = sightings.seen_since(state, liveness.now);
        let fate = match () {
            () if !can_heal => Fate::NeedsHelp,
            () if treatment.dry_run => Fate::Reported,
            () if liveness.now.since(since) < treatment.stale_after => Fate::Young,
            () => match self
                .heal_foreign(
                    subject,
                    &foreign,
                    task,
                    Remedy { evidence: &evidence, options: treatment.options },
                )
                .await
            {
                Ok(fate) => fate,
                Err(error) => Fate::Failed(error.to_string()),
            },
        };
        report.healed = u64::from(fate == Fate::Healed);
        let id = state.id.clone();
        report.stalled.push(ForeignStalled { id, evidence, is_unreadable: false, since, fate });
        Ok(report)
    }

    /// The standing of the task that the state names, and the task itself if this store has it.
    async fn task_of(
        &self,
        foreign: &Foreign,
        options: &ForeignOptions,
        liveness: &Liveness,
    ) -> Result<Result<(Option<Task>, TaskStanding), Box<dyn std::error::Error + Send + Sync>>, EngineError>
    {
        let Some(name) = foreign.task().filter(|_| foreign.is_active()) else {
            return Ok(Ok((None, TaskStanding::Missing)));
        };
        if let Some(lookup) = &options.lookup {
            return Ok(lookup.look_up(name).await.map(|found| (None, found)));
        }
        let task = match foreign.task_id() {
            Some(id) => self.task(id).await?,
            None => None,
        };
        let stale = task.as_ref().and_then(|task| self.stale_claim(task, liveness));
        let found = TaskStanding::of(task.as_ref(), stale.as_deref());
        Ok(Ok((task, found)))
    }

    /// Why the task has no live claimant, by rule L2.
    fn stale_claim(&self, task: &Task, liveness: &Liveness) -> Option<String> {
        let own = self.ledger.process.node().map(|node| node.as_str());
        let roster = Roster::new(&liveness.nodes, own);
        let stale = staleness::task(task, &roster, liveness.now, self.rules.claim_lease)?;
        Some(stale.why)
    }

    /// Creates a new task and writes its id into the state. Losing to another writer is not an error.
    async fn heal_foreign(
        &self,
        subject: ForeignSubject<'_>,
        foreign: &Foreign,
        task: Option<Task>,
        remedy: Remedy<'_>,
    ) -> Result<Fate, EngineError> {
        let ForeignSubject { states, state } = subject;
        let Remedy { evidence, options } = remedy;
        let now = self.ledger.store.now().await?;
        if let Some(held) = task.filter(|task| task.state == TaskState::Claimed) {
            // Any heartbeat since the examination defeats this. If the claim stayed, its key would block the new
            // task.
            let expect = Expect::Version(held.version);
            let Ok(over) = held.replaced(evidence, now) else { return Ok(Fate::Moved) };
            if self.ledger.store.put_task(over, expect).await? != Written::Done {
                return Ok(Fate::Moved);
            }
        }
        let ForeignOptions { queue, kind, .. } = options;
        let new = foreign.new_task(queue.clone(), kind, now);
        let heal = AuditHeal {
            rule: FOREIGN_RULE.to_owned(),
            version: 1,
            reason: self.reason.as_str().to_owned(),
            attempt: 1,
            stale_ms: 0,
            node: self.ledger.process.node().cloned(),
            holder: foreign.task().map(str::to_owned),
            ended: None,
            state: Some(state.id.clone()),
        };
        let what = format!("created for foreign state {}: {evidence}", state.id);
        let new = self.ledger.submit_healing(new, what, heal).await?;
        if foreign.task() == Some(new.id.as_str()) {
            return Ok(Fate::Moved);
        }
        match states.swap(&state.id, &state.version, &foreign.with_task(&new.id)).await? {
            Written::Done => {
                tracing::info!(id = %state.id, task = %new.id, evidence, "created new task for foreign workflow state");
                Ok(Fate::Healed)
            }
            Written::Lost(_) => Ok(Fate::Moved),
        }
    }
}
