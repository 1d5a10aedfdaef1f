//! Rate limits: buckets that fill with time, per key and per namespace by kind of request and, for wrong keys, per address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::engine::Clock;
use goldseam_api::Problem;
use goldseam_api::doc::key::Scope;

use crate::address_slots::counted_as;
use crate::auth::Need;
use crate::extract::Access;

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

impl Rate {
    /// So many in a second, and twice as many at once.
    pub(crate) fn of(per_second: f64) -> Self {
        Self { per_second, burst: per_second * 2.0 }
    }

    fn doubled(self) -> Self {
        Self { per_second: self.per_second * 2.0, burst: self.burst * 2.0 }
    }
}

/// Requests that are counted apart: who polls too often does not use up what starts may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Starts a run.
    Start,
    /// Sends a signal or an answer.
    Signal,
    /// A worker's.
    Poll,
    /// Anything else.
    Other,
}

impl Kind {
    /// The kind of a request that needs this; none: there is no such route.
    pub(crate) fn of(need: Option<Need>) -> Self {
        match need {
            Some(Need::Scope(Scope::Start)) => Self::Start,
            Some(Need::Scope(Scope::Signal) | Need::Pass | Need::Signature) => Self::Signal,
            Some(Need::Scope(Scope::Worker)) => Self::Poll,
            Some(Need::Scope(Scope::Read | Scope::Operate | Scope::Admin)) | None => Self::Other,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Start => "starts",
            Self::Signal => "signals and answers",
            Self::Poll => "requests of workers",
            Self::Other => "requests",
        }
    }
}

/// What one key may ask, by kind. All keys of a namespace together may ask twice that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyRates {
    /// Starts of runs.
    pub starts: Rate,
    /// Signals and answers.
    pub signals: Rate,
    /// Requests of workers.
    pub polls: Rate,
    /// Anything else.
    pub others: Rate,
}

impl KeyRates {
    fn get(&self, kind: Kind) -> Rate {
        match kind {
            Kind::Start => self.starts,
            Kind::Signal => self.signals,
            Kind::Poll => self.polls,
            Kind::Other => self.others,
        }
    }
}

/// All buckets of a server.
#[derive(Debug)]
pub(crate) struct Rates {
    clock: Arc<dyn Clock>,
    rates: KeyRates,
    failure: Rate,
    by_key: Buckets<(String, Kind)>,
    by_space: Buckets<(String, Kind)>,
    failures: Buckets<IpAddr>,
}

impl Rates {
    pub(crate) fn new(clock: Arc<dyn Clock>, rates: KeyRates, failure: Rate) -> Self {
        let (by_key, by_space, failures) = Default::default();
        Self { clock, rates, failure, by_key, by_space, failures }
    }

    /// Counts a request of somebody who is known.
    pub(crate) fn request(&self, by: &Access, kind: Kind) -> Result<(), Problem> {
        let (now, rate) = (self.clock.elapsed(), self.rates.get(kind));
        let key = by.principal.key.as_ref().unwrap_or(&by.principal.name).clone();
        if !self.by_key.take((key, kind), rate, now) {
            return Err(too_many("this key", kind.word(), rate));
        }
        let rate = rate.doubled();
        match self.by_space.take((by.namespace.name.clone(), kind), rate, now) {
            true => Ok(()),
            false => Err(too_many("this namespace", kind.word(), rate)),
        }
    }

    /// Counts a wrong key.
    pub(crate) fn failure(&self, peer: IpAddr) -> Result<(), Problem> {
        match self.failures.take(counted_as(peer), self.failure, self.clock.elapsed()) {
            true => Ok(()),
            false => Err(too_many("this address", "wrong keys", self.failure)),
        }
    }
}

fn too_many(who: &str, what: &str, rate: Rate) -> Problem {
    Problem::new(429, format!("too many {what}: {who} may have {} in a second", rate.per_second))
        .code("GS0607")
        .hint("slow down, and come back in a second")
        .limit(rate.per_second as u64)
}

/// What is left of a rate, and when that was so.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: Rate,
    left: f64,
    at: Duration,
}

impl Bucket {
    fn filled(self, now: Duration) -> Self {
        let gained = now.saturating_sub(self.at).as_secs_f64() * self.rate.per_second;
        Self { left: (self.left + gained).min(self.rate.burst), at: now, ..self }
    }
}

#[derive(Debug)]
struct Buckets<K>(Mutex<HashMap<K, Bucket>>);

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq> Buckets<K> {
    /// Takes one, if there is one left.
    fn take(&self, key: K, rate: Rate, now: Duration) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= BUCKETS_MAX && !all.contains_key(&key) {
            all.retain(|_, bucket| bucket.filled(now).left < bucket.rate.burst);
        }
        let bucket = all.entry(key).or_insert(Bucket { rate, left: rate.burst, at: now });
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
    fn a_burst_passes_and_then_only_as_much_as_time_gives() {
        let (buckets, start) = (Buckets::default(), Duration::from_secs(1));
        assert_eq!((0..5).filter(|_| buckets.take(1, RATE, start)).count(), 3);
        let later = start + Duration::from_millis(500);
        assert!(buckets.take(1, RATE, later));
        assert!(!buckets.take(1, RATE, later));
    }

    #[test]
    fn one_key_does_not_use_up_what_another_may() {
        let (buckets, start) = (Buckets::default(), Duration::from_secs(1));
        while buckets.take(1, RATE, start) {}
        assert!(buckets.take(2, RATE, start));
    }

    #[test]
    fn buckets_that_are_full_again_are_forgotten_and_others_are_not() {
        let (buckets, start) = (Buckets::default(), Duration::from_secs(1));
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
