//! How long an engine insists on an answer of its store.

use std::future::Future;
use std::time::Duration;

use goldseam_store::StoreError;

use super::Ledger;
use crate::ledger::clock::pause;
use crate::ledger::error::EngineError;

/// How long a failing store is tried: growing pauses with jitter up to a limit.
#[derive(Debug)]
pub struct Patience {
    doing: &'static str,
    began: Duration,
    pause: Duration,
}

impl Patience {
    pub fn new(ledger: &Ledger, doing: &'static str) -> Self {
        Self { doing, began: ledger.clock.elapsed(), pause: Duration::from_millis(5) }
    }

    /// Waits a little longer than last time, or gives up with `error`.
    pub async fn wait(&mut self, ledger: &Ledger, error: StoreError) -> Result<(), EngineError> {
        let spent = ledger.clock.elapsed().saturating_sub(self.began);
        if spent > ledger.limits.store_patience {
            tracing::warn!(doing = self.doing, %error, "the store was given up");
            return Err(EngineError::Patience { doing: self.doing, seconds: spent.as_secs() });
        }
        let jitter = ledger.entropy.next() % 1000;
        pause(self.pause.mul_f64(0.5 + jitter as f64 / 2000.0)).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        Ok(())
    }

    /// Repeats a read until the store answers or patience ends.
    pub async fn insist<T, F, Fut>(&mut self, ledger: &Ledger, mut read: F) -> Result<T, EngineError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, EngineError>>,
    {
        loop {
            match read().await {
                Err(EngineError::Store(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. }))) => {
                    self.wait(ledger, error).await?;
                }
                answer => return answer,
            }
        }
    }
}
