//! Trying again: five tries, with a pause that doubles. The kind of an error decides, never its text.

use std::time::Duration;

use goldseam_store::{StoreError, Written};

use crate::ledger::clock::pause;

/// Tries at what others keep winning, or at a store that is busy.
pub const TRIES: u32 = 5;
/// First pause between two tries; it doubles.
pub const PAUSE: Duration = Duration::from_millis(50);

/// How often something is still tried.
#[derive(Debug, Clone, Copy)]
pub struct Tries {
    left: u32,
    pause: Duration,
}

impl Tries {
    /// As often as anything is tried.
    pub fn five() -> Self {
        Self { left: TRIES - 1, pause: PAUSE }
    }

    /// Once: somebody will come by again.
    pub fn once() -> Self {
        Self { left: 0, pause: PAUSE }
    }

    /// Pauses before another try; `false` if there is none.
    async fn again(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        pause(self.pause).await;
        self.pause *= 2;
        true
    }
}

/// Asks the store until it is not busy.
pub async fn ask<T, F>(mut tries: Tries, mut ask: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match ask().await {
            Err(error @ StoreError::Busy { .. }) => {
                if !tries.again().await {
                    return Err(error);
                }
            }
            other => return other,
        }
    }
}

/// One compare-and-set. If its outcome is unknown, it is tried again, and what is there then tells.
pub async fn put<T, F>(
    record: &T,
    mut tries: Tries,
    mut write: impl FnMut(T) -> F,
) -> Result<Written<T>, StoreError>
where
    T: Clone + PartialEq,
    F: Future<Output = Result<Written<T>, StoreError>>,
{
    let mut unsure = false;
    loop {
        match write(record.clone()).await {
            // Only then: two who write the same at the same moment must not both have won.
            Ok(Written::Lost(Some(found))) if unsure && found == *record => return Ok(Written::Done),
            Err(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. })) => {
                unsure |= matches!(error, StoreError::Unknown { .. });
                if !tries.again().await {
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
    async fn a_busy_store_is_asked_five_times_with_a_pause_that_doubles() {
        let (asked, begun) = (Cell::new(0), tokio::time::Instant::now());
        let told = ask::<(), _>(Tries::five(), || {
            asked.set(asked.get() + 1);
            std::future::ready(Err(busy()))
        });
        assert!(matches!(told.await, Err(StoreError::Busy { .. })));
        assert_eq!((asked.get(), begun.elapsed()), (5, Duration::from_millis(50 + 100 + 200 + 400)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_kind_of_an_error_decides_not_its_text() {
        let asked = Cell::new(0);
        let told = ask::<(), _>(Tries::five(), || {
            asked.set(asked.get() + 1);
            std::future::ready(Err(StoreError::Damaged {
                detail: "busy, locked, UNIQUE constraint".to_owned(),
            }))
        });
        assert!(matches!(told.await, Err(StoreError::Damaged { .. })));
        assert_eq!(asked.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_outcome_is_settled_by_what_is_there() {
        let tried = Cell::new(0);
        let write = |record: u8| {
            tried.set(tried.get() + 1);
            std::future::ready(if tried.get() == 1 {
                Err(unknown())
            } else {
                Ok(Written::Lost(Some(record)))
            })
        };
        assert_eq!(put(&7, Tries::five(), write).await.unwrap(), Written::Done);
    }

    #[tokio::test]
    async fn who_finds_his_own_words_written_by_another_has_lost() {
        let write = |record: u8| std::future::ready(Ok(Written::Lost(Some(record))));
        assert_eq!(put(&7, Tries::five(), write).await.unwrap(), Written::Lost(Some(7)));
    }
}
