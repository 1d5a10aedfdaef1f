//! States that somebody else keeps in the same place: those that nothing will move on get a new task.
//!
//! Any number of sweepers at once do no more than one: the new task follows from the state and the task before it, and the
//! state takes it by compare-and-set.

use std::collections::HashMap;
use std::time::Duration;

use goldseam_core::recovery::foreign::{Foreign, Standing};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, RunId};
use goldseam_store::{Expect, ForeignState, ForeignStates, Written};

use super::sweeper::Fate;
use super::{Healer, Liveness};
use crate::heal::claims::judge::{self, Roster};
use crate::ledger::error::EngineError;

pub use crate::ledger::foreign::{ForeignOptions, TaskLookup};
pub use goldseam_core::recovery::foreign::TaskStanding;

/// A state of somebody else that is stalled, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignStalled {
    /// Whose state.
    pub id: RunId,
    /// What was seen.
    pub evidence: String,
    /// Since when it has been seen so.
    pub since: Millis,
    /// What became of it.
    pub fate: Fate,
}

/// What a sweep found among the states of others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForeignReport {
    /// States looked at.
    pub scanned: u64,
    /// Those that are over, paused, without a task, or not understood.
    pub skipped: u64,
    /// Those whose task will move them on.
    pub healthy: u64,
    /// Those that have a new task.
    pub healed: u64,
    /// Each stalled one with its reason.
    pub stalled: Vec<ForeignStalled>,
    /// Names of states that no run can have: these were not looked at.
    pub unnamed: Vec<String>,
}

impl ForeignReport {
    /// Adds what a later tick of the same sweep found.
    pub fn add(&mut self, later: Self) {
        self.scanned += later.scanned;
        self.skipped += later.skipped;
        self.healthy += later.healthy;
        self.healed += later.healed;
        self.stalled.extend(later.stalled);
        self.unnamed.extend(later.unnamed);
    }
}

/// A state as it was first seen stalled.
#[derive(Debug, Clone)]
struct Sighting {
    version: String,
    since: Millis,
}

/// What a sweeper remembers of the states of others.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// What was stalled in the sweep before.
    before: HashMap<RunId, Sighting>,
    /// The same in this one, so far.
    now: HashMap<RunId, Sighting>,
}

impl Others {
    /// All states were looked at.
    pub(super) fn end_of_sweep(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    fn seen_since(&mut self, state: &ForeignState, now: Millis) -> Millis {
        let same = |sighting: &&Sighting| sighting.version == state.version;
        let since = self.before.get(&state.id).filter(same).map_or(now, |sighting| sighting.since);
        self.now.insert(state.id.clone(), Sighting { version: state.version.clone(), since });
        since
    }
}

/// How stalled states are treated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Treatment<'a> {
    pub(super) options: &'a ForeignOptions,
    pub(super) stale_after: Duration,
    pub(super) dry_run: bool,
}

impl Healer {
    /// Looks at one state, and heals it if it has been stalled for long enough.
    pub(super) async fn look_at_foreign(
        &self,
        (place, state): (&dyn ForeignStates, &ForeignState),
        others: &mut Others,
        treatment: Treatment<'_>,
        liveness: &Liveness,
    ) -> Result<ForeignReport, EngineError> {
        let mut report = ForeignReport { scanned: 1, ..ForeignReport::default() };
        let foreign = match Foreign::parse(&state.id, &state.body) {
            Ok(foreign) => foreign,
            Err(error) => {
                tracing::debug!(%error, "a state of somebody else is left alone");
                place.settled(&state.id, &state.version);
                report.skipped = 1;
                return Ok(report);
            }
        };
        let (task, found) = match self.task_of(&foreign, treatment.options, liveness).await? {
            Ok(found) => found,
            Err(error) => {
                let evidence = format!("its task {} cannot be looked up", foreign.task().unwrap_or_default());
                let since = others.seen_since(state, liveness.now);
                let fate = Fate::Failed(error.to_string());
                report.stalled.push(ForeignStalled { id: state.id.clone(), evidence, since, fate });
                return Ok(report);
            }
        };
        let (evidence, can_heal) = match foreign.standing_by(&found) {
            Standing::Skipped => {
                // Nothing but a change of the state itself can make it ours.
                place.settled(&state.id, &state.version);
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
        let since = others.seen_since(state, liveness.now);
        let fate = match () {
            () if !can_heal => Fate::NeedsHelp,
            () if treatment.dry_run => Fate::Told,
            () if liveness.now.since(since) < treatment.stale_after => Fate::Young,
            () => match self.heal_foreign((place, state), &foreign, task, (&evidence, treatment)).await {
                Ok(fate) => fate,
                Err(error) => Fate::Failed(error.to_string()),
            },
        };
        report.healed = u64::from(fate == Fate::Healed);
        report.stalled.push(ForeignStalled { id: state.id.clone(), evidence, since, fate });
        Ok(report)
    }

    /// How the task stands that the state names, and the task itself if it is one of ours.
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
        let lapsed = task.as_ref().and_then(|task| self.lapsed(task, liveness));
        let found = TaskStanding::of(task.as_ref(), lapsed.as_deref());
        Ok(Ok((task, found)))
    }

    /// Why nobody alive holds the task, by the rule for claims (L2).
    fn lapsed(&self, task: &Task, liveness: &Liveness) -> Option<String> {
        let own = self.ledger.process.node().map(|node| node.as_str());
        let roster = Roster::new(&liveness.nodes, own);
        let stale = judge::task(task, &roster, (liveness.now, self.rules.claim_lease))?;
        Some(stale.why)
    }

    /// A new task, then its id into the state. Losing to somebody else is no error.
    async fn heal_foreign(
        &self,
        (place, state): (&dyn ForeignStates, &ForeignState),
        foreign: &Foreign,
        task: Option<Task>,
        (evidence, treatment): (&str, Treatment<'_>),
    ) -> Result<Fate, EngineError> {
        let now = self.ledger.store.now().await?;
        if let Some(held) = task.filter(|task| task.state == TaskState::Claimed) {
            // Any heartbeat since it was seen defeats this; left as it is, it would keep its key from the new one.
            let expect = Expect::Version(held.version);
            let Ok(over) = held.replaced(evidence, now) else { return Ok(Fate::Moved) };
            if self.ledger.store.put_task(over, expect).await? != Written::Done {
                return Ok(Fate::Moved);
            }
        }
        let ForeignOptions { queue, kind, .. } = treatment.options;
        let new = foreign.new_task(queue.clone(), kind, now);
        let new = self.ledger.submit_task(new).await?;
        if foreign.task() == Some(new.id.as_str()) {
            return Ok(Fate::Moved);
        }
        match place.swap(&state.id, &state.version, &foreign.with_task(&new.id)).await? {
            Written::Done => {
                tracing::info!(id = %state.id, task = %new.id, evidence, "a state of somebody else has a new task");
                Ok(Fate::Healed)
            }
            Written::Lost(_) => Ok(Fate::Moved),
        }
    }
}
