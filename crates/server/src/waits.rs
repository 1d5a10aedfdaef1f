//! Requests that wait for something: long polls and streams. Each key has so many places, each namespace an equal share of
//! the connections, and all of them end when their key does.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam_api::Problem;
use tokio::sync::watch;

use crate::app::App;
use crate::auth;
use crate::extract::Access;
use crate::slots::{Slot, Slots};
use crate::spawn::spawn;

/// Keys of what waits, and of workers, are looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(400);

/// Everything that waits.
#[derive(Debug)]
pub(crate) struct Waits {
    /// By id of the key; none: no key was asked for.
    keys: Slots<Option<String>>,
    namespaces: Slots<String>,
    ends: Mutex<HashMap<Option<String>, watch::Sender<Option<Problem>>>>,
}

/// A request that waits; its place is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    _places: (Slot<Option<String>>, Slot<String>),
    ended: watch::Receiver<Option<Problem>>,
}

impl Waits {
    /// Places for each key; those that wait leave a quarter of all connections to others.
    pub(crate) fn new(per_key: usize, connections: usize, namespaces: usize) -> Self {
        let share = connections / 4 * 3 / namespaces.max(1);
        Self { keys: Slots::new(per_key), namespaces: Slots::new(share.max(1)), ends: Mutex::default() }
    }

    /// A place for a request, if its key and its namespace have one left.
    pub(crate) fn take(&self, access: &Access) -> Result<Wait, Problem> {
        self.take_for(access.principal.key.clone(), access.namespace.name.clone())
    }

    fn take_for(&self, key: Option<String>, namespace: String) -> Result<Wait, Problem> {
        let of_space = self
            .namespaces
            .take(namespace)
            .ok_or_else(|| too_many("this namespace has", self.namespaces.most()))?;
        let of_key = self.keys.take(key.clone()).ok_or_else(|| too_many("this key has", self.keys.most()))?;
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let end = ends.entry(key).or_insert_with(|| watch::Sender::new(None));
        if end.borrow().is_some() {
            // The store did not answer for a while, and does now.
            *end = watch::Sender::new(None);
        }
        Ok(Wait { _places: (of_key, of_space), ended: end.subscribe() })
    }

    /// The keys that something waits with.
    fn keys(&self) -> BTreeSet<Option<String>> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|_, end| end.receiver_count() > 0);
        ends.keys().cloned().collect()
    }

    /// Ends everything that waits with a key.
    fn end(&self, key: &Option<String>, problem: &Problem) {
        if let Some(end) = self.ends.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            end.send_replace(Some(problem.clone()));
        }
    }
}

impl Wait {
    /// Why it may not wait any more, once that is so.
    pub(crate) async fn ended(&self) -> Problem {
        let mut ended = self.ended.clone();
        let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(problem) => problem,
            None => std::future::pending().await,
        }
    }

    /// The same without waiting for it.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.ended.borrow().clone()
    }
}

fn too_many(whose: &str, most: usize) -> Problem {
    Problem::new(429, format!("{whose} {most} long polls and streams open already, as many as it may have"))
        .code("GS0607")
        .hint("close one first, or wait with fewer requests")
        .limit(most as u64)
}

/// Ends what waits, and the workers, of every key that was revoked or has expired, until the server leaves. Nothing is read
/// while nothing waits.
pub(crate) async fn watch(app: Arc<App>) {
    while tokio::time::timeout(LOOK_EVERY, app.left()).await.is_err() {
        look(&app).await;
    }
}

async fn look(app: &Arc<App>) {
    let workers = app.namespaces().filter_map(|namespace| namespace.workers_here());
    let keys: BTreeSet<_> =
        app.waits.keys().into_iter().chain(workers.flat_map(|all| all.holders())).collect();
    for key in keys {
        let Some(problem) = over(app, key.as_deref()).await else { continue };
        app.waits.end(&key, &problem);
        // A store that does not answer is no reason to send workers away.
        if problem.status == auth::unauthenticated().status {
            let app = Arc::clone(app);
            spawn(async move {
                for workers in app.namespaces().filter_map(|namespace| namespace.workers_here()) {
                    workers.dismiss(key.as_deref()).await;
                }
            });
        }
    }
}

/// Why nothing may wait with this key any more.
async fn over(app: &App, key: Option<&str>) -> Option<Problem> {
    let valid = match key {
        Some(key) => app.keyring.is_still_valid(key).await,
        None => app.is_open().await,
    };
    match valid {
        Ok(true) => None,
        Ok(false) => Some(auth::unauthenticated()),
        Err(problem) => Some(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(waits: &Waits, key: &str, namespace: &str) -> Result<Wait, u64> {
        waits.take_for(Some(key.to_owned()), namespace.to_owned()).map_err(|problem| {
            assert_eq!(problem.status, 429);
            problem.limit.unwrap()
        })
    }

    #[test]
    fn a_key_and_a_namespace_have_so_many_places_and_get_them_back() {
        let waits = Waits::new(2, 8, 2);
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
    async fn what_waits_with_a_key_ends_with_it_and_nothing_else_does() {
        let waits = Waits::new(2, 8, 1);
        let (ends, stays) = (take(&waits, "a", "default").unwrap(), take(&waits, "b", "default").unwrap());
        waits.end(&Some("a".to_owned()), &auth::unauthenticated());
        assert_eq!(ends.ended().await.status, 401);
        assert!(stays.problem().is_none());
        assert!(take(&waits, "a", "default").unwrap().problem().is_none(), "a new one is judged again");
    }
}
