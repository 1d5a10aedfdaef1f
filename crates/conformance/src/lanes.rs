//! Lanes: at most one claimed task at a time.

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Payload, QueueName};
use goldseam_store::api::{Append, ClaimRequest, Expect, TaskFilter, Written};

use super::Fixture;
use super::make::{
    advance, any_task, append_with, append_with_row, at, claim_at, create, names, task, task_in,
};

/// A claim takes one task of each lane, and any number without a lane.
pub async fn a_claim_takes_one_of_a_lane(fixture: &Fixture) {
    for n in 0..3 {
        fixture.submit(task_in("l1", &format!("a{n}"))).await;
        fixture.submit(task_in("l2", &format!("b{n}"))).await;
        fixture.submit(task(&format!("c{n}"))).await;
    }
    let first = fixture.claim(at(0)).await.tasks;
    let lanes = |lane| first.iter().filter(|task| task.lane.as_ref().map(|l| l.as_str()) == lane).count();
    assert_eq!((lanes(Some("l1")), lanes(Some("l2")), lanes(None)), (1, 1, 3));
    assert!(fixture.claim(at(0)).await.tasks.is_empty());
}

/// Eight concurrent claimants never hold two tasks of a lane, and every task gets claimed.
pub async fn a_lane_has_at_most_one_claimed_task(fixture: &Fixture) {
    const EACH: usize = 12;
    for n in 0..EACH {
        fixture.submit(task_in("l1", &format!("a{n}"))).await;
        fixture.submit(task_in("l2", &format!("b{n}"))).await;
    }
    let claimers: Vec<_> = (0..8)
        .map(|n| {
            let store = fixture.shared();
            let claim = ClaimRequest { owner: format!("n{n}"), limit: 4, ..claim_at(at(0)) };
            tokio::spawn(async move {
                let mut done = 0;
                while !store.tasks(ready()).await.unwrap().is_empty() {
                    for task in store.claim(claim.clone()).await.unwrap().tasks {
                        let held = store.tasks(claimed()).await.unwrap();
                        let together = held.iter().filter(|other| other.lane == task.lane).count();
                        assert_eq!(together, 1, "{held:?}");
                        let fence = task.fence;
                        let version = task.version;
                        let over = task.completed(fence, Payload::null(), at(1)).unwrap();
                        store.put_task(over, Expect::Version(version)).await.unwrap();
                        done += 1;
                    }
                    tokio::task::yield_now().await;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for claimer in claimers {
        done += claimer.await.unwrap();
    }
    assert_eq!(done, EACH * 2);
}

fn ready() -> TaskFilter {
    TaskFilter { state: Some(TaskState::Ready), limit: 1, ..any_task() }
}

fn claimed() -> TaskFilter {
    TaskFilter { state: Some(TaskState::Claimed), ..any_task() }
}

/// However a claimed task ends, the next one of its lane can be claimed.
pub async fn a_lane_is_free_again_once_its_task_ends(fixture: &Fixture) {
    for n in 0..3 {
        fixture.submit(Task { run_at: at(n), ..task_in("l", &format!("t{n}")) }).await;
    }
    let first = fixture.claim(at(9)).await.tasks.remove(0);
    let version = first.version;
    fixture.replace(first.cancelled(at(9)).unwrap(), version).await;
    let second = fixture.claim(at(9)).await.tasks.remove(0);
    assert_eq!(second.id.as_str(), "t1");
    let version = second.version;
    fixture.replace(second.returned(at(50), at(9)), version).await;
    assert_eq!(names(&fixture.claim(at(9)).await.tasks), ["t2"]);
    assert!(fixture.claim(at(60)).await.tasks.is_empty(), "t2 has the lane");
}

/// Within a lane, too, higher priority goes first, then the earlier due time; a task that is not due blocks nothing.
pub async fn the_first_of_a_lane_goes_first(fixture: &Fixture) {
    fixture.submit(Task { run_at: at(5), ..task_in("l", "a-late") }).await;
    fixture.submit(Task { run_at: at(1), ..task_in("l", "b-early") }).await;
    fixture.submit(Task { run_at: at(100), priority: 9, ..task_in("l", "future") }).await;
    for expected in ["b-early", "a-late"] {
        let got = fixture.claim(at(10)).await.tasks;
        assert_eq!(names(&got), [expected]);
        let version = got[0].version;
        fixture.replace(got[0].clone().cancelled(at(10)).unwrap(), version).await;
    }
}

/// A task cannot be put as claimed into a busy lane; the result is the task that has the lane.
pub async fn a_claimed_task_is_not_put_into_a_busy_lane(fixture: &Fixture) {
    fixture.submit(task_in("l", "first")).await;
    let first = fixture.claim(at(0)).await.tasks.remove(0);
    let put = |task: Task, expect| fixture.store.put_task(task, expect);
    let second = task_in("l", "second").claimed("n2", at(1));
    let lost = Written::Lost(Some(first.clone()));
    assert_eq!(put(second.clone(), Expect::Absent).await.unwrap(), lost);
    assert_eq!(fixture.find("second").await, None);
    // With its own key, over an existing record.
    let waiting = Task { key: Some("k".to_owned()), ..task_in("l", "second") };
    fixture.submit(waiting.clone()).await;
    let taken = waiting.clone().claimed("n2", at(1));
    assert_eq!(put(taken.clone(), Expect::Version(waiting.version)).await.unwrap(), lost);
    assert_eq!(fixture.task("second").await, waiting);
    let elsewhere = task_in("other", "third").claimed("n3", at(1));
    fixture.submit(elsewhere.clone()).await;
    let moved = Task { version: elsewhere.version + 1, ..task_in("l", "third").claimed("n3", at(1)) };
    assert_eq!(put(moved, Expect::Version(elsewhere.version)).await.unwrap(), lost);
    // The task that has the lane continues, and so does the next one once the lane is free.
    let beaten = first.clone().beaten(first.fence, at(2)).unwrap();
    fixture.replace(beaten.clone(), first.version).await;
    fixture.replace(beaten.clone().cancelled(at(3)).unwrap(), beaten.version).await;
    fixture.replace(taken, waiting.version).await;
    assert_eq!(put(second, Expect::Absent).await.unwrap(), Written::Lost(Some(fixture.task("second").await)));
}

/// A claimed task that finds its lane busy is omitted; the append succeeds.
pub async fn create_is_ignored_if_the_lane_is_busy(fixture: &Fixture) {
    fixture.submit(task_in("l", "first")).await;
    let first = fixture.claim(at(0)).await.tasks.remove(0);
    let lane = first.lane.clone();
    let own = Task { lane, ..advance("r", "own") }.claimed("n2", at(1));
    fixture.append(Append { tasks: vec![create(own.clone())], ..append_with_row("r", 0) }).await;
    assert_eq!(fixture.find("own").await, None);
    assert_eq!(fixture.row("r").await.task, None, "the run does not adopt a missing task");
    fixture.replace(first.clone().cancelled(at(2)).unwrap(), first.version).await;
    fixture.append(append_with("r", 1, vec![create(own.clone())])).await;
    assert_eq!(fixture.task("own").await, own);
    assert_eq!(fixture.row("r").await.task, Some(own.id));
}

/// A lane is the same in all queues.
pub async fn a_lane_is_one_over_all_queues(fixture: &Fixture) {
    fixture.submit(task_in("l", "a")).await;
    fixture.submit(Task { queue: QueueName::new("slow").unwrap(), ..task_in("l", "b") }).await;
    let slow = ClaimRequest { pools: vec!["slow".to_owned()], ..claim_at(at(0)) };
    assert_eq!(names(&fixture.claim(at(0)).await.tasks), ["a"]);
    assert!(fixture.store.claim(slow).await.unwrap().tasks.is_empty());
}

/// A task behind a busy lane does not count for `next_due`: only the end of the claimed task frees it.
pub async fn a_blocked_task_is_not_next_due(fixture: &Fixture) {
    fixture.submit(Task { priority: 1, ..task_in("l", "a") }).await;
    fixture.submit(task_in("l", "b")).await;
    fixture.submit(Task { run_at: at(20), ..task_in("l", "c") }).await;
    assert_eq!(fixture.claim(at(0)).await.next_due, None);
    fixture.submit(Task { run_at: at(30), ..task("d") }).await;
    assert_eq!(fixture.claim(at(0)).await.next_due, Some(at(30)));
}
