//! Locks as records: compare-and-set and lists.

use std::time::Duration;

use goldseam_core::LockName;
use goldseam_core::lock::{Ask, Lock};
use goldseam_core::task::Audit;
use goldseam_store::api::{Expect, LockFilter, Written};

use super::Fixture;
use super::make::{ALL, at};

fn held(name: &str, holder: &str) -> Lock {
    let ask =
        Ask { name: &LockName::new(name).unwrap(), holder, node: None, ttl: Duration::from_millis(100) };
    Lock::acquired(None, ask, at(0)).unwrap()
}

fn any_lock() -> LockFilter {
    LockFilter { limit: ALL, ..LockFilter::default() }
}

async fn put(fixture: &Fixture, lock: &Lock, expect: Expect) -> Written<Lock> {
    fixture.store.put_lock(lock.clone(), expect).await.unwrap()
}

/// A lock is written only over the expected version, and the loser gets the present lock.
pub async fn put_lock_compares_and_sets(fixture: &Fixture) {
    let first = held("l", "a");
    assert_eq!(put(fixture, &first, Expect::Version(1)).await, Written::Lost(None));
    assert_eq!(put(fixture, &first, Expect::Absent).await, Written::Done);
    assert_eq!(put(fixture, &held("l", "b"), Expect::Absent).await, Written::Lost(Some(first.clone())));
    let second = first.clone().released("a", first.fence).unwrap();
    assert_eq!(put(fixture, &second, Expect::Version(9)).await, Written::Lost(Some(first.clone())));
    assert_eq!(put(fixture, &second, Expect::Version(first.version)).await, Written::Done);
    let late = put(fixture, &second, Expect::Version(first.version)).await;
    assert_eq!(late, Written::Lost(Some(second.clone())));
    assert_eq!(fixture.store.locks(any_lock()).await.unwrap(), [second], "a free lock keeps its record");
}

/// Of many concurrent acquirers, one succeeds.
pub async fn one_of_many_acquirers_wins(fixture: &Fixture) {
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let store = fixture.shared();
            let lock = held("l", &format!("h{n}"));
            tokio::spawn(async move { store.put_lock(lock, Expect::Absent).await.unwrap() })
        })
        .collect();
    let mut done = 0;
    for writer in writers {
        done += usize::from(writer.await.unwrap() == Written::Done);
    }
    assert_eq!(done, 1);
}

/// A lock comes back with all its fields.
pub async fn a_lock_is_kept_exactly(fixture: &Fixture) {
    let audit = vec![Audit::new(at(1), "‘cleaned’")];
    let rich = Lock { node: Some("n1".into()), fence: 77, audit, ..held("l", "Jürgen's \"host\" 🏺") };
    assert_eq!(put(fixture, &rich, Expect::Absent).await, Written::Done);
    let filter = LockFilter { name: Some(rich.name.clone()), ..any_lock() };
    assert_eq!(fixture.store.locks(filter).await.unwrap(), [rich]);
}

/// A stale lock is held and at or past its expiry. A free lock is never stale.
pub async fn stale_locks_are_found_at_their_expiry(fixture: &Fixture) {
    let free = held("free", "a").released("a", 1).unwrap();
    let later = Lock { expires_at: at(101), ..held("later", "b") };
    for lock in [&held("held", "a"), &free, &later] {
        assert_eq!(put(fixture, lock, Expect::Absent).await, Written::Done);
    }
    for (now, expected) in [(at(99), vec![]), (at(100), vec!["held"]), (at(101), vec!["held", "later"])] {
        let filter = LockFilter { stale_at: Some(now), ..any_lock() };
        let found = fixture.store.locks(filter).await.unwrap();
        let found: Vec<&str> = found.iter().map(|lock| lock.name.as_str()).collect();
        assert_eq!(found, expected);
    }
}

/// Finds locks that are held through none of these nodes; a lock without a node is not among them.
pub async fn locks_of_other_nodes_are_found(fixture: &Fixture) {
    let through = |name, node: &str| Lock { node: Some(node.to_owned()), ..held(name, "a") };
    let free = through("free", "n1").released("a", 1).unwrap();
    for lock in [&through("one", "n1"), &through("two", "n2"), &held("plain", "a"), &free] {
        assert_eq!(put(fixture, lock, Expect::Absent).await, Written::Done);
    }
    for (nodes, expected) in
        [(vec![], vec!["one", "two"]), (vec!["n1"], vec!["two"]), (vec!["n1", "n2"], vec![])]
    {
        let nodes = nodes.into_iter().map(str::to_owned).collect();
        let filter = LockFilter { node_none_of: Some(nodes), ..any_lock() };
        let found = fixture.store.locks(filter).await.unwrap();
        let found: Vec<&str> = found.iter().map(|lock| lock.name.as_str()).collect();
        assert_eq!(found, expected);
    }
}

/// Pages of any size give every lock once, in byte order of the names.
pub async fn lock_pages_are_complete_and_in_order(fixture: &Fixture) {
    let mut expected = ["b", "a", "B", "a-b", "a.b", "ab", "10", "9"];
    for name in expected {
        assert_eq!(put(fixture, &held(name, "h"), Expect::Absent).await, Written::Done);
    }
    expected.sort_unstable();
    for limit in [1, 3, 8, 9] {
        let mut found = vec![];
        let mut after = None;
        loop {
            let page = fixture.store.locks(LockFilter { after, limit, ..any_lock() }).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit as usize && found.len() < expected.len(), "the list does not end");
            after = Some(last.name.clone());
            found.extend(page.into_iter().map(|lock| lock.name.as_str().to_owned()));
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
}
