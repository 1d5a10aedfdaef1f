//! A cached value that one reader at a time reloads from the store.
//!
//! Invariant: a value older than `STALE_MAX` is never returned.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use goldseam::unstable::engine::Clock;
use tokio::sync::{Mutex, RwLock};

use crate::problem::Problem;

/// Pause after a failed read.
const PAUSE: Duration = Duration::from_secs(1);
/// Time limit of a read.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// Maximum age of a cached value while reads fail.
const STALE_MAX: Duration = Duration::from_secs(60);

/// A cached value and the time of its read.
#[derive(Debug)]
pub struct CachedRead<T> {
    clock: Arc<dyn Clock>,
    /// Held while reading. Other readers wait for it, or use the cached value.
    reading: Mutex<()>,
    known: RwLock<CacheState<T>>,
}

#[derive(Debug)]
struct CacheState<T> {
    read: Option<(Duration, T)>,
    /// Time and error of the last read, if it failed.
    failed: Option<(Duration, Problem)>,
}

impl<T: Clone + Debug> CachedRead<T> {
    /// Creates an empty cache.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, reading: Mutex::default(), known: RwLock::new(CacheState { read: None, failed: None }) }
    }

    /// Returns the cached value if it is at most `fresh` old, otherwise reads it. While reads fail, returns the
    /// cached value without a read for every request.
    pub async fn get(
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
        let late = |_| Err(Problem::new(503, "the store did not answer within 10 seconds"));
        match tokio::time::timeout(READ_WITHIN, read).await.unwrap_or_else(late) {
            Ok(value) => {
                let at = self.clock.elapsed();
                *self.known.write().await = CacheState { read: Some((at, value.clone())), failed: None };
                Ok(value)
            }
            Err(problem) => {
                tracing::warn!(%problem, "failed to reload keys or secrets from the store");
                self.known.write().await.failed = Some((self.clock.elapsed(), problem.clone()));
                self.no_older_than(STALE_MAX).await.ok_or(problem)
            }
        }
    }

    /// Drops the cached value, and the result of a read in progress.
    pub async fn forget(&self) {
        let _reading = self.reading.lock().await;
        *self.known.write().await = CacheState { read: None, failed: None };
    }

    async fn no_older_than(&self, bound: Duration) -> Option<T> {
        let known = self.known.read().await;
        let (at, value) = known.read.as_ref()?;
        (self.clock.elapsed().saturating_sub(*at) <= bound).then(|| value.clone())
    }

    /// Returns the cached value if the last read failed, so that the caller need not wait for the next read.
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
    struct TestClock(AtomicU64);

    impl TestClock {
        fn advance(&self, seconds: u64) {
            self.0.fetch_add(seconds, Ordering::SeqCst);
        }
    }

    impl Clock for TestClock {
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
        Err(Problem::new(503, "the store does not answer"))
    }

    #[tokio::test]
    async fn serves_stale_for_60s_and_retries_once_per_second() {
        let clock = Arc::new(TestClock::default());
        let known = CachedRead::new(Arc::clone(&clock) as Arc<dyn Clock>);
        assert_eq!(known.get(FRESH, async { Ok(7) }).await.unwrap(), 7);
        clock.advance(2);
        let reads = AtomicU64::new(0);
        for _ in 0..50 {
            assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap(), 7);
        }
        assert_eq!(reads.load(Ordering::SeqCst), 1, "one read for all callers");
        clock.advance(1);
        assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap(), 7);
        assert_eq!(reads.load(Ordering::SeqCst), 2, "and another one a second later");
        clock.advance(60);
        for _ in 0..50 {
            assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap_err().status, 503, "too old");
        }
        assert_eq!(reads.load(Ordering::SeqCst), 3);
        clock.advance(1);
        assert_eq!(known.get(FRESH, async { Ok(8) }).await.unwrap(), 8);
    }

    #[tokio::test]
    async fn readers_do_not_wait_for_a_store_that_just_failed() {
        let clock = Arc::new(TestClock::default());
        let known = CachedRead::new(Arc::clone(&clock) as Arc<dyn Clock>);
        known.get(FRESH, async { Ok(7) }).await.unwrap();
        clock.advance(2);
        let reads = AtomicU64::new(0);
        known.get(FRESH, fails(&reads)).await.unwrap();
        clock.advance(1);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let slow = known.get(FRESH, async { receiver.await.map_err(|_| Problem::new(503, "gone")) });
        let others = async {
            assert_eq!(known.get(FRESH, async { Ok(9) }).await.unwrap(), 7, "the cached value, at once");
            sender.send(8).unwrap();
        };
        assert_eq!(tokio::join!(slow, others).0.unwrap(), 8);
    }

    #[tokio::test]
    async fn reads_again_after_forget() {
        let known = CachedRead::new(Arc::new(TestClock::default()) as Arc<dyn Clock>);
        known.get(FRESH, async { Ok(7) }).await.unwrap();
        known.forget().await;
        let reads = AtomicU64::new(0);
        assert_eq!(known.get(FRESH, fails(&reads)).await.unwrap_err().status, 503);
        assert_eq!(reads.load(Ordering::SeqCst), 1);
    }
}
