//! Limits on concurrent use: slots per name, and the request slots of a namespace.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

type TakenSlots<K> = Arc<Mutex<HashMap<K, usize>>>;

/// The slots of every name. Each name has the same limit.
#[derive(Debug)]
pub(crate) struct Slots<K> {
    max: usize,
    taken: TakenSlots<K>,
}

/// A slot of a name, freed when dropped.
#[derive(Debug)]
pub(crate) struct Slot<K: Eq + Hash> {
    name: K,
    taken: TakenSlots<K>,
}

impl<K: Eq + Hash + Clone> Slots<K> {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// Returns the limit of a name.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Takes a slot of this name if one is free.
    pub(crate) fn take(&self, name: K) -> Option<Slot<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(name.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Slot { name, taken: Arc::clone(&self.taken) })
    }
}

impl<K: Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.name);
            }
        }
    }
}

/// The request slots of one namespace. Each namespace has an equal share, so none waits for the requests or the slow
/// store of another.
#[derive(Debug)]
pub(crate) struct RequestSlots(Semaphore);

impl RequestSlots {
    /// Returns the share of one namespace.
    pub(crate) fn share(max: usize, namespaces: usize) -> Self {
        let share = (max / namespaces.max(1)).clamp(1, Semaphore::MAX_PERMITS);
        Self(Semaphore::new(share))
    }

    /// Waits for a slot in first-in, first-out order. The slot is freed when dropped.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.0.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_own_limit() {
        let slots = Slots::new(2);
        let first = slots.take("a").unwrap();
        let second = slots.take("a").unwrap();
        assert!(slots.take("a").is_none());
        let third = slots.take("b").unwrap();
        drop(first);
        let fourth = slots.take("a").unwrap();
        drop((second, third, fourth));
        assert!(slots.taken.lock().unwrap().is_empty(), "all slots are free");
    }

    #[test]
    fn namespaces_share_request_slots_equally_with_at_least_one() {
        for (max, namespaces, share) in [(512, 1, 512), (512, 4, 128), (3, 2, 1), (1, 9, 1)] {
            assert_eq!(RequestSlots::share(max, namespaces).0.available_permits(), share);
        }
    }
}
