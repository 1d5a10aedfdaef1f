//! Changes of tasks together with an append.

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, Payload};
use goldseam_store::api::{Append, TaskChange, TaskFilter};

use super::Fixture;
use super::make::{advance, append, append_with, append_with_row, at, create, run, task, task_id};

/// Creates a run with a row and its own advance task `own`, due at `run_at`.
async fn a_run(fixture: &Fixture, name: &str, run_at: Millis) {
    let own = Task { run_at, ..advance(name, &format!("own-{name}")) };
    fixture.append(Append { tasks: vec![create(own)], ..append_with_row(name, 0) }).await;
}

/// The advance task of an append becomes the run's own, and can be claimed.
pub async fn an_advance_task_becomes_the_runs_own(fixture: &Fixture) {
    a_run(fixture, "r", at(0)).await;
    assert_eq!(fixture.row("r").await.task, Some(task_id("own-r")));
    assert_eq!(fixture.task("own-r").await, advance("r", "own-r"));
    assert_eq!(fixture.claim(at(0)).await.tasks.len(), 1);
    fixture.append(append_with("r", 1, vec![create(advance("r", "second"))])).await;
    assert_eq!(fixture.row("r").await.task, Some(task_id("second")), "without a new row too");
}

/// The task of a remote step does not replace the run's own one.
pub async fn an_ordinary_task_does_not_become_the_runs_own(fixture: &Fixture) {
    a_run(fixture, "r", at(0)).await;
    let remote = Task { run: Some(run("r")), ..task("remote") };
    fixture.append(append_with("r", 1, vec![create(remote.clone())])).await;
    assert_eq!(fixture.row("r").await.task, Some(task_id("own-r")));
    assert_eq!(fixture.task("remote").await, remote);
}

/// An append with a row keeps the run's own task.
pub async fn a_row_keeps_its_task_over_appends(fixture: &Fixture) {
    a_run(fixture, "r", at(0)).await;
    fixture.append(append_with_row("r", 1)).await;
    let row = fixture.row("r").await;
    assert_eq!((row.summary.as_of.0, row.task), (2, Some(task_id("own-r"))));
}

/// A second task with the same id does not replace the first, and the append succeeds; the run adopts the first.
pub async fn create_is_ignored_if_the_id_exists(fixture: &Fixture) {
    let first = advance("r", "t");
    fixture.submit(first.clone()).await;
    fixture.append(append_with_row("r", 0)).await;
    let second = Task { priority: 9, payload: Payload::null(), run_at: at(99), ..advance("r", "t") };
    fixture.append(append_with("r", 1, vec![create(second)])).await;
    assert_eq!(fixture.task("t").await, first);
    assert_eq!(fixture.row("r").await.task, Some(task_id("t")));
}

/// No two live tasks share a key, however they were created; the run does not adopt a missing task.
pub async fn create_is_ignored_if_a_live_task_has_the_key(fixture: &Fixture) {
    let key = Some("k".to_owned());
    fixture.submit(Task { key: key.clone(), ..task("first") }).await;
    fixture.append(append_with_row("r", 0)).await;
    let second = Task { key, ..advance("r", "second") };
    fixture.append(append_with("r", 1, vec![create(second.clone())])).await;
    assert_eq!(fixture.find("second").await, None);
    assert_eq!(fixture.row("r").await.task, None);
    let over = fixture.task("first").await;
    let version = over.version;
    fixture.replace(over.cancelled(at(0)).unwrap(), version).await;
    fixture.append(append_with("r", 2, vec![create(second)])).await;
    assert_eq!(fixture.row("r").await.task, Some(task_id("second")));
}

/// A resting task becomes ready at its time, without owner and pokes, and keeps its fence.
pub async fn rest_makes_a_claimed_task_ready(fixture: &Fixture) {
    a_run(fixture, "r", at(0)).await;
    fixture.claim(at(5)).await;
    fixture.append(append_with("r", 1, vec![TaskChange::Wake { at: at(6) }])).await;
    let claimed = fixture.task("own-r").await;
    assert!(claimed.poked);
    let rest = TaskChange::Rest { task: task_id("own-r"), run_at: at(50) };
    fixture.append(append_with("r", 2, vec![rest])).await;
    let rested = fixture.task("own-r").await;
    assert_eq!((rested.state, rested.run_at), (TaskState::Ready, at(50)));
    assert_eq!((&rested.owner, rested.poked, rested.fence), (&None, false, claimed.fence));
    assert!(rested.version > claimed.version);
    assert_eq!(rested.flaw(), None);
    assert!(fixture.claim(at(49)).await.tasks.is_empty());
    assert_eq!(fixture.claim(at(50)).await.tasks[0].fence, claimed.fence + 1);
}

/// A ready task rests until the new time, earlier or later.
pub async fn rest_moves_a_ready_task(fixture: &Fixture) {
    a_run(fixture, "r", at(10)).await;
    for (n, run_at) in [(1, at(20)), (2, at(5)), (3, Millis::NEVER)] {
        let before = fixture.task("own-r").await.version;
        let rest = TaskChange::Rest { task: task_id("own-r"), run_at };
        fixture.append(append_with("r", n, vec![rest])).await;
        let task = fixture.task("own-r").await;
        assert_eq!((task.state, task.run_at), (TaskState::Ready, run_at));
        assert!(task.version > before);
    }
}

/// An ended task is neither revived nor changed.
pub async fn rest_leaves_an_ended_task(fixture: &Fixture) {
    a_run(fixture, "r", at(0)).await;
    let over = fixture.task("own-r").await.cancelled(at(1)).unwrap();
    fixture.replace(over.clone(), over.version - 1).await;
    let rest = TaskChange::Rest { task: task_id("own-r"), run_at: at(50) };
    fixture.append(append_with("r", 1, vec![rest, TaskChange::Wake { at: at(0) }])).await;
    assert_eq!(fixture.task("own-r").await, over);
}

/// Changes of missing tasks do not fail the append.
pub async fn rest_and_remove_of_nothing_are_harmless(fixture: &Fixture) {
    let rested = task_id("a");
    let removed = task_id("b");
    let changes =
        vec![TaskChange::Rest { task: rested, run_at: at(1) }, TaskChange::Remove { task: removed }];
    assert_eq!(fixture.append(append_with("r", 0, changes)).await.0, 1);
    assert_eq!(fixture.find("a").await, None);
}

/// A dormant task becomes due; a task that is due earlier is unchanged.
pub async fn wake_brings_a_ready_task_forward_only(fixture: &Fixture) {
    a_run(fixture, "r", Millis::NEVER).await;
    let dormant = fixture.task("own-r").await;
    fixture.append(append_with("r", 1, vec![TaskChange::Wake { at: at(20) }])).await;
    let woken = fixture.task("own-r").await;
    assert_eq!((woken.run_at, woken.poked), (at(20), false));
    assert!(woken.version > dormant.version);
    for at in [at(20), at(30)] {
        let end = fixture.head("r").await.end.0;
        fixture.append(append_with("r", end, vec![TaskChange::Wake { at }])).await;
        assert_eq!(fixture.task("own-r").await, woken, "a later time changes nothing");
    }
}

/// A claimed task is poked and keeps its claim; a second poke changes nothing; it is found by its poke.
pub async fn wake_pokes_a_claimed_task_once(fixture: &Fixture) {
    a_run(fixture, "r", at(0)).await;
    let claimed = fixture.claim(at(1)).await.tasks.remove(0);
    fixture.append(append_with("r", 1, vec![TaskChange::Wake { at: at(2) }])).await;
    let poked = fixture.task("own-r").await;
    assert!(poked.poked && poked.version > claimed.version);
    assert_eq!((poked.state, &poked.owner, poked.fence), (claimed.state, &claimed.owner, claimed.fence));
    assert_eq!(poked.run_at, claimed.run_at);
    fixture.append(append_with("r", 2, vec![TaskChange::Wake { at: at(3) }])).await;
    assert_eq!(fixture.task("own-r").await, poked);
    let filter = TaskFilter { poked: true, ..super::make::any_task() };
    for _ in 0..2 {
        let found = fixture.store.tasks(filter.clone()).await.unwrap();
        assert_eq!(found, std::slice::from_ref(&poked), "listing clears nothing");
    }
}

/// Without a row or without a task there is nothing to wake, and the append succeeds.
pub async fn wake_without_a_task_is_harmless(fixture: &Fixture) {
    let wake = || vec![TaskChange::Wake { at: at(0) }];
    fixture.append(append_with("r", 0, wake())).await;
    fixture.append(append_with_row("r", 1)).await;
    fixture.append(append_with("r", 2, wake())).await;
    a_run(fixture, "r2", at(9)).await;
    let remove = TaskChange::Remove { task: task_id("own-r2") };
    fixture.append(append_with("r2", 1, vec![remove])).await;
    fixture.append(append_with("r2", 2, wake())).await;
    assert_eq!(fixture.find("own-r2").await, None);
}

/// Only the run's own task is woken: no other task of the run, no other run.
pub async fn wake_leaves_other_tasks_alone(fixture: &Fixture) {
    a_run(fixture, "r", at(50)).await;
    a_run(fixture, "r2", at(50)).await;
    fixture.submit(Task { run: Some(run("r")), run_at: at(50), ..task("remote") }).await;
    fixture.submit(Task { run_at: at(50), ..advance("r", "superseded") }).await;
    fixture.append(append_with("r", 1, vec![TaskChange::Wake { at: at(1) }])).await;
    assert_eq!(fixture.task("own-r").await.run_at, at(1));
    for other in ["own-r2", "remote", "superseded"] {
        assert_eq!(fixture.task(other).await.run_at, at(50), "{other}");
    }
}

/// A cancelled task has ended for its claimant, and its key is free; an ended one is unchanged.
pub async fn cancel_ends_a_live_task_only(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    for (n, claimed) in [(1, false), (2, true)] {
        let name = format!("t{n}");
        fixture.submit(Task { key: Some("k".to_owned()), ..task(&name) }).await;
        if claimed {
            assert_eq!(fixture.claim(at(0)).await.tasks.len(), 1);
        }
        let before = fixture.task(&name).await;
        fixture.append(append_with("r", n, vec![TaskChange::Cancel { task: task_id(&name) }])).await;
        let over = fixture.task(&name).await;
        assert_eq!((over.state, &over.owner, over.fence), (TaskState::Cancelled, &None, before.fence));
        assert!(over.version > before.version);
        assert_eq!(over.flaw(), None);
    }
    let done = fixture.task("t2").await;
    let again =
        vec![TaskChange::Cancel { task: task_id("t2") }, TaskChange::Cancel { task: task_id("none") }];
    fixture.append(append_with("r", 3, again)).await;
    assert_eq!(fixture.task("t2").await, done);
    assert!(fixture.claim(at(9)).await.tasks.is_empty());
}

/// A removed task is gone, ready or claimed, and its id and key are free.
pub async fn remove_takes_the_task_away(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    for (n, claimed) in [(1, false), (2, true)] {
        fixture.submit(Task { key: Some("k".to_owned()), ..task("t") }).await;
        if claimed {
            assert_eq!(fixture.claim(at(0)).await.tasks.len(), 1);
        }
        fixture.append(append_with("r", n, vec![TaskChange::Remove { task: task_id("t") }])).await;
        assert_eq!(fixture.find("t").await, None);
    }
    let claimed = fixture.claim(at(9)).await;
    assert_eq!((claimed.tasks.len(), claimed.next_due), (0, None));
}

/// Several changes of one append apply in order.
pub async fn changes_apply_in_order(fixture: &Fixture) {
    a_run(fixture, "r", at(50)).await;
    let changes = vec![
        TaskChange::Remove { task: task_id("own-r") },
        create(Task { run_at: Millis::NEVER, ..advance("r", "next") }),
        TaskChange::Wake { at: at(7) },
        create(task("t")),
        TaskChange::Rest { task: task_id("t"), run_at: at(8) },
    ];
    fixture.append(Append { tasks: changes, ..append_with_row("r", 1) }).await;
    assert_eq!(fixture.row("r").await.task, Some(task_id("next")));
    assert_eq!(fixture.find("own-r").await, None);
    assert_eq!(fixture.task("next").await.run_at, at(7));
    assert_eq!(fixture.task("t").await.run_at, at(8));
}
