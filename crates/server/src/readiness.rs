//! The cached result of the readiness check.

use std::time::Duration;

/// How long a result is reused, because probes and load balancers may ask often.
const VALID_FOR: Duration = Duration::from_secs(1);

/// The last result. Concurrent callers wait for one check.
#[derive(Debug, Default)]
pub(crate) struct Readiness(tokio::sync::Mutex<Option<(Duration, bool)>>);

impl Readiness {
    /// Returns the recent result, or runs `check`.
    pub(crate) async fn get(&self, now: Duration, check: impl Future<Output = bool>) -> bool {
        let mut last = self.0.lock().await;
        match *last {
            Some((at, ready)) if now.saturating_sub(at) < VALID_FOR => ready,
            _ => {
                let ready = check.await;
                *last = Some((now, ready));
                ready
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn checks_stores_at_most_once_per_second() {
        let readiness = Readiness::default();
        let checks = AtomicU32::new(0);
        let ask = |ms: u64, result: bool| {
            let checks = &checks;
            let check = async move {
                checks.fetch_add(1, Ordering::Relaxed);
                result
            };
            readiness.get(Duration::from_millis(ms), check)
        };
        assert!(ask(0, true).await && ask(999, false).await, "the recent result is reused");
        assert!(!ask(1_000, false).await && !ask(1_500, true).await);
        assert!(ask(2_000, true).await);
        assert_eq!(checks.load(Ordering::Relaxed), 3);
    }
}
