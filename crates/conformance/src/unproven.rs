//! Unproven runs: a store may leave out only runs that their row and their advance task prove to be well.

use std::time::Duration;

use goldseam_core::summary::OpenWait;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, NodeId, Path, QueueName, Seq, Status, Summary, TaskId};
use goldseam_store::api::{
    Append, Expect, RecordKind, TaskChange, TaskFilter, Unproven, UnprovenFilter, UnprovenScope, Unreadable,
};

use super::Fixture;
use super::damage::{Garble, Target};
use super::make::{ALL, advance, append, append_with_row, at, create, run, summary};

/// The live node of the cases, with `checkout@1`.
const NODE: &str = "n-alive";

fn filter(scope: UnprovenScope, now: Millis) -> UnprovenFilter {
    let kinds = vec![Task::advance_kind("checkout", 1), Task::advance_kind("checkout", 0)];
    UnprovenFilter {
        scope,
        now,
        alive: vec![NODE.to_owned()],
        kinds,
        after: None,
        limit: ALL,
        found_max: None,
    }
}

fn names(found: &Unproven) -> Vec<String> {
    let unreadable = found.unreadable.iter().map(|row| row.key.clone());
    let mut names: Vec<String> =
        found.rows.iter().map(|row| row.summary.run.as_str().to_owned()).chain(unreadable).collect();
    names.sort();
    names
}

/// The unproven runs of a scope at `at(100)`.
async fn unproven(fixture: &Fixture, scope: UnprovenScope) -> Vec<String> {
    names(&fixture.store.unproven(filter(scope, at(100))).await.unwrap())
}

fn wait(due: Option<Millis>) -> OpenWait {
    OpenWait {
        path: Path::new("nap").unwrap(),
        since: at(0),
        signals: vec![],
        schemas: Default::default(),
        inputs: vec![],
        children: vec![],
        tasks: vec![],
        due,
    }
}

fn own(name: &str) -> TaskId {
    Task::advance_id(&run(name), 1)
}

/// A run that sleeps until `at(1_000)`, as `change` changes its row and its task.
async fn add(fixture: &Fixture, name: &str, change: impl FnOnce(&mut Summary, &mut Task)) {
    let mut row =
        Summary { status: Status::Sleeping, waits: vec![wait(Some(at(1_000)))], ..summary(name, 1) };
    let mut task = Task { id: own(name), run_at: at(1_000), ..advance(name, "t") };
    change(&mut row, &mut task);
    let tasks = vec![create(task)];
    fixture.append(Append { tasks, row: Some(Box::new(row)), ..append_with_row(name, 0) }).await;
}

fn ordinary(_: &mut Summary, _: &mut Task) {}

/// What a store leaves out is counted; what it cannot prove is returned. Ended, paused and parked runs are neither.
pub async fn every_active_run_is_returned_or_counted_once(fixture: &Fixture) {
    for n in 0..7 {
        add(fixture, &format!("r{n}"), ordinary).await;
    }
    add(fixture, "odd", |row, _| row.mail_unread = 1).await;
    add(fixture, "ended", |row, _| {
        (row.status, row.waits, row.finished_at) = (Status::Completed, vec![], Some(at(1)));
    })
    .await;
    add(fixture, "parked", |row, _| (row.status, row.parked) = (Status::Parked, true)).await;
    for limit in [1, 3, 8, ALL] {
        let mut counted = 0;
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let wanted = UnprovenFilter { after, limit, ..filter(UnprovenScope::Every, at(100)) };
            let page = fixture.store.unproven(wanted).await.unwrap();
            counted += page.skipped + page.rows.len() as u64;
            found.extend(names(&page));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(counted, 8, "pages of {limit}");
        assert!(found.contains(&"odd".to_owned()), "pages of {limit}: {found:?}");
        assert!(!found.iter().any(|name| name == "ended" || name == "parked"), "{found:?}");
    }
    let none = UnprovenFilter { limit: 0, ..filter(UnprovenScope::Every, at(100)) };
    assert!(fixture.store.unproven(none).await.unwrap().rows.is_empty());
}

/// A page that ends early because it has found enough loses no run, and no later page returns a run again.
pub async fn a_bound_on_unproven_runs_ends_a_page_early(fixture: &Fixture) {
    for n in 0..6 {
        add(fixture, &format!("odd-{n}"), |row, _| row.mail_unread = 1).await;
        add(fixture, &format!("lost-{n}"), |row, _| {
            (row.status, row.waits, row.owner) =
                (Status::Running, vec![], Some(NodeId::new("n-lost").unwrap()));
        })
        .await;
        add(fixture, &format!("well-{n}"), ordinary).await;
    }
    for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
        let expected = unproven(fixture, scope).await;
        for max in [1, 2, 5, 100] {
            let mut found = Vec::new();
            let mut after = None;
            loop {
                let wanted = UnprovenFilter { after, found_max: Some(max), ..filter(scope, at(100)) };
                let page = fixture.store.unproven(wanted).await.unwrap();
                assert!(page.rows.len() < 2 * max as usize, "{scope:?}, at most {max}: {:?}", names(&page));
                found.extend(names(&page));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, expected, "{scope:?}, at most {max}");
        }
    }
}

/// A store that proves anything proves these.
pub async fn runs_that_are_proven_to_be_well_are_left_out(fixture: &Fixture) {
    if !fixture.store.watches() {
        return;
    }
    add(fixture, "sleeps", ordinary).await;
    add(fixture, "listens", |row, task| {
        let signals = vec![goldseam_core::SignalName::new("go").unwrap()];
        (row.status, row.waits) = (Status::Waiting, vec![OpenWait { signals, ..wait(None) }]);
        task.run_at = Millis::NEVER;
    })
    .await;
    add(fixture, "two-waits", |row, _| row.waits.push(wait(Some(at(2_000))))).await;
    add(fixture, "queued", |row, task| {
        (row.status, row.waits, task.run_at) = (Status::Queued, vec![], at(50));
    })
    .await;
    add(fixture, "owned", |row, task| {
        row.owner = Some(NodeId::new(NODE).unwrap());
        (row.status, row.waits) = (Status::Running, vec![]);
        *task = task.clone().claimed(NODE, at(1));
    })
    .await;
    add(fixture, "claimed", |row, task| {
        (row.status, row.waits) = (Status::Queued, vec![]);
        *task = task.clone().claimed(NODE, at(1));
    })
    .await;
    for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
        assert!(unproven(fixture, scope).await.is_empty(), "{scope:?}");
    }
    // The same runs without a live node.
    let alone = UnprovenFilter { alive: vec![], kinds: vec![], ..filter(UnprovenScope::Every, at(100)) };
    let found = names(&fixture.store.unproven(alone.clone()).await.unwrap());
    assert_eq!(found, ["claimed", "owned", "queued"]);
    let watched = UnprovenFilter { scope: UnprovenScope::Watched, ..alone };
    assert_eq!(names(&fixture.store.unproven(watched).await.unwrap()), found, "found by indexes");
}

/// A due run is well if a live node claims its kind from its queue.
pub async fn a_due_run_is_unproven_if_no_live_node_takes_its_queue(fixture: &Fixture) {
    if !fixture.store.watches() {
        return;
    }
    let mut kind = String::new();
    for name in ["default", "images"] {
        add(fixture, name, |row, task| {
            (row.status, row.waits, task.run_at) = (Status::Queued, vec![], at(50));
            row.queue = QueueName::new(name).unwrap();
            task.queue = row.queue.clone();
            kind = task.kind.clone();
        })
        .await;
    }
    let pool = |queue: &str| Task::pool_of(&QueueName::new(queue).unwrap(), Some(&kind));
    for (kinds, unproven) in [
        (vec![pool("default"), pool("images")], vec![]),
        (vec![pool("default")], vec!["images"]),
        (vec![pool("mail"), pool("image")], vec!["default", "images"]),
        (vec![pool("mail"), kind.clone()], vec![]),
    ] {
        for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
            let seen = UnprovenFilter { kinds: kinds.clone(), ..filter(scope, at(100)) };
            let found = names(&fixture.store.unproven(seen).await.unwrap());
            assert_eq!(found, unproven, "{scope:?}: {kinds:?}");
        }
    }
}

/// A run whose deadline has passed is found by every sweep, unless a live node has its code and will claim it.
pub async fn a_run_past_its_deadline_is_unproven_without_its_code(fixture: &Fixture) {
    for (name, deadline) in [("late", 50), ("early", 500)] {
        add(fixture, name, |row, task| {
            let signals = vec![goldseam_core::SignalName::new("go").unwrap()];
            (row.status, row.waits) = (Status::Waiting, vec![OpenWait { signals, ..wait(None) }]);
            (row.deadline, task.run_at) = (Some(at(deadline)), at(deadline));
        })
        .await;
    }
    for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
        let alone = UnprovenFilter { alive: vec![], kinds: vec![], ..filter(scope, at(100)) };
        let found = names(&fixture.store.unproven(alone).await.unwrap());
        assert!(found.contains(&"late".to_owned()), "{scope:?}: {found:?}");
        if fixture.store.watches() {
            assert_eq!(found, ["late"], "{scope:?}");
            assert!(unproven(fixture, scope).await.is_empty(), "{scope:?}: a node will claim it");
        }
    }
}

/// A store without indexes also returns paused and parked runs whose deadline has passed.
pub async fn stopped_runs_past_their_deadline_are_found(fixture: &Fixture) {
    for (name, deadline) in [("late", Some(50)), ("early", Some(500)), ("open", None)] {
        add(fixture, name, |row, task| {
            (row.status, row.parked, row.deadline) = (Status::Parked, true, deadline.map(at));
            task.run_at = deadline.map_or(Millis::NEVER, at);
        })
        .await;
    }
    let expected: &[&str] = if fixture.store.watches() { &[] } else { &["late"] };
    for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
        assert_eq!(unproven(fixture, scope).await, expected, "{scope:?}");
    }
}

/// Whatever is wrong with the row is unproven, and every sweep sees it.
pub async fn an_unusual_row_is_unproven(fixture: &Fixture) {
    add(fixture, "mail", |row, _| row.mail_unread = 1).await;
    add(fixture, "cancel", |row, _| row.cancel = Some("enough".to_owned())).await;
    add(fixture, "incoherent", |row, _| row.status = Status::Waiting).await;
    add(fixture, "no-wait", |row, _| row.waits.clear()).await;
    add(fixture, "lost-owner", |row, _| row.owner = Some(NodeId::new("n-lost").unwrap())).await;
    add(fixture, "compensating", |row, _| {
        (row.status, row.compensating) = (Status::Compensating, true);
    })
    .await;
    let expected = ["cancel", "compensating", "incoherent", "lost-owner", "mail", "no-wait"];
    for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
        assert_eq!(unproven(fixture, scope).await, expected, "{scope:?}");
    }
}

/// A task that does not wake the run in time makes it unproven.
pub async fn a_run_without_a_task_that_wakes_it_is_unproven(fixture: &Fixture) {
    add(fixture, "ended-task", |_, task| task.state = TaskState::Completed).await;
    add(fixture, "late-task", |_, task| task.run_at = at(1_001)).await;
    add(fixture, "other-kind", |_, task| task.kind = Task::advance_kind("checkout", 2)).await;
    add(fixture, "lost-claimant", |_, task| *task = task.clone().claimed("n-lost", at(1))).await;
    let row = Summary { status: Status::Sleeping, waits: vec![wait(None)], ..summary("no-task", 1) };
    fixture.append(Append { row: Some(Box::new(row)), ..append_with_row("no-task", 0) }).await;
    add(fixture, "removed", ordinary).await;
    fixture
        .append(Append {
            tasks: vec![TaskChange::Remove { task: own("removed") }],
            ..append("removed", 1, &["b"])
        })
        .await;
    let all = ["ended-task", "lost-claimant", "late-task", "no-task", "other-kind", "removed"];
    let mut all: Vec<&str> = all.to_vec();
    all.sort_unstable();
    assert_eq!(unproven(fixture, UnprovenScope::Every).await, all);
    let watched = unproven(fixture, UnprovenScope::Watched).await;
    for name in ["lost-claimant", "no-task"] {
        assert!(watched.contains(&name.to_owned()), "{name}: {watched:?}");
    }
    // Once its timer is due, every sweep sees a run whose task comes too late.
    let later = fixture.store.unproven(filter(UnprovenScope::Watched, at(1_000))).await.unwrap();
    assert!(names(&later).contains(&"late-task".to_owned()), "{:?}", names(&later));
}

/// A row that is behind its log is unproven.
pub async fn a_late_row_is_unproven(fixture: &Fixture) {
    add(fixture, "late", ordinary).await;
    fixture.append(append("late", 1, &["b"])).await;
    assert_eq!(unproven(fixture, UnprovenScope::Every).await, ["late"]);
}

/// A parent whose child has ended may have missed it.
pub async fn a_parent_of_an_ended_child_is_unproven(fixture: &Fixture) {
    let waits_for = |child: &'static str| {
        move |row: &mut Summary, task: &mut Task| {
            let children = vec![run(child)];
            (row.status, row.waits) = (Status::Waiting, vec![OpenWait { children, ..wait(None) }]);
            task.run_at = Millis::NEVER;
        }
    };
    add(fixture, "parent", waits_for("child")).await;
    add(fixture, "child", |row, _| row.parent = Some(run("parent"))).await;
    if fixture.store.watches() {
        assert!(unproven(fixture, UnprovenScope::Every).await.is_empty());
    }
    let ended = Summary {
        status: Status::Completed,
        finished_at: Some(at(2)),
        parent: Some(run("parent")),
        ..summary("child", 2)
    };
    fixture.append(Append { row: Some(Box::new(ended)), ..append("child", 1, &["end"]) }).await;
    assert_eq!(unproven(fixture, UnprovenScope::Every).await, ["parent"]);
}

/// A remote step without a live task, or with a silent worker, is seen by every sweep.
pub async fn a_run_whose_remote_task_is_lost_or_silent_is_unproven(fixture: &Fixture) {
    let step = |name: &str| TaskId::new(format!("s-{:0>32}", name.len())).unwrap();
    for name in ["lost", "queue", "silent"] {
        add(fixture, name, |row, task| {
            let tasks = vec![step(name)];
            (row.status, row.waits) = (Status::Waiting, vec![OpenWait { tasks, ..wait(None) }]);
            task.run_at = Millis::NEVER;
        })
        .await;
    }
    let remote = |name: &str| Task {
        id: step(name),
        kind: "charge".to_owned(),
        silence_max: Some(Duration::from_millis(50)),
        ..advance(name, "s")
    };
    fixture.store.put_task(remote("queue"), Expect::Absent).await.unwrap();
    fixture.store.put_task(remote("silent").claimed("worker", at(1)), Expect::Absent).await.unwrap();
    let left_out = if fixture.store.watches() { vec![] } else { vec!["queue".to_owned()] };
    let mut expected = vec!["lost".to_owned(), "silent".to_owned()];
    expected.extend(left_out);
    expected.sort();
    for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
        assert_eq!(unproven(fixture, scope).await, expected, "{scope:?}");
    }
}

/// An unreadable row or task proves nothing.
pub async fn a_run_with_an_unreadable_row_or_task_is_unproven(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for how in Garble::ALL {
        let by_row = format!("row-{how:?}");
        let by_task = format!("task-{how:?}");
        add(fixture, &by_row, ordinary).await;
        add(fixture, &by_task, ordinary).await;
        damage.garble(Target::Row(&run(&by_row)), how).await;
        damage.garble(Target::Task(&own(&by_task)), how).await;
    }
    let found = unproven(fixture, UnprovenScope::Every).await;
    // A row with an unknown status is found as a run without a row.
    let rowless = fixture.store.rowless(None, ALL).await.unwrap();
    for how in Garble::ALL {
        let by_row = format!("row-{how:?}");
        let is_found = found.contains(&by_row) || rowless.contains(&run(&by_row));
        assert!(is_found, "{by_row}: {found:?}");
        assert!(found.contains(&format!("task-{how:?}")), "task-{how:?}: {found:?}");
    }
    let unreadable = fixture.store.unreadable(RecordKind::Task, None, ALL).await.unwrap().items;
    let keys: Vec<&str> = unreadable.iter().map(|found: &Unreadable| found.key.as_str()).collect();
    for how in Garble::ALL {
        let id = own(&format!("task-{how:?}"));
        assert!(keys.contains(&id.as_str()), "{how:?}: {unreadable:?}");
    }
    let tasks = TaskFilter { limit: ALL, ..TaskFilter::default() };
    assert_eq!(fixture.store.tasks(tasks).await.unwrap().len(), Garble::ALL.len(), "those of the rows");
    assert_eq!(fixture.store.head(&run("row-Torn")).await.unwrap().map(|head| head.end), Some(Seq(1)));
}
