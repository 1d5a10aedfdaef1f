//! The sweeper: examines all active runs, heals stalled ones by their rules, then examines foreign states.
//!
//! Cost grows with the runs that do something: the store leaves out runs that their row and task prove to be well, and
//! an engine reads the others by indexes. A slow walk, shared by all engines, reads everything else in slices.

pub(crate) mod cursor;
mod stages;
mod walk;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::recovery::{Code, Diagnosis, Policy, Reason, Remedy};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Command, Hash, Millis, RunId, Seq, Summary};
use goldseam_store::Row;

use super::foreign::{
    ForeignOptions, ForeignReport, ForeignSightings, ForeignStalled, ForeignSubject, Treatment,
};
use super::{Examined, Found, Healed, Healer, Liveness};
use stages::Stage;

pub use crate::ledger::config::WalkSlice;
use crate::ledger::error::EngineError;

/// Records per read of the store.
const PAGE: u32 = 200;
/// Maximum number of healthy runs remembered. Beyond it, the memory is cleared. Runs that the store proves to be well
/// are not remembered.
const REMEMBERED_MAX: usize = 20_000;

/// Options of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepOptions {
    /// How long a finding must hold, without progress of the run, before it is healed; none: as its workflow's
    /// configuration says.
    pub stale_after: Option<Duration>,
    /// Report only.
    pub dry_run: bool,
    /// Heal only findings of this rule.
    pub rule: Option<Code>,
    /// Report parked runs as findings.
    pub parked: bool,
    /// Read every log, independent of the cached rows.
    pub deep: bool,
    /// How to heal foreign states, if the store keeps them; none: skip them.
    pub foreign: Option<ForeignOptions>,
    /// Judge how long a finding has held by the log, the row, the task and the owner's last beat, by the store's
    /// clock, instead of by earlier sweeps. For a single sweep, which has no earlier ones. Foreign states are not
    /// judged so.
    pub from_log: bool,
    /// Number of rows that are also compared with their logs, continuing after the previous sweep.
    pub walk: u32,
    /// Read only what an engine's regular sweep reads: watched runs, known findings and a slice of the rest; none:
    /// read every active run.
    pub slice: Option<WalkSlice>,
}

impl Default for SweepOptions {
    fn default() -> Self {
        Self {
            stale_after: Some(Duration::from_secs(600)),
            dry_run: false,
            rule: None,
            parked: false,
            deep: false,
            foreign: None,
            from_log: false,
            walk: 0,
            slice: None,
        }
    }
}

/// What happened to a finding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fate {
    /// Healed.
    Healed,
    /// Not healed yet, because it has not held for long enough.
    Young,
    /// Only reported.
    Reported,
    /// Another healer was faster, or the run progressed.
    Moved,
    /// Only an operator or time can help.
    NeedsHelp,
    /// No remedy needed: a node has its task, or will claim it.
    Waits,
    /// The run was stopped because it crashes its process; it needs an operator.
    Stopped,
    /// The remedy failed; a later sweep retries.
    Failed(String),
}

impl Fate {
    /// The name in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Healed => "healed",
            Self::Young => "young",
            Self::Reported => "told",
            Self::Moved => "moved",
            Self::NeedsHelp => "needs_help",
            Self::Waits => "waits",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
        }
    }
}

/// A stalled run and what happened to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stalled {
    /// The finding.
    pub found: Found,
    /// When the finding was first seen.
    pub since: Millis,
    /// What happened to it.
    pub fate: Fate,
}

/// The result of a tick of the sweeper.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SweepReport {
    /// Number of runs examined: terminal, healthy and stalled.
    pub scanned: u64,
    /// Number of runs that had ended.
    pub terminal: u64,
    /// Number of healthy runs.
    pub healthy: u64,
    /// Number of runs healed.
    pub healed: u64,
    /// Number of cached rows rewritten.
    pub rows_rewritten: u64,
    /// All stalled runs with their reasons.
    pub stalled: Vec<Stalled>,
    /// Findings among foreign states; none if they were not examined.
    pub foreign: Option<ForeignReport>,
    /// Whether the sweep is incomplete.
    pub more: bool,
}

impl SweepReport {
    /// Adds the report of a later tick of the same sweep.
    pub fn add(&mut self, later: Self) {
        self.scanned += later.scanned;
        self.terminal += later.terminal;
        self.healthy += later.healthy;
        self.healed += later.healed;
        self.rows_rewritten += later.rows_rewritten;
        self.stalled.extend(later.stalled);
        if let Some(foreign) = later.foreign {
            self.foreign.get_or_insert_default().add(foreign);
        }
        self.more = later.more;
    }
}

/// When a finding was first seen.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    rule: Code,
    moves: u64,
    since: Millis,
}

/// Examines all active runs, a batch per tick. Any number of sweepers may run at once.
#[derive(Debug)]
pub struct Sweeper {
    healer: Healer,
    options: SweepOptions,
    stage: Stage,
    /// The cursor of the walk over logs, if it is not shared.
    walked: Option<String>,
    /// Where the next sweep continues with paused and parked runs.
    stopped: Option<String>,
    /// About how many active runs the store has.
    active: u64,
    /// Whether the store has more active runs than a slice, so that engines share the walk.
    shares_walk: bool,
    /// Number of runs that this sweep has examined or skipped.
    counted: u64,
    sightings: HashMap<RunId, Sighting>,
    /// Runs with a finding in this sweep.
    reported: HashSet<RunId>,
    /// Healthy runs: hash of the run id, and fingerprint of its row and task at that time.
    healthy: HashMap<u64, u64>,
    foreign_sightings: ForeignSightings,
}

impl Sweeper {
    pub(crate) fn new(healer: Healer, options: SweepOptions) -> Self {
        let stage = Stage::default();
        let foreign_sightings = ForeignSightings::default();
        Self {
            healer,
            options,
            stage,
            walked: None,
            stopped: None,
            active: 0,
            shares_walk: false,
            counted: 0,
            sightings: HashMap::new(),
            reported: HashSet::new(),
            healthy: HashMap::new(),
            foreign_sightings,
        }
    }

    /// Changes how long a finding must hold and the recorded reason, from the next tick on.
    pub(crate) fn heal_after(&mut self, stale_after: Option<Duration>, reason: Reason) {
        self.options.stale_after = stale_after;
        self.healer.reason = reason;
    }

    /// Reads only a slice from the next sweep on.
    pub(crate) fn read_slices(&mut self, slice: Option<WalkSlice>) {
        self.options.slice = slice;
    }

    /// Runs a whole sweep.
    pub async fn sweep(&mut self) -> Result<SweepReport, EngineError> {
        let mut report = self.tick().await?;
        while report.more {
            let later = self.tick().await?;
            report.add(later);
        }
        Ok(report)
    }

    fn wants_foreign(&self) -> bool {
        let wanted = self.options.foreign.is_some() && self.options.rule.is_none();
        wanted && self.healer.ledger.store.foreign().is_some()
    }

    /// Examines a page of foreign states. Returns the cursor of the next page.
    async fn sweep_foreign(
        &mut self,
        after: Option<String>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<Option<String>, EngineError> {
        let store = Arc::clone(&self.healer.ledger.store);
        let (Some(states), Some(options)) = (store.foreign(), &self.options.foreign) else { return Ok(None) };
        let stale_after = self.options.stale_after.unwrap_or(self.healer.rules.recovery.stale_after);
        let treatment = Treatment { options, stale_after, dry_run: self.options.dry_run };
        let page = states.states(after.as_deref(), PAGE).await?;
        let found = report.foreign.get_or_insert_default();
        for unreadable in page.unreadable {
            let Ok(id) = RunId::new(unreadable.key) else { continue };
            found.scanned += 1;
            found.skipped += 1;
            let evidence = format!("it cannot be read: {}", unreadable.reason);
            let since = liveness.now;
            let fate = Fate::NeedsHelp;
            found.stalled.push(ForeignStalled { id, evidence, is_unreadable: true, since, fate });
        }
        for state in &page.items {
            let subject = ForeignSubject { states, state };
            let sightings = &mut self.foreign_sightings;
            let examined = self.healer.examine_foreign(subject, sightings, treatment, liveness);
            found.add(examined.await?);
        }
        if page.next.is_none() {
            found.unnamed = states.unnamed().await?;
        }
        Ok(page.next)
    }

    fn end_of_sweep(&mut self, report: SweepReport) -> SweepReport {
        self.stage = Stage::default();
        self.foreign_sightings.end_of_sweep();
        self.reported.clear();
        let counted = std::mem::take(&mut self.counted);
        if self.options.slice.is_none() {
            self.active = counted;
        }
        if self.healthy.len() > REMEMBERED_MAX {
            self.healthy.clear();
        }
        report
    }

    /// Examines a run by its row and its task; reads the log if they do not prove it healthy.
    async fn examine_row(
        &mut self,
        row: &Row,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let summary = &row.summary;
        let owner = liveness.owner(summary.owner.as_ref(), summary.claimed_at);
        let remote_is_quiet = self.healer.remote_is_quiet(summary, liveness.now).await?;
        let sound = summary.is_coherent() && row.task.is_some();
        if owner.is_alive() && sound && remote_is_quiet && !self.options.deep {
            report.scanned += 1;
            report.healthy += 1;
            return Ok(());
        }
        let task = match row.task.clone() {
            Some(id) => self.healer.advance_task(id).await?,
            None => None,
        };
        let mark = fingerprint(row, task.as_ref());
        let known = self.healthy.get(&key(&summary.run)) == Some(&mark);
        let quiet = |task: &Task| remote_is_quiet && is_quiet(row, task, liveness);
        if known && !self.options.deep && task.as_ref().is_some_and(quiet) {
            report.scanned += 1;
            report.healthy += 1;
            return Ok(());
        }
        let changed = changed(row, task.as_ref(), liveness);
        self.examine_log(&summary.run, Some((mark, changed)), liveness, report).await
    }

    /// Reads the log, diagnoses the run, and heals findings that have held for long enough.
    async fn examine_log(
        &mut self,
        run: &RunId,
        known: Option<(u64, Millis)>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        if self.reported.contains(run) {
            return Ok(());
        }
        let examined = match self.healer.examine(run, liveness).await {
            Ok(examined) => examined,
            Err(EngineError::Refused { .. }) => {
                self.sightings.remove(run);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        report.scanned += 1;
        let examined = self.timed_out(run, examined, liveness).await?;
        let examined = self.with_row(run, examined, liveness, report).await?;
        let Some(found) = self.most_urgent(&examined).cloned() else {
            self.sightings.remove(run);
            if let Some((mark, _)) = known.filter(|_| !examined.row_is_off) {
                self.healthy.insert(key(run), mark);
            }
            match examined.state.as_ref().is_some_and(|state| state.summary.status.is_terminal()) {
                true => report.terminal += 1,
                false => report.healthy += 1,
            }
            return Ok(());
        };
        // A deploy may bring the version that E2 misses, so the time counts from this sweeper's first sight.
        let by_log = self.options.from_log && !self.waits_for_deploy(&found);
        let changed = known.map(|(_, changed)| changed).filter(|_| by_log);
        let first = match changed {
            Some(changed) => self.held_since(&found, changed, liveness.now).await?,
            None => liveness.now,
        };
        let since = self.seen_since(&found, moves(&examined, found.at), first);
        let since = since.max(self.last_had_version(&found, &examined, liveness).unwrap_or(since));
        // A silence finding has already lasted for its own limit.
        let silent = found.diagnosis.rule == Code::H1;
        let old_enough = silent || liveness.now.since(since) >= self.held_for(&found, &examined);
        let found = match &examined.state {
            Some(state) if !old_enough && self.waits_for_deploy(&found) => found.before_grace(&state.summary),
            _ => found,
        };
        let fate = self.apply(&found, old_enough).await;
        if fate == Fate::Healed {
            report.healed += 1;
            self.sightings.remove(run);
        }
        self.reported.insert(run.clone());
        report.stalled.push(Stalled { found, since, fate });
        Ok(())
    }

    /// Requests the end of a run whose deadline has passed while no node could claim it. A run that has not begun ends
    /// at once, and so does one that has nothing to undo if no live node has its code.
    async fn timed_out(
        &self,
        run: &RunId,
        examined: Examined,
        liveness: &Liveness,
    ) -> Result<Examined, EngineError> {
        let summary = examined.state.as_ref().map(|state| &state.summary);
        let overdue = summary.filter(|summary| summary.is_overdue(liveness.now) && !self.options.dry_run);
        let Some(overdue) = overdue else { return Ok(examined) };
        match self.healer.ledger.commit(run, &time_out(overdue, liveness)).await {
            Ok(_) | Err(EngineError::Refused { .. }) => self.healer.examine(run, liveness).await,
            Err(error) => Err(error),
        }
    }

    /// Requests the end of a paused or parked run whose deadline has passed. A damaged run stays parked.
    async fn time_out_stopped(&self, summary: &Summary, liveness: &Liveness) -> Result<(), EngineError> {
        if !summary.is_overdue(liveness.now) || self.options.dry_run {
            return Ok(());
        }
        match self.healer.ledger.commit(&summary.run, &time_out(summary, liveness)).await {
            Ok(_) | Err(EngineError::Refused { .. } | EngineError::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The finding to heal first; if one rule is requested, its finding if it applies.
    fn most_urgent<'a>(&self, examined: &'a Examined) -> Option<&'a Found> {
        let wanted = |found: &&Found| Some(found.diagnosis.rule) == self.options.rule;
        examined.found.iter().find(wanted).or(examined.found.first())
    }

    /// Rewrites a cached row that is lost, late or wrong, unless a rule covers it; then examines the run again.
    async fn with_row(
        &self,
        run: &RunId,
        examined: Examined,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<Examined, EngineError> {
        let Examined { state: Some(state), row_is_off: true, found, .. } = &examined else {
            return Ok(examined);
        };
        let by_rule = found.iter().any(|found| found.diagnosis.rule.reads_cached_row());
        let is_wanted = self.options.rule.is_none_or(|rule| rule == Code::C1);
        if by_rule || !is_wanted {
            return Ok(examined);
        }
        if self.options.dry_run {
            if let Some(evidence) = examined.row_is.clone() {
                report.stalled.push(walk::off_row(run, state.summary.as_of, evidence, liveness.now));
            }
            return Ok(examined);
        }
        match self.healer.rewrite_row(run, state).await? {
            Healed::Done { .. } => {
                report.rows_rewritten += 1;
                self.healer.examine(run, liveness).await
            }
            Healed::Moved | Healed::NeedsOperator => Ok(examined),
        }
    }

    /// Since when the facts behind the finding are unchanged.
    async fn held_since(&self, found: &Found, changed: Millis, now: Millis) -> Result<Millis, EngineError> {
        let Remedy::Deliver { child, .. } = &found.diagnosis.remedy else { return Ok(changed) };
        let ended = self.healer.ledger.summary(child).await?.map_or(now, |child| child.last_event_at);
        Ok(changed.max(ended))
    }

    fn seen_since(&mut self, found: &Found, moves: u64, first: Millis) -> Millis {
        let rule = found.diagnosis.rule;
        let new = Sighting { rule, moves, since: first };
        let sighting = self.sightings.entry(found.run.clone()).or_insert(new);
        if (sighting.rule, sighting.moves) != (rule, moves) {
            *sighting = new;
        }
        sighting.since
    }

    /// How long this finding must hold before it is healed.
    fn held_for(&self, found: &Found, examined: &Examined) -> Duration {
        let rules = &self.healer.rules;
        let summary = examined.state.as_ref().map(|state| &state.summary);
        let stale_after = self.options.stale_after.unwrap_or_else(|| {
            let policy = summary.map(|summary| rules.policy_for(summary));
            policy.map_or(rules.recovery.stale_after, Policy::stale_after)
        });
        let recovery = summary.map_or(&rules.recovery, |summary| rules.recovery_for(&summary.workflow));
        match self.waits_for_deploy(found) {
            true => stale_after.max(recovery.version_grace),
            false => stale_after,
        }
    }

    /// Whether a deploy may still bring the missing version. An operator who requests rule E2 does not wait.
    fn waits_for_deploy(&self, found: &Found) -> bool {
        found.diagnosis.rule == Code::E2 && self.options.rule != Some(Code::E2)
    }

    /// The last beat of a node with the version that the run waits for.
    fn last_had_version(&self, found: &Found, examined: &Examined, liveness: &Liveness) -> Option<Millis> {
        let summary = &examined.state.as_ref().filter(|_| self.waits_for_deploy(found))?.summary;
        liveness.last_had(&summary.workflow, summary.version)
    }

    async fn apply(&self, found: &Found, old_enough: bool) -> Fate {
        match &found.diagnosis {
            // Its task is in the queue again, or a node has it: that node will take the run over.
            Diagnosis { rule: Code::O2, remedy: Remedy::Tell { .. }, .. } => return Fate::Waits,
            diagnosis if !diagnosis.remedy.is_automatic() => return Fate::NeedsHelp,
            _ => {}
        }
        let wanted = self.options.rule.is_none_or(|rule| rule == found.diagnosis.rule);
        if self.options.dry_run || !wanted {
            return Fate::Reported;
        }
        if !old_enough {
            return Fate::Young;
        }
        match self.healer.heal(&found.run, found.at, &found.diagnosis).await {
            Ok(Healed::Done { .. }) if found.diagnosis.rule == Code::P1 => Fate::Stopped,
            Ok(Healed::Done { .. }) => Fate::Healed,
            Ok(Healed::Moved) => Fate::Moved,
            Ok(Healed::NeedsOperator) => Fate::NeedsHelp,
            Err(error) => Fate::Failed(error.to_string()),
        }
    }
}

/// The progress of the run so far.
fn moves(examined: &Examined, end: Seq) -> u64 {
    examined.state.as_ref().map_or(end.0, |state| state.summary.moves())
}

/// When a fact about the run last changed: its log, its row, its task, a timer that became due, or its owner's last
/// beat.
fn changed(row: &Row, task: Option<&Task>, liveness: &Liveness) -> Millis {
    let summary = &row.summary;
    let due = [summary.due(), task.map(|task| task.run_at)].into_iter().flatten();
    let owner = summary.owner.as_ref();
    let beat = owner.and_then(|owner| liveness.nodes.iter().find(|seen| seen.record.id == *owner));
    let past = [Some(summary.last_event_at), Some(row.updated_at), task.map(|task| task.changed_at)];
    let past = past.into_iter().flatten().chain(beat.map(|seen| seen.beat_at));
    let latest = past.chain(due.filter(|due| *due <= liveness.now)).max();
    latest.map_or(liveness.now, |latest| latest.min(liveness.now))
}

fn key(run: &RunId) -> u64 {
    Hash::of_parts(&[run.as_str()]).leading()
}

/// A hash of the versions of the row and its task.
fn fingerprint(row: &Row, task: Option<&Task>) -> u64 {
    let version = task.map_or(0, |task| task.version);
    Hash::of_parts(&[&row.updated_at.0.to_string(), &row.summary.as_of.0.to_string(), &version.to_string()])
        .leading()
}

/// The command that ends a run whose deadline has passed, which differs if no live node has the run's code.
fn time_out(summary: &Summary, liveness: &Liveness) -> Command {
    let owned = liveness.owner(summary.owner.as_ref(), summary.claimed_at).is_alive();
    match owned || liveness.can_run(summary) {
        true => Command::TimeOut,
        false => Command::TimeOutUnmanned { lost: summary.owner.clone() },
    }
}

/// Whether an unchanged run is still healthy: only time could have stalled it, and it has not.
fn is_quiet(row: &Row, task: &Task, liveness: &Liveness) -> bool {
    let overdue = row.summary.due().is_some_and(|due| due <= liveness.now);
    // Its lane may be busy, or its queue long.
    if row.summary.is_overdue(liveness.now) {
        return false;
    }
    match task.state {
        // A claimable task needs a live node with its version.
        TaskState::Ready if task.run_at <= liveness.now => {
            liveness.can_execute(&row.summary.workflow, row.summary.version)
        }
        TaskState::Ready => !overdue,
        TaskState::Claimed => {
            task.owner.as_deref().is_some_and(|owner| liveness.holder(owner, None).is_alive())
        }
        TaskState::Completed | TaskState::Failed | TaskState::Cancelled | TaskState::Dead => false,
    }
}

#[cfg(test)]
mod tests;
