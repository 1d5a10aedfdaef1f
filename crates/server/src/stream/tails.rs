//! Who is told that a log has grown: one look at the store for all followers of a namespace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::store::Feed;
use goldseam::{Client, RunId};
use tokio::sync::{Notify, watch};

/// A store that fails is asked again after so long.
const FAILED: Duration = Duration::from_secs(1);

/// The followers of a namespace.
#[derive(Debug)]
pub(crate) struct Tails {
    client: Client,
    runs: Mutex<HashMap<RunId, watch::Sender<u64>>>,
    any: watch::Sender<u64>,
    somebody: Notify,
}

impl Tails {
    pub(crate) fn new(client: Client) -> Arc<Self> {
        let (any, _) = watch::channel(0);
        Arc::new(Self { client, runs: Mutex::default(), any, somebody: Notify::new() })
    }

    /// Changes whenever the log of this run may have grown.
    pub(crate) fn of(&self, run: &RunId) -> watch::Receiver<u64> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = runs.entry(run.clone()).or_insert_with(|| watch::channel(0).0).subscribe();
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
        runs.retain(|_, sender| sender.receiver_count() > 0);
        !runs.is_empty() || self.any.receiver_count() > 0
    }

    /// Tells the followers of these runs, or of all.
    fn tell(&self, stirred: Option<&[RunId]>) {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let wake = |sender: &watch::Sender<u64>| sender.send_modify(|count| *count = count.wrapping_add(1));
        match stirred {
            Some([]) => return,
            Some(stirred) => stirred.iter().filter_map(|run| runs.get(run)).for_each(wake),
            None => runs.values().for_each(wake),
        }
        wake(&self.any);
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
                None => self.tell(None),
            }
        }
    }

    async fn hear(&self, feed: &dyn Feed, mark: &mut Option<String>) {
        match feed.stirred(mark.as_deref()).await {
            Ok(stirred) => {
                // Whoever came before there was a mark may have missed something.
                self.tell(mark.is_some().then_some(&stirred.runs));
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
