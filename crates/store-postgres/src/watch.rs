//! Wakes waiters when the database may have changed: at once after own commits, by notification after those of others.
//!
//! A process with a node receives notifications on its liveness session. A client has no such session, so it polls.

use std::time::Duration;

use tokio::sync::watch;

/// Interval between two polls of a client.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// The mark of the latest change that this process knows of.
#[derive(Debug)]
pub(crate) struct Watch {
    mark: watch::Sender<u64>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { mark: watch::Sender::new(1) }
    }

    /// Wakes waiters.
    pub(crate) fn bump(&self) {
        self.mark.send_modify(|mark| *mark += 1);
    }

    /// Waits until the mark is not `seen`. Without notifications, returns after one poll interval.
    pub(crate) async fn changed(&self, seen: u64, is_notified: bool) -> u64 {
        let mut marks = self.mark.subscribe();
        let changed = async {
            match marks.wait_for(|mark| *mark != seen).await {
                Ok(mark) => *mark,
                Err(_) => unreachable!("the sender lives as long as the watch"),
            }
        };
        if is_notified {
            return changed.await;
        }
        match tokio::time::timeout(POLL_EVERY, changed).await {
            Ok(mark) => mark,
            Err(_) => {
                self.bump();
                *self.mark.borrow()
            }
        }
    }
}
