//! Something that is read from the store again when it may have changed, and by one reader at a time.
//!
//! Invariant: what was read longer ago than [`STALE_MAX`] is told to nobody.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use goldseam::engine::Clock;
use goldseam_api::Problem;
use tokio::sync::{Mutex, RwLock};

/// After a read that failed the store is left alone for so long.
const PAUSE: Duration = Duration::from_secs(1);
/// A store that takes longer than this has not answered.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// While the store does not answer, what was read so long ago still holds; then there is nothing to go by.
const STALE_MAX: Duration = Duration::from_secs(60);

/// Something that was read, and when.
#[derive(Debug)]
pub(crate) struct CachedRead<T> {
    clock: Arc<dyn Clock>,
    /// Held by whoever reads: the others wait for it, or go by what is known.
    reading: Mutex<()>,
    known: RwLock<Known<T>>,
}

#[derive(Debug)]
struct Known<T> {
    read: Option<(Duration, T)>,
    /// How the last read failed, and when; none if it did not.
    failed: Option<(Duration, Problem)>,
}

impl<T: Clone + Debug> CachedRead<T> {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, reading: Mutex::default(), known: RwLock::new(Known { read: None, failed: None }) }
    }

    /// What is known if it is `fresh`, and otherwise what is read now. While reads fail, what is known is told without
    /// asking the store for every request.
    pub(crate) async fn get(
        &self,
        fresh: Duration,
        read: impl Future<Output = Result<T, Problem>> + Send,
    ) -> Result<T, Problem> {
        if let Some(known) = self.no_older_than(fresh).await {
            return Ok(known);
        }
        let _reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            Err(_) => match self.while_it_fails().await {
                Some(known) => return Ok(known),
                None => self.reading.lock().await,
            },
        };
        if let Some(known) = self.no_older_than(fresh).await {
            return Ok(known);
        }
        if let Some(problem) = self.failed_just_now().await {
            return self.no_older_than(STALE_MAX).await.ok_or(problem);
        }
        let late = |_| Err(Problem::new(503, "the store takes too long to answer"));
        match tokio::time::timeout(READ_WITHIN, read).await.unwrap_or_else(late) {
            Ok(value) => {
                let at = self.clock.elapsed();
                *self.known.write().await = Known { read: Some((at, value.clone())), failed: None };
                Ok(value)
            }
            Err(problem) => {
                tracing::warn!(%problem, "what the server goes by could not be read again");
                self.known.write().await.failed = Some((self.clock.elapsed(), problem.clone()));
                self.no_older_than(STALE_MAX).await.ok_or(problem)
            }
        }
    }

    /// What is known is not true any more, and neither is what is being read now.
    pub(crate) async fn forget(&self) {
        let _reading = self.reading.lock().await;
        *self.known.write().await = Known { read: None, failed: None };
    }

    async fn no_older_than(&self, bound: Duration) -> Option<T> {
        let known = self.known.read().await;
        let (at, value) = known.read.as_ref()?;
        (self.clock.elapsed().saturating_sub(*at) <= bound).then(|| value.clone())
    }

    /// What is known, if the last read failed: then it is not worth waiting for the next one.
    async fn while_it_fails(&self) -> Option<T> {
        let fails = self.known.read().await.failed.is_some();
        if fails { self.no_older_than(STALE_MAX).await } else { None }
    }

    async fn failed_just_now(&self) -> Option<Problem> {
        let known = self.known.read().await;
        let (at, problem) = known.failed.as_ref()?;
        (self.clock.elapsed().saturating_sub(*at) < PAUSE).then(|| problem.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use goldseam::Millis;

    use super::*;

    #[derive(Debug, Default)]
    struct Hands(AtomicU64);

    impl Hands {
        fn pass(&self, seconds: u64) {
            self.0.fetch_add(seconds, Ordering::SeqCst);
        }
    }

    impl Clock for Hands {
        fn now(&self) -> Millis {
            Millis(0)
        }

        fn elapsed(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::SeqCst))
        }
    }

    const FRESH: Duration = Duration::from_secs(1);

    async fn fails(reads: &AtomicU64) -> Result<u32, Problem> {
        reads.fetch_add(1, Ordering::SeqCst);
        Err(Problem::new(503, "the store is away"))
    }

    #[tokio::test]
    async fn while_reads_fail_the_old_holds_for_a_minute_and_the_store_is_asked_once_in_a_second() {
        let clock = Arc::new(Hands::default());
        let known = CachedRead::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(known.get(FRESH, async { Ok(7) }).await.unwrap(), 7);
        clock.pass(2);
        let reads = AtomicU64::new(0);
        for _ in 0..50 {
            assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap(), 7);
        }
        assert_eq!(reads.load(Ordering::SeqCst), 1, "one try for all of them");
        clock.pass(1);
        assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap(), 7);
        assert_eq!(reads.load(Ordering::SeqCst), 2, "and another one a second later");
        clock.pass(60);
        for _ in 0..50 {
            assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap_err().status, 503, "too old");
        }
        assert_eq!(reads.load(Ordering::SeqCst), 3);
        clock.pass(1);
        assert_eq!(known.get(FRESH, async { Ok(8) }).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_store_that_failed_the_last_time() {
        let clock = Arc::new(Hands::default());
        let known = CachedRead::new(Arc::clone(&clock) as Arc<dyn Clock>);
        known.get(FRESH, async { Ok(7) }).await.unwrap();
        clock.pass(2);
        let reads = AtomicU64::new(0);
        known.get(FRESH, fails(&reads)).await.unwrap();
        clock.pass(1);
        let (told, waits) = tokio::sync::oneshot::channel();
        let slow = known.get(FRESH, async { waits.await.map_err(|_| Problem::new(503, "gone")) });
        let others = async {
            assert_eq!(known.get(FRESH, async { Ok(9) }).await.unwrap(), 7, "what is known, at once");
            told.send(8).unwrap();
        };
        assert_eq!(tokio::join!(slow, others).0.unwrap(), 8);
    }

    #[tokio::test]
    async fn what_is_forgotten_is_read_again_before_anybody_is_told() {
        let known = CachedRead::new(Arc::new(Hands::default()) as Arc<dyn Clock>);
        known.get(FRESH, async { Ok(7) }).await.unwrap();
        known.forget().await;
        let reads = AtomicU64::new(0);
        assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap_err().status, 503);
        assert_eq!(reads.load(Ordering::SeqCst), 1);
    }
}
