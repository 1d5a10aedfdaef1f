//! Rate limits: buckets that fill with time, per key, per namespace and, for wrong keys, per address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::engine::Clock;
use goldseam_api::Problem;

use crate::extract::In;

/// Buckets kept; past it those that are full again go.
const BUCKETS_MAX: usize = 10_000;

/// So many at once, and so many in a second after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// In a second.
    pub per_second: f64,
    /// At once.
    pub burst: f64,
}

/// All buckets of a server.
#[derive(Debug)]
pub(crate) struct Rates {
    clock: Arc<dyn Clock>,
    by_key: Buckets<String>,
    by_space: Buckets<String>,
    failures: Buckets<IpAddr>,
}

impl Rates {
    pub(crate) fn new(clock: Arc<dyn Clock>, key: Rate, space: Rate, failures: Rate) -> Self {
        let (by_key, by_space) = (Buckets::new(key), Buckets::new(space));
        Self { clock, by_key, by_space, failures: Buckets::new(failures) }
    }

    /// Counts a request of somebody who is known.
    pub(crate) fn request(&self, by: &In) -> Result<(), Problem> {
        let now = self.clock.elapsed();
        let key = by.principal.key.as_ref().unwrap_or(&by.principal.name);
        self.by_key.take(key, now).map_err(|rate| too_many("this key", rate))?;
        self.by_space.take(&by.space.name, now).map_err(|rate| too_many("this namespace", rate))
    }

    /// Counts a wrong key.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), Problem> {
        let taken = self.failures.take(&peer, self.clock.elapsed());
        taken.map_err(|rate| too_many("wrong keys from this address", rate))
    }
}

fn too_many(what: &str, rate: Rate) -> Problem {
    Problem::new(429, format!("too many requests: {what} may have {} in a second", rate.per_second))
        .code("GS0607")
        .hint("slow down, and come back in a second")
        .limit(rate.per_second as u64)
}

#[derive(Debug)]
struct Buckets<K> {
    rate: Rate,
    left: Mutex<HashMap<K, (f64, Duration)>>,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn new(rate: Rate) -> Self {
        Self { rate, left: Mutex::default() }
    }

    fn take(&self, key: &K, now: Duration) -> Result<(), Rate> {
        let Rate { per_second, burst } = self.rate;
        let filled = |(left, at): (f64, Duration)| {
            (left + now.saturating_sub(at).as_secs_f64() * per_second).min(burst)
        };
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= BUCKETS_MAX && !all.contains_key(key) {
            all.retain(|_, bucket| filled(*bucket) < burst);
        }
        let left = all.get(key).copied().map_or(burst, filled);
        let allowed = left >= 1.0;
        all.insert(key.clone(), (if allowed { left - 1.0 } else { left }, now));
        if allowed { Ok(()) } else { Err(self.rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets() -> Buckets<u8> {
        Buckets::new(Rate { per_second: 2.0, burst: 3.0 })
    }

    #[test]
    fn a_burst_passes_and_then_only_as_much_as_time_gives() {
        let (buckets, start) = (buckets(), Duration::from_secs(1));
        assert_eq!((0..5).filter(|_| buckets.take(&1, start).is_ok()).count(), 3);
        let later = start + Duration::from_millis(500);
        assert!(buckets.take(&1, later).is_ok());
        assert!(buckets.take(&1, later).is_err());
    }

    #[test]
    fn one_key_does_not_use_up_what_another_may() {
        let (buckets, start) = (buckets(), Duration::from_secs(1));
        while buckets.take(&1, start).is_ok() {}
        assert!(buckets.take(&2, start).is_ok());
    }
}
