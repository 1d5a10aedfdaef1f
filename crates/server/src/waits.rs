//! Waiting requests: long polls and streams. Each key has a limit, each namespace an equal share of the connections,
//! and all of them end with their key.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use goldseam_api::Problem;
use tokio::sync::watch;

use crate::slots::{Slot, Slots};

/// All waiting requests.
#[derive(Debug)]
pub(crate) struct WaitSlots {
    /// By id of the key; `None` for requests without a key.
    keys: Slots<Option<String>>,
    namespaces: Slots<String>,
    ends: Mutex<HashMap<Option<String>, watch::Sender<Option<Problem>>>>,
}

/// A waiting request. Its slots are freed when it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    _slots: (Slot<Option<String>>, Slot<String>),
    ended: watch::Receiver<Option<Problem>>,
}

impl WaitSlots {
    /// Creates the slots. Waiting requests leave a quarter of all connections to others.
    pub(crate) fn new(per_key: usize, connections: usize, namespaces: usize) -> Self {
        let share = connections / 4 * 3 / namespaces.max(1);
        Self { keys: Slots::new(per_key), namespaces: Slots::new(share.max(1)), ends: Mutex::default() }
    }

    /// Takes a slot of the key and of the namespace if both are free.
    pub(crate) fn take(&self, key: Option<String>, namespace: String) -> Result<WaitingRequest, Problem> {
        let of_namespace = self.namespaces.take(namespace);
        let of_namespace = of_namespace.ok_or_else(|| too_many("this namespace", self.namespaces.max()))?;
        let of_key = self.keys.take(key.clone());
        let of_key = of_key.ok_or_else(|| too_many("this key", self.keys.max()))?;
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let end = ends.entry(key).or_insert_with(|| watch::Sender::new(None));
        if end.borrow().is_some() {
            // The store failed to answer for a while and has recovered.
            *end = watch::Sender::new(None);
        }
        Ok(WaitingRequest { _slots: (of_key, of_namespace), ended: end.subscribe() })
    }

    /// Returns the keys of all waiting requests.
    pub(crate) fn keys(&self) -> BTreeSet<Option<String>> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|_, end| end.receiver_count() > 0);
        ends.keys().cloned().collect()
    }

    /// Ends all waiting requests of a key.
    pub(crate) fn end(&self, key: &Option<String>, problem: &Problem) {
        if let Some(end) = self.ends.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            end.send_replace(Some(problem.clone()));
        }
    }
}

impl WaitingRequest {
    /// Waits until the request must end, and returns the reason.
    pub(crate) async fn ended(&self) -> Problem {
        let mut ended = self.ended.clone();
        let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(problem) => problem,
            None => std::future::pending().await,
        }
    }

    /// Returns the reason why the request must end, if any, without waiting.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.ended.borrow().clone()
    }
}

fn too_many(whose: &str, max: usize) -> Problem {
    Problem::new(429, format!("{whose} already has {max} open long polls and streams, the maximum"))
        .code("GS0607")
        .hint("close one first, or wait with fewer requests")
        .limit(max as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(waits: &WaitSlots, key: &str, namespace: &str) -> Result<WaitingRequest, u64> {
        waits.take(Some(key.to_owned()), namespace.to_owned()).map_err(|problem| {
            assert_eq!(problem.status, 429);
            problem.limit.unwrap()
        })
    }

    #[test]
    fn keys_and_namespaces_have_limited_slots_and_free_them() {
        let waits = WaitSlots::new(2, 8, 2);
        let first = take(&waits, "a", "default").unwrap();
        let second = take(&waits, "a", "default").unwrap();
        assert_eq!(take(&waits, "a", "default").unwrap_err(), 2, "of the key");
        let third = take(&waits, "b", "default").unwrap();
        assert_eq!(take(&waits, "c", "default").unwrap_err(), 3, "of the namespace");
        take(&waits, "d", "other").unwrap();
        drop(first);
        take(&waits, "a", "default").unwrap();
        drop((second, third));
        assert!(waits.keys().is_empty());
    }

    #[tokio::test]
    async fn a_wait_ends_with_its_key_only() {
        let waits = WaitSlots::new(2, 8, 1);
        let ends = take(&waits, "a", "default").unwrap();
        let stays = take(&waits, "b", "default").unwrap();
        waits.end(&Some("a".to_owned()), &Problem::new(401, "revoked"));
        assert_eq!(ends.ended().await.status, 401);
        assert!(stays.problem().is_none());
        assert!(take(&waits, "a", "default").unwrap().problem().is_none(), "a new request is checked again");
    }
}
