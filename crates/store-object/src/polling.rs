//! Waiting for changes: own writes wake waiters at once; for writes of other processes one waiter polls the markers.

use std::time::Duration;

use crate::inner::BucketState;
use crate::url::RequestCost;

/// Pause between two polls.
const POLL_EVERY: Duration = Duration::from_millis(1_000);
/// The same while the store is busy.
const POLL_BUSY_EVERY: Duration = Duration::from_millis(250);
/// The same where requests cost nothing.
const POLL_FREE_EVERY: Duration = Duration::from_millis(50);
/// How long after a change the store counts as busy.
const BUSY: Duration = Duration::from_secs(3);

impl BucketState {
    fn poll_every(&self) -> Duration {
        match self.requests {
            RequestCost::Free => POLL_FREE_EVERY,
            RequestCost::Paid if self.watch.idle_for() < BUSY => POLL_BUSY_EVERY,
            RequestCost::Paid => POLL_EVERY,
        }
    }

    /// How old a list of markers may be.
    pub(crate) fn markers_age_max(&self) -> Duration {
        self.poll_every().mul_f64(0.9)
    }

    /// Waits until the mark is not `seen`.
    pub(crate) async fn changed(&self, seen: u64) -> u64 {
        tokio::select! {
            mark = self.watch.mark.differs(seen) => mark,
            () = self.poll() => self.watch.mark.current(),
        }
    }

    /// Polls until other processes have written new markers.
    async fn poll(&self) {
        let _only_poller = self.watch.polling.lock().await;
        loop {
            let every = self.poll_every();
            tokio::time::sleep(every).await;
            match self.ready_index.refresh(&self.bucket, every.mul_f64(0.9)).await {
                Ok(true) => return self.watch.bump(),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "failed to list the markers of ready tasks"),
            }
        }
    }
}
