//! An unreadable record fails nothing else: rows count as lost, tasks are omitted, locks count as held, nodes as up,
//! and all of them are listed with a reason.

use std::time::Duration;

use goldseam_core::lock::{Ask, Lock};
use goldseam_core::task::Task;
use goldseam_core::{LockName, Millis, NodeId, Seq, Status};
use goldseam_store::api::{
    Append, ClaimRequest, Expect, LockFilter, NodeRecord, NodeState, RecordKind, Row, RunFilter, TaskChange,
    TaskFilter, Unreadable, Written,
};

use super::Fixture;
use super::damage::{Damage, Garble, Target};
use super::make::{ALL, T, advance, append_with, append_with_row, at, create, run, task, task_id};

/// Creates a run with its row and its own task.
async fn a_run(fixture: &Fixture, name: &str) {
    let tasks = vec![create(Task { run_at: at(1_000), ..advance(name, &format!("own-{name}")) })];
    fixture.append(Append { tasks, ..append_with_row(name, 0) }).await;
}

async fn named(fixture: &Fixture, kind: RecordKind) -> Vec<Unreadable> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = fixture.store.unreadable(kind, after.as_deref(), 3).await.unwrap();
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

fn keys(found: &[Unreadable]) -> Vec<&str> {
    assert!(found.iter().all(|found| !found.reason.is_empty()), "{found:?}");
    found.iter().map(|found| found.key.as_str()).collect()
}

fn run_named(index: u32) -> String {
    format!("r{index}")
}

fn every(limit: u32) -> RunFilter {
    RunFilter { limit, ..RunFilter::default() }
}

async fn garble_row(damage: &dyn Damage, name: &str, how: Garble) {
    damage.garble(Target::Row(&run(name)), how).await;
}

async fn garble_task(damage: &dyn Damage, name: &str, how: Garble) {
    damage.garble(Target::Task(&task_id(name)), how).await;
}

/// The head has no row and gives the reason; the log is unchanged.
pub async fn an_unreadable_row_counts_as_lost(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for (index, how) in Garble::ALL.into_iter().enumerate() {
        let name = format!("r{index}");
        a_run(fixture, &name).await;
        assert_eq!(fixture.head(&name).await.unreadable, None);
        garble_row(&**damage, &name, how).await;
        let head = fixture.head(&name).await;
        assert_eq!((head.end, head.row), (Seq(1), None), "{how:?}");
        assert!(head.unreadable.is_some_and(|reason| !reason.is_empty()), "{how:?}");
        assert_eq!(fixture.log(&name).await.len(), 1);
    }
    assert_eq!(keys(&named(fixture, RecordKind::Row).await), ["r0", "r1", "r2", "r3"]);
}

/// A list of all runs, or the list of rowless runs, names it; the others are listed.
pub async fn an_unreadable_row_is_reported_in_its_list(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for how in Garble::ALL {
        let bad = format!("bad-{how:?}");
        let good = format!("good-{how:?}");
        a_run(fixture, &bad).await;
        a_run(fixture, &good).await;
        garble_row(&**damage, &bad, how).await;
        let page = fixture.store.runs(every(ALL)).await.unwrap();
        let listed: Vec<&str> = page.items.iter().map(|row| row.summary.run.as_str()).collect();
        assert!(listed.contains(&good.as_str()) && !listed.contains(&bad.as_str()), "{how:?}: {listed:?}");
        let active = RunFilter { statuses: vec![Status::Queued], ..every(ALL) };
        let page = fixture.store.runs(active).await.unwrap();
        let lost = fixture.store.rowless(None, ALL).await.unwrap();
        let is_named = keys(&page.unreadable).contains(&bad.as_str()) || lost.contains(&run(&bad));
        assert!(is_named, "{how:?}: {:?} {lost:?}", page.unreadable);
        // The next round begins without it.
        fixture.append(append_with_row(&bad, 1)).await;
    }
    assert_eq!(named(fixture, RecordKind::Row).await, []);
}

/// The next append replaces the row.
pub async fn an_append_replaces_an_unreadable_row(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for how in Garble::ALL {
        let name = format!("r-{how:?}");
        a_run(fixture, &name).await;
        garble_row(&**damage, &name, how).await;
        fixture.append(append_with_row(&name, 1)).await;
        let row = fixture.row(&name).await;
        assert_eq!(row.summary.as_of, Seq(2), "{how:?}");
        assert_eq!(fixture.head(&name).await.unreadable, None, "{how:?}");
        let found = fixture.store.runs(every(ALL)).await.unwrap();
        assert!(found.items.contains(&row) && found.unreadable.is_empty(), "{how:?}: {found:?}");
    }
}

/// An unreadable row counts as absent for a compare-and-set.
pub async fn put_row_replaces_an_unreadable_row(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for how in Garble::ALL {
        let name = format!("r-{how:?}");
        a_run(fixture, &name).await;
        let row = fixture.row(&name).await;
        garble_row(&**damage, &name, how).await;
        let again = Row { task: Some(task_id("another")), ..row.clone() };
        assert_eq!(fixture.store.put_row(again, Expect::Absent).await.unwrap(), Written::Done, "{how:?}");
        let now = fixture.row(&name).await;
        assert_eq!((now.summary, now.task), (row.summary, Some(task_id("another"))), "{how:?}");
        let late = fixture.store.put_row(fixture.row(&name).await, Expect::Absent).await.unwrap();
        assert!(matches!(late, Written::Lost(Some(_))), "{how:?}: {late:?}");
    }
}

/// Unreadable rows take places in a page, and hide no later rows.
pub async fn pages_continue_after_unreadable_rows(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for index in 0..7 {
        a_run(fixture, &run_named(index)).await;
    }
    for index in [0, 1, 2, 5] {
        garble_row(&**damage, &run_named(index), Garble::Torn).await;
    }
    for order in [goldseam_store::RunOrder::Oldest, goldseam_store::RunOrder::Newest] {
        let mut listed = Vec::new();
        let mut bad = Vec::new();
        let mut after = None;
        loop {
            let page = fixture.store.runs(RunFilter { order, after, ..every(2) }).await.unwrap();
            listed.extend(page.items.iter().map(|row| row.summary.run.as_str().to_owned()));
            bad.extend(page.unreadable.iter().map(|found| found.key.clone()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        listed.sort_unstable();
        bad.sort_unstable();
        assert_eq!(listed, [3, 4, 6].map(run_named), "{order:?}");
        assert_eq!(bad, [0, 1, 2, 5].map(run_named), "{order:?}");
    }
}

/// No filter lists it, and it can be found by its name.
pub async fn an_unreadable_task_is_omitted_and_hides_no_other(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for (index, how) in Garble::ALL.into_iter().enumerate() {
        fixture.submit(task(&format!("t{index}"))).await;
        fixture.submit(task(&format!("good{index}"))).await;
        garble_task(&**damage, &format!("t{index}"), how).await;
    }
    let filters = [
        TaskFilter::default(),
        TaskFilter { open: true, ..TaskFilter::default() },
        TaskFilter { queue: Some(task("x").queue.as_str().to_owned()), ..TaskFilter::default() },
    ];
    for filter in filters {
        let listed = fixture.store.tasks(TaskFilter { limit: ALL, ..filter.clone() }).await.unwrap();
        let ids: Vec<&str> = listed.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["good0", "good1", "good2", "good3"], "{filter:?}");
    }
    for index in 0..4 {
        assert_eq!(fixture.find(&format!("t{index}")).await, None);
    }
    let found = named(fixture, RecordKind::Task).await;
    assert_eq!(keys(&found), ["t0", "t1", "t2", "t3"]);
    assert!(found.iter().all(|found| !found.advance));
}

/// A page is full unless it is the last one, whatever is unreadable.
pub async fn pages_of_tasks_continue_after_unreadable_ones(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for index in 0..8 {
        fixture.submit(task(&format!("t{index}"))).await;
    }
    for index in [0, 1, 2, 5] {
        garble_task(&**damage, &format!("t{index}"), Garble::Torn).await;
    }
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page =
            fixture.store.tasks(TaskFilter { after, limit: 2, ..TaskFilter::default() }).await.unwrap();
        listed.extend(page.iter().map(|task| task.id.as_str().to_owned()));
        after = page.last().map(|task| task.id.clone());
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(listed, ["t3", "t4", "t6", "t7"]);
}

/// Later tasks of the queue are claimed, also one at a time.
pub async fn an_unreadable_task_is_never_claimed_and_blocks_none(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for (index, how) in Garble::ALL.into_iter().enumerate() {
        let bad = Task { priority: 9, ..task(&format!("bad{index}")) };
        fixture.submit(bad).await;
        garble_task(&**damage, &format!("bad{index}"), how).await;
    }
    for index in 0..3 {
        fixture.submit(task(&format!("good{index}"))).await;
    }
    let mut claimed = Vec::new();
    // A store that sets unreadable tasks aside may need one claim for each of them.
    for _ in 0..10 {
        let claim = ClaimRequest {
            owner: "w".to_owned(),
            pools: vec![task("x").pool()],
            kind: None,
            limit: 1,
            now: T + Duration::from_secs(1),
        };
        let tasks = fixture.store.claim(claim).await.unwrap().tasks;
        claimed.extend(tasks.iter().map(|task| task.id.as_str().to_owned()));
    }
    claimed.sort_unstable();
    assert_eq!(claimed, ["good0", "good1", "good2"]);
    let found = named(fixture, RecordKind::Task).await;
    assert_eq!(keys(&found), ["bad0", "bad1", "bad2", "bad3"], "they stay for inspection");
}

/// An unreadable advance task names its run; the append that creates a new one removes it.
pub async fn a_new_advance_task_supersedes_an_unreadable_one(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for how in Garble::ALL {
        let name = format!("r-{how:?}");
        let old = format!("own-{name}");
        let new = format!("new-{name}");
        a_run(fixture, &name).await;
        garble_task(&**damage, &old, how).await;
        assert_eq!(fixture.find(&old).await, None, "{how:?}");
        let changes = vec![TaskChange::Remove { task: task_id(&old) }, create(advance(&name, &new))];
        fixture.append(append_with(&name, 1, changes)).await;
        assert_eq!(fixture.row(&name).await.task, Some(task_id(&new)), "{how:?}");
        assert!(fixture.find(&new).await.is_some(), "{how:?}");
        assert_eq!(named(fixture, RecordKind::Task).await, [], "{how:?}");
    }
}

async fn hold(fixture: &Fixture, name: &str) -> (LockName, Lock) {
    let name = LockName::new(name).unwrap();
    let ask = Ask { name: &name, holder: "h", node: None, ttl: Duration::from_secs(9) };
    let lock = Lock::acquired(None, ask, T).unwrap();
    fixture.store.put_lock(lock.clone(), Expect::Absent).await.unwrap();
    (name, lock)
}

/// Lists show it as held and never expired, and nothing overwrites it.
pub async fn an_unreadable_lock_counts_as_held(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    let (_, good) = hold(fixture, "good").await;
    for (index, how) in Garble::ALL.into_iter().enumerate() {
        let (name, lock) = hold(fixture, &format!("bad{index}")).await;
        damage.garble(Target::Lock(&name), how).await;
        let by_name = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
        let found = fixture.store.locks(by_name).await.unwrap();
        assert_eq!(found, [Unreadable::lock(name.clone())], "{how:?}");
        for expect in [Expect::Absent, Expect::Version(lock.version + 7)] {
            let written = fixture.store.put_lock(lock.clone(), expect).await.unwrap();
            assert!(matches!(written, Written::Lost(_)), "{how:?}: {written:?}");
        }
    }
    let all = fixture.store.locks(LockFilter { limit: ALL, ..LockFilter::default() }).await.unwrap();
    assert_eq!((all.len(), all.last()), (5, Some(&good)));
    let stale = LockFilter { stale_at: Some(Millis(T.0 + 3_600_000)), limit: ALL, ..LockFilter::default() };
    let stale = fixture.store.locks(stale).await.unwrap();
    assert!(stale.contains(&good));
    assert!(stale.iter().all(|lock| *lock == good || Unreadable::is_lock(lock)));
    assert_eq!(keys(&named(fixture, RecordKind::Lock).await), ["bad0", "bad1", "bad2", "bad3"]);
}

/// A node keeps everything although its state is unknown to this build. Its next beat restores its record.
pub async fn an_unreadable_node_counts_as_up(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    let node = |id: &str| NodeRecord {
        id: NodeId::new(id).unwrap(),
        name: "host".to_owned(),
        started_at: T,
        workflows: vec!["w@1".to_owned()],
        slots: 1,
        timing: None,
        state: NodeState::Up,
    };
    fixture.store.beat(&node("good")).await.unwrap();
    for how in Garble::ALL {
        let bad = node(&format!("bad-{how:?}"));
        fixture.store.beat(&bad).await.unwrap();
        damage.garble(Target::Node(&bad.id), how).await;
        let seen = fixture.store.nodes().await.unwrap();
        let found = seen.iter().find(|seen| seen.record.id == bad.id).unwrap();
        assert_eq!(found.record.state, NodeState::Up, "{how:?}");
        assert!(!found.is_gone(), "{how:?}");
        assert_eq!(keys(&named(fixture, RecordKind::Node).await), [bad.id.as_str()], "{how:?}");
        fixture.store.beat(&bad).await.unwrap();
        let seen = fixture.store.nodes().await.unwrap();
        assert!(seen.iter().any(|seen| seen.record == bad), "{how:?}: {seen:?}");
        assert_eq!(named(fixture, RecordKind::Node).await, [], "{how:?}");
    }
}

/// A store without unreadable records lists none.
pub async fn readable_records_are_not_reported(fixture: &Fixture) {
    a_run(fixture, "r").await;
    a_run(fixture, "s").await;
    fixture.submit(Task { key: Some("k".to_owned()), ..task("mine") }).await;
    hold(fixture, "l").await;
    for kind in RecordKind::ALL {
        assert_eq!(named(fixture, kind).await, [], "{kind:?}");
    }
    let page = fixture.store.runs(every(ALL)).await.unwrap();
    assert_eq!((page.items.len(), page.unreadable.len()), (2, 0));
}
