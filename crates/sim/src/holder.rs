//! Programs outside that take turns by a named lock: two of them bear the same name, as after a restart.
//!
//! Each holds on for a while, sometimes longer than it may, and lets go by the fence of its own hold.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::lock::Lock;
use goldseam_core::{LockName, Millis};
use goldseam_engine::Client;

use crate::book::{Ack, Book};
use crate::dice::Dice;

const NAME: &str = "till";
const TTL: Duration = Duration::from_secs(2);

/// One of those programs.
#[derive(Debug)]
pub struct Holder {
    /// Its client.
    pub client: Client,
    /// Where its holds are written down.
    pub book: Arc<Book>,
    /// What it calls itself.
    pub name: &'static str,
    /// Decides how long it holds.
    pub dice: Dice,
}

impl Holder {
    /// Takes the lock and lets it go, for ever.
    pub async fn keep_holding(mut self) {
        let lock = LockName::new(NAME).unwrap_or_else(|_| unreachable!("a literal that is an id"));
        loop {
            if let Ok(held) = self.client.locks().acquire(&lock, self.name, TTL).await {
                self.told(&held);
                self.hold(&lock, held.fence).await;
            }
            tokio::time::sleep(Duration::from_millis(50 + self.dice.below(700))).await;
        }
    }

    async fn hold(&mut self, lock: &LockName, fence: u64) {
        // Up to twice as long as it may.
        tokio::time::sleep(Duration::from_millis(self.dice.below(4_000))).await;
        if self.dice.percent(40)
            && let Ok(held) = self.client.locks().extend(lock, self.name, fence, TTL).await
        {
            self.told(&held);
            tokio::time::sleep(Duration::from_millis(self.dice.below(3_000))).await;
        }
        let at = self.now();
        self.book.told(Ack::LetGo { lock: lock.to_string(), fence, at });
        // Whether it was heard or not: the hold ends at its time.
        drop(self.client.locks().release(lock, self.name, fence).await);
    }

    fn now(&self) -> Millis {
        self.book.time().now()
    }

    fn told(&self, held: &Lock) {
        let (lock, fence) = (held.name.to_string(), held.fence);
        self.book.told(Ack::Held { lock, fence, from: held.acquired_at, until: held.expires_at });
    }
}
