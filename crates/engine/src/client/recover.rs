//! Recovery of single runs at the request of an operator.

use goldseam_core::command::Migrate;
use goldseam_core::decide::Refusal;
use goldseam_core::recovery::{Code, NO_STABLE_EVENT, Reason, Remedy};
use goldseam_core::{BranchId, Command, NodeId, Path, RunId, Seq, State, Status};

use crate::client::{By, Client, Jump};
use crate::heal::monitor::Monitor;
use crate::heal::sweeper::{SweepOptions, Sweeper};
use crate::heal::{Examined, Found, Healed, Healer, Rules};
use crate::ledger::error::EngineError;
use crate::ledger::error::refused;

/// Options of the recovery of one run.
#[derive(Debug, Clone, Default)]
pub struct RecoverOptions {
    /// Apply only this rule.
    pub rule: Option<Code>,
    /// Report only.
    pub dry_run: bool,
    /// Before the cut, compensate completed steps that it would leave standing.
    pub compensate: bool,
    /// The request, if its id must be in the log: a remedy that appends records it in the same append, and a repeat
    /// changes nothing.
    pub by: Option<By>,
}

/// The result of a requested recovery.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    /// The status of the run before.
    pub status: Status,
    /// The finding; none: nothing was found and nothing changed.
    pub found: Option<Found>,
    /// What the remedy did; none: dry run, or nothing to do.
    pub healed: Option<Healed>,
    /// Completed steps with a compensation that the cut leaves standing. They run again with the same idempotency
    /// keys.
    pub standing: Vec<Path>,
}

impl Recovery {
    /// Whether a rule applied.
    pub fn was_needed(&self) -> bool {
        self.found.is_some()
    }

    /// Whether a remedy was applied.
    pub fn has_healed(&self) -> bool {
        matches!(self.healed, Some(Healed::Done { .. }))
    }

    /// The branch that the recovery opened, if any.
    pub fn branch(&self) -> Option<BranchId> {
        match &self.healed {
            Some(Healed::Done { branch, .. }) => *branch,
            _ => None,
        }
    }
}

/// The result of a resume, which first recovers the run.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct Resumed {
    /// Where the log ends now.
    pub end: Seq,
    /// Whether the run was paused or parked; if not, it was only recovered.
    pub rested: bool,
    /// The recovery before the resume.
    pub recovery: Recovery,
}

/// The first operation that the run repeats after a cut.
fn first_after(state: &State, remedy: &Remedy) -> Option<Path> {
    let Remedy::Branch { cutoff } = remedy else { return None };
    let after = state.ops.iter().filter(|(_, op)| op.first > *cutoff);
    after.min_by_key(|(_, op)| op.first).map(|(path, _)| path.clone())
}

/// Completed steps with a compensation that a remedy leaves standing, if it cuts the log.
fn standing(examined: &Examined, remedy: &Remedy) -> Vec<Path> {
    match (remedy, &examined.state) {
        (Remedy::Branch { cutoff }, Some(state)) => state.to_undo(*cutoff),
        _ => Vec::new(),
    }
}

/// Whether the rule would cut the log, but the log has no stable event.
fn lacks_stable_event(found: &Found) -> bool {
    match &found.diagnosis.remedy {
        Remedy::Park { reason } => reason == NO_STABLE_EVENT,
        Remedy::Tell { .. } => found.diagnosis.evidence == NO_STABLE_EVENT,
        _ => false,
    }
}

fn no_stable_event(run: &RunId, found: &Found, before: Status) -> EngineError {
    EngineError::NoStableEvent { run: run.clone(), rule: found.diagnosis.rule, before }
}

impl Client {
    /// Returns a healer for recoveries that an operator requests.
    pub fn healer(&self) -> Healer {
        self.healer_for(Reason::Manual)
    }

    fn healer_for(&self, reason: Reason) -> Healer {
        let config = self.config().clone().at_pace(&self.store().pace());
        let rules = Rules { claim_lease: self.claims.rules().lease, ..Rules::of(&config) };
        Healer::new(self.ledger().clone(), rules, reason)
    }

    /// Returns a sweeper of this store, which reports stalled runs and, unless it is a dry run, heals them.
    ///
    /// ```
    /// use goldseam::healer::sweeper::SweepOptions;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let mut sweeper = client.sweeper(SweepOptions { dry_run: true, ..SweepOptions::default() });
    /// let report = sweeper.sweep().await?;
    /// # println!("{report:?}");
    /// # Ok(()) }
    /// ```
    pub fn sweeper(&self, options: SweepOptions) -> Sweeper {
        Sweeper::new(self.healer_for(Reason::StaleDetection), options)
    }

    /// Returns a heartbeat monitor of this store that examines `batch` silent tasks per tick.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let mut monitor = goldseam::Client::new(goldseam::open_store(&url).await?).monitor(20);
    /// let report = monitor.tick().await?;
    /// # println!("{report:?}");
    /// # Ok(()) }
    /// ```
    pub fn monitor(&self, batch: u32) -> Monitor {
        Monitor::new(self.healer_for(Reason::StaleDetection), batch)
    }

    /// Examines a run without changing it.
    pub async fn examine(&self, run: &RunId) -> Result<Examined, EngineError> {
        let healer = self.healer();
        let liveness = healer.liveness().await?;
        healer.examine(run, &liveness).await
    }

    /// Returns what a recovery by each rule that applies would do, the most urgent first. Changes nothing.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// for plan in client.remedies(run.id()).await? {
    ///     println!("{:?}, {} steps run again", plan.found, plan.standing.len());
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn remedies(&self, run: &RunId) -> Result<Vec<Recovery>, EngineError> {
        let examined = self.examine(run).await?;
        let status = examined.state.as_ref().map_or(Status::Parked, |state| state.summary.status);
        let plan = |found: &Found| Recovery {
            status,
            found: Some(found.clone()),
            healed: None,
            standing: standing(&examined, &found.diagnosis.remedy),
        };
        Ok(examined.found.iter().map(plan).collect())
    }

    /// Recovers one run by the first rule that applies, or by the requested rule.
    ///
    /// ```
    /// use goldseam::client::recover::RecoverOptions;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let dry = RecoverOptions { dry_run: true, ..RecoverOptions::default() };
    /// assert!(!client.recover(run.id(), dry).await?.has_healed());
    /// // What an operator would see.
    /// for found in client.examine(run.id()).await?.found {
    ///     println!("{}: {}", found.diagnosis.rule, found.diagnosis.evidence);
    /// }
    /// let liveness = client.healer().liveness().await?;
    /// # Ok(()) }
    /// ```
    pub async fn recover(&self, run: &RunId, options: RecoverOptions) -> Result<Recovery, EngineError> {
        let healer = self.healer();
        let liveness = healer.liveness().await?;
        let examined = healer.examine(run, &liveness).await?;
        let status = examined.state.as_ref().map_or(Status::Parked, |state| state.summary.status);
        let mut recovery = Recovery { status, found: None, healed: None, standing: Vec::new() };
        let codes: Vec<Code> = examined.found.iter().map(|found| found.diagnosis.rule).collect();
        let fits = |found: &&Found| options.rule.is_none_or(|rule| rule == found.diagnosis.rule);
        let Some(found) = examined.found.iter().find(fits).cloned() else {
            if let Some(rule) = options.rule {
                return Err(EngineError::RuleDoesNotApply { run: run.clone(), rule, status, found: codes });
            }
            if let Some(state) = examined.state.as_ref().filter(|_| examined.row_is_off && !options.dry_run) {
                healer.rewrite_row(run, state).await?;
            }
            return Ok(recovery);
        };
        // A deploy may bring the version. Only a sweep that has watched long enough, or an operator who names the
        // rule, continues without it.
        let found = match &examined.state {
            Some(state) if options.rule != Some(Code::E2) => found.before_grace(&state.summary),
            _ => found,
        };
        recovery.standing = standing(&examined, &found.diagnosis.remedy);
        if status == Status::Parked && lacks_stable_event(&found) {
            return Err(no_stable_event(run, &found, status));
        }
        if options.dry_run {
            recovery.found = Some(found);
            return Ok(recovery);
        }
        let to = examined.state.as_ref().and_then(|state| first_after(state, &found.diagnosis.remedy));
        if let Some(to) = to.filter(|_| options.compensate && !recovery.standing.is_empty()) {
            let reason = format!("rule {}: {}", found.diagnosis.rule, found.diagnosis.evidence);
            let by = By { reason, ..By::default() };
            let end = self.jump(run, &to, Jump { compensate: true, by, ..Jump::default() }).await?;
            recovery.healed = Some(Healed::Done { end, branch: None, stale: None });
            recovery.standing.clear();
        } else {
            let note = options.by.clone().map(|by| self.note(by));
            let healed = healer.heal_for(note.as_ref(), run, found.at, &found.diagnosis).await?;
            recovery.healed = Some(healed);
        }
        if lacks_stable_event(&found) {
            return Err(no_stable_event(run, &found, status));
        }
        recovery.found = Some(found);
        Ok(recovery)
    }

    /// Completed steps with a compensation that a jump to `to` without compensation leaves standing, latest first.
    ///
    /// ```
    /// use goldseam::{Path, Status, prelude::*};
    ///
    /// async fn trip(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.step("car", || async { Ok(()) }).compensate(|()| async { Ok(()) }).await?;
    ///     ctx.signal("go").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("trip", trip).start().await?;
    /// let run = engine.start(trip, "t-1", &()).await?;
    /// run.wait_until(|run| run.status == Status::Waiting).await?;
    /// let standing = engine.client().standing(run.id(), &Path::new("car")?).await?;
    /// assert_eq!(standing, [Path::new("car")?]);
    /// # Ok(()) }
    /// ```
    pub async fn standing(&self, run: &RunId, to: &Path) -> Result<Vec<Path>, EngineError> {
        let state = self.state(run).await?;
        let missing = || refused(run, Refusal::NoSuchStep { step: to.clone() });
        let op = state.ops.get(to).ok_or_else(missing)?;
        Ok(state.to_undo(op.first.before()))
    }

    /// Undoes the latest seam by a new branch that continues before it. Nothing is deleted.
    ///
    /// ```
    /// use goldseam::{Status, prelude::*};
    /// # use goldseam::unstable::store::Expect;
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<String> {
    ///     ctx.step("reserve", || async { Ok(()) }).await?;
    ///     ctx.ask("approve", "Ship it?").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// # let run = engine.start(order, "o-1", &()).await?;
    /// # run.wait_until(|run| run.status == Status::Waiting).await?;
    /// # engine.shutdown().await;
    /// # let client = goldseam::connect(&url).await?;
    /// # let mut row = client.store().head(run.id()).await?.and_then(|head| head.row).unwrap();
    /// # let expect = Expect::Version(row.version());
    /// # row.summary.status = Status::Running;
    /// # client.store().put_row(row, expect).await?;
    /// // The row of the run contradicts its log: a rule cuts the log and opens branch b2.
    /// let recovered = client.recover(run.id(), Default::default()).await?;
    /// assert_eq!(recovered.branch().map(|branch| branch.to_string()).as_deref(), Some("b2"));
    /// // The operator knows better: branch b3 continues from before the cut.
    /// client.undo_recovery(run.id(), "the log was right".into()).await?;
    /// assert_eq!(client.get(run.id()).await?.branch.to_string(), "b3");
    /// // Nothing is left to undo.
    /// let refused = client.undo_recovery(run.id(), "again".into()).await;
    /// assert_eq!(refused.unwrap_err().code(), "GS0110");
    /// # Ok(()) }
    /// ```
    pub async fn undo_recovery(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.send_command(run, Command::UndoSeam(note)).await
    }

    /// Creates a new advance task of a run, due now. Refused if a live node owns the run.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// client.requeue(run.id(), "no node has claimed it".into()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn requeue(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let healer = self.healer();
        let liveness = healer.liveness().await?;
        let summary = self.get(run).await?;
        if let Some(owner) = &summary.owner
            && liveness.owner(Some(owner), summary.claimed_at).is_alive()
        {
            return Err(refused(run, Refusal::Owned { owner: owner.clone() }));
        }
        let note = self.note(by);
        self.send_command(run, Command::Requeue(note)).await
    }

    /// Moves a run to another version of its workflow, without a preflight. If its history does not fit, the run
    /// parks (rule V1) and can be moved back. Refused if a live node executes the run: pause it first.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let old = StartOptions::default().version(1);
    /// let run = client.start_with("greet", "greet-1", "Ada", old).await?;
    /// client.migrate(run.id(), 2, "version 1 is withdrawn".into()).await?;
    /// assert_eq!(run.summary().await?.version, 2);
    /// # Ok(()) }
    /// ```
    pub async fn migrate(&self, run: &RunId, to: u32, by: By) -> Result<Seq, EngineError> {
        let liveness = self.healer().liveness().await?;
        let summary = self.get(run).await?;
        let gone = |owner: &NodeId| !liveness.owner(Some(owner), summary.claimed_at).is_alive();
        let lost = summary.owner.clone().filter(gone);
        let note = self.note(by);
        self.send_command(run, Command::Migrate(Migrate { note, to, lost })).await
    }

    /// Cuts the log at the last stable event: the run repeats everything after it, on a new branch.
    ///
    /// ```
    /// use goldseam::{Status, prelude::*};
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ///     ctx.step("price", || async { Ok(1) }).await?;
    ///     ctx.signal("paid").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// let (client, run) = (engine.client(), engine.start(order, "o-1", &()).await?);
    /// run.wait_until(|run| run.status == Status::Waiting).await?;
    /// // Keeps the price, and waits again.
    /// client.reset(run.id(), "the wait looks stuck".into()).await?;
    /// run.signal("paid", &7).await?;
    /// assert_eq!(run.result().await?, 7);
    /// # Ok(()) }
    /// ```
    pub async fn reset(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.send_command(run, Command::Reset(note)).await
    }

    /// Resumes a paused or parked run. Recovers it first if a rule applies.
    ///
    /// ```
    /// use goldseam::Status;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// client.pause(run.id(), "not before noon".into()).await?;
    /// assert_eq!(run.status().await?, Status::Paused);
    /// assert!(client.resume(run.id(), "it is noon".into()).await?.rested);
    /// # Ok(()) }
    /// ```
    pub async fn resume(&self, run: &RunId, by: By) -> Result<Resumed, EngineError> {
        let nothing = |status| Recovery { status, found: None, healed: None, standing: Vec::new() };
        let recovery = match self.recover(run, RecoverOptions::default()).await {
            // A run that is already parked is only resumed.
            Err(EngineError::NoStableEvent { before: Status::Parked, .. }) => nothing(Status::Parked),
            Ok(recovery) if recovery.status == Status::Parked => nothing(Status::Parked),
            recovery => recovery?,
        };
        let note = self.note(by);
        match self.send_command(run, Command::Resume(note)).await {
            Ok(end) => Ok(Resumed { end, rested: true, recovery }),
            Err(EngineError::Refused { refusal: Refusal::NothingToDo { .. }, .. })
                if recovery.has_healed() =>
            {
                let end = self.store().head(run).await?.map_or(Seq::ZERO, |head| head.end);
                Ok(Resumed { end, rested: false, recovery })
            }
            Err(error) => Err(error),
        }
    }
}
