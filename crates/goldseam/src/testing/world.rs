//! The world outside a workflow, new for every case.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The world outside: what steps do to it is written down here. Cheap to clone; every case begins with a new one.
///
/// A step that talks to a service tells the world instead of the service, or beside its stand-in. The tester
/// compares what counts with the run without faults: whatever happens, an effect must count as often.
#[derive(Clone, Default)]
pub struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    effects: BTreeMap<String, Effect>,
    things: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// How often an effect reached the world in one case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    keys: BTreeMap<String, u64>,
    bare: u64,
}

impl Effect {
    /// How often it was asked for.
    pub fn times(&self) -> u64 {
        self.keys.values().sum::<u64>() + self.bare
    }

    /// How often it counts: requests with the same key are one.
    pub fn counts(&self) -> u64 {
        self.keys.len() as u64 + self.bare
    }

    /// How often each key was seen.
    pub fn keys(&self) -> &BTreeMap<String, u64> {
        &self.keys
    }
}

impl World {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A service that goes by keys was asked to do `effect`: the same key again counts once. Pass on
    /// [`Attempt::idempotency_key`](crate::Attempt::idempotency_key).
    pub fn did(&self, effect: &str, key: &str) {
        let mut inner = self.inner();
        *inner.effects.entry(effect.to_owned()).or_default().keys.entry(key.to_owned()).or_default() += 1;
    }

    /// A service that does whatever it is told, as often as it is told, did `effect`.
    pub fn did_bare(&self, effect: &str) {
        self.inner().effects.entry(effect.to_owned()).or_default().bare += 1;
    }

    /// Something of the user's own, one per case: a fake bank, a table of parcels.
    pub fn thing<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut inner = self.inner();
        let thing = inner.things.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(thing).downcast().unwrap_or_default()
    }

    /// How often an effect was done in this case.
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
