//! Places by name: each name has a limit, so that none takes the places of all others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

type Taken<K> = Arc<Mutex<HashMap<K, usize>>>;

/// How many places each name has taken.
#[derive(Debug)]
pub(crate) struct Slots<K> {
    most: usize,
    taken: Taken<K>,
}

/// One place of a name; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot<K: Eq + Hash> {
    name: K,
    taken: Taken<K>,
}

impl<K: Eq + Hash + Clone> Slots<K> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// How many places a name may have.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// A place for this name, if it may have one more.
    pub(crate) fn take(&self, name: K) -> Option<Slot<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(name.clone()).or_default();
        if *count >= self.most {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_limit_and_others_have_theirs() {
        let counts = Slots::new(2);
        let (first, second) = (counts.take("a").unwrap(), counts.take("a").unwrap());
        assert!(counts.take("a").is_none());
        let third = counts.take("b").unwrap();
        drop(first);
        let fourth = counts.take("a").unwrap();
        drop((second, third, fourth));
        assert!(counts.taken.lock().unwrap().is_empty(), "all of them are given back");
    }
}
