//! The one claim path: from a ready task to an execution.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::command::{Claim, Lost};
use goldseam_core::decide::Refusal;
use goldseam_core::task::Task;
use goldseam_core::{Command, Millis, NodeId, RunId, State};
use goldseam_store::{Claim as ClaimTasks, Expect, Written};
use tokio::time::timeout;

use super::{Node, mail};
use crate::cell::Cell;
use crate::clock::pause;
use crate::error::EngineError;
use crate::spawn::spawn;

/// Tasks claimed at once.
const BATCH: u32 = 64;
/// Shortest pause between two looks that other processes' writes cause.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a task that cannot be claimed now is put aside.
const ASIDE: Duration = Duration::from_secs(1);

impl Node {
    fn pools(&self) -> Vec<String> {
        let mut pools = vec![mail::pool()];
        for queue in &self.config.queues {
            for name in self.registry.names() {
                pools.push(Task::pool_of(queue, Some(&Task::advance_kind(name.as_str()))));
            }
        }
        pools
    }

    /// Claims whatever is ready, for as long as the node lives.
    pub(super) async fn keep_claiming(self: &Arc<Self>) {
        let pools = self.pools();
        while !self.is_closed() && !self.hub().is_leaving() {
            let more = match self.claim_some(&pools).await {
                Ok((claimed, _)) if claimed > 0 => continue,
                Ok((_, next)) => next,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "claiming failed");
                    None
                }
            };
            let span = more.map_or(self.config.poll, |due| due.min(self.config.poll));
            let _ = timeout(span, self.hub().ready.notified()).await;
        }
    }

    /// Claims what is due. Says how much, and how long until the next is, all by the store's clock.
    async fn claim_some(
        self: &Arc<Self>,
        pools: &[String],
    ) -> Result<(usize, Option<Duration>), EngineError> {
        let hot = u32::try_from(self.hub().hot_count()).unwrap_or(u32::MAX);
        let free = self.config.slots.saturating_sub(hot).min(BATCH);
        if free == 0 {
            return Ok((0, None));
        }
        let now = self.ledger.store.now().await?;
        let owner = self.id.as_str().to_owned();
        let claim = ClaimTasks { owner, pools: pools.to_vec(), kind: None, limit: free, now };
        let claimed = self.ledger.store.claim(claim).await?;
        let count = claimed.tasks.len();
        for task in claimed.tasks {
            let node = Arc::clone(self);
            self.adopt(spawn(async move { node.take(task).await }));
        }
        let next = claimed.next_due.map(|due| due.since(now) + Duration::from_millis(1));
        Ok((count, next))
    }

    /// Wakes the claimer and pokes hot runs when another process changed something.
    pub(super) async fn keep_listening(self: &Arc<Self>) {
        let mut mark = 0;
        while !self.is_closed() {
            match self.ledger.store.changed(mark).await {
                Ok(next) => mark = next,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "watching the store failed");
                    pause(self.config.poll).await;
                }
            }
            if let Err(error) = self.look_at_pokes().await {
                tracing::warn!(node = %self.id, %error, "looking for pokes failed");
                // Nothing else may ever change: look again by itself.
                mark = 0;
                pause(self.config.poll).await;
            }
            self.hub().ready.notify_one();
            pause(LOOK_EVERY).await;
        }
    }

    pub(super) async fn take(self: Arc<Self>, task: Task) {
        let Some(run) = task.run.clone() else { return };
        if !task.is_advance() {
            return self.deliver(task).await;
        }
        self.taking().insert(run.clone());
        let cell = self.begin(&run, task).await;
        self.taking().remove(&run);
        if let Some(cell) = cell {
            self.execute(cell).await;
        }
    }

    /// Claims the run and takes it into memory; what cannot be taken is put where it belongs.
    async fn begin(&self, run: &RunId, task: Task) -> Option<Arc<Cell>> {
        match self.claim_run(run).await {
            Ok(()) => match self.load_own(run).await {
                Ok((state, asked)) => return Some(self.hold(state, task.id, asked)),
                // The run is ours now, and nobody else may have it: the task stays, and is looked for again.
                Err(error) => tracing::error!(%run, %error, "a claimed run could not be loaded"),
            },
            Err(EngineError::Refused { refusal: Refusal::NotClaimable { status }, .. }) => {
                let dormant = !status.is_terminal();
                self.lay_down(task, dormant).await;
            }
            Err(EngineError::Refused { refusal: Refusal::NoSuchRun, .. }) => self.lay_down(task, false).await,
            Err(EngineError::Refused { refusal: Refusal::Owned { owner }, .. }) => {
                self.hand_to(task, &owner).await;
            }
            Err(error) => {
                tracing::debug!(%run, %error, "a run could not be claimed");
                self.put_aside(task, ASIDE).await;
            }
        }
        None
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

    /// The state of a run that was claimed, and when it was asked for.
    async fn load_own(&self, run: &RunId) -> Result<(State, Duration), EngineError> {
        let asked = self.ledger.clock.elapsed();
        Ok((self.ledger.load_surely(run).await?.state, asked))
    }

    /// Appends the claim; takes over from an owner that is lost.
    async fn claim_run(&self, run: &RunId) -> Result<(), EngineError> {
        let claim = |lost| Command::Claim(Claim { node: self.id.clone(), lost });
        match self.ledger.commit(run, &claim(None)).await {
            Err(EngineError::Refused { refusal: Refusal::Owned { owner }, run: of }) => {
                let Some(lost) = self.is_lost(&owner).await? else {
                    return Err(EngineError::Refused { refusal: Refusal::Owned { owner }, run: of });
                };
                self.ledger.commit(run, &claim(Some(lost))).await.map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    /// What is known about an owner that may be gone.
    async fn is_lost(&self, owner: &NodeId) -> Result<Option<Lost>, EngineError> {
        let nodes = self.ledger.store.nodes().await?;
        let lost = |proven, evidence: &str| {
            Some(Lost { node: owner.clone(), proven, evidence: evidence.to_owned() })
        };
        Ok(match nodes.iter().find(|seen| seen.record.id == *owner) {
            None => lost(true, "its owner is gone and did not hand it over"),
            Some(seen) if seen.is_gone() => lost(true, "its owner's process is gone"),
            Some(_) if self.is_silent(owner) => lost(false, "its owner has not beaten for too long"),
            Some(_) => None,
        })
    }

    async fn put_aside(&self, task: Task, span: Duration) {
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
}
