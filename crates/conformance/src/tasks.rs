//! Tasks as records: compare-and-set, keys, lists.

use std::time::Duration;

use goldseam_core::task::{Audit, Task, TaskState, TaskStep};
use goldseam_core::{Class, Failure, LaneName, Limits, Path, Payload, QueueName, TraceContext};
use goldseam_store::api::{Expect, TaskFilter, Written};

use super::Fixture;
use super::make::{advance, any_task, at, names, run, task, task_id};

/// A task is written only over the expected version, and the loser gets the present task.
pub async fn put_task_compares_and_sets(fixture: &Fixture) {
    let first = task("t");
    let put = |task: &Task, expect| fixture.store.put_task(task.clone(), expect);
    assert_eq!(put(&first, Expect::Version(1)).await.unwrap(), Written::Lost(None));
    assert_eq!(fixture.find("t").await, None);
    assert_eq!(put(&first, Expect::Absent).await.unwrap(), Written::Done);
    let second = Task { priority: 5, version: 2, ..first.clone() };
    assert_eq!(put(&second, Expect::Absent).await.unwrap(), Written::Lost(Some(first.clone())));
    assert_eq!(put(&second, Expect::Version(2)).await.unwrap(), Written::Lost(Some(first.clone())));
    assert_eq!(put(&second, Expect::Version(1)).await.unwrap(), Written::Done);
    assert_eq!(put(&second, Expect::Version(1)).await.unwrap(), Written::Lost(Some(second.clone())));
    assert_eq!(fixture.task("t").await, second);
}

/// Of many writers with the same version, one succeeds.
pub async fn one_of_two_put_tasks_wins(fixture: &Fixture) {
    fixture.submit(task("t")).await;
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let store = fixture.shared();
            let changed = Task { priority: n, version: 2, ..task("t") };
            tokio::spawn(async move { store.put_task(changed, Expect::Version(1)).await.unwrap() })
        })
        .collect();
    let mut done = 0;
    for writer in writers {
        done += usize::from(writer.await.unwrap() == Written::Done);
    }
    assert_eq!(done, 1);
}

/// A task comes back with all its fields.
pub async fn a_task_is_kept_exactly(fixture: &Fixture) {
    let payload = |text| Payload::parse(text, &Limits::default()).unwrap();
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = TraceContext::read(traceparent, Some("vendor=a 'b'"));
    let rich = Task {
        kind: "mail/ä 'x' \"y\"".to_owned(),
        lane: Some(LaneName::new("l").unwrap()),
        priority: i32::MIN,
        key: Some("k: 🏺 %".to_owned()),
        run: Some(run("r")),
        step: Some(TaskStep {
            path: Path::new("g/resize:a#2").unwrap(),
            attempt: 3,
            key: "ä".to_owned(),
            trace,
        }),
        payload: payload(r#"{"b":[1,2.50,"\u0000"],"a":null}"#),
        result: Some(payload("\"done\"")),
        failure: Some(Failure::new(Class::Retryable, "no\nluck")),
        deliveries: 2,
        attempts: 1,
        attempts_max: u32::MAX,
        silence_max: Some(Duration::from_millis(1_500)),
        audit: vec![
            Audit::new(at(3), "was ‘here’"),
            Audit { details: Some(Payload::null()), ..Audit::new(at(4), "heartbeat") },
        ],
        ..task("t").claimed("worker 'two'", at(5))
    };
    let rich = Task { poked: true, heartbeat_at: Some(at(7)), changed_at: at(8), ..rich };
    fixture.submit(rich.clone()).await;
    assert_eq!(fixture.task("t").await, rich);
    let plain = Task { version: rich.version + 1, ..task("t") };
    fixture.replace(plain.clone(), rich.version).await;
    assert_eq!(fixture.task("t").await, plain, "the old record is replaced completely");
}

/// A key blocks a second live task, and is free once the first has ended.
pub async fn a_key_matches_only_live_tasks(fixture: &Fixture) {
    let keyed = |name| Task { key: Some("k".to_owned()), ..task(name) };
    fixture.submit(keyed("first")).await;
    let second = fixture.store.put_task(keyed("second"), Expect::Absent).await.unwrap();
    assert_eq!(second, Written::Lost(Some(keyed("first"))));
    fixture.submit(task("unkeyed")).await;
    fixture.submit(Task { key: Some("K".to_owned()), ..task("other-key") }).await;
    let claim = super::make::claim_at(at(0));
    let claimed =
        fixture.store.claim(claim).await.unwrap().tasks.into_iter().find(|t| t.id.as_str() == "first");
    let claimed = claimed.unwrap();
    let second = fixture.store.put_task(keyed("second"), Expect::Absent).await.unwrap();
    assert_eq!(second, Written::Lost(Some(claimed.clone())), "a claimed task is live");
    let fence = claimed.fence;
    let version = claimed.version;
    fixture.replace(claimed.completed(fence, Payload::null(), at(1)).unwrap(), version).await;
    fixture.submit(keyed("second")).await;
    let filter = TaskFilter { key: Some("k".to_owned()), ..any_task() };
    assert_eq!(names(&fixture.store.tasks(filter).await.unwrap()), ["second"]);
    fixture.submit(Task { state: TaskState::Dead, ..keyed("dead") }).await;
}

/// Of many concurrent submissions with one key, one succeeds and the others get its task.
pub async fn one_of_many_tasks_with_a_key_wins(fixture: &Fixture) {
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let store = fixture.shared();
            let keyed = Task { key: Some("k".to_owned()), ..task(&format!("t{n}")) };
            tokio::spawn(async move { store.put_task(keyed, Expect::Absent).await.unwrap() })
        })
        .collect();
    let mut done = 0;
    let mut lost_to = vec![];
    for writer in writers {
        match writer.await.unwrap() {
            Written::Done => done += 1,
            Written::Lost(winner) => lost_to.push(winner.unwrap().id),
        }
    }
    let all = fixture.store.tasks(any_task()).await.unwrap();
    assert_eq!((done, all.len(), lost_to.len()), (1, 1, 7));
    assert!(lost_to.iter().all(|id| *id == all[0].id));
}

/// An ended task cannot be revived beside a live one with its key.
pub async fn a_revived_task_loses_to_a_live_one_with_its_key(fixture: &Fixture) {
    let keyed = |name| Task { key: Some("k".to_owned()), ..task(name) };
    let dead = Task { state: TaskState::Dead, ..keyed("old") };
    fixture.submit(dead.clone()).await;
    fixture.submit(keyed("new")).await;
    let revived = Task { version: 2, ..keyed("old") };
    let put = fixture.store.put_task(revived, Expect::Version(1)).await.unwrap();
    assert_eq!(put, Written::Lost(Some(keyed("new"))));
    assert_eq!(fixture.task("old").await, dead);
    let noted = Task { version: 2, attempts: 3, ..dead };
    fixture.replace(noted, 1).await;
}

async fn a_mixed_queue(fixture: &Fixture) {
    fixture.submit(Task { key: Some("k".to_owned()), ..task("a-keyed") }).await;
    fixture.submit(Task { run: Some(run("r")), ..task("b-of-run") }).await;
    fixture.submit(task("c-claimed").claimed("n2", at(0))).await;
    fixture.submit(Task { poked: true, ..advance("r2", "d-poked").claimed("n1", at(0)) }).await;
    fixture.submit(Task { queue: QueueName::new("slow").unwrap(), ..task("e-slow") }).await;
    fixture.submit(Task { state: TaskState::Dead, key: Some("k2".to_owned()), ..task("f-dead") }).await;
    fixture.submit(advance("r", "g-advance")).await;
    fixture.submit(Task { state: TaskState::Completed, ..task("h-done") }).await;
}

/// Each field of the filter selects alone.
pub async fn each_filter_selects(fixture: &Fixture) {
    a_mixed_queue(fixture).await;
    let any = any_task;
    let cases = [
        (any(), "abcdefgh"),
        (TaskFilter { id: Some(task_id("e-slow")), ..any() }, "e"),
        (TaskFilter { id: Some(task_id("e")), ..any() }, ""),
        (TaskFilter { run: Some(run("r")), ..any() }, "bg"),
        (TaskFilter { key: Some("k".into()), ..any() }, "a"),
        (TaskFilter { key: Some("k2".into()), ..any() }, ""),
        (TaskFilter { state: Some(TaskState::Ready), ..any() }, "abeg"),
        (TaskFilter { state: Some(TaskState::Claimed), ..any() }, "cd"),
        (TaskFilter { state: Some(TaskState::Dead), ..any() }, "f"),
        (TaskFilter { state: Some(TaskState::Completed), ..any() }, "h"),
        (TaskFilter { state: Some(TaskState::Failed), ..any() }, ""),
        (TaskFilter { owner: Some("n2".into()), ..any() }, "c"),
        (TaskFilter { queue: Some("slow".into()), ..any() }, "e"),
        (TaskFilter { advance: Some(true), ..any() }, "dg"),
        (TaskFilter { advance: Some(false), ..any() }, "abcefh"),
        (TaskFilter { poked: true, ..any() }, "d"),
        (TaskFilter { open: true, ..any() }, "abcdefg"),
        (TaskFilter { after: Some(task_id("e-slow")), ..any() }, "fgh"),
        (TaskFilter { after: Some(task_id("c")), limit: 2, ..any() }, "cd"),
        (TaskFilter { limit: 0, ..any() }, ""),
    ];
    expect(fixture, &cases).await;
}

/// The last sign of life and the limit of the task decide how long a claimant has been silent.
pub async fn silent_claims_are_found(fixture: &Fixture) {
    let limited = |name, limit| Task { silence_max: Some(Duration::from_millis(limit)), ..task(name) };
    let beaten = limited("b-beaten", 100).claimed("w", at(0)).beaten(1, at(60)).unwrap();
    for held in [
        limited("a-limited", 100).claimed("w", at(0)),
        beaten,
        limited("c-patient", 1_000).claimed("w", at(0)),
        task("d-unlimited").claimed("w", at(0)),
        task("e-unlimited").claimed("w", at(0)).beaten(1, at(60)).unwrap(),
        advance("r", "f-advance").claimed("n1", at(0)),
        limited("g-ready", 1),
        Task { silence_max: Some(Duration::MAX), ..task("h-endless") }.claimed("w", at(0)),
    ] {
        fixture.submit(held).await;
    }
    let silent = |now| TaskFilter { silent_at: Some(at(now)), ..any_task() };
    let quiet = |since| TaskFilter { quiet_since: Some(at(since)), ..any_task() };
    let cases = [
        (silent(99), ""),
        (silent(100), "a"),
        (silent(160), "ab"),
        (silent(1_000), "abc"),
        (TaskFilter { after: Some(task_id("a-limited")), limit: 1, ..silent(1_000) }, "b"),
        (quiet(-1), ""),
        (quiet(0), "df"),
        (quiet(60), "def"),
        (TaskFilter { advance: Some(false), ..quiet(60) }, "de"),
        (TaskFilter { advance: Some(true), ..quiet(60) }, "f"),
    ];
    expect(fixture, &cases).await;
}

/// Claims are found by owners that do not hold them; a claim without an owner is held by none.
pub async fn claims_of_others_are_found(fixture: &Fixture) {
    fixture.submit(task("a-node").claimed("n-1", at(0))).await;
    fixture.submit(task("b-node").claimed("n-2", at(0))).await;
    fixture.submit(task("c-worker").claimed("n", at(0))).await;
    fixture.submit(Task { owner: None, ..task("d-flawed").claimed("x", at(0)) }).await;
    fixture.submit(task("e-ready")).await;
    fixture.submit(advance("r", "f-advance").claimed("n-3", at(0))).await;
    let none_of = |owners: &[&str]| TaskFilter {
        owner_none_of: Some(owners.iter().map(|owner| (*owner).to_owned()).collect()),
        ..any_task()
    };
    let like = |prefix: &str, filter| TaskFilter { owner_prefix: Some(prefix.to_owned()), ..filter };
    let cases = [
        (none_of(&[]), "abcdf"),
        (none_of(&["n-1", "n", "never 'seen'"]), "bdf"),
        (like("n-", any_task()), "abf"),
        (like("n-", none_of(&["n-2"])), "af"),
        (TaskFilter { advance: Some(false), ..like("n-", none_of(&["n-2"])) }, "a"),
        (like("n_", any_task()), ""),
        (like("%", any_task()), ""),
        (like("", any_task()), "abcf"),
    ];
    expect(fixture, &cases).await;
}

async fn expect(fixture: &Fixture, cases: &[(TaskFilter, &str)]) {
    for (filter, expected) in cases {
        let found = fixture.store.tasks(filter.clone()).await.unwrap();
        let initials: String = names(&found).iter().map(|name| &name[..1]).collect();
        assert_eq!(initials, *expected, "{filter:?}");
    }
}

/// Several fields select what all of them select.
pub async fn filters_combine(fixture: &Fixture) {
    a_mixed_queue(fixture).await;
    let cases = [
        (TaskFilter { run: Some(run("r")), advance: Some(true), ..any_task() }, "g"),
        (TaskFilter { state: Some(TaskState::Claimed), owner: Some("n1".into()), ..any_task() }, "d"),
        (TaskFilter { owner: Some("n2".into()), poked: true, ..any_task() }, ""),
        (
            TaskFilter {
                queue: Some("main".into()),
                after: Some(task_id("d-poked")),
                limit: 1,
                ..any_task()
            },
            "f",
        ),
    ];
    expect(fixture, &cases).await;
}

/// Pages of any size give every task once, in byte order of the ids.
pub async fn task_pages_are_complete_and_in_order(fixture: &Fixture) {
    let mut expected: Vec<String> =
        ["B", "a", "a-b", "a.b", "a_b", "ab", "Z", "z", "10", "9"].map(str::to_owned).into();
    for name in &expected {
        fixture.submit(task(name)).await;
    }
    expected.sort();
    for limit in [1, 3, 9, 10, 11] {
        let mut found = vec![];
        let mut after = None;
        loop {
            let page = fixture.store.tasks(TaskFilter { after, limit, ..any_task() }).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit as usize && found.len() < expected.len(), "the list does not end");
            after = Some(last.id.clone());
            found.extend(page.into_iter().map(|task| task.id.as_str().to_owned()));
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
}
