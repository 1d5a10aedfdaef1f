//! Takeover: returns tasks of dead nodes to their queues, and finds runs and pokes that this node itself has lost.
//!
//! The operating system drops the lock of a dead process, which proves its death. Silence is only the fallback,
//! judged by a beat counter that does not change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use goldseam_core::delivery::is_delivery;
use goldseam_core::recovery::Reason;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, NodeId, RunId, Status};
use goldseam_store::{Expect, NodeSeen, Pulse, RunFilter, TaskFilter};

use super::{Node, NodeSight};
use crate::ledger::error::EngineError;
use crate::ledger::liveness::{Observed, Sign, Thresholds, Verdict};
use crate::ledger::spawn::spawn;
use crate::ledger::sync::lock;

/// Tasks per read of the store.
const PAGE: u32 = 200;
/// Tasks per read once the first orphans can be claimed: each page scans the remaining tasks.
const PAGE_LATER: u32 = 2_000;

/// Number of nodes that watch each other at the configured interval. Larger fleets share the reads.
const WATCHERS: usize = 4;

/// Runs that this node owns and does not execute: their progress, and since when.
type Unheld = HashMap<RunId, (u64, Millis)>;

/// Why a node counts as lost, and whether its death is proven.
#[derive(Clone, Copy)]
struct Loss<'a> {
    why: &'a str,
    proven: bool,
}

impl Node {
    pub(super) async fn keep_watch(self: &Arc<Self>) {
        let begun = self.ledger.clock.elapsed();
        let mut reconciled = begun;
        let mut requeued = begun;
        let reconcile_every = self.config.silence_max.max(self.pace.reconcile);
        // As often as a sweep, which reads the same rows: on some stores each row is a request.
        let requeue_every = self.config.silence_max.max(self.pace.sweep);
        let mut read_at: Option<Duration> = None;
        let mut unheld = Unheld::new();
        while !self.is_closed() {
            let now = self.ledger.clock.elapsed();
            // Suspects are admitted from memory and need not wait for the store's pace.
            if read_at.is_none_or(|at| now.saturating_sub(at) >= self.watch_pace()) {
                read_at = Some(now);
                self.take_over_lost_nodes().await;
            }
            self.beat_for_suspects().await;
            self.admit_suspects();
            self.rest_between_checks().await;
            if self.ledger.clock.elapsed().saturating_sub(reconciled) >= reconcile_every {
                reconciled = self.ledger.clock.elapsed();
                if let Err(error) = self.reconcile().await {
                    tracing::warn!(node = %self.id, %error, "failed to reconcile tasks with runs");
                }
            }
            if self.ledger.clock.elapsed().saturating_sub(requeued) >= requeue_every {
                requeued = self.ledger.clock.elapsed();
                if let Err(error) = self.requeue_unheld(&mut unheld).await {
                    tracing::warn!(node = %self.id, %error, "failed to search for owned runs that are not executed");
                }
            }
        }
    }

    /// Rests until the next check. A node without other nodes and without runs only has suspects to check.
    async fn rest_between_checks(&self) {
        let is_idle = self.others() == 0 && self.live_runs().live_count() == 0 && self.held_back_count() == 0;
        if is_idle && self.pace.watch.is_zero() {
            let span = self.watch_every().max(self.config.beat);
            tokio::select! {
                () = self.rest(span) => {}
                () = self.suspects.notified() => {}
            }
        } else {
            self.rest(self.watch_every()).await;
        }
    }

    /// Minimum time between two reads of the other nodes. A node that is alone sees a new one within a beat.
    fn watch_pace(&self) -> Duration {
        match self.others() {
            0 => self.pace.watch.max(self.config.beat / 2),
            _ => self.pace.watch,
        }
    }

    /// Number of other nodes that count as alive.
    fn others(&self) -> usize {
        let all = lock(&self.seen);
        all.values().filter(|sight| sight.verdict == Verdict::Alive).count()
    }

    /// The pause between two checks. In a large fleet it grows, so the store gets no more reads.
    fn watch_every(&self) -> Duration {
        let share = u32::try_from(self.others() / WATCHERS).unwrap_or(u32::MAX).max(1);
        self.config.watch.saturating_mul(share).min(self.config.silence_max / 4).max(self.config.watch)
    }

    /// At start-up, makes the first orphans claimable before anything else.
    pub(super) async fn recover_first(&self) {
        self.take_over_pages(Some(1)).await;
    }

    /// Takes over from every node that is gone or silent.
    pub(super) async fn take_over_lost_nodes(&self) {
        self.take_over_pages(None).await;
    }

    async fn take_over_pages(&self, pages_max: Option<u32>) {
        let nodes = match self.ledger.store.nodes().await {
            Ok(nodes) => nodes,
            Err(error) => {
                tracing::warn!(node = %self.id, %error, "failed to read other nodes");
                lock(&self.seen).clear();
                return;
            }
        };
        for seen in nodes.iter().filter(|seen| seen.record.id != self.id) {
            let (sign, proven) = match self.observe(seen) {
                Verdict::Alive => continue,
                Verdict::Gone(sign) => (sign, true),
                Verdict::Silent(sign) => (sign, false),
            };
            let why = sign.of(seen).to_string();
            match self.return_tasks(seen, Loss { why: &why, proven }, pages_max).await {
                Ok(()) if proven => self.forget_dead_node(&seen.record.id).await,
                Ok(()) => {}
                Err(error) => tracing::warn!(node = %seen.record.id, %error, "takeover failed"),
            }
        }
    }

    /// Removes the record of a dead node once no run names it as owner and needs its last beat.
    async fn forget_dead_node(&self, node: &NodeId) {
        let statuses = Status::ALL.into_iter().filter(|status| status.is_active()).collect();
        let filter = RunFilter { owner: Some(node.clone()), statuses, limit: 1, ..RunFilter::default() };
        let forgotten = match self.ledger.store.runs(filter).await {
            Ok(orphans) if !orphans.items.is_empty() => return,
            Ok(_) => self.ledger.store.forget(node).await,
            Err(error) => Err(error),
        };
        if let Err(error) = forgotten {
            tracing::debug!(%error, "failed to remove the record of a dead node");
        }
    }

    /// Judges a node by what this node has observed of it so far.
    fn observe(&self, seen: &NodeSeen) -> Verdict {
        let now = self.ledger.clock.elapsed();
        let mut all = lock(&self.seen);
        let new = NodeSight { beats: seen.beats, since: now, suspect_since: None, verdict: Verdict::Alive };
        let sight = all.entry(seen.record.id.clone()).or_insert(new);
        if sight.beats != seen.beats {
            *sight = new;
        }
        match seen.pulse {
            Pulse::Suspect => _ = sight.suspect_since.get_or_insert(now),
            Pulse::Held | Pulse::Dropped | Pulse::Unknown => sight.suspect_since = None,
        }
        let silence = now.saturating_sub(sight.since);
        let suspect = sight.suspect_since.map(|since| now.saturating_sub(since));
        sight.verdict = Thresholds::of(&self.config).judge(seen, Observed { silence, suspect });
        sight.verdict
    }

    /// Number of crashes after which a task is dead. Advance tasks are limited by the log of their run instead.
    /// Deliveries never become dead: the end of a child must reach its parent, however many nodes die.
    fn deliveries_max(&self, task: &Task) -> u32 {
        if is_delivery(task) { u32::MAX } else { self.config.deliveries_max }
    }

    /// The latest verdict of this node on another, from watching it.
    pub(super) fn verdict_on(&self, node: &NodeId) -> Verdict {
        lock(&self.seen).get(node).map_or(Verdict::Alive, |sight| sight.verdict)
    }

    /// Returns all tasks of a lost node to their queues. Losing a race to another healer is not an error.
    async fn return_tasks(
        &self,
        seen: &NodeSeen,
        loss: Loss<'_>,
        pages_max: Option<u32>,
    ) -> Result<(), EngineError> {
        let Loss { why, proven } = loss;
        let node = &seen.record.id;
        let mut after = None;
        for _ in 0..pages_max.unwrap_or(u32::MAX) {
            let limit = if after.is_none() { PAGE } else { PAGE_LATER };
            let filter = TaskFilter {
                owner: Some(node.as_str().to_owned()),
                state: Some(TaskState::Claimed),
                after: after.take(),
                limit,
                ..TaskFilter::default()
            };
            let page = self.ledger.store.tasks(filter).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id.clone());
            let now = self.ledger.store.now().await?;
            // Concurrently: writes that wait together share a commit.
            let back = page.into_iter().map(|task| {
                let expect = Expect::Version(task.version);
                let limit = self.deliveries_max(&task);
                let back = match proven {
                    true => task.reclaimed(why, limit, now),
                    // A silent node may be alive, so no delivery is counted.
                    false => task.taken_back(why, now),
                };
                self.ledger.store.put_task(back, expect)
            });
            let back = join_all(back).await;
            self.live_runs().ready.notify_one();
            back.into_iter().collect::<Result<Vec<_>, _>>()?;
        }
        Ok(())
    }

    /// Pokes runs of this node that other processes have written to.
    pub(super) async fn handle_pokes(&self) -> Result<(), EngineError> {
        let filter = TaskFilter { poked: true, ..self.own_tasks() };
        for task in self.ledger.store.tasks(filter).await? {
            let Some(run) = task.run.clone() else { continue };
            // Poke before clearing the mark: the reply to the write may be lost.
            self.poke(&run);
            let expect = Expect::Version(task.version);
            let version = task.version + 1;
            let seen = Task { poked: false, version, ..task };
            self.ledger.store.put_task(seen, expect).await?;
        }
        Ok(())
    }

    /// Makes the run read its log now, or once it is in memory.
    pub(super) fn poke(&self, run: &RunId) {
        if let Some(poked) = self.taking().get_mut(run) {
            *poked = true;
        }
        self.ledger.process.poke(run);
    }

    fn own_tasks(&self) -> TaskFilter {
        TaskFilter {
            owner: Some(self.id.as_str().to_owned()),
            state: Some(TaskState::Claimed),
            advance: Some(true),
            limit: PAGE,
            ..TaskFilter::default()
        }
    }

    /// Requeues runs that this node owns but dropped from memory, and whose task is lost or dormant: no other node
    /// may claim them, and no task brings them back.
    async fn requeue_unheld(&self, unheld: &mut Unheld) -> Result<(), EngineError> {
        let mut before = std::mem::take(unheld);
        let healer = self.healer(Reason::StaleDetection);
        let statuses: Vec<Status> = Status::ALL.into_iter().filter(|status| status.is_active()).collect();
        let mut after = None;
        loop {
            let owner = Some(self.id.clone());
            let statuses = statuses.clone();
            let filter =
                RunFilter { owner, statuses, after: after.take(), limit: PAGE, ..RunFilter::default() };
            let page = self.ledger.store.runs(filter).await?;
            let now = self.ledger.store.now().await?;
            for row in page.items {
                let run = &row.summary.run;
                if self.has(run) {
                    continue;
                }
                let Some(diagnosis) = healer.not_executed(&row, now).await? else { continue };
                // Appends of other writers do not restart the time.
                let moves = row.summary.moves();
                let last = row.summary.last_event_at;
                let known = before.remove(run).filter(|(then, _)| *then == moves);
                let since = known.map_or(last, |(_, since)| since.min(last));
                unheld.insert(run.clone(), (moves, since));
                if now.since(since) < self.config.silence_max {
                    continue;
                }
                let end = self.ledger.store.head(run).await?.map_or(row.summary.as_of, |head| head.end);
                healer.heal(run, end, &diagnosis).await?;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Compares all claimed tasks with this node's runs. Finds tasks that this node holds without knowing it because
    /// the reply to its claim was lost, tasks of nodes that have no record, and live runs that another node has taken
    /// over: a step that runs for hours would notice only at its end.
    async fn reconcile(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut after = None;
        let mut unheld = self.live_runs().run_ids();
        loop {
            let filter = TaskFilter {
                state: Some(TaskState::Claimed),
                after: after.take(),
                limit: PAGE,
                ..TaskFilter::default()
            };
            let page = self.ledger.store.tasks(filter).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id.clone());
            // Read the nodes after the tasks: a node beats before it claims, so an owner missing here is gone.
            let nodes = self.ledger.store.nodes().await?;
            let now = self.ledger.store.now().await?;
            for task in page.into_iter().filter(|task| task.is_advance() || is_delivery(task)) {
                let expect = Expect::Version(task.version);
                let owner = task.owner.clone().unwrap_or_default();
                let known = nodes.iter().any(|seen| seen.record.id.as_str() == owner);
                if owner == self.id.as_str() {
                    if let Some(run) = &task.run {
                        unheld.remove(run);
                    }
                    let old = task.started_at.is_some_and(|at| now.since(at) >= self.config.silence_max);
                    let missing = task.run.as_ref().is_some_and(|run| !self.has(run));
                    if old && (is_delivery(&task) || missing && self.live_runs().is_leaving()) {
                        self.ledger.store.put_task(task.returned(now, now), expect).await?;
                    } else if old && missing {
                        // Claimed at once: from the queue, nodes that may not have the run could claim it again and
                        // again.
                        let node = Arc::clone(self);
                        self.adopt(spawn(async move { node.take(task).await }));
                    }
                } else if !known {
                    let limit = self.deliveries_max(&task);
                    let back = task.reclaimed(&Sign::no_record(&owner).to_string(), limit, now);
                    self.ledger.store.put_task(back, expect).await?;
                }
            }
        }
        for run in unheld {
            self.ledger.process.poke(&run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use goldseam_core::command::Claim;
    use goldseam_core::{Command, Event, Payload};
    use goldseam_store::{MemoryStore, Store};

    use super::super::tests::node_on;
    use super::*;
    use crate::testing::{SimClock, TrueTime};

    /// The number of the signal, sent every half second, at which the run was requeued; none if it was not.
    async fn requeued_within(signals: u32) -> Option<u32> {
        let time = TrueTime::begin();
        let store = Arc::new(MemoryStore::new(time.store_clock()));
        let node = node_on(Arc::clone(&store) as Arc<dyn Store>, Arc::new(SimClock::new(time, 0, 0)));
        let client = node.client();
        let options = crate::client::StartOptions::default();
        let run = RunId::new("r").unwrap();
        client.start_with("w", &run, &Payload::null(), options).await.unwrap();
        let claim = Claim::by(node.id.clone());
        node.ledger.commit(&run, &Command::Claim(claim)).await.unwrap();
        let task = store.tasks(TaskFilter { limit: 1, ..TaskFilter::default() }).await.unwrap().remove(0);
        let expect = Expect::Version(task.version);
        let over = Task { state: TaskState::Completed, version: task.version + 1, ..task };
        store.put_task(over, expect).await.unwrap();
        let mut unheld = Unheld::new();
        for signal in 0..signals {
            tokio::time::advance(Duration::from_millis(500)).await;
            client.handle(run.clone()).signal("go", &signal).await.unwrap();
            node.requeue_unheld(&mut unheld).await.unwrap();
            let log = client.history(&run).await.unwrap();
            if log.iter().any(|one| matches!(one.event, Event::RunRecovered(_))) {
                return Some(signal);
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_run_is_requeued_although_others_write_to_it() {
        let found = requeued_within(120).await.expect("it is requeued");
        let silence =
            u32::try_from(crate::ledger::config::Config::default().silence_max.as_millis() / 500).unwrap();
        assert!((silence..silence + 3).contains(&found), "found after {found} signals");
    }
}
