//! Programs that share a named lock. Two of them have the same holder name, as after a restart.
//!
//! Each holds the lock for a random time, sometimes past its expiry, and releases it with the fence of its hold.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::lock::Lock;
use goldseam_core::{LockName, Millis};
use goldseam_engine::Client;

use crate::journal::{Ack, Journal};
use crate::random::Random;

const NAME: IdLiteral<kind::Lock> = IdLiteral::new("till");
const TTL: Duration = Duration::from_secs(2);

/// A program that acquires and releases the lock.
#[derive(Debug)]
pub struct LockHolder {
    /// Its client.
    pub client: Client,
    /// The record of its holds.
    pub journal: Arc<Journal>,
    /// Its holder name.
    pub name: &'static str,
    /// Decides how long it holds the lock.
    pub random: Random,
}

impl LockHolder {
    /// Acquires and releases the lock until the task is aborted.
    pub async fn keep_holding(mut self) {
        let lock = NAME.id();
        loop {
            if let Ok(held) = self.client.locks().acquire(&lock, self.name, TTL).await {
                self.acknowledged(&held);
                self.hold(&lock, held.fence).await;
            }
            tokio::time::sleep(Duration::from_millis(50 + self.random.below(700))).await;
        }
    }

    async fn hold(&mut self, lock: &LockName, fence: u64) {
        // Up to twice the time to live.
        tokio::time::sleep(Duration::from_millis(self.random.below(4_000))).await;
        if self.random.percent(40)
            && let Ok(held) = self.client.locks().extend(lock, self.name, fence, TTL).await
        {
            self.acknowledged(&held);
            tokio::time::sleep(Duration::from_millis(self.random.below(3_000))).await;
        }
        let at = self.now();
        self.journal.acknowledged(Ack::LetGo { lock: lock.to_string(), fence, at });
        // If the release fails, the lock expires.
        drop(self.client.locks().release(lock, self.name, fence).await);
    }

    fn now(&self) -> Millis {
        self.journal.time().now()
    }

    fn acknowledged(&self, held: &Lock) {
        self.journal.acknowledged(Ack::Held {
            lock: held.name.to_string(),
            fence: held.fence,
            from: held.acquired_at,
            until: held.expires_at,
        });
    }
}
