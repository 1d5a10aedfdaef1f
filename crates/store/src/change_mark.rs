//! The mark by which waiters notice that a store may have changed.

use tokio::sync::watch;

/// The mark of the latest change that this process knows of: a number that grows.
#[derive(Debug)]
pub struct ChangeMark(watch::Sender<u64>);

impl Default for ChangeMark {
    fn default() -> Self {
        Self(watch::Sender::new(1))
    }
}

impl ChangeMark {
    /// Wakes waiters.
    pub fn bump(&self) {
        self.0.send_modify(|mark| *mark += 1);
    }

    /// Returns the mark.
    pub fn current(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the mark is not `seen`, and returns it.
    pub async fn differs(&self, seen: u64) -> u64 {
        let mut marks = self.0.subscribe();
        match marks.wait_for(|mark| *mark != seen).await {
            Ok(mark) => *mark,
            Err(_) => unreachable!("the sender lives as long as this mark"),
        }
    }
}
