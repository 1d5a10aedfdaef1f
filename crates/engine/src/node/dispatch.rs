//! The claim path: from a ready task to an execution.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use goldseam_core::command::{Claim, Lost};
use goldseam_core::decide::Refusal;
use goldseam_core::delivery;
use goldseam_core::operation;
use goldseam_core::recovery::{Code, Reason, at_claim, damaged, poisoned};
use goldseam_core::task::Task;
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Command, Corrupt, Event, Millis, NodeId, QueueName, RunId, Seq, Summary};
use goldseam_store::{ClaimRequest, Expect, Written};
use tokio::time::timeout;

use super::Node;
use super::quarantine::{Admission, HeldBack};
use crate::heal::{Healed, Liveness};
use crate::ledger::clock::pause;
use crate::ledger::commit::{Committed, With};
use crate::ledger::error::EngineError;
use crate::ledger::meter::RecoveryTimes;
use crate::ledger::spawn::spawn;
use crate::ledger::sync::lock;
use crate::run::live_run::LiveRun;

/// Maximum number of tasks per claim.
const BATCH: u32 = 256;
/// Minimum pause between two polls caused by writes of other processes.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same while this process writes: the change is most likely its own, and a poll costs as much as a write.
const LOOK_BUSY_EVERY: Duration = Duration::from_millis(20);
/// Consecutive empty polls after which a node polls less often, if the store notifies it of every write.
const IDLE_MIN: u32 = 10;
/// Factor of the pause between polls on an idle store.
const IDLE_FACTOR: u32 = 3;
/// How long a task that cannot be claimed now is postponed.
const POSTPONE: Duration = Duration::from_secs(1);
/// The same for a run whose log only a newer release can read.
const POSTPONE_NEWER: Duration = Duration::from_secs(5);
/// Maximum number of remembered runs of newer releases.
const NEWER_MAX: usize = 10_000;

/// Maximum age of a reading of the nodes that a claim uses. A node that was gone stays gone.
const FRESH: Duration = Duration::from_millis(50);

/// The result of an attempt to claim a run.
enum Taken {
    /// Claimed; the log ended at `end`, loading may start at `base`.
    Ours { base: Seq, end: Seq },
    /// Suspected of crashing its process; must wait.
    HeldBack(Box<HeldBack>),
    /// Ended.
    Over,
    /// An execution in this process has the run under a current claim.
    Here(Arc<LiveRun>),
    /// This node lacks the run's version. A task of this kind is offered only to nodes that have it.
    Unfit { kind: String },
}

impl Node {
    fn pools(&self) -> Vec<String> {
        let mut pools = vec![delivery::pool()];
        let built_in = QueueName::new(operation::QUEUE).ok();
        for queue in self.config.queues.iter().chain(&built_in) {
            let is_built_in = Some(queue) == built_in.as_ref();
            let versions = self.registry.versions();
            for (name, versions) in versions.filter(|(name, _)| operation::is_operation(name) == is_built_in)
            {
                // Tasks without a version: undecided, or written by a release whose tasks had none.
                for version in versions.chain([UNDECIDED]) {
                    pools.push(Task::pool_of(queue, Some(&Task::advance_kind(name.as_str(), version))));
                }
            }
        }
        pools
    }

    /// Claims ready tasks while the node lives.
    pub(super) async fn keep_claiming(self: &Arc<Self>) {
        let pools = self.pools();
        let mut idle: u32 = 0;
        while !self.is_closed() && !self.live_runs().is_leaving() {
            self.polls.fetch_add(1, Ordering::Relaxed);
            let next = match self.claim_some(&pools).await {
                Ok((claimed, _)) if claimed > 0 => {
                    idle = 0;
                    continue;
                }
                Ok((_, next)) => {
                    // A node with runs may have no free slot, or hold suspects back: its next look is not to be late.
                    let is_far = next.is_none_or(|due| due > self.config.poll * IDLE_FACTOR);
                    let is_idle = is_far && self.live_runs().live_count() == 0 && self.taking().is_empty();
                    idle = if is_idle { idle.saturating_add(1) } else { 0 };
                    next
                }
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "claiming failed");
                    idle = 0;
                    None
                }
            };
            let most = self.config.poll * if idle >= IDLE_MIN { IDLE_FACTOR } else { 1 };
            let span = next.map_or(most, |due| due.min(most));
            let least = self.pace.look_every;
            if !least.is_zero() {
                pause(least).await;
            }
            if timeout(span.saturating_sub(least), self.live_runs().ready.notified()).await.is_ok() {
                idle = 0;
            }
        }
    }

    /// Number of runs that this node can still claim. Runs being loaded have their slot already; suspects that are
    /// held back have none.
    fn free_slots(&self) -> u32 {
        if self.live_runs().is_secluded() {
            return 0;
        }
        let held_back = self.held_back_count();
        let coming = self.taking().len().saturating_sub(held_back);
        let taken = u32::try_from(self.live_runs().live_count() + coming).unwrap_or(u32::MAX);
        let free = self.config.slots.saturating_sub(taken);
        match &self.handoff {
            // Claim only as many as the worker asked for: an offered run is not available to other nodes.
            Some(handoff) => {
                free.min(handoff.missing().saturating_sub(u32::try_from(coming).unwrap_or(u32::MAX)))
            }
            None => free,
        }
    }

    /// Claims due tasks. Returns their number, and the time until the next one is due, by the store's clock.
    async fn claim_some(
        self: &Arc<Self>,
        pools: &[String],
    ) -> Result<(usize, Option<Duration>), EngineError> {
        let free = self.free_slots().min(BATCH);
        if free == 0 || self.live_runs().is_out_of_sight(self.ledger.clock.elapsed()) {
            return Ok((0, None));
        }
        let sent = self.ledger.clock.elapsed();
        let now = self.ledger.store.now().await?;
        self.time.observe(now, sent);
        let owner = self.id.as_str().to_owned();
        let claim = ClaimRequest { owner, pools: pools.to_vec(), kind: None, limit: free, now };
        let claimed = self.ledger.store.claim(claim).await?;
        let count = claimed.tasks.len();
        for task in claimed.tasks {
            if let Some(run) = task.run.clone().filter(|_| task.is_advance()) {
                self.taking().entry(run).or_default();
            }
            let node = Arc::clone(self);
            self.adopt(spawn(async move { node.take(task).await }));
        }
        let next = claimed.next_due.map(|due| due.since(now) + Duration::from_millis(1));
        Ok((count, next))
    }

    /// Wakes the claimer and pokes live runs when another process has written.
    pub(super) async fn keep_listening(self: &Arc<Self>) {
        let mut mark = 0;
        let mut appends = 0;
        while !self.is_closed() {
            match self.ledger.store.changed(mark).await {
                Ok(next) => mark = next,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "watching the store failed");
                    pause(self.config.poll).await;
                }
            }
            if !self.is_idle_handoff()
                && let Err(error) = self.handle_pokes().await
            {
                tracing::warn!(node = %self.id, %error, "failed to read pokes");
                // No further change may ever come, so poll again.
                mark = 0;
                pause(self.config.poll).await;
            }
            self.live_runs().ready.notify_one();
            let before = std::mem::replace(&mut appends, self.live_runs().appends());
            let span = if appends == before { LOOK_EVERY } else { LOOK_BUSY_EVERY };
            pause(span.max(self.look_every())).await;
        }
    }

    pub(super) async fn take(self: Arc<Self>, task: Task) {
        if !task.is_advance() {
            return self.deliver(task).await;
        }
        let Some(run) = task.run.clone() else { return };
        let live = self.begin_exclusively(&run, task).await;
        let poked = !self.is_held_back(&run) && self.taking().remove(&run) == Some(true);
        let Some(live) = live else {
            // A slot is free again.
            return self.live_runs().ready.notify_one();
        };
        if poked {
            live.poke();
        }
        self.execute(live).await;
    }

    /// Claims and loads the run, once no other task of this process is doing so and no execution here has the run
    /// under a current claim.
    async fn begin_exclusively(&self, run: &RunId, mut task: Task) -> Option<Arc<LiveRun>> {
        loop {
            let turn = self.live_runs().turn(run).await;
            self.taking().entry(run.clone()).or_default();
            let here;
            (task, here) = match self.begin(run, task).await {
                Ok(live) => return live,
                Err(back) => *back,
            };
            drop(turn);
            // The execution has a slot already, and is poked separately.
            self.taking().remove(run);
            self.live_runs().until_left(&here).await;
            if self.live_runs().is_leaving() {
                self.postpone(task, Duration::ZERO).await;
                return None;
            }
        }
    }

    /// Claims and loads the run. A task that cannot be used is returned, postponed or ended. Returns the task if the
    /// run is already executed here.
    async fn begin(
        &self,
        run: &RunId,
        task: Task,
    ) -> Result<Option<Arc<LiveRun>>, Box<(Task, Arc<LiveRun>)>> {
        match self.claim_run(run, &task).await {
            Ok(Taken::Ours { base, end }) => return Ok(self.load_own(run, base, end, task).await),
            Ok(Taken::Here(live)) => return Err(Box::new((task, live))),
            Ok(Taken::HeldBack(held)) => self.hold_back(task, *held).await,
            Ok(Taken::Over) => {}
            Ok(Taken::Unfit { kind }) => self.hand_back(task, kind).await,
            Err(EngineError::Superseded { .. }) => self.supersede(task).await,
            Err(EngineError::Refused { refusal: Refusal::NotClaimable { status }, .. }) => {
                let until = match status.is_terminal() {
                    true => None,
                    false => Some(self.stopped_until(run).await),
                };
                self.retire(task, until).await;
            }
            Err(EngineError::Refused { refusal: Refusal::NoSuchRun, .. }) => self.retire(task, None).await,
            Err(EngineError::Refused { refusal: Refusal::Owned { owner }, .. }) => {
                self.hand_to(task, &owner).await;
            }
            Err(EngineError::Corrupt { corrupt, .. }) if corrupt.is_newer => {
                self.found_newer(run, &corrupt);
                self.postpone(task, POSTPONE_NEWER).await;
            }
            Err(EngineError::Corrupt { corrupt, .. }) => {
                self.found_damaged(run, &corrupt).await;
                self.postpone(task, POSTPONE).await;
            }
            Err(error) => {
                tracing::debug!(%run, %error, "failed to claim run");
                self.postpone(task, POSTPONE).await;
            }
        }
        Ok(None)
    }

    /// Remembers a run whose log only a newer release can read. It is not claimed again until its log is readable.
    fn found_newer(&self, run: &RunId, corrupt: &Corrupt) {
        let mut newer = lock(&self.newer);
        if newer.len() >= NEWER_MAX {
            newer.clear();
        }
        if newer.insert(run.clone()) {
            tracing::warn!(node = %self.id, %run, %corrupt, "skipping run: only a newer release can read its log");
        }
    }

    fn is_newer(&self, run: &RunId) -> bool {
        lock(&self.newer).contains(run)
    }

    async fn found_damaged(&self, run: &RunId, corrupt: &Corrupt) {
        tracing::error!(%run, %corrupt, "log of run is damaged");
        let healer = self.healer(Reason::StaleDetection);
        if let Err(error) = healer.heal(run, corrupt.seq, &damaged(corrupt)).await {
            tracing::error!(%run, %error, "failed to park a run with a damaged log");
        }
    }

    async fn supersede(&self, task: Task) {
        let expect = Expect::Version(task.version);
        if let Ok(over) = task.superseded(self.ledger.clock.now())
            && let Err(error) = self.ledger.store.put_task(over, expect).await
        {
            tracing::debug!(node = %self.id, %error, "failed to end a superseded task");
        }
    }

    /// Claims the task for the live owner of the run, which alone can use it. In the queue, other nodes could claim
    /// it again and again.
    async fn hand_to(&self, task: Task, owner: &NodeId) {
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        let theirs = task.claimed(owner.as_str(), now);
        if let Err(error) = self.ledger.store.put_task(theirs, expect).await {
            tracing::debug!(node = %self.id, %error, "failed to hand a task to the owner of its run");
        }
    }

    /// Loads the claimed run. Heals it first if its log requires it.
    async fn load_own(&self, run: &RunId, base: Seq, end: Seq, task: Task) -> Option<Arc<LiveRun>> {
        let asked = self.ledger.clock.elapsed();
        let state = match self.ledger.load_from(run, base, end).await {
            Ok(state) => state,
            Err(EngineError::Corrupt { corrupt, .. }) if corrupt.is_newer => {
                self.found_newer(run, &corrupt);
                let back = Command::HandBack(self.id.clone());
                if let Err(error) = self.ledger.commit(run, &back).await {
                    tracing::warn!(%run, %error, "failed to hand back a run of a newer release");
                }
                return None;
            }
            Err(EngineError::Corrupt { corrupt, .. }) => {
                self.found_damaged(run, &corrupt).await;
                return None;
            }
            Err(error) => {
                // This node owns the run, so no other may claim it: the task stays claimed, and `reconcile` finds it.
                tracing::error!(%run, %error, "failed to load a claimed run");
                return None;
            }
        };
        if !self.owns(&state, end) {
            // Another node has claimed it since; nothing may be done here under that claim.
            tracing::info!(%run, "claimed run was taken over before it was loaded");
            return None;
        }
        let Some(diagnosis) = at_claim(&state) else { return self.hold(state, task.id, asked).await };
        let healer = self.healer(Reason::StaleDetection);
        match healer.heal(run, state.summary.as_of, &diagnosis).await {
            // The remedy created a new task, which brings the run back.
            Ok(Healed::Done { .. }) => {}
            Ok(_) => self.postpone(task, POSTPONE).await,
            Err(error) => {
                tracing::warn!(%run, %error, "failed to heal a claimed run");
                self.postpone(task, POSTPONE).await;
            }
        }
        None
    }

    /// Appends the claim, taking over from a lost owner.
    async fn claim_run(&self, run: &RunId, task: &Task) -> Result<Taken, EngineError> {
        if self.is_newer(run) {
            self.ledger.load(run).await?;
            lock(&self.newer).remove(run);
        }
        let known = self.ledger.look(run).await?;
        if known.has_replaced(&task.id) {
            return Err(EngineError::Superseded { task: task.id.clone() });
        }
        if let Some(live) = known.summary().and_then(|summary| self.execution_of(summary)) {
            return Ok(Taken::Here(live));
        }
        if let Some(summary) = known.summary().filter(|summary| self.lacks_version(summary)) {
            let kind = Task::advance_kind(summary.workflow.as_str(), summary.version);
            return Ok(Taken::Unfit { kind });
        }
        let base = known.summary().map_or(Seq(1), |summary| summary.base);
        let workflow = known.summary().map(|summary| summary.workflow.as_str().to_owned());
        let lost = match known.summary() {
            Some(summary) if summary.status.is_active() || summary.is_overdue(self.ledger.clock.now()) => {
                self.lost_owner(summary).await?
            }
            _ => None,
        };
        let mut claim = Claim { lost, ..self.claim_of(known.summary()) };
        if let (Some(summary), Some(lost)) = (known.summary(), &claim.lost) {
            match self.admit(summary, lost) {
                Admission::In { alone } => claim.alone = alone,
                Admission::HeldBack(held) => return Ok(Taken::HeldBack(held)),
                Admission::Never => return self.stop_poisonous(run, summary).await,
            }
        }
        let lived = claim.lost.as_ref().map(|lost| lost.lived);
        let with = With { task: Some(&task.id), ..With::default() };
        let taken = self.ledger.commit_on(Some(known), run, &Command::Claim(claim), with).await?;
        if !taken.records.iter().any(|recorded| matches!(recorded.event, Event::RunClaimed(_))) {
            // Its deadline had passed, and it needed no code to end.
            return Ok(Taken::Over);
        }
        if let Some(lived) = lived {
            self.begin_probation(run, lived);
        }
        self.ledger.meter.work(workflow.as_deref().unwrap_or_default()).claimed(task);
        self.count_takeover(&taken, workflow.as_deref());
        Ok(Taken::Ours { base, end: taken.end })
    }

    /// Whether the run can be claimed and this node lacks its version.
    fn lacks_version(&self, summary: &Summary) -> bool {
        let is_here = self.registry.has(&summary.workflow, summary.version);
        (summary.status.is_active() || summary.is_overdue(self.ledger.clock.now())) && !is_here
    }

    /// Builds the claim of a run. It decides by this node's registry what the start left open.
    fn claim_of(&self, summary: Option<&Summary>) -> Claim {
        let mut claim = Claim::by(self.id.clone());
        if let Some(summary) = summary {
            claim.version = self.registry.newest(&summary.workflow).filter(|_| summary.version == UNDECIDED);
            claim.recovery = Some(self.config.recovery_for(&summary.workflow).policy());
            if !summary.started {
                claim.plan = self.registry.plan(&summary.workflow);
            }
        }
        claim
    }

    /// Returns the task of a run whose version this node lacks. Writes nothing to the run's log.
    async fn hand_back(&self, task: Task, kind: String) {
        tracing::debug!(node = %self.id, task = %task.id, kind, "returned task: this node lacks the version");
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        if let Err(error) = self.ledger.store.put_task(task.handed_back(kind, now), expect).await {
            tracing::debug!(node = %self.id, %error, "failed to return a task");
        }
    }

    /// The execution in this process that has the run under a current claim.
    fn execution_of(&self, summary: &Summary) -> Option<Arc<LiveRun>> {
        self.live_runs().live(&summary.run).filter(|live| live.is_current_in(summary))
    }

    /// Applies rule P1: the run crashed its process too often, the last time alone.
    async fn stop_poisonous(&self, run: &RunId, summary: &Summary) -> Result<Taken, EngineError> {
        let diagnosis = poisoned(summary, self.policy_for(summary).bounds());
        let healer = self.healer(Reason::InfrastructureRestart);
        healer.heal(run, summary.as_of, &diagnosis).await?;
        Ok(Taken::Over)
    }

    /// What is known of the run's owner, if it is another node and lost.
    async fn lost_owner(&self, summary: &Summary) -> Result<Option<Lost>, EngineError> {
        let Some(owner) = summary.owner.as_ref().filter(|owner| **owner != self.id) else { return Ok(None) };
        let mut liveness = self.liveness().await?;
        if !liveness.knows(owner.as_str()) {
            // It may be new. A node beats before it claims, so only a reading after the claim proves that it is gone.
            liveness = self.read_liveness().await?;
        }
        let judged = liveness.watched(owner, summary.claimed_at, self.verdict_on(owner));
        Ok(Lost::of(owner.clone(), judged.with_doubt(self.policy_for(summary))))
    }

    /// All nodes by a recent reading: one reading serves many orphans.
    async fn liveness(&self) -> Result<Arc<Liveness>, EngineError> {
        let now = self.ledger.clock.elapsed();
        let fresh = lock(&self.nodes_seen).clone();
        if let Some((at, liveness)) = fresh
            && now.saturating_sub(at) < FRESH.max(self.pace.look_every)
        {
            return Ok(liveness);
        }
        self.read_liveness().await
    }

    async fn read_liveness(&self) -> Result<Arc<Liveness>, EngineError> {
        let now = self.ledger.clock.elapsed();
        let liveness = Arc::new(self.healer(Reason::InfrastructureRestart).liveness().await?);
        *lock(&self.nodes_seen) = Some((now, Arc::clone(&liveness)));
        Ok(liveness)
    }

    pub(super) async fn postpone(&self, task: Task, span: Duration) {
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        let back = task.returned(now + span, now);
        if let Ok(Written::Lost(_)) | Err(_) = self.ledger.store.put_task(back, expect).await {
            tracing::debug!(node = %self.id, "task was changed by another writer");
        }
    }

    /// When the task of a run that an operator stopped is due: at its deadline, or never.
    async fn stopped_until(&self, run: &RunId) -> Millis {
        let summary = self.ledger.summary(run).await.ok().flatten();
        summary.map_or(Millis::NEVER, |summary| summary.stopped_until())
    }

    /// Makes the task of a run that needs no node dormant until a time, or cancels it.
    async fn retire(&self, task: Task, until: Option<Millis>) {
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        let next = match until {
            Some(until) => Ok(task.returned(until, now)),
            None => task.cancelled(now),
        };
        if let Ok(next) = next
            && let Err(error) = self.ledger.store.put_task(next, expect).await
        {
            tracing::debug!(node = %self.id, %error, "failed to retire a task");
        }
    }

    /// Counts a takeover from a lost owner.
    fn count_takeover(&self, taken: &Committed, workflow: Option<&str>) {
        for recorded in &taken.records {
            if let Event::RunRecovered(recovered) = &recorded.event {
                let stale = Duration::from_millis(recovered.stale_ms);
                let reason = if recovered.lived_ms.is_some() {
                    Reason::InfrastructureRestart
                } else {
                    Reason::StaleDetection
                };
                self.ledger.meter.recovered(
                    Code::O2.as_str(),
                    workflow.unwrap_or_default(),
                    reason.as_str(),
                    RecoveryTimes { stale: Some(stale), heal: Duration::ZERO },
                );
            }
        }
    }
}
