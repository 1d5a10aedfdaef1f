//! The one claim path: from a ready task to an execution.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use goldseam_core::command::{Claim, Lost};
use goldseam_core::decide::Refusal;
use goldseam_core::planted::{self, Bug};
use goldseam_core::recovery::{Code, Diagnosis, Lived, Owner, Reason, at_claim, damaged, seen_of, used_up};
use goldseam_core::task::Task;
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Command, Corrupt, Event, Millis, NodeId, RunId, Seq, Summary};
use goldseam_store::{Claim as ClaimTasks, Expect, Written};
use tokio::time::timeout;

use super::Node;
use super::quarantine::{Admission, HeldBack};
use crate::heal::{Healed, Liveness};
use crate::ledger::clock::pause;
use crate::ledger::commit::{Committed, With};
use crate::ledger::delivery;
use crate::ledger::error::EngineError;
use crate::ledger::spawn::spawn;
use crate::run::live_run::LiveRun;

/// Tasks claimed at once.
const BATCH: u32 = 256;
/// Shortest pause between two looks that other processes' writes cause.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same while this process writes: the change is most likely its own, and a look costs what a write does.
const LOOK_BUSY_EVERY: Duration = Duration::from_millis(20);
/// Empty looks in a row after which a node that hears of every write looks less often by itself.
const IDLE_MIN: u32 = 10;
/// How many times less often.
const IDLE_FACTOR: u32 = 3;
/// How long a task that cannot be claimed now is put aside.
const ASIDE: Duration = Duration::from_secs(1);
/// The same for a run whose log only a newer release can read.
const NEWER_ASIDE: Duration = Duration::from_secs(5);
/// Runs of newer releases that are remembered.
const NEWER_MAX: usize = 10_000;

/// How old a look at all nodes may be that a claim goes by. Who was gone then is gone for ever.
const FRESH: Duration = Duration::from_millis(50);

/// What became of a try to claim a run.
enum Taken {
    /// It is ours since the log ended at `end`; loading may begin at `base`.
    Ours { base: Seq, end: Seq },
    /// It is a suspect of crashing its process, and must wait its turn.
    HeldBack(Box<HeldBack>),
    /// It is over.
    Over,
    /// An execution in this process has it, under a claim that stands.
    Here(Arc<LiveRun>),
    /// This node lacks the run's version: only nodes that have it are offered a task of this kind.
    Unfit { kind: String },
}

impl Node {
    fn pools(&self) -> Vec<String> {
        let mut pools = vec![delivery::pool()];
        for queue in &self.config.queues {
            for (name, versions) in self.registry.versions() {
                // Those without a version: not decided yet, or written by a release whose tasks had none.
                for version in versions.chain([UNDECIDED]) {
                    pools.push(Task::pool_of(queue, Some(&Task::advance_kind(name.as_str(), version))));
                }
            }
        }
        pools
    }

    /// Claims whatever is ready, for as long as the node lives.
    pub(super) async fn keep_claiming(self: &Arc<Self>) {
        let pools = self.pools();
        let mut idle: u32 = 0;
        while !self.is_closed() && !self.live_runs().is_leaving() {
            self.looks.fetch_add(1, Ordering::Relaxed);
            let next = match self.claim_some(&pools).await {
                Ok((claimed, _)) if claimed > 0 => {
                    idle = 0;
                    continue;
                }
                Ok((_, next)) => {
                    idle = if next.is_none() { idle.saturating_add(1) } else { 0 };
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

    /// Runs that this node can still take: those on their way into memory have their place already, suspects
    /// that wait for their turn have none.
    fn free_slots(&self) -> u32 {
        if self.live_runs().is_secluded() {
            return 0;
        }
        let held_back = self.held_back_count();
        let coming = self.taking().len().saturating_sub(held_back);
        let taken = u32::try_from(self.live_runs().hot_count() + coming).unwrap_or(u32::MAX);
        let free = self.config.slots.saturating_sub(taken);
        match &self.desk {
            // A worker is given what it asks for, and no more: what lies on its desk is kept from others.
            Some(desk) => free.min(desk.wanted().saturating_sub(u32::try_from(coming).unwrap_or(u32::MAX))),
            None => free,
        }
    }

    /// Claims what is due. Says how much, and how long until the next is, all by the store's clock.
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
        self.time.hear(now, sent);
        let owner = self.id.as_str().to_owned();
        let claim = ClaimTasks { owner, pools: pools.to_vec(), kind: None, limit: free, now };
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

    /// Wakes the claimer and pokes hot runs when another process changed something.
    pub(super) async fn keep_listening(self: &Arc<Self>) {
        let (mut mark, mut appends) = (0, 0);
        while !self.is_closed() {
            match self.ledger.store.changed(mark).await {
                Ok(next) => mark = next,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "watching the store failed");
                    pause(self.config.poll).await;
                }
            }
            if !self.is_idle_desk()
                && let Err(error) = self.look_at_pokes().await
            {
                tracing::warn!(node = %self.id, %error, "looking for pokes failed");
                // Nothing else may ever change: look again by itself.
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
        let live = self.begin_alone(&run, task).await;
        let poked = !self.is_held_back(&run) && self.taking().remove(&run) == Some(true);
        let Some(live) = live else {
            // Its place is free again.
            return self.live_runs().ready.notify_one();
        };
        if poked {
            live.poke();
        }
        self.execute(live).await;
    }

    /// Claims the run and takes it into memory, once no other task of this process is about to do so and no execution here
    /// has the run under a claim that stands.
    async fn begin_alone(&self, run: &RunId, mut task: Task) -> Option<Arc<LiveRun>> {
        loop {
            let turn = self.live_runs().turn(run).await;
            self.taking().entry(run.clone()).or_default();
            let here;
            (task, here) = match self.begin(run, task).await {
                Ok(live) => return live,
                Err(back) => *back,
            };
            drop(turn);
            // The execution has a slot already, and is poked by itself.
            self.taking().remove(run);
            self.live_runs().until_left(&here).await;
            if self.live_runs().is_leaving() {
                self.put_aside(task, Duration::ZERO).await;
                return None;
            }
        }
    }

    /// Claims the run and takes it into memory; what cannot be taken is put where it belongs. Hands the task back if the run
    /// is executed here already.
    async fn begin(
        &self,
        run: &RunId,
        task: Task,
    ) -> Result<Option<Arc<LiveRun>>, Box<(Task, Arc<LiveRun>)>> {
        match self.claim_run(run, &task).await {
            Ok(Taken::Ours { base, end }) => return Ok(self.load_own(run, (base, end), task).await),
            Ok(Taken::Here(live)) => return Err(Box::new((task, live))),
            Ok(Taken::HeldBack(held)) => self.hold_back(task, *held).await,
            Ok(Taken::Over) => {}
            Ok(Taken::Unfit { kind }) => self.hand_back(task, kind).await,
            Err(EngineError::Superseded { .. }) => self.supersede(task).await,
            Err(EngineError::Refused { refusal: Refusal::NotClaimable { status }, .. }) => {
                let dormant = !status.is_terminal();
                self.lay_down(task, dormant).await;
            }
            Err(EngineError::Refused { refusal: Refusal::NoSuchRun, .. }) => self.lay_down(task, false).await,
            Err(EngineError::Refused { refusal: Refusal::Owned { owner }, .. }) => {
                self.hand_to(task, &owner).await;
            }
            Err(EngineError::Corrupt { corrupt, .. }) if corrupt.is_newer => {
                self.found_newer(run, &corrupt);
                self.put_aside(task, NEWER_ASIDE).await;
            }
            Err(EngineError::Corrupt { corrupt, .. }) => {
                self.found_damaged(run, &corrupt).await;
                self.put_aside(task, ASIDE).await;
            }
            Err(error) => {
                tracing::debug!(%run, %error, "a run could not be claimed");
                self.put_aside(task, ASIDE).await;
            }
        }
        Ok(None)
    }

    /// Remembers a run whose log only a newer release can read: it is not claimed again before its log is readable.
    fn found_newer(&self, run: &RunId, corrupt: &Corrupt) {
        let mut newer = self.newer.lock().unwrap_or_else(PoisonError::into_inner);
        if newer.len() >= NEWER_MAX {
            newer.clear();
        }
        if newer.insert(run.clone()) {
            tracing::warn!(node = %self.id, %run, %corrupt, "left a run to nodes of a newer release");
        }
    }

    fn is_newer(&self, run: &RunId) -> bool {
        self.newer.lock().unwrap_or_else(PoisonError::into_inner).contains(run)
    }

    async fn found_damaged(&self, run: &RunId, corrupt: &Corrupt) {
        tracing::error!(%run, %corrupt, "a run's log is damaged");
        let healer = self.healer(Reason::StaleDetection);
        if let Err(error) = healer.heal(run, corrupt.seq, &damaged(corrupt)).await {
            tracing::error!(%run, %error, "a run with a damaged log could not be parked");
        }
    }

    async fn supersede(&self, task: Task) {
        let expect = Expect::Version(task.version);
        if let Ok(over) = task.superseded(self.ledger.clock.now())
            && let Err(error) = self.ledger.store.put_task(over, expect).await
        {
            tracing::debug!(node = %self.id, %error, "a superseded task could not be ended");
        }
    }

    /// The run's owner lives: only it can use the task. In the queue, others could take it for ever.
    async fn hand_to(&self, task: Task, owner: &NodeId) {
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        let theirs = task.claimed(owner.as_str(), now);
        if let Err(error) = self.ledger.store.put_task(theirs, expect).await {
            tracing::debug!(node = %self.id, %error, "a task could not be handed to its run's owner");
        }
    }

    /// The run that was claimed, in memory; mended first if its log asks for it.
    async fn load_own(&self, run: &RunId, (base, end): (Seq, Seq), task: Task) -> Option<Arc<LiveRun>> {
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
                // The run is ours now, and nobody else may have it: the task stays, and is looked for again.
                tracing::error!(%run, %error, "a claimed run could not be loaded");
                return None;
            }
        };
        if !self.owns(&state, end) {
            // Somebody has claimed it since; under their claim nothing may be done here.
            tracing::info!(%run, "a claimed run was taken over before it was loaded");
            return None;
        }
        let Some(diagnosis) = at_claim(&state) else { return self.hold(state, task.id, asked).await };
        let healer = self.healer(Reason::StaleDetection);
        match healer.heal(run, state.summary.as_of, &diagnosis).await {
            // There is a new task, and it brings the run back.
            Ok(Healed::Done { .. }) => {}
            Ok(_) => self.put_aside(task, ASIDE).await,
            Err(error) => {
                tracing::warn!(%run, %error, "a claimed run could not be mended");
                self.put_aside(task, ASIDE).await;
            }
        }
        None
    }

    /// Appends the claim; takes over from an owner that is lost.
    async fn claim_run(&self, run: &RunId, task: &Task) -> Result<Taken, EngineError> {
        if self.is_newer(run) {
            self.ledger.load(run).await?;
            self.newer.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        }
        let known = self.ledger.look(run).await?;
        if known.has_replaced(&task.id) {
            return Err(EngineError::Superseded { task: task.id.clone() });
        }
        if let Some(live) = known.summary().and_then(|summary| self.execution_of(summary)) {
            return Ok(Taken::Here(live));
        }
        if let Some(summary) = known.summary().filter(|summary| self.lacks(summary)) {
            let kind = Task::advance_kind(summary.workflow.as_str(), summary.version);
            return Ok(Taken::Unfit { kind });
        }
        let base = known.summary().map_or(Seq(1), |summary| summary.base);
        let workflow = known.summary().map(|summary| summary.workflow.as_str().to_owned());
        let lost = match known.summary() {
            Some(summary) if summary.status.is_active() => self.lost_owner(summary).await?,
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
        let with = With { task: Some(&task.id), ..With::default() };
        let taken = self.ledger.commit_on(Some(known), run, &Command::Claim(claim), with).await?;
        self.count_takeover(&taken, workflow.as_deref());
        Ok(Taken::Ours { base, end: taken.end })
    }

    /// Whether the run could move and its version is not here.
    fn lacks(&self, summary: &Summary) -> bool {
        let is_here = self.registry.has(&summary.workflow, summary.version);
        summary.status.is_active() && !is_here && !planted::is(Bug::ParksUnknownVersion)
    }

    /// This node's claim of a run: what the start left open, it decides by its own registry.
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

    /// The task of a run whose version is not here goes back unharmed; nothing is written to the run's log.
    async fn hand_back(&self, task: Task, kind: String) {
        tracing::debug!(node = %self.id, task = %task.id, kind, "handed back a task: its version is not here");
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        if let Err(error) = self.ledger.store.put_task(task.handed_back(kind, now), expect).await {
            tracing::debug!(node = %self.id, %error, "failed to hand back a task");
        }
    }

    /// The execution in this process that has the run under a claim that stands.
    fn execution_of(&self, summary: &Summary) -> Option<Arc<LiveRun>> {
        let blind = planted::is(Bug::TwoAtOnce) || planted::is(Bug::AnyClaimIsOwn);
        self.live_runs().live(&summary.run).filter(|live| live.stands_in(summary) && !blind)
    }

    /// Rule P1: the run took its process down too often, the last time alone.
    async fn stop_poisonous(&self, run: &RunId, summary: &Summary) -> Result<Taken, EngineError> {
        let remedy = used_up(summary, self.policy_for(summary).bounds());
        let diagnosis = Diagnosis { rule: Code::P1, evidence: seen_of(summary), remedy };
        let healer = self.healer(Reason::InfrastructureRestart);
        healer.heal(run, summary.as_of, &diagnosis).await?;
        Ok(Taken::Over)
    }

    /// What is known about the run's owner, if it is another node that may be gone.
    async fn lost_owner(&self, summary: &Summary) -> Result<Option<Lost>, EngineError> {
        let Some(owner) = summary.owner.as_ref().filter(|owner| **owner != self.id) else { return Ok(None) };
        let mut liveness = self.liveness().await?;
        if !liveness.knows(owner.as_str()) && !planted::is(Bug::StaleSnapshot) {
            // It may be new: a node beats before it claims, so only a look after the claim proves that it is gone.
            liveness = self.look_anew().await?;
        }
        let (proven, evidence, lived) = match liveness.owner(Some(owner), summary.claimed_at) {
            Owner::Lost { proven: true, evidence, lived } => (true, evidence, lived),
            _ if self.is_gone(owner) || self.is_silent(owner) => {
                let lived = liveness.lived(owner.as_str(), summary.claimed_at.unwrap_or(liveness.now));
                match self.is_gone(owner) {
                    true => (true, "its owner's process is gone".to_owned(), lived),
                    // Where a death can never be proven, silence is charged: a run that takes its process down must
                    // end somewhere, too.
                    false => {
                        let why = "its owner has not beaten for too long".to_owned();
                        (!liveness.can_prove(owner), why, lived)
                    }
                }
            }
            _ => return Ok(None),
        };
        let lived = Lived { doubt: self.policy_for(summary).doubt(), ..lived };
        Ok(Some(Lost { node: owner.clone(), proven, evidence, lived }))
    }

    /// All nodes, as they were a moment ago: one look serves a crowd of orphans.
    async fn liveness(&self) -> Result<Arc<Liveness>, EngineError> {
        let now = self.ledger.clock.elapsed();
        let fresh = self.nodes_seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((at, liveness)) = fresh
            && (now.saturating_sub(at) < FRESH.max(self.pace.look_every) || planted::is(Bug::StaleSnapshot))
        {
            return Ok(liveness);
        }
        self.look_anew().await
    }

    async fn look_anew(&self) -> Result<Arc<Liveness>, EngineError> {
        let now = self.ledger.clock.elapsed();
        let liveness = Arc::new(self.healer(Reason::InfrastructureRestart).liveness().await?);
        *self.nodes_seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&liveness)));
        Ok(liveness)
    }

    pub(super) async fn put_aside(&self, task: Task, span: Duration) {
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        let back = task.returned(now + span, now);
        if let Ok(Written::Lost(_)) | Err(_) = self.ledger.store.put_task(back, expect).await {
            tracing::debug!(node = %self.id, "a task was changed by somebody else");
        }
    }

    /// The run needs nobody now: its task sleeps for ever, or is over.
    async fn lay_down(&self, task: Task, dormant: bool) {
        let now = self.ledger.clock.now();
        let expect = Expect::Version(task.version);
        let next = match dormant {
            true => Ok(task.returned(Millis::NEVER, now)),
            false => task.cancelled(now),
        };
        if let Ok(next) = next
            && let Err(error) = self.ledger.store.put_task(next, expect).await
        {
            tracing::debug!(node = %self.id, %error, "a task could not be laid down");
        }
    }

    /// Tells the meter about a run that was taken over from a lost owner.
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
                    (Some(stale), Duration::ZERO),
                );
            }
        }
    }
}
