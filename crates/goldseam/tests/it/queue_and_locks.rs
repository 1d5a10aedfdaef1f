//! User tasks and named locks.

use std::time::Duration;

use goldseam::unstable::core::task::{NewTask, TaskState};
use goldseam::unstable::core::{LaneName, LockName, TaskId};
use goldseam::unstable::engine::queue::Want;
use goldseam::{Client, Failure, Payload};

use crate::support::{self, Scratch, new_task};

fn task(id: &str) -> NewTask {
    NewTask { attempts_max: 2, ..new_task(id, "images") }
}

fn want(owner: &str) -> Want {
    support::want(owner, "images", 10)
}

async fn client() -> (Scratch, Client) {
    let scratch = Scratch::new();
    let client = scratch.client().await;
    (scratch, client)
}

#[tokio::test]
async fn tasks_are_claimed_by_priority_and_completed_once() {
    let (_scratch, client) = client().await;
    let queue = client.queue();
    queue.submit(task("low")).await.unwrap();
    queue.submit(NewTask { priority: 5, ..task("high") }).await.unwrap();
    let claimed = queue.claim(want("w1")).await.unwrap();
    assert_eq!(claimed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["high", "low"]);
    assert!(queue.claim(want("w2")).await.unwrap().is_empty());
    let high = &claimed[0];
    queue.heartbeat(&high.id, high.fence).await.unwrap();
    queue.complete(&high.id, high.fence, Payload::null()).await.unwrap();
    queue.complete(&high.id, high.fence, Payload::null()).await.unwrap();
    let error = queue.complete(&high.id, high.fence + 1, Payload::null()).await.unwrap_err();
    assert_eq!(error.code(), "GS0301");
    assert_eq!(queue.get(&high.id).await.unwrap().state, TaskState::Completed);
}

#[tokio::test]
async fn idempotency_key_matches_only_unfinished_tasks() {
    let (_scratch, client) = client().await;
    let queue = client.queue();
    let keyed = |id: &str| NewTask { key: Some("k".to_owned()), ..task(id) };
    queue.submit(keyed("one")).await.unwrap();
    assert_eq!(queue.submit(keyed("two")).await.unwrap().id.as_str(), "one");
    let claimed = queue.claim(want("w")).await.unwrap();
    queue.complete(&claimed[0].id, claimed[0].fence, Payload::null()).await.unwrap();
    assert_eq!(queue.submit(keyed("three")).await.unwrap().id.as_str(), "three");
}

#[tokio::test]
async fn lane_has_one_claimed_task_at_a_time() {
    let (_scratch, client) = client().await;
    let queue = client.queue();
    let lane = Some(LaneName::new("main").unwrap());
    for id in ["one", "two"] {
        queue.submit(NewTask { lane: lane.clone(), ..task(id) }).await.unwrap();
    }
    let first = queue.claim(want("w1")).await.unwrap();
    assert_eq!(first.len(), 1);
    assert!(queue.claim(want("w2")).await.unwrap().is_empty());
    queue.release(&first[0].id, first[0].fence).await.unwrap();
    assert_eq!(queue.claim(want("w2")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn failed_task_is_retried_until_attempts_are_used_up() {
    let (_scratch, client) = client().await;
    let queue = client.queue();
    queue.submit(task("t")).await.unwrap();
    let id = TaskId::new("t").unwrap();
    let first = queue.claim(want("w")).await.unwrap().remove(0);
    let back = queue.fail(&id, first.fence, Failure::retryable("no")).await.unwrap();
    assert_eq!((back.state, back.attempts, back.owner), (TaskState::Ready, 1, None));
    let error = queue.heartbeat(&id, first.fence).await.unwrap_err();
    assert_eq!(error.code(), "GS0301");
    let second = loop {
        let mut claimed = queue.claim(want("w")).await.unwrap();
        if let Some(task) = claimed.pop() {
            break task;
        }
        tokio::task::yield_now().await;
    };
    let over = queue.fail(&id, second.fence, Failure::retryable("no")).await.unwrap();
    assert_eq!(over.state, TaskState::Failed);
}

#[tokio::test]
async fn lock_has_one_holder_and_is_released_by_its_fence() {
    let (_scratch, client) = client().await;
    let locks = client.locks();
    let name = LockName::new("deploy").unwrap();
    let held = locks.acquire(&name, "ana", Duration::from_secs(300)).await.unwrap();
    let error = locks.acquire(&name, "bob", Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.code(), "GS0302");
    assert!(!locks.release(&name, "bob", held.fence).await.unwrap());
    assert!(!locks.release(&name, "ana", held.fence + 1).await.unwrap());
    locks.extend(&name, "ana", held.fence, Duration::from_secs(300)).await.unwrap();
    assert!(locks.release(&name, "ana", held.fence).await.unwrap());
    assert!(!locks.release(&name, "ana", held.fence).await.unwrap());
    let brief = locks.acquire(&name, "bob", Duration::ZERO).await.unwrap();
    assert!(brief.fence > held.fence);
    assert!(locks.is_stale(&name).await.unwrap());
    assert!(locks.extend(&name, "bob", brief.fence, Duration::from_secs(1)).await.is_err());
    let next = locks.acquire(&name, "cyd", Duration::from_secs(1)).await.unwrap();
    assert!(next.fence > brief.fence && !next.audit.is_empty());
}

#[tokio::test]
async fn one_of_many_concurrent_acquires_gets_the_lock() {
    let (_scratch, client) = client().await;
    let name = LockName::new("one").unwrap();
    let tries = (0..16).map(|racer| {
        let locks = client.locks();
        let name = name.clone();
        async move { locks.acquire(&name, &format!("r{racer}"), Duration::from_secs(60)).await.is_ok() }
    });
    let won = join_spawned(tries).await;
    assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
}

async fn join_spawned<F: Future<Output = bool> + Send + 'static>(all: impl Iterator<Item = F>) -> Vec<bool> {
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

#[tokio::test]
async fn audit_of_a_task_names_the_operator_who_cancelled_it() {
    let (_scratch, client) = client().await;
    let queue = client.queue();
    for (id, who, what) in [
        ("named", Some("ada"), "cancelled, held by w1: by ada"),
        ("unnamed", None, "cancelled, held by w1: by hand"),
    ] {
        queue.submit(task(id)).await.unwrap();
        queue.claim(want("w1")).await.unwrap();
        let task = TaskId::new(id).unwrap();
        queue.cancel_by_hand(&task, who).await.unwrap();
        let stored = queue.get(&task).await.unwrap();
        let entries: Vec<&str> = stored.audit.iter().map(|entry| entry.what.as_str()).collect();
        assert_eq!((stored.state, entries), (TaskState::Cancelled, vec![what]));
        // A repeat changes nothing, by any operator.
        let _ = queue.cancel_by_hand(&task, Some("ben")).await;
        assert_eq!(queue.get(&task).await.unwrap(), stored);
    }
    // A task without a claim, and a cancel by a program, which leaves no entry.
    for id in ["idle", "program"] {
        queue.submit(task(id)).await.unwrap();
    }
    let idle = queue.cancel_by_hand(&TaskId::new("idle").unwrap(), Some("ada")).await.unwrap();
    assert_eq!(idle.audit[0].what, "cancelled: by ada");
    assert!(queue.cancel(&TaskId::new("program").unwrap()).await.unwrap().audit.is_empty());
}

#[tokio::test]
async fn audit_of_a_lock_names_the_operator_who_released_it() {
    let (_scratch, client) = client().await;
    let locks = client.locks();
    let name = LockName::new("nightly").unwrap();
    let hour = Duration::from_secs(3600);
    let held = locks.acquire(&name, "job-1", hour).await.unwrap();
    // A stale fence releases nothing and leaves no entry.
    assert!(!locks.release_by_hand(&name, "job-1", held.fence + 1, Some("ada")).await.unwrap());
    assert!(locks.get(&name).await.unwrap().unwrap().audit.is_empty());
    assert!(locks.release_by_hand(&name, "job-1", held.fence, Some("ada")).await.unwrap());
    let free = locks.get(&name).await.unwrap().unwrap();
    let entries: Vec<&str> = free.audit.iter().map(|entry| entry.what.as_str()).collect();
    assert_eq!((free.holder, entries), (None, vec!["released, held by job-1: by ada"]));
    // The entry outlives the next hold; a release by its holder adds none.
    let again = locks.acquire(&name, "job-2", hour).await.unwrap();
    assert!(locks.release(&name, "job-2", again.fence).await.unwrap());
    let entries = locks.get(&name).await.unwrap().unwrap().audit;
    assert_eq!(entries.len(), 1, "{entries:?}");
}
