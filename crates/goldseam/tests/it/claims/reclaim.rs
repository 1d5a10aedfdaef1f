//! Tasks of silent and dead claimants.

use std::sync::Arc;
use std::time::Duration;

use goldseam::Payload;
use goldseam::unstable::core::task::{NewTask, Task, TaskState};
use goldseam::unstable::core::{LaneName, LockName};
use goldseam::unstable::engine::claims::ClaimRules;
use goldseam::unstable::store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam::unstable::store::{Expect, Written};

use super::{Fixture, LEASE, SECOND, fixtures, strict, task, want};

#[tokio::test]
async fn claim_reclaims_tasks_of_silent_claimants_first() {
    for fixture in fixtures() {
        let payload = Payload::of(&"diff 7", &goldseam::Limits::default()).unwrap();
        let new = NewTask { priority: 9, key: Some("pr-7".to_owned()), payload, ..task("t") };
        let lane = Some(LaneName::new("main").unwrap());
        fixture.client().queue().submit(NewTask { lane, ..new }).await.unwrap();
        let first = fixture.claim("w1").await.remove(0);
        fixture.clock.advance(LEASE - SECOND);
        assert!(fixture.claim("w2").await.is_empty(), "the lease has not expired");
        fixture.clock.advance(SECOND);
        let second = fixture.claim("w2").await.remove(0);
        assert_eq!((second.owner.as_deref(), second.deliveries), (Some("w2"), 1));
        assert!(second.fence > first.fence && second.started_at == Some(fixture.clock.now()));
        let kept = |task: &Task| {
            (task.id.clone(), task.priority, task.payload.clone(), task.key.clone(), task.lane.clone())
        };
        assert_eq!(kept(&second), kept(&first), "identity, priority and payload are kept");
        assert_eq!(second.audit.len(), 1);
        assert_eq!(second.audit[0].what, "reclaimed from w1: no sign of life for 300000 ms");
    }
}

#[tokio::test]
async fn reclaimed_task_is_ready_without_owner_and_start() {
    for fixture in fixtures() {
        fixture.client().queue().submit(strict("t")).await.unwrap();
        let held = fixture.claim("w").await.remove(0);
        fixture.clock.advance(10 * SECOND);
        let stats = fixture.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!((stats.entries_reclaimed, stats.recovery_timestamp), (1, fixture.clock.now()));
        let back = fixture.task("t").await;
        assert_eq!((back.state, &back.owner, back.started_at), (TaskState::Ready, &None, None));
        assert_eq!((back.heartbeat_at, back.deliveries, back.attempts), (None, 1, 0));
        assert_eq!((back.changed_at, back.version), (fixture.clock.now(), held.version + 1));
        let again = fixture.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!(again.entries_reclaimed, 0, "healing is idempotent");
    }
}

#[tokio::test]
async fn fence_refuses_late_completion_by_an_old_claimant() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(strict("t")).await.unwrap();
        let old = fixture.claim("w1").await.remove(0);
        fixture.clock.advance(10 * SECOND);
        fixture.client().claims().detect_and_recover_stale().await.unwrap();
        let late = queue.complete(&old.id, old.fence, Payload::null()).await.unwrap_err();
        assert_eq!(late.code(), "GS0301", "refused even while the task is unclaimed");
        let new = fixture.claim("w2").await.remove(0);
        for refused in [
            queue.complete(&old.id, old.fence, Payload::null()).await,
            queue.heartbeat(&old.id, old.fence).await,
            queue.release(&old.id, old.fence).await,
        ] {
            assert_eq!(refused.unwrap_err().code(), "GS0301");
        }
        queue.complete(&new.id, new.fence, Payload::null()).await.unwrap();
    }
}

#[tokio::test]
async fn heartbeats_keep_a_long_claim() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(task("leased")).await.unwrap();
        queue.submit(strict("strict")).await.unwrap();
        let held = fixture.claim("w1").await;
        for _ in 0..100 {
            fixture.clock.advance(9 * SECOND);
            for task in &held {
                queue.heartbeat(&task.id, task.fence).await.unwrap();
            }
            assert!(fixture.claim("w2").await.is_empty());
            assert_eq!(fixture.client().claims().recovery_stats().await.unwrap().entries_reclaimed, 0);
        }
        fixture.clock.advance(10 * SECOND);
        assert_eq!(fixture.claim("w2").await[0].id.as_str(), "strict");
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeat_between_read_and_reclaim_keeps_the_claim() {
    let fixture = Fixture::in_memory();
    fixture.client().queue().submit(strict("t")).await.unwrap();
    let held = fixture.claim("w").await.remove(0);
    fixture.clock.advance(10 * SECOND);
    let (healer, link) = fixture.faulty(FaultPlan::pass().at(7, CallFault::Delay(Duration::from_millis(80))));
    let queue = fixture.client().queue();
    let beat = async {
        while link.count() < 7 {
            tokio::task::yield_now().await;
        }
        queue.heartbeat(&held.id, held.fence).await.unwrap();
    };
    let claims = healer.claims();
    let (stats, ()) = tokio::join!(claims.detect_and_recover_stale(), beat);
    assert_eq!(link.calls()[6].op, StoreMethod::PutTask);
    assert_eq!(stats.unwrap().entries_reclaimed, 0);
    queue.complete(&held.id, held.fence, Payload::null()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_that_joins_during_healing_keeps_its_claims() {
    let fixture = Fixture::in_memory();
    for name in ["t", "u"] {
        fixture.client().queue().submit(task(name)).await.unwrap();
    }
    let (healer, link) = fixture.faulty(FaultPlan::pass().at(7, CallFault::Delay(Duration::from_millis(80))));
    let joins = async {
        while link.count() < 7 {
            tokio::task::yield_now().await;
        }
        let node = fixture.process(1).await;
        assert_eq!(fixture.claim(node.id.as_str()).await.len(), 2);
        fixture.lock_through("l", &node.id, LEASE).await;
    };
    let claims = healer.claims();
    let (stats, ()) = tokio::join!(claims.detect_and_recover_stale(), joins);
    assert_eq!(link.calls()[6].op, StoreMethod::Tasks);
    assert_eq!(stats.unwrap().entries_reclaimed, 0);
    assert_eq!(link.calls()[7].op, StoreMethod::Nodes, "the nodes are read again before tasks are judged");
}

#[tokio::test]
async fn reclaims_claimed_tasks_in_every_state() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        for name in ["claimed", "beaten", "poked", "released-and-claimed"] {
            queue.submit(strict(name)).await.unwrap();
        }
        let held = fixture.claim("w").await;
        for task in held {
            match task.id.as_str() {
                "beaten" => drop(queue.heartbeat(&task.id, task.fence).await.unwrap()),
                "poked" => {
                    let expect = Expect::Version(task.version);
                    let poked = Task { poked: true, version: task.version + 1, ..task };
                    assert_eq!(fixture.store.put_task(poked, expect).await.unwrap(), Written::Done);
                }
                "released-and-claimed" => {
                    queue.release(&task.id, task.fence).await.unwrap();
                    assert_eq!(fixture.claim("w").await.len(), 1);
                }
                _ => {}
            }
        }
        fixture.clock.advance(10 * SECOND);
        let stats = fixture.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!((stats.entries_reclaimed, fixture.count(TaskState::Ready).await), (4, 4));
    }
}

#[tokio::test]
async fn task_is_dead_after_too_many_crashed_claimants() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(NewTask { key: Some("k".to_owned()), ..strict("t") }).await.unwrap();
        for crash in 1..=3 {
            assert_eq!(fixture.claim("w").await[0].deliveries, crash - 1);
            fixture.clock.advance(10 * SECOND);
        }
        assert_eq!(fixture.claim("w").await[0].deliveries, 3, "the limit itself is allowed");
        fixture.clock.advance(10 * SECOND);
        assert!(fixture.claim("w").await.is_empty());
        let dead = fixture.task("t").await;
        assert_eq!((dead.state, dead.deliveries, dead.audit.len()), (TaskState::Dead, 4, 4));
        fixture.clock.advance(10 * LEASE);
        assert_eq!(fixture.client().claims().recovery_stats().await.unwrap().entries_reclaimed, 0);
        let next = queue.submit(NewTask { key: Some("k".to_owned()), ..task("u") }).await.unwrap();
        assert_eq!(next.id.as_str(), "u", "a dead task frees its key");
    }
}

#[tokio::test]
async fn lease_and_delivery_limit_are_configurable() {
    for fixture in fixtures() {
        let rules = ClaimRules { lease: 5 * SECOND, deliveries_max: 0 };
        let client = fixture.client().with_claim_rules(rules);
        client.queue().submit(task("t")).await.unwrap();
        client.queue().claim(want("w")).await.unwrap();
        fixture.clock.advance(5 * SECOND);
        assert!(client.queue().claim(want("w")).await.unwrap().is_empty());
        assert_eq!(fixture.task("t").await.state, TaskState::Dead);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_healers_reclaim_each_task_once() {
    for fixture in fixtures() {
        let fixture = Arc::new(fixture);
        for n in 0..60 {
            fixture.client().queue().submit(strict(&format!("t{n}"))).await.unwrap();
            let name = LockName::new(format!("l{n}")).unwrap();
            fixture.client().locks().acquire(&name, "w", SECOND).await.unwrap();
        }
        while !fixture.claim("w").await.is_empty() {}
        fixture.clock.advance(10 * SECOND);
        let healers: Vec<_> = (0..4)
            .map(|_| {
                let client = fixture.client();
                tokio::spawn(async move { client.claims().detect_and_recover_stale().await.unwrap() })
            })
            .collect();
        let mut entries = 0;
        let mut locks = 0;
        for healer in healers {
            let stats = healer.await.unwrap();
            entries += stats.entries_reclaimed;
            locks += stats.locks_cleaned;
        }
        assert_eq!((entries, locks), (60, 60), "each healed by exactly one healer");
        for task in fixture.tasks().await {
            assert_eq!((task.state, task.deliveries, task.audit.len()), (TaskState::Ready, 1, 1));
        }
        assert_eq!(fixture.lock("l7").await.fence, 2);
    }
}

#[tokio::test]
async fn reclaims_at_once_when_node_is_dead_but_not_when_silent() {
    for fixture in fixtures() {
        let silent = fixture.process(1).await;
        let dead = fixture.process(2).await;
        let left = fixture.process(3).await;
        for process in [&silent, &dead, &left] {
            fixture.client().queue().submit(task(&format!("of-{}", process.id))).await.unwrap();
            assert_eq!(fixture.claim(process.id.as_str()).await.len(), 1);
        }
        if let Some(memory) = &fixture.memory {
            memory.silence(&silent.id);
        }
        fixture.clock.advance(10 * LEASE);
        let claims = fixture.client().claims();
        let stats = claims.recovery_stats().await.unwrap();
        assert_eq!(stats.entries_reclaimed, 0, "the beats of the node count as heartbeats");
        dead.die();
        fixture.store.forget(&left.id).await.unwrap();
        assert_eq!(claims.detect_and_recover_stale().await.unwrap().entries_reclaimed, 2);
        let held: Vec<Task> =
            fixture.tasks().await.into_iter().filter(|task| task.state == TaskState::Claimed).collect();
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].owner.as_deref(), Some(silent.id.as_str()));
    }
}
