//! Acquiring, extending and releasing locks; fences never repeat.

use super::*;

fn take(lock: Option<Lock>, holder: &str, now: i64) -> Result<Lock, LockRefusal> {
    let name = LockName::new("lane-1").unwrap();
    let ask = Ask { name: &name, holder, node: Some("n-1"), ttl: Duration::from_millis(100) };
    Lock::acquired(lock, ask, Millis(now))
}

fn until(now: i64) -> Until {
    Until { now: Millis(now), ttl: Duration::from_millis(100) }
}

#[test]
fn a_held_lock_is_not_given_twice() {
    let held = take(None, "a", 0).unwrap();
    assert!(held.is_held(Millis(99)));
    for holder in ["a", "b"] {
        assert!(matches!(take(Some(held.clone()), holder, 99), Err(LockRefusal::Held { .. })));
    }
}

#[test]
fn a_lock_expires_at_its_expiry_and_not_before() {
    let held = take(None, "a", 0).unwrap();
    assert_eq!((held.is_stale(Millis(99)), held.is_stale(Millis(100))), (false, true));
    let taken = take(Some(held), "b", 100).unwrap();
    assert_eq!((taken.holder.as_deref(), taken.fence), (Some("b"), 2));
    assert_eq!(taken.audit.len(), 1, "the audit records an expiry");
}

#[test]
fn every_change_of_a_lock_is_a_new_version() {
    let held = take(None, "a", 0).unwrap();
    let longer = held.clone().extended("a", held.fence, until(50)).unwrap();
    assert_eq!((longer.version, longer.expires_at), (held.version + 1, Millis(150)));
    let free = longer.clone().released("a", held.fence).unwrap();
    assert_eq!(free.version, longer.version + 1);
}

#[test]
fn fences_never_repeat() {
    let mut fences = vec![];
    let mut lock = take(None, "a", 0).unwrap();
    for round in 1..5 {
        fences.push(lock.fence);
        let free = match round % 2 {
            0 => lock.clone().cleaned("its node is gone", Millis(1)),
            _ => lock.clone().released("a", lock.fence).unwrap(),
        };
        assert!(free.version > lock.version && !free.is_held(Millis(1)));
        lock = take(Some(free), "a", 1).unwrap();
    }
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{fences:?}");
}

#[test]
fn an_ended_hold_is_never_revived() {
    let held = take(None, "a", 0).unwrap();
    assert_eq!(held.clone().extended("a", 1, until(50)).unwrap().expires_at, Millis(150));
    for (holder, fence, now) in [("a", 1, 100), ("b", 1, 50), ("a", 2, 50)] {
        let lost = held.clone().extended(holder, fence, until(now));
        assert!(matches!(lost, Err(LockRefusal::Lost { .. })), "{holder} {fence} {now}");
    }
}

#[test]
fn releasing_a_free_lock_changes_nothing() {
    let held = take(None, "a", 0).unwrap();
    assert_eq!(held.clone().released("b", 1), None);
    assert_eq!(held.clone().released("a", 7), None);
    let free = held.released("a", 1).unwrap();
    assert_eq!((free.node.clone(), free.clone().released("a", 1)), (None, None));
    assert_eq!(free.clone().cleaned("again", Millis(9)), free, "nothing to clean");
}

#[test]
fn a_hold_is_recognised_only_by_its_own_command() {
    let held = take(None, "a", 0).unwrap().taken_by("c1");
    assert!(held.was_taken_by("c1") && !held.was_taken_by("c2"));
    assert!(!held.clone().released("a", 1).unwrap().was_taken_by("c1"), "it is free");
    let next = take(Some(held), "b", 100).unwrap();
    assert!(!next.was_taken_by("c1"), "that was the previous hold");
    assert!(next.taken_by("c2").was_taken_by("c2"));
}

#[test]
fn a_hold_names_the_credential_that_it_was_taken_with() {
    let held = take(None, "a", 0).unwrap().taken_by("c1").taken_with("k1");
    assert_eq!(held.credential(), Some("k1"));
    assert_eq!(held.clone().released("a", 1).unwrap().credential(), None, "it is free");
    let next = take(Some(held), "b", 100).unwrap();
    assert_eq!(next.credential(), None, "that was the previous hold");
    assert_eq!(next.taken_with("k2").credential(), Some("k2"));
}

#[test]
fn a_refusal_names_the_holder_and_the_expiry() {
    let held = take(None, "a", 0).unwrap();
    let refusal = take(Some(held.clone()), "b", 50).unwrap_err();
    assert_eq!(refusal.to_string(), "lock lane-1 is held by a until 100");
    let lost = held.extended("b", 1, until(50)).unwrap_err();
    assert_eq!(lost.to_string(), "the hold on lock lane-1 with fence 1 has ended");
}

#[test]
fn cleaning_raises_the_fence_and_says_why() {
    let held = take(None, "a", 0).unwrap();
    let clean = held.clone().cleaned("its node is gone", Millis(9));
    assert_eq!((clean.holder, clean.node, clean.fence), (None, None, held.fence + 1));
    let entry = Audit::new(Millis(9), "cleaned, held by a: its node is gone");
    assert_eq!(clean.audit, [entry]);
}
