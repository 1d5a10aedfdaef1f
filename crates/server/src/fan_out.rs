//! Log fan-out: one reader of the store wakes all followers of a namespace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::unstable::core::{Recorded, codec};
use goldseam::unstable::store::Feed;
use goldseam::{Client, RunId, Seq};
use tokio::sync::{Notify, watch};

/// Pause after a failed read.
const FAILED: Duration = Duration::from_secs(1);

/// Events of one run per read.
const PAGE: u32 = 200;

/// Older events that are sent again with new ones, so that a busy follower does not have to read the log.
const RECENT: usize = 64;

/// The latest events of a run. If empty, the followers read the log.
type RecentEvents = Arc<[Recorded]>;

/// The followers of one run.
#[derive(Debug)]
struct FollowedRun {
    sender: watch::Sender<RecentEvents>,
    /// End of the log at the last read; `None` before the first read.
    end: Option<Seq>,
}

/// The followers of all runs of a namespace.
#[derive(Debug)]
pub(crate) struct FanOut {
    client: Client,
    runs: Mutex<HashMap<RunId, FollowedRun>>,
    any: watch::Sender<u64>,
    /// The latest mark of the store, which changes with tasks, locks and nodes, too.
    mark: watch::Sender<u64>,
    follower_added: Notify,
}

impl FanOut {
    pub(crate) fn new(client: Client) -> Arc<Self> {
        let ((any, _), (mark, _)) = (watch::channel(0), watch::channel(0));
        Arc::new(Self { client, runs: Mutex::default(), any, mark, follower_added: Notify::new() })
    }

    /// Returns a receiver that changes when the log of this run may have grown.
    pub(crate) fn follow_run(&self, run: &RunId) -> watch::Receiver<RecentEvents> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || FollowedRun { sender: watch::channel(RecentEvents::from([])).0, end: None };
        let receiver = runs.entry(run.clone()).or_insert_with(first).sender.subscribe();
        self.follower_added.notify_one();
        receiver
    }

    /// Returns a receiver that changes when any log may have grown.
    pub(crate) fn follow_all(&self) -> watch::Receiver<u64> {
        let receiver = self.any.subscribe();
        self.follower_added.notify_one();
        receiver
    }

    /// Returns a receiver that changes when anything in the store may have changed. Only for callers that also follow
    /// all runs.
    pub(crate) fn follow_changes(&self) -> watch::Receiver<u64> {
        self.mark.subscribe()
    }

    /// Reports a change that the store reports to no waiter: a claim of tasks.
    pub(crate) fn note_change(&self) {
        self.mark.send_modify(|mark| *mark = mark.wrapping_add(1));
    }

    /// Drops runs without followers. Returns whether any follower is left.
    fn has_followers(&self) -> bool {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|_, followed| followed.sender.receiver_count() > 0);
        !runs.is_empty() || self.any.receiver_count() > 0
    }

    /// Makes all followers read their logs.
    fn wake_all(&self) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for followed in runs.values_mut() {
            followed.end = None;
            followed.sender.send_replace(RecentEvents::from([]));
        }
        drop(runs);
        self.any.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Sends the new events of these runs to their followers.
    async fn send_news(&self, changed: &[RunId]) {
        if changed.is_empty() {
            return;
        }
        self.any.send_modify(|count| *count = count.wrapping_add(1));
        for run in changed {
            while self.send_page(run).await == Some(PAGE as usize) {}
        }
    }

    /// Sends the next page of a run's log to its followers. Returns its length, or `None` if the run has no followers.
    async fn send_page(&self, run: &RunId) -> Option<usize> {
        let known = |runs: &HashMap<RunId, FollowedRun>| runs.get(run).map(|followed| followed.end);
        let end = known(&self.runs.lock().unwrap_or_else(PoisonError::into_inner))?;
        let read = match end {
            Some(end) => self.read(run, end).await,
            None => None,
        };
        let head = match &read {
            Some(page) => page.last().map(|last| last.seq).or(end),
            None => self.client.store().head(run).await.ok().flatten().map(|head| head.end),
        };
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let followed = runs.get_mut(run)?;
        followed.end = head;
        let Some(new) = read else {
            followed.sender.send_replace(RecentEvents::from([]));
            return Some(0);
        };
        if !new.is_empty() {
            followed.sender.send_modify(|sent| *sent = joined(sent, &new));
        }
        Some(new.len())
    }

    /// Reads the new events of a log. On an error the followers read the log and report it.
    async fn read(&self, run: &RunId, after: Seq) -> Option<Vec<Recorded>> {
        let records = self.client.store().read(run, after, PAGE).await.ok()?;
        records.iter().map(|record| codec::decode(record.seq, &record.body).ok()).collect()
    }

    /// Watches the store until the server shuts down, and only while there are followers.
    pub(crate) async fn run(self: Arc<Self>, mut leaving: watch::Receiver<bool>) {
        tokio::select! {
            () = self.watch() => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    async fn watch(&self) {
        let store = Arc::clone(self.client.store());
        let mut change = 0;
        let mut mark = None;
        loop {
            if !self.has_followers() {
                mark = None;
                self.follower_added.notified().await;
            }
            match self.client.wait_for_change(change).await {
                Ok(next) => {
                    if next != change {
                        self.mark.send_replace(next);
                    }
                    change = next;
                }
                Err(_) => tokio::time::sleep(FAILED).await,
            }
            match store.feed().filter(|feed| feed.finds_changes_cheaply()) {
                Some(feed) => self.read_feed(feed, &mut mark).await,
                None => self.wake_all(),
            }
        }
    }

    async fn read_feed(&self, feed: &dyn Feed, mark: &mut Option<String>) {
        match feed.changed_runs(mark.as_deref()).await {
            Ok(changed) => {
                match mark {
                    Some(_) => self.send_news(&changed.runs).await,
                    // Followers that came before the first mark may have missed events.
                    None => self.wake_all(),
                }
                *mark = Some(changed.mark);
            }
            Err(error) => {
                tracing::warn!(%error, "failed to read the feed; followers get new events after a pause");
                *mark = None;
                tokio::time::sleep(FAILED).await;
            }
        }
    }
}

/// Appends new events to the most recent of the events sent before.
fn joined(sent: &[Recorded], new: &[Recorded]) -> RecentEvents {
    let is_contiguous =
        matches!((sent.last(), new.first()), (Some(last), Some(first)) if last.seq.next() == first.seq);
    let recent = if is_contiguous { &sent[sent.len().saturating_sub(RECENT)..] } else { &[] };
    recent.iter().chain(new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use goldseam::Payload;

    use super::*;

    #[tokio::test]
    async fn follower_that_missed_events_gets_them_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", dir.path().join("fan-out.db").display());
        let client = Client::new(goldseam::open_store(&store).await.unwrap());
        let run: RunId = "slow".parse().unwrap();
        client.start("w", &run, &Payload::null()).await.unwrap();
        let fan_out = FanOut::new(client.clone());
        let received = fan_out.follow_run(&run);
        assert_eq!(fan_out.send_page(&run).await, Some(0), "the first read finds the end of the log");
        let mut seqs = Vec::new();
        for _ in 0..RECENT + 10 {
            client.signal(&run, "tick", Payload::null(), None).await.unwrap();
            assert_eq!(fan_out.send_page(&run).await, Some(1));
            seqs.push(received.borrow().last().unwrap().seq);
        }
        let held: Vec<Seq> = received.borrow().iter().map(|recorded| recorded.seq).collect();
        assert_eq!(held, seqs[seqs.len() - RECENT - 1..]);
        assert_eq!(fan_out.send_page(&run).await, Some(0), "nothing new");
        assert_eq!(received.borrow().len(), RECENT + 1, "and the sent events stay");
    }
}
