//! Retries of store calls, with pauses that double: a few attempts ([`Retries`]), or as many as fit into the configured
//! time ([`RetryWindow`]). The variant of an error decides, never its text.

use std::time::Duration;

use goldseam_store::backoff::Backoff;
use goldseam_store::{StoreError, Written};

use crate::ledger::Ledger;
use crate::ledger::clock::pause;
use crate::ledger::error::EngineError;

/// Attempts at a contended write, or at a busy store.
pub const ATTEMPTS_MAX: u32 = 5;
/// First pause between two attempts; it doubles.
pub const PAUSE: Duration = Duration::from_millis(50);

/// First and longest pause of a [`RetryWindow`].
const WINDOW_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// The retries left for one store call.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    left: u32,
    backoff: Backoff,
}

impl Retries {
    /// All attempts.
    pub fn standard() -> Self {
        Self { left: ATTEMPTS_MAX - 1, backoff: Backoff::new(PAUSE, PAUSE * 8) }
    }

    /// One attempt; the caller comes back later.
    pub fn none() -> Self {
        Self { left: 0, ..Self::standard() }
    }

    /// Pauses before the next attempt; `false` if none is left.
    async fn next_attempt(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        pause(self.backoff.next_nominal()).await;
        true
    }
}

/// The time in which one operation retries calls to a failing store: `Limits::store_patience` from its creation.
#[derive(Debug)]
pub struct RetryWindow {
    doing: &'static str,
    began: Duration,
    backoff: Backoff,
}

impl RetryWindow {
    pub fn new(ledger: &Ledger, doing: &'static str) -> Self {
        let (first, max) = WINDOW_PAUSES;
        Self { doing, began: ledger.clock.elapsed(), backoff: Backoff::new(first, max) }
    }

    /// Pauses before the next attempt. Fails if the time is up.
    pub async fn pause(&mut self, ledger: &Ledger, error: StoreError) -> Result<(), EngineError> {
        let spent = ledger.clock.elapsed().saturating_sub(self.began);
        if spent > ledger.limits.store_patience {
            tracing::warn!(doing = self.doing, %error, "the store was given up");
            return Err(EngineError::TimedOut { doing: self.doing, seconds: spent.as_secs() });
        }
        // The engine's own randomness, so that a simulation repeats exactly.
        pause(self.backoff.next_pause_by(ledger.entropy.next())).await;
        Ok(())
    }

    /// Repeats a read until the store answers or the time is up.
    pub async fn retry<T, F, Fut>(&mut self, ledger: &Ledger, mut read: F) -> Result<T, EngineError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, EngineError>>,
    {
        loop {
            match read().await {
                Err(EngineError::Store(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. }))) => {
                    self.pause(ledger, error).await?;
                }
                answer => return answer,
            }
        }
    }
}

/// Reads from the store; retries while it is busy.
pub async fn read<T, F>(mut retries: Retries, mut read: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match read().await {
            Err(error @ StoreError::Busy { .. }) => {
                if !retries.next_attempt().await {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

/// Writes a record by compare-and-set. If the outcome is unknown, writes again and judges by the record found.
pub async fn write<T, F>(
    record: &T,
    mut retries: Retries,
    mut put: impl FnMut(T) -> F,
) -> Result<Written<T>, StoreError>
where
    T: Clone + PartialEq,
    F: Future<Output = Result<Written<T>, StoreError>>,
{
    let mut unsure = false;
    loop {
        match put(record.clone()).await {
            // Only after an unknown outcome: of two writers with identical records, only one may win.
            Ok(Written::Lost(Some(found))) if unsure && found == *record => return Ok(Written::Done),
            Err(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. })) => {
                unsure |= matches!(error, StoreError::Unknown { .. });
                if !retries.next_attempt().await {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn busy() -> StoreError {
        StoreError::Busy { doing: "a test", source: "busy".into() }
    }

    fn unknown() -> StoreError {
        StoreError::Unknown { doing: "a test", source: "lost".into() }
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the paused clock is what is measured")]
    async fn busy_store_gets_five_attempts_with_doubling_pauses() {
        let asked = Cell::new(0);
        let begun = tokio::time::Instant::now();
        let result = read::<(), _>(Retries::standard(), || {
            asked.set(asked.get() + 1);
            std::future::ready(Err(busy()))
        });
        assert!(matches!(result.await, Err(StoreError::Busy { .. })));
        assert_eq!((asked.get(), begun.elapsed()), (5, Duration::from_millis(50 + 100 + 200 + 400)));
    }

    #[tokio::test(start_paused = true)]
    async fn error_variant_decides_not_its_text() {
        let asked = Cell::new(0);
        let result = read::<(), _>(Retries::standard(), || {
            asked.set(asked.get() + 1);
            std::future::ready(Err(StoreError::Damaged {
                detail: "busy, locked, UNIQUE constraint".to_owned(),
            }))
        });
        assert!(matches!(result.await, Err(StoreError::Damaged { .. })));
        assert_eq!(asked.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_outcome_is_settled_by_the_record_found() {
        let tried = Cell::new(0);
        let put = |record: u8| {
            tried.set(tried.get() + 1);
            std::future::ready(if tried.get() == 1 {
                Err(unknown())
            } else {
                Ok(Written::Lost(Some(record)))
            })
        };
        assert_eq!(write(&7, Retries::standard(), put).await.unwrap(), Written::Done);
    }

    #[tokio::test]
    async fn identical_record_from_another_writer_is_a_lost_race() {
        let put = |record: u8| std::future::ready(Ok(Written::Lost(Some(record))));
        assert_eq!(write(&7, Retries::standard(), put).await.unwrap(), Written::Lost(Some(7)));
    }
}
