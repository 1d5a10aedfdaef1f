//! Tells waiters that something may have changed: own commits at once, those of others by looking.
//!
//! Invariant: while anybody waits, exactly one of the waiters looks for other processes' commits;
//! while nobody waits, nobody does.

use std::time::Duration;

use goldseam_store::StoreError;
use tokio::sync::{Mutex, watch};

use crate::writer::Writer;

/// How often the looking waiter looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The mark of the latest change that this process knows of.
#[derive(Debug)]
pub(crate) struct Watch {
    mark: watch::Sender<u64>,
    baton: Mutex<()>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { mark: watch::Sender::new(1), baton: Mutex::new(()) }
    }

    /// Something changed.
    pub(crate) fn bump(&self) {
        self.mark.send_modify(|mark| *mark += 1);
    }

    /// Waits until the mark is not `seen`.
    pub(crate) async fn changed(&self, seen: u64, writer: &Writer) -> Result<u64, StoreError> {
        let mut marks = self.mark.subscribe();
        let told = async {
            match marks.wait_for(|mark| *mark != seen).await {
                Ok(mark) => *mark,
                Err(_) => unreachable!("the sender lives as long as the watch"),
            }
        };
        tokio::select! {
            biased;
            mark = told => Ok(mark),
            error = self.look(writer) => Err(error),
        }
    }

    /// Looks for others' commits for as long as this waiter waits; returns only if it cannot look.
    async fn look(&self, writer: &Writer) -> StoreError {
        let _baton = self.baton.lock().await;
        loop {
            match writer.peek().await {
                Ok(()) | Err(StoreError::Busy { .. }) => {}
                Err(error) => return error,
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
