//! Claiming: due tasks, each to one claimant.

use std::collections::BTreeSet;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, Payload, QueueName};
use goldseam_store::api::{ClaimRequest, Expect, Written};

use super::Fixture;
use super::make::{QUEUE, advance, advance_pool, at, claim_at, names, task};

/// With eight concurrent claimants, every task goes to exactly one of them.
pub async fn two_claimers_never_get_the_same_task(fixture: &Fixture) {
    const TASKS: usize = 120;
    for n in 0..TASKS {
        fixture.submit(task(&format!("t{n}"))).await;
    }
    let claimers: Vec<_> = (0..8)
        .map(|n| {
            let store = fixture.shared();
            let claim = ClaimRequest { owner: format!("n{n}"), limit: 3, ..claim_at(at(0)) };
            tokio::spawn(async move {
                let mut mine = vec![];
                loop {
                    let got = store.claim(claim.clone()).await.unwrap().tasks;
                    if got.is_empty() {
                        return mine;
                    }
                    assert!(
                        got.len() <= 3 && got.iter().all(|task| task.owner.as_ref() == Some(&claim.owner))
                    );
                    mine.extend(got.into_iter().map(|task| task.id));
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut all = BTreeSet::new();
    let mut count = 0;
    for claimer in claimers {
        let mine = claimer.await.unwrap();
        count += mine.len();
        all.extend(mine);
    }
    assert_eq!((all.len(), count), (TASKS, TASKS));
}

/// Higher priority goes first, then the earlier due time.
pub async fn priority_then_run_at(fixture: &Fixture) {
    let order = [("b", 0, 9), ("c", 0, 5), ("a", -1, 1), ("e", 7, 8), ("d", 7, 9)];
    for (name, priority, run_at) in order {
        fixture.submit(Task { priority, run_at: at(run_at), ..task(name) }).await;
    }
    let two = ClaimRequest { limit: 2, ..claim_at(at(10)) };
    assert_eq!(names(&fixture.store.claim(two).await.unwrap().tasks), ["e", "d"]);
    assert_eq!(names(&fixture.claim(at(10)).await.tasks), ["c", "b", "a"]);
}

/// A task is due at its time, not a millisecond before.
pub async fn not_before_run_at(fixture: &Fixture) {
    fixture.submit(Task { run_at: at(10), priority: 99, ..task("t") }).await;
    assert!(fixture.claim(at(9)).await.tasks.is_empty());
    assert_eq!(fixture.claim(at(10)).await.tasks.len(), 1);
}

/// A dormant task is never due and does not count as the next one.
pub async fn a_dormant_task_is_never_due(fixture: &Fixture) {
    fixture.submit(Task { run_at: Millis::NEVER, ..task("t") }).await;
    let claimed = fixture.claim(Millis(Millis::NEVER.0 - 1)).await;
    assert_eq!((claimed.tasks.len(), claimed.next_due), (0, None));
}

/// The claimant gets the time of its next claim: now, if the limit left some tasks.
pub async fn next_due_is_the_earliest_left(fixture: &Fixture) {
    assert_eq!(fixture.claim(at(0)).await.next_due, None);
    for (name, run_at) in [("a", 5), ("b", 30), ("c", 20), ("d", 6)] {
        fixture.submit(Task { run_at: at(run_at), ..task(name) }).await;
    }
    assert_eq!(fixture.claim(at(0)).await.next_due, Some(at(5)));
    let one = fixture.store.claim(ClaimRequest { limit: 1, ..claim_at(at(10)) }).await.unwrap();
    assert_eq!((names(&one.tasks), one.next_due), (vec!["a"], Some(at(6))));
    let none = fixture.store.claim(ClaimRequest { limit: 0, ..claim_at(at(10)) }).await.unwrap();
    assert_eq!((none.tasks.len(), none.next_due), (0, Some(at(6))));
    assert_eq!(fixture.claim(at(10)).await.next_due, Some(at(20)));
    assert_eq!(fixture.claim(at(30)).await.next_due, None);
}

/// Tasks of other pools and kinds do not count for `next_due`.
pub async fn next_due_looks_at_the_claims_own_tasks(fixture: &Fixture) {
    fixture.submit(Task { queue: QueueName::new("slow").unwrap(), run_at: at(5), ..task("a") }).await;
    fixture.submit(Task { kind: "fax".to_owned(), run_at: at(6), ..task("b") }).await;
    fixture.submit(Task { run_at: at(7), ..task("c") }).await;
    let mail = ClaimRequest { kind: Some("mail".to_owned()), ..claim_at(at(0)) };
    assert_eq!(fixture.store.claim(mail).await.unwrap().next_due, Some(at(7)));
    assert_eq!(fixture.claim(at(0)).await.next_due, Some(at(6)));
}

/// Claimed and ended tasks are not claimed.
pub async fn only_ready_tasks_are_claimed(fixture: &Fixture) {
    use TaskState::{Cancelled, Completed, Dead, Failed};
    fixture.submit(task("claimed").claimed("n9", at(0))).await;
    for state in [Completed, Failed, Cancelled, Dead] {
        fixture.submit(Task { state, ..task(state.as_str()) }).await;
    }
    let claimed = fixture.claim(at(9)).await;
    assert_eq!((claimed.tasks.len(), claimed.next_due), (0, None));
}

/// The store keeps what the claimant gets: owner, start, fence and version by the rules of the task.
pub async fn a_claim_is_recorded(fixture: &Fixture) {
    fixture.submit(task("t")).await;
    let got = fixture.claim(at(3)).await.tasks;
    assert_eq!(got, [task("t").claimed("n1", at(3))]);
    assert_eq!(fixture.task("t").await, got[0]);
    assert_eq!(got[0].flaw(), None);
}

/// Every claim has a higher fence than the previous one.
pub async fn fences_grow(fixture: &Fixture) {
    fixture.submit(task("t")).await;
    for fence in 1..5 {
        let got = fixture.claim(at(0)).await.tasks.remove(0);
        assert_eq!(got.fence, fence);
        let version = got.version;
        fixture.replace(got.released(fence, at(0)).unwrap(), version).await;
    }
}

/// A claim for one kind leaves the others.
pub async fn kinds_are_filtered(fixture: &Fixture) {
    fixture.submit(Task { kind: "fax".to_owned(), priority: 9, ..task("a") }).await;
    fixture.submit(task("b")).await;
    let mail = ClaimRequest { kind: Some("mail".to_owned()), ..claim_at(at(0)) };
    assert_eq!(names(&fixture.store.claim(mail).await.unwrap().tasks), ["b"]);
    assert_eq!(names(&fixture.claim(at(0)).await.tasks), ["a"]);
}

/// Queues are separate, and so are the advance tasks of each workflow; a pool named twice counts once.
pub async fn pools_are_separate(fixture: &Fixture) {
    fixture.submit(task("a")).await;
    fixture.submit(Task { queue: QueueName::new("slow").unwrap(), ..task("b") }).await;
    fixture.submit(advance("r", "c")).await;
    fixture.submit(Task { kind: Task::advance_kind("refund", 1), ..advance("r", "d") }).await;
    let from = |pools: &[&str]| {
        let pools = pools.iter().map(|pool| (*pool).to_owned()).collect();
        fixture.store.claim(ClaimRequest { pools, ..claim_at(at(0)) })
    };
    assert_eq!(from(&[]).await.unwrap(), Default::default());
    assert_eq!(from(&["unknown"]).await.unwrap(), Default::default());
    assert_eq!(names(&from(&[QUEUE, QUEUE]).await.unwrap().tasks), ["a"]);
    assert_eq!(names(&from(&[&advance_pool(), "slow"]).await.unwrap().tasks).len(), 2);
    assert_eq!(names(&from(&[QUEUE, "slow", &advance_pool()]).await.unwrap().tasks).len(), 0);
    assert_eq!(fixture.task("d").await.state, TaskState::Ready);
}

/// A claim never exceeds its limit, and a limit of 0 claims nothing.
pub async fn the_limit_is_kept(fixture: &Fixture) {
    for n in 0..5 {
        fixture.submit(task(&format!("t{n}"))).await;
    }
    for (limit, expected) in [(0, 0), (2, 2), (2, 2), (2, 1), (2, 0)] {
        let claim = ClaimRequest { limit, ..claim_at(at(0)) };
        assert_eq!(fixture.store.claim(claim).await.unwrap().tasks.len(), expected);
    }
}

/// A claimant that lost its task cannot write its result: the version has changed.
pub async fn a_stale_completion_loses(fixture: &Fixture) {
    fixture.submit(task("t")).await;
    let zombie = fixture.claim(at(0)).await.tasks.remove(0);
    let fence = zombie.fence;
    let version = zombie.version;
    fixture.replace(zombie.clone().reclaimed("it was silent", 9, at(1)), version).await;
    let second = fixture.claim(at(1)).await.tasks.remove(0);
    let late = zombie.completed(fence, Payload::null(), at(2)).unwrap();
    let put = fixture.store.put_task(late, Expect::Version(version)).await.unwrap();
    assert_eq!(put, Written::Lost(Some(second)));
}
