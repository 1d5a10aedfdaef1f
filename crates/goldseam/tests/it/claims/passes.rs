//! Passes of the healer: dry runs, by hand, bounds, errors, statistics, and engines.

use std::time::Duration;

use goldseam::unstable::core::task::{NewTask, Task, TaskState};
use goldseam::unstable::core::{LaneName, LockName};
use goldseam::unstable::engine::claims::RecoveryStats;
use goldseam::unstable::engine::queue::Want;
use goldseam::unstable::store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam::unstable::store::{Expect, Written};
use goldseam::{Config, Millis, Payload};

use super::{Fixture, LEASE, Process, SECOND, fixtures, id, strict, task, want, writes};
use crate::support::{Scratch, eventually};

/// Creates stale and healthy claims and locks of each kind. Returns the process of the live node.
async fn mixed_claims(fixture: &Fixture) -> Process {
    let queue = fixture.client().queue();
    let locks = fixture.client().locks();
    let lives = fixture.process(1).await;
    let dead = fixture.process(2).await;
    for name in ["strict", "leased", "of-node", "of-dead", "strict-of-dead"] {
        let new = if name.starts_with("strict") { strict(name) } else { task(name) };
        queue.submit(new).await.unwrap();
        let owner = match name {
            "of-node" => lives.id.as_str(),
            "of-dead" | "strict-of-dead" => dead.id.as_str(),
            _ => "w",
        };
        assert_eq!(fixture.claim(owner).await.len(), 1);
    }
    for (name, ttl) in [("brief", SECOND), ("long", 10 * LEASE)] {
        locks.acquire(&LockName::new(name).unwrap(), "w", ttl).await.unwrap();
    }
    fixture.lock_through("of-dead", &dead.id, 10 * LEASE).await;
    fixture.lock_through("brief-of-dead", &dead.id, SECOND).await;
    fixture.clock.advance(LEASE);
    dead.die();
    lives
}

#[tokio::test]
async fn dry_run_counts_exactly_what_healing_changes() {
    for fixture in fixtures() {
        let _lives = mixed_claims(&fixture).await;
        let (client, link) = fixture.faulty(FaultPlan::pass());
        let claims = client.claims();
        let dry = claims.recovery_stats().await.unwrap();
        assert_eq!(writes(&link.calls()), [], "a dry run writes nothing");
        let expected =
            RecoveryStats { locks_cleaned: 3, entries_reclaimed: 4, recovery_timestamp: fixture.clock.now() };
        assert_eq!(dry, expected);
        assert_eq!(claims.detect_and_recover_stale().await.unwrap(), dry);
        assert_eq!(writes(&link.calls()).len(), 7, "one write per record, including its audit entry");
        let left = claims.recovery_stats().await.unwrap();
        assert_eq!((left.locks_cleaned, left.entries_reclaimed), (0, 0));
        assert_eq!(fixture.count(TaskState::Claimed).await, 1);
    }
}

#[tokio::test]
async fn healing_a_healthy_store_writes_nothing() {
    for fixture in fixtures() {
        let (client, link) = fixture.faulty(FaultPlan::pass());
        let node = fixture.process(1).await;
        for n in 0..30 {
            client.queue().submit(task(&format!("t{n}"))).await.unwrap();
        }
        client.queue().claim(want(node.id.as_str())).await.unwrap();
        client.queue().claim(want("w")).await.unwrap();
        fixture.lock_through("l", &node.id, 10 * LEASE).await;
        client.locks().acquire(&LockName::new("m").unwrap(), "w", 10 * LEASE).await.unwrap();
        fixture.clock.advance(LEASE - SECOND);
        let before = writes(&link.calls()).len();
        for _ in 0..10 {
            let claims = client.claims();
            claims.tick(fixture.clock.now()).await.unwrap();
            claims.detect_and_recover_stale().await.unwrap();
            claims.recovery_stats().await.unwrap();
            claims.reclaim_stale(LEASE).await.unwrap();
        }
        assert_eq!(writes(&link.calls()).len(), before);
    }
}

#[tokio::test]
async fn reclaim_by_hand_uses_only_the_given_threshold() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(NewTask { silence_max: Some(10 * LEASE), ..task("patient") }).await.unwrap();
        queue.submit(task("leased")).await.unwrap();
        fixture.claim("w").await;
        fixture.clock.advance(30 * SECOND);
        queue.submit(task("young")).await.unwrap();
        fixture.claim("w").await;
        fixture.clock.advance(30 * SECOND);
        let claims = fixture.client().claims();
        assert_eq!(claims.count_stale(61 * SECOND).await.unwrap(), 0);
        assert_eq!(claims.reclaim_stale(61 * SECOND).await.unwrap(), 0);
        assert_eq!(claims.count_stale(60 * SECOND).await.unwrap(), 2);
        assert_eq!(claims.reclaim_stale(60 * SECOND).await.unwrap(), 2);
        assert_eq!(claims.reclaim_stale(60 * SECOND).await.unwrap(), 0);
        assert_eq!(fixture.task("young").await.state, TaskState::Claimed);
    }
}

#[tokio::test]
async fn reclaim_by_hand_spares_advance_tasks_of_live_nodes() {
    for fixture in fixtures() {
        let lives = fixture.process(1).await;
        let dead = fixture.process(2).await;
        for process in [&lives, &dead] {
            let kind = Task::advance_kind("order", 1);
            let new = NewTask { kind, ..task(&format!("advance-{}", process.id)) };
            let held = new.into_task(fixture.clock.now()).claimed(process.id.as_str(), fixture.clock.now());
            assert_eq!(fixture.store.put_task(held, Expect::Absent).await.unwrap(), Written::Done);
        }
        fixture.clock.advance(LEASE);
        let dead_id = dead.id.clone();
        let claims = fixture.client().claims();
        dead.die();
        assert_eq!(
            claims.detect_and_recover_stale().await.unwrap().entries_reclaimed,
            0,
            "advance tasks are left to keepers"
        );
        assert_eq!(claims.reclaim_stale(LEASE).await.unwrap(), 1);
        assert_eq!(fixture.task(&format!("advance-{dead_id}")).await.state, TaskState::Ready);
        assert_eq!(fixture.task(&format!("advance-{}", lives.id)).await.state, TaskState::Claimed);
    }
}

#[tokio::test]
async fn healing_errors_do_not_fail_a_claim() {
    for on_file in [false, true] {
        for fault in [CallFault::FailBefore, CallFault::LoseReply] {
            let mut number = 1;
            loop {
                let fixture = if on_file { Fixture::on_file() } else { Fixture::in_memory() };
                let _lives = mixed_claims(&fixture).await;
                fixture.client().queue().submit(task("wanted")).await.unwrap();
                let (client, link) = fixture.faulty(FaultPlan::pass().at(number, fault));
                let claimed = client.queue().claim(want("w")).await;
                let calls = link.calls();
                if calls.len() < usize::try_from(number).unwrap() {
                    break;
                }
                let failed = calls[usize::try_from(number).unwrap() - 1];
                if failed.op != StoreMethod::Claim || fault == CallFault::FailBefore {
                    let claimed = claimed.unwrap();
                    assert!(claimed.iter().any(|task| task.id == id("wanted")), "{failed:?} of {calls:?}");
                }
                number += 1;
            }
            assert!(number > 15, "the claim healed in {number} calls");
        }
    }
}

#[tokio::test]
async fn each_claim_heals_a_bounded_number_of_tasks() {
    for fixture in fixtures() {
        let client = fixture.client();
        for n in 0..120 {
            client.queue().submit(strict(&format!("t{n:03}"))).await.unwrap();
        }
        let all = Want { limit: 1_000, ..want("w") };
        assert_eq!(client.queue().claim(all).await.unwrap().len(), 120);
        fixture.clock.advance(10 * SECOND);
        let none = || Want { limit: 0, ..want("w") };
        for expected in [50, 100, 120] {
            client.queue().claim(none()).await.unwrap();
            client.queue().claim(none()).await.unwrap();
            assert_eq!(fixture.count(TaskState::Ready).await, expected, "once a second");
            fixture.clock.advance(SECOND);
        }
    }
}

#[tokio::test]
async fn silent_claimant_frees_its_lane() {
    for fixture in fixtures() {
        let lane = Some(LaneName::new("main").unwrap());
        for name in ["a", "b"] {
            let new = NewTask { lane: lane.clone(), ..strict(name) };
            fixture.client().queue().submit(new).await.unwrap();
            fixture.clock.advance(SECOND);
        }
        assert_eq!(fixture.claim("w1").await[0].id.as_str(), "a");
        assert!(fixture.claim("w2").await.is_empty());
        fixture.clock.advance(10 * SECOND);
        let next = fixture.claim("w2").await;
        assert_eq!(next.len(), 1, "one task of a lane at a time");
        assert_eq!(next[0].id.as_str(), "a", "the order is kept");
    }
}

#[tokio::test]
async fn inconsistent_task_is_reported_and_reclaimed() {
    for fixture in fixtures() {
        let held = task("t").into_task(fixture.clock.now()).claimed("w", fixture.clock.now());
        let flawed = Task { owner: None, ..held };
        assert_eq!(fixture.store.put_task(flawed, Expect::Absent).await.unwrap(), Written::Done);
        let stats = fixture.client().queue().stats().await.unwrap();
        assert_eq!(stats.flaws.len(), 1);
        assert_eq!(stats.flaws[0].flaw, "`owner` must be set exactly while the task is claimed");
        fixture.clock.advance(LEASE);
        assert_eq!(fixture.claim("w").await.len(), 1);
        assert_eq!(fixture.client().queue().stats().await.unwrap().flaws, []);
    }
}

#[tokio::test]
async fn stats_count_tasks_by_state() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        for name in ["a", "b", "c"] {
            queue.submit(task(name)).await.unwrap();
        }
        queue.submit(NewTask { run_at: Millis::NEVER, ..task("d") }).await.unwrap();
        let one = Want { limit: 1, ..want("w") };
        let done = queue.claim(one.clone()).await.unwrap().remove(0);
        queue.complete(&done.id, done.fence, Payload::null()).await.unwrap();
        queue.claim(one).await.unwrap();
        fixture.clock.advance(7 * SECOND);
        let stats = queue.stats().await.unwrap();
        let found = &stats.queues[0];
        assert_eq!((stats.queues.len(), found.queue.as_str(), stats.complete), (1, "merges", true));
        assert_eq!((found.ready, found.due, found.claimed, found.dead), (2, 1, 1, 0));
        assert_eq!((found.oldest_ms, stats.counted), (Some(7_000), 3), "ended tasks are not counted");
    }
}

#[tokio::test]
async fn engine_frees_locks_and_tasks_of_a_crashed_engine() {
    let scratch = Scratch::new();
    let first = scratch.builder().await.start().await.unwrap();
    let name = LockName::new("deploy").unwrap();
    first.client().locks().acquire(&name, "ana", LEASE).await.unwrap();
    first.client().queue().submit(task("t")).await.unwrap();
    let held = first.client().queue().claim(want(first.node_id().as_str())).await.unwrap();
    assert_eq!(held.len(), 1);
    first.crash();
    let config = Config { claim_watch: Duration::from_millis(10), ..Config::default() };
    let second = scratch.builder().await.config(config).start().await.unwrap();
    eventually("the lock is free", || async {
        second.client().locks().get(&name).await.unwrap().is_some_and(|lock| lock.holder.is_none())
    })
    .await;
    eventually("the task is ready", || async {
        second.client().queue().get(&id("t")).await.unwrap().state == TaskState::Ready
    })
    .await;
    second.shutdown().await;
}

#[tokio::test]
async fn shutdown_frees_the_tasks_of_an_engine() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.start().await.unwrap();
    engine.client().queue().submit(task("t")).await.unwrap();
    engine.client().queue().claim(want(engine.node_id().as_str())).await.unwrap();
    let client = scratch.client().await;
    assert!(client.queue().claim(want("w")).await.unwrap().is_empty());
    engine.shutdown().await;
    let fresh = scratch.client().await;
    assert_eq!(fresh.queue().claim(want("w")).await.unwrap()[0].deliveries, 1);
}
