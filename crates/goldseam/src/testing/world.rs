//! The outside world of a case: recorded effects and fakes of services.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The outside world of a case. It records the effects of steps. Cheap to clone; each case has a new one.
///
/// In a test, a step records its effect here instead of calling a service, or in addition to a fake. The tester
/// compares the counts with those of the run without faults.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    effects: BTreeMap<String, Effect>,
    things: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// How often an effect happened in one case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    keys: BTreeMap<String, u64>,
    bare: u64,
}

impl Effect {
    /// Returns the number of requests.
    pub fn times(&self) -> u64 {
        self.keys.values().sum::<u64>() + self.bare
    }

    /// Returns the number of requests that count: requests with the same key count once.
    pub fn counts(&self) -> u64 {
        self.keys.len() as u64 + self.bare
    }

    /// Returns the number of requests per key.
    pub fn keys(&self) -> &BTreeMap<String, u64> {
        &self.keys
    }
}

impl World {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request to a service that deduplicates by key: requests with the same key count once.
    ///
    /// Pass [`Attempt::idempotency_key`](crate::Attempt::idempotency_key) as `key`.
    pub fn did(&self, effect: &str, key: &str) {
        let mut inner = self.inner();
        *inner.effects.entry(effect.to_owned()).or_default().keys.entry(key.to_owned()).or_default() += 1;
    }

    /// Records a request to a service that does not deduplicate: each request counts.
    pub fn did_bare(&self, effect: &str) {
        self.inner().effects.entry(effect.to_owned()).or_default().bare += 1;
    }

    /// Returns the `T` of this case, created on first use: for example a fake bank or a table of parcels.
    pub fn thing<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut inner = self.inner();
        let thing = inner.things.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(thing).downcast().unwrap_or_default()
    }

    /// Returns how often an effect happened in this case.
    pub fn effect(&self, effect: &str) -> Effect {
        self.inner().effects.get(effect).cloned().unwrap_or_default()
    }

    pub(super) fn effects(&self) -> BTreeMap<String, Effect> {
        self.inner().effects.clone()
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("effects", &self.inner().effects).finish_non_exhaustive()
    }
}
