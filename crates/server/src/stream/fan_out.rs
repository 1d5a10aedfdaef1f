//! Who is told that a log has grown: one look at the store for all followers of a namespace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::core::{Recorded, codec};
use goldseam::store::Feed;
use goldseam::{Client, RunId, Seq};
use tokio::sync::{Notify, watch};

/// A store that fails is asked again after so long.
const FAILED: Duration = Duration::from_secs(1);

/// Events of one run that are read at a time.
const PAGE: u32 = 200;

/// Older events that are handed out with the new ones: whoever was busy while they came needs no look of its own.
const RECENT: usize = 64;

/// What the followers of one run are handed: its latest events, or nothing, and then they look themselves.
type Page = Arc<[Recorded]>;

/// The followers of one run.
#[derive(Debug)]
struct Followed {
    tell: watch::Sender<Page>,
    /// Where its log ended when it was last read; none: it was not.
    end: Option<Seq>,
}

/// The followers of a namespace.
#[derive(Debug)]
pub(crate) struct FanOut {
    client: Client,
    runs: Mutex<HashMap<RunId, Followed>>,
    any: watch::Sender<u64>,
    somebody: Notify,
}

impl FanOut {
    pub(crate) fn new(client: Client) -> Arc<Self> {
        let (any, _) = watch::channel(0);
        Arc::new(Self { client, runs: Mutex::default(), any, somebody: Notify::new() })
    }

    /// Changes whenever the log of this run may have grown.
    pub(crate) fn of(&self, run: &RunId) -> watch::Receiver<Page> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || Followed { tell: watch::channel(Page::from([])).0, end: None };
        let receiver = runs.entry(run.clone()).or_insert_with(first).tell.subscribe();
        self.somebody.notify_one();
        receiver
    }

    /// Changes whenever any log may have grown.
    pub(crate) fn any(&self) -> watch::Receiver<u64> {
        let receiver = self.any.subscribe();
        self.somebody.notify_one();
        receiver
    }

    /// Forgets whom nobody follows any more. Whether anybody is left.
    fn is_followed(&self) -> bool {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|_, followed| followed.tell.receiver_count() > 0);
        !runs.is_empty() || self.any.receiver_count() > 0
    }

    /// Tells all followers to look themselves.
    fn tell_all(&self) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        for followed in runs.values_mut() {
            followed.end = None;
            followed.tell.send_replace(Page::from([]));
        }
        drop(runs);
        self.any.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Hands the followers of these runs what is new in their logs.
    async fn tell(&self, stirred: &[RunId]) {
        if stirred.is_empty() {
            return;
        }
        self.any.send_modify(|count| *count = count.wrapping_add(1));
        for run in stirred {
            while self.hand(run).await == Some(PAGE as usize) {}
        }
    }

    /// Hands the followers of a run the next page of its log. How much that was; none if nobody follows it.
    async fn hand(&self, run: &RunId) -> Option<usize> {
        let known = |runs: &HashMap<RunId, Followed>| runs.get(run).map(|followed| followed.end);
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
            followed.tell.send_replace(Page::from([]));
            return Some(0);
        };
        if !new.is_empty() {
            followed.tell.send_modify(|told| *told = joined(told, &new));
        }
        Some(new.len())
    }

    /// What is new in a log. Whatever goes wrong is met by the followers, who look themselves.
    async fn read(&self, run: &RunId, after: Seq) -> Option<Vec<Recorded>> {
        let records = self.client.store().read(run, after, PAGE).await.ok()?;
        records.iter().map(|record| codec::decode(record.seq, &record.body).ok()).collect()
    }

    /// Looks for as long as the server runs, and only while somebody follows.
    pub(crate) async fn run(self: Arc<Self>, mut leaving: watch::Receiver<bool>) {
        tokio::select! {
            () = self.look() => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    async fn look(&self) {
        let store = Arc::clone(self.client.store());
        let (mut change, mut mark) = (0, None);
        loop {
            if !self.is_followed() {
                mark = None;
                self.somebody.notified().await;
            }
            match self.client.wait_for_change(change).await {
                Ok(next) => change = next,
                Err(_) => tokio::time::sleep(FAILED).await,
            }
            match store.feed() {
                Some(feed) => self.hear(feed, &mut mark).await,
                None => self.tell_all(),
            }
        }
    }

    async fn hear(&self, feed: &dyn Feed, mark: &mut Option<String>) {
        match feed.stirred(mark.as_deref()).await {
            Ok(stirred) => {
                match mark {
                    Some(_) => self.tell(&stirred.runs).await,
                    // Whoever came before there was a mark may have missed something.
                    None => self.tell_all(),
                }
                *mark = Some(stirred.mark);
            }
            Err(error) => {
                tracing::warn!(%error, "followers are told nothing new for a moment");
                *mark = None;
                tokio::time::sleep(FAILED).await;
            }
        }
    }
}

/// What is new, behind the last of what was told before it.
fn joined(told: &[Recorded], new: &[Recorded]) -> Page {
    let goes_on =
        matches!((told.last(), new.first()), (Some(last), Some(first)) if last.seq.next() == first.seq);
    let recent = if goes_on { &told[told.len().saturating_sub(RECENT)..] } else { &[] };
    recent.iter().chain(new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use goldseam::Payload;

    use super::*;

    #[tokio::test]
    async fn whoever_missed_some_news_finds_them_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", dir.path().join("tails.db").display());
        let client = Client::new(goldseam::open_store(&store).await.unwrap());
        let run: RunId = "slow".parse().unwrap();
        client.start("w", &run, Payload::null(), goldseam::StartOptions::default()).await.unwrap();
        let tails = FanOut::new(client.clone());
        let told = tails.of(&run);
        assert_eq!(tails.hand(&run).await, Some(0), "where the log ends is looked up first");
        let mut seqs = Vec::new();
        for _ in 0..RECENT + 10 {
            client.signal(&run, "tick", Payload::null(), None).await.unwrap();
            assert_eq!(tails.hand(&run).await, Some(1));
            seqs.push(told.borrow().last().unwrap().seq);
        }
        let held: Vec<Seq> = told.borrow().iter().map(|recorded| recorded.seq).collect();
        assert_eq!(held, seqs[seqs.len() - RECENT - 1..]);
        assert_eq!(tails.hand(&run).await, Some(0), "nothing new");
        assert_eq!(told.borrow().len(), RECENT + 1, "and nothing is taken back");
    }
}
