//! The store-wide audit: heals of tasks and locks, recorded with the write of the record.

use std::time::Duration;

use goldseam_core::LockName;
use goldseam_core::audit::AuditHeal;
use goldseam_core::lock::{Ask, Lock};
use goldseam_core::task::Task;
use goldseam_store::api::{Expect, Written};
use goldseam_store::{AuditEntry, AuditFilter, AuditKind, AuditLog};

use super::Fixture;
use super::make::{ALL, any_task, at, task};

fn heal(rule: &str, holder: &str) -> AuditHeal {
    AuditHeal {
        rule: rule.to_owned(),
        version: 0,
        reason: "stale_detection".to_owned(),
        attempt: 1,
        stale_ms: 77,
        node: None,
        holder: Some(holder.to_owned()),
        ended: None,
        state: None,
    }
}

/// A claimed task, and the same task after its heal at this time.
fn reclaimed(name: &str, millis: i64) -> (Task, Task) {
    let claimed = task(name).claimed("ana", at(1));
    let back = claimed.clone().reclaimed("it was silent", 9, at(millis));
    (claimed.clone(), back.healed(claimed.version, heal("L2", "ana")))
}

async fn heal_task(fixture: &Fixture, name: &str, millis: i64) -> Task {
    let (claimed, back) = reclaimed(name, millis);
    fixture.submit(claimed.clone()).await;
    fixture.replace(back.clone(), claimed.version).await;
    back
}

async fn heal_lock(fixture: &Fixture, name: &str, millis: i64) -> Lock {
    let ask = Ask {
        name: &LockName::new(name).unwrap(),
        holder: "Jürgen's \"host\" 🏺",
        node: None,
        ttl: Duration::from_millis(1),
    };
    let held = Lock::acquired(None, ask, at(0)).unwrap();
    let freed = held.clone().cleaned("it expired", at(millis)).healed(held.version, heal("L1", ask.holder));
    assert_eq!(fixture.store.put_lock(held.clone(), Expect::Absent).await.unwrap(), Written::Done);
    let put = fixture.store.put_lock(freed.clone(), Expect::Version(held.version)).await.unwrap();
    assert_eq!(put, Written::Done);
    freed
}

async fn list(audit: &dyn AuditLog, filter: AuditFilter) -> Vec<AuditEntry> {
    let page = audit.audit_entries(filter).await.unwrap();
    assert_eq!(page.next, None);
    page.items
}

fn all() -> AuditFilter {
    AuditFilter { limit: ALL, ..AuditFilter::default() }
}

fn subjects(entries: &[AuditEntry]) -> Vec<(AuditKind, &str)> {
    entries.iter().map(|entry| (entry.kind, entry.subject.as_str())).collect()
}

/// A heal is in the audit with all its fields, once, and stays when its record changes.
pub async fn a_heal_is_recorded_with_its_write(fixture: &Fixture) {
    let Some(audit) = fixture.store.audit() else { return };
    assert_eq!(list(audit, all()).await, []);
    let back = heal_task(fixture, "t.1_x-y", 50).await;
    let freed = heal_lock(fixture, "l.1", 60).await;
    let entries = [AuditEntry::of_lock(&freed).remove(0), AuditEntry::of_task(&back).remove(0)];
    assert_eq!(list(audit, all()).await, entries);
    assert_eq!((entries[1].heal.attempt, entries[1].heal.version), (1, back.version));
    let again = back.clone().claimed("bob", at(70));
    fixture.replace(again.clone(), back.version).await;
    fixture.replace(again.clone().released(again.fence, at(80)).unwrap(), again.version).await;
    assert_eq!(list(audit, all()).await, entries, "later writes of the record add nothing");
}

/// A write that loses leaves no entry, and neither does a change that is not a heal.
pub async fn only_a_heal_that_was_written_is_recorded(fixture: &Fixture) {
    let Some(audit) = fixture.store.audit() else { return };
    let (claimed, back) = reclaimed("t", 50);
    fixture.submit(claimed.clone()).await;
    let lost = fixture.store.put_task(back.clone(), Expect::Version(claimed.version + 7)).await.unwrap();
    assert_eq!(lost, Written::Lost(Some(claimed.clone())));
    fixture.replace(claimed.clone().reclaimed("without a rule", 9, at(50)), claimed.version).await;
    assert_eq!(list(audit, all()).await, []);
}

/// Of concurrent healers, one leaves one entry.
pub async fn concurrent_heals_leave_one_entry(fixture: &Fixture) {
    let Some(audit) = fixture.store.audit() else { return };
    let (claimed, _) = reclaimed("t", 0);
    fixture.submit(claimed.clone()).await;
    let mut healers = tokio::task::JoinSet::new();
    for millis in 0..8 {
        let (store, (before, back)) = (fixture.shared(), reclaimed("t", 50 + millis));
        healers.spawn(async move { store.put_task(back, Expect::Version(before.version)).await.unwrap() });
    }
    let done = healers.join_all().await.into_iter().filter(|written| *written == Written::Done).count();
    assert_eq!(done, 1);
    let stored = fixture.store.tasks(any_task()).await.unwrap().remove(0);
    assert_eq!(list(audit, all()).await, AuditEntry::of_task(&stored));
}

/// A task that is created to heal a foreign state is recorded by its creation.
pub async fn a_created_task_can_be_a_heal(fixture: &Fixture) {
    let Some(audit) = fixture.store.audit() else { return };
    let state = Some(super::make::run("theirs"));
    let created = task("t").healing("created for theirs", AuditHeal { state, ..heal("foreign", "old") });
    fixture.submit(created.clone()).await;
    let entries = list(audit, all()).await;
    assert_eq!(entries, AuditEntry::of_task(&created));
    assert_eq!(entries[0].heal.state.as_ref().map(|state| state.as_str()), Some("theirs"));
}

/// Pages of any size give every entry once, the newest first; rule and time select.
pub async fn the_audit_is_listed_in_pages(fixture: &Fixture) {
    let Some(audit) = fixture.store.audit() else { return };
    for (name, millis) in [("a", 30), ("b", 10), ("c", 20), ("d", 20)] {
        heal_task(fixture, name, millis).await;
    }
    heal_lock(fixture, "e", 20).await;
    let whole = list(audit, all()).await;
    let times: Vec<i64> = whole.iter().map(|entry| entry.at.0).collect();
    assert_eq!(times, [30, 20, 20, 20, 10].map(|millis| at(millis).0));
    for limit in 1..=5 {
        let mut filter = AuditFilter { limit, ..AuditFilter::default() };
        let mut seen = Vec::new();
        loop {
            let page = audit.audit_entries(filter.clone()).await.unwrap();
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items);
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        assert_eq!(seen, whole, "pages of {limit}");
    }
    let rule = |rule: &str| AuditFilter { rule: Some(rule.to_owned()), ..all() };
    assert_eq!(subjects(&list(audit, rule("L1")).await), [(AuditKind::Lock, "e")]);
    assert_eq!(list(audit, rule("L2")).await.len(), 4);
    assert_eq!(list(audit, rule("L")).await, []);
    for (since, count) in [(0, 5), (10, 5), (11, 4), (20, 4), (21, 1), (30, 1), (31, 0)] {
        let entries = list(audit, AuditFilter { since: Some(at(since)), ..all() }).await;
        assert_eq!(entries, whole[..count], "{since}");
    }
}

/// A trim removes the oldest entries from before a time, a limited number, and no record.
pub async fn the_audit_is_trimmed_by_age(fixture: &Fixture) {
    let Some(audit) = fixture.store.audit() else { return };
    for (name, millis) in [("a", 40), ("b", 10), ("c", 20), ("d", 30)] {
        heal_task(fixture, name, millis).await;
    }
    let names =
        async || -> Vec<String> { list(audit, all()).await.into_iter().map(|entry| entry.subject).collect() };
    assert_eq!(audit.trim_audit(at(10), ALL).await.unwrap(), 0, "an entry at the time itself stays");
    assert_eq!(names().await.len(), 4);
    let removed = audit.trim_audit(at(31), 2).await.unwrap();
    assert!((1..=2).contains(&removed), "{removed}");
    while audit.trim_audit(at(31), ALL).await.unwrap() > 0 {}
    assert_eq!(names().await, ["a"]);
    let tasks = fixture.store.tasks(any_task()).await.unwrap();
    assert!(
        tasks.len() == 4 && tasks.iter().all(|task| !task.audit.is_empty()),
        "records keep their entries"
    );
}
