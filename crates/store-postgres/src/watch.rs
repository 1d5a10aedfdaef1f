//! Tells waiters that something may have changed: own commits at once, those of others when they tell.
//!
//! A process with a node hears what others tell on its liveness session. One without a node, a client, looks
//! again after a moment: it has no session that could hear.

use std::time::Duration;

use tokio::sync::watch;

/// How often a client looks again.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The mark of the latest change that this process knows of.
#[derive(Debug)]
pub(crate) struct Watch {
    mark: watch::Sender<u64>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { mark: watch::Sender::new(1) }
    }

    /// Something changed.
    pub(crate) fn bump(&self) {
        self.mark.send_modify(|mark| *mark += 1);
    }

    /// Waits until the mark is not `seen`; one who does not hear looks again after a moment.
    pub(crate) async fn changed(&self, seen: u64, hears: bool) -> u64 {
        let mut marks = self.mark.subscribe();
        let told = async {
            match marks.wait_for(|mark| *mark != seen).await {
                Ok(mark) => *mark,
                Err(_) => unreachable!("the sender lives as long as the watch"),
            }
        };
        if hears {
            return told.await;
        }
        match tokio::time::timeout(LOOK_EVERY, told).await {
            Ok(mark) => mark,
            Err(_) => {
                self.bump();
                *self.mark.borrow()
            }
        }
    }
}
