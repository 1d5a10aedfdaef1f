//! Rate limits by token bucket: per key and namespace by kind of request, and per address for failed authentications.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::unstable::engine::Clock;
use goldseam_api::Problem;

use crate::address_slots::network_of;

/// Number of buckets above which full ones are dropped.
const BUCKETS_MAX: usize = 10_000;

/// A rate limit with a burst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Sustained rate.
    pub per_second: f64,
    /// Maximum burst.
    pub burst: f64,
}

impl Rate {
    /// Returns a rate with a burst of two seconds.
    pub(crate) fn of(per_second: f64) -> Self {
        Self { per_second, burst: per_second * 2.0 }
    }

    fn doubled(self) -> Self {
        Self { per_second: self.per_second * 2.0, burst: self.burst * 2.0 }
    }
}

/// A kind of request with its own rate limit, so that frequent polls do not use up the rate of starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RateKind {
    /// Starts a run.
    Start,
    /// Sends a signal or an answer.
    Signal,
    /// A worker's request.
    Poll,
    /// Anything else.
    Other,
}

impl RateKind {
    fn plural(self) -> &'static str {
        match self {
            Self::Start => "starts",
            Self::Signal => "signals and answers",
            Self::Poll => "worker requests",
            Self::Other => "requests",
        }
    }
}

/// The rates of one key by kind of request. All keys of a namespace together have twice these rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyRates {
    /// Run starts.
    pub starts: Rate,
    /// Signals and answers.
    pub signals: Rate,
    /// Worker requests.
    pub polls: Rate,
    /// Anything else.
    pub others: Rate,
}

impl KeyRates {
    fn get(&self, kind: RateKind) -> Rate {
        match kind {
            RateKind::Start => self.starts,
            RateKind::Signal => self.signals,
            RateKind::Poll => self.polls,
            RateKind::Other => self.others,
        }
    }
}

/// The rate limits of a server.
#[derive(Debug)]
pub(crate) struct Rates {
    clock: Arc<dyn Clock>,
    rates: KeyRates,
    failure: Rate,
    by_key: Buckets<(String, RateKind)>,
    by_namespace: Buckets<(String, RateKind)>,
    failures: Buckets<IpAddr>,
}

impl Rates {
    pub(crate) fn new(clock: Arc<dyn Clock>, rates: KeyRates, failure: Rate) -> Self {
        Self {
            clock,
            rates,
            failure,
            by_key: Buckets::default(),
            by_namespace: Buckets::default(),
            failures: Buckets::default(),
        }
    }

    /// Counts an authenticated request.
    pub(crate) fn request(&self, key: &str, namespace: &str, kind: RateKind) -> Result<(), Problem> {
        let now = self.clock.elapsed();
        let rate = self.rates.get(kind);
        if !self.by_key.take((key.to_owned(), kind), rate, now) {
            return Err(too_many("this key", kind.plural(), rate));
        }
        let rate = rate.doubled();
        match self.by_namespace.take((namespace.to_owned(), kind), rate, now) {
            true => Ok(()),
            false => Err(too_many("this namespace", kind.plural(), rate)),
        }
    }

    /// Counts a failed authentication.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), Problem> {
        match self.failures.take(network_of(peer), self.failure, self.clock.elapsed()) {
            true => Ok(()),
            false => Err(too_many("this address", "failed authentications", self.failure)),
        }
    }
}

fn too_many(who: &str, what: &str, rate: Rate) -> Problem {
    Problem::new(429, format!("too many {what}: {who} is limited to {} per second", rate.per_second))
        .code("GS0607")
        .hint("slow down and retry after a second")
        .limit(rate.per_second as u64)
}

/// A token bucket.
#[derive(Debug, Clone, Copy)]
struct TokenBucket {
    rate: Rate,
    left: f64,
    at: Duration,
}

impl TokenBucket {
    fn filled(self, now: Duration) -> Self {
        let gained = now.saturating_sub(self.at).as_secs_f64() * self.rate.per_second;
        Self { left: (self.left + gained).min(self.rate.burst), at: now, ..self }
    }
}

#[derive(Debug)]
struct Buckets<K>(Mutex<HashMap<K, TokenBucket>>);

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> Buckets<K> {
    /// Takes a token if one is left.
    fn take(&self, key: K, rate: Rate, now: Duration) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= BUCKETS_MAX && !all.contains_key(&key) {
            all.retain(|_, bucket| bucket.filled(now).left < bucket.rate.burst);
        }
        let bucket = all.entry(key).or_insert(TokenBucket { rate, left: rate.burst, at: now });
        *bucket = bucket.filled(now);
        let allowed = bucket.left >= 1.0;
        if allowed {
            bucket.left -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 2.0, burst: 3.0 };

    #[test]
    fn allows_a_burst_and_then_the_sustained_rate() {
        let buckets = Buckets::default();
        let start = Duration::from_secs(1);
        assert_eq!((0..5).filter(|_| buckets.take(1, RATE, start)).count(), 3);
        let later = start + Duration::from_millis(500);
        assert!(buckets.take(1, RATE, later));
        assert!(!buckets.take(1, RATE, later));
    }

    #[test]
    fn keys_have_separate_buckets() {
        let buckets = Buckets::default();
        let start = Duration::from_secs(1);
        while buckets.take(1, RATE, start) {}
        assert!(buckets.take(2, RATE, start));
    }

    #[test]
    fn only_full_buckets_are_dropped() {
        let buckets = Buckets::default();
        let start = Duration::from_secs(1);
        for key in 0..BUCKETS_MAX {
            buckets.take(key, RATE, start);
        }
        let later = start + Duration::from_millis(500);
        while buckets.take(7, RATE, later) {}
        buckets.take(BUCKETS_MAX, RATE, later);
        assert_eq!(buckets.0.lock().unwrap().len(), 2);
        assert!(!buckets.take(7, RATE, later));
    }
}
