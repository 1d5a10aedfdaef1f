//! A store with everything in it: runs in every state, users' tasks and locks, and damage; without live nodes.

use std::time::Duration;

use goldseam_core::lock::Lock;
use goldseam_core::task::{NewTask, Task, TaskState};
use goldseam_core::{
    Event, Failure, Limits, LockName, Millis, Path, Payload, QueueName, Retry, RunId, Seq, Status, Summary,
    TaskId,
};
use goldseam_store::{Expect, LockFilter, Record, RunFilter, Store, TaskFilter, Written};

use crate::harness::{EffectCounter, Harness, id};
use crate::{Fixture, eventually};
use goldseam_admin::copy::{Copier, CopyOptions};
use goldseam_engine::client::queue::Want;
use goldseam_engine::client::{By, Jump};
use goldseam_engine::run::context::Context;
use goldseam_engine::{Attempt, Client, Engine, Error};

/// How long the sleeping run sleeps.
const NAP: Duration = Duration::from_secs(4);
/// A node without a record.
pub(super) const GHOST: &str = "n-00000000000000aa";

/// Runs that wait for the signal `go`.
const WAITING: [&str; 6] = ["signals", "paused", "parked", "gap", "hurt", "rowless"];

/// The workflow: `a`, then what its input says, then `c`.
async fn live(ctx: Context, what: String, (witness, open): (EffectCounter, bool)) -> Result<u32, Error> {
    let run = ctx.run_id().clone();
    let see = |step: &'static str| {
        witness.saw(&format!("{run}/{step}"));
        async { Ok::<u32, Error>(1) }
    };
    ctx.step("a", || see("a")).await?;
    let _: u32 = match what.as_str() {
        "fail" => return Err(Error::terminal("no truck")),
        "nap" => ctx.sleep("nap", NAP).await.map(|()| 0)?,
        "ask" => ctx.ask::<String>("approve", "Ship it?").await.map(|_| 0)?,
        "signal" => ctx.signal("go").await?,
        "parent" => ctx.child("kid", "live", &"signal").await?,
        "remote" => ctx.remote("resize", &7).queue("gpu").await?,
        "again" => return ctx.continue_as_new(&"signal"),
        "retry" => {
            let twice = Retry::fixed(NAP).attempts_max(2);
            let body = |attempt: Attempt| async move {
                if attempt.number() == 1 { Err(Error::retryable("503")) } else { Ok(1) }
            };
            ctx.step_with("b", body).retry(twice).await?
        }
        "step" => {
            let body = || async {
                witness.saw(&format!("{run}/b"));
                if !open {
                    std::future::pending::<()>().await;
                }
                Ok::<u32, Error>(1)
            };
            ctx.step("b", body).await?
        }
        _ => 0,
    };
    ctx.step("c", || see("c")).await?;
    Ok(7)
}

/// An engine with the workflow; its step `b` ends only if `open`.
pub(super) async fn engine(harness: &Harness<'_>, open: bool) -> Engine {
    let witness = harness.witness.clone();
    let work = move |ctx: Context, what: String| live(ctx, what, (witness.clone(), open));
    harness.builder().workflow("live", work).start().await.unwrap()
}

pub(super) fn payload(json: &str) -> Payload {
    Payload::parse(json, &Limits::default()).unwrap()
}

async fn begin(harness: &Harness<'_>, runs: &[&str], what: &str) {
    for run in runs {
        harness.start("live", run, &format!("{what:?}")).await;
    }
}

/// The child of `parent`.
pub(super) async fn kid(client: &Client) -> RunId {
    let filter = RunFilter { parent: Some(id("parent")), limit: 2, ..RunFilter::default() };
    let rows = client.list(filter).await.unwrap().items;
    assert_eq!(rows.len(), 1);
    rows[0].summary.run.clone()
}

/// Fills a store.
pub(super) async fn fill(harness: &Harness<'_>) {
    let engine = engine(harness, false).await;
    begin(harness, &["done"], "nothing").await;
    begin(harness, &["failed"], "fail").await;
    begin(harness, &["cancelled"], "signal").await;
    begin(harness, &WAITING, "signal").await;
    begin(harness, &["taskless", "mailed"], "signal").await;
    begin(harness, &["asks", "jumped"], "ask").await;
    begin(harness, &["parent"], "parent").await;
    begin(harness, &["remote", "remote-free"], "remote").await;
    begin(harness, &["again"], "again").await;
    begin(harness, &["naps"], "nap").await;
    begin(harness, &["retries"], "retry").await;
    // First the runs that go on without us.
    rests(harness, "naps", Status::Sleeping).await;
    rests(harness, "retries", Status::Sleeping).await;
    harness.reaches("done", Status::Completed).await;
    harness.reaches("failed", Status::Failed).await;
    for run in
        ["asks", "jumped", "parent", "remote", "remote-free", "again", "taskless", "mailed", "cancelled"]
    {
        rests(harness, run, Status::Waiting).await;
    }
    for run in WAITING {
        rests(harness, run, Status::Waiting).await;
    }
    rests(harness, kid(&harness.client).await.as_str(), Status::Waiting).await;
    harness.client.cancel(&id("cancelled"), By::default()).await.unwrap();
    harness.reaches("cancelled", Status::Cancelled).await;
    harness.client.jump(&id("jumped"), &Path::new("a").unwrap(), Jump::default()).await.unwrap();
    harness.sees("jumped/a", 2).await;
    rests(harness, "jumped", Status::Waiting).await;
    begin(harness, &["works", "works-too"], "step").await;
    harness.sees("works/b", 1).await;
    harness.sees("works-too/b", 1).await;
    engine.crash();
    gone(harness).await;
    from_outside(harness).await;
    tasks(harness).await;
    locks(harness).await;
    damage(harness).await;
}

async fn rests(harness: &Harness<'_>, run: &str, status: Status) {
    let run = id(run);
    let rests = |summary: Summary| summary.status == status && summary.owner.is_none();
    let looks = || async { harness.client.get(&run).await.is_ok_and(rests) };
    eventually(&format!("{run} rests, {status}"), looks).await;
}

/// Waits until every node of the store has ended.
pub(super) async fn gone(harness: &Harness<'_>) {
    let over = || async { harness.store().nodes().await.unwrap().iter().all(|seen| seen.is_gone()) };
    eventually("every node is gone", over).await;
}

/// Commands and tasks while no node executes.
async fn from_outside(harness: &Harness<'_>) {
    let client = &harness.client;
    client.pause(&id("paused"), By::default()).await.unwrap();
    client.signal(&id("mailed"), "go", payload("1"), None).await.unwrap();
    client.signal(&id("signals"), "other", payload("2"), None).await.unwrap();
    let parked = Event::RunParked { code: "V1".to_owned(), reason: "two sides".to_owned() };
    harness.forge("parked", vec![parked]).await;
}

fn new(name: &str) -> NewTask {
    NewTask {
        id: TaskId::new(name).unwrap(),
        kind: "mail".to_owned(),
        queue: QueueName::new(format!("q-{name}")).unwrap(),
        lane: None,
        priority: 3,
        key: Some(format!("key-{name}")),
        run_at: Millis(1),
        payload: payload(r#"{"to":"ana"}"#),
        attempts_max: 2,
        silence_max: Some(Duration::from_secs(3600)),
    }
}

/// The task with this name, claimed.
async fn claimed(harness: &Harness<'_>, name: &str) -> Task {
    let queue = QueueName::new(format!("q-{name}")).unwrap();
    let want = Want { owner: "w2".to_owned(), queue, kind: None, limit: 1 };
    harness.client.queue().claim(want).await.unwrap().remove(0)
}

async fn tasks(harness: &Harness<'_>) {
    let queue = harness.client.queue();
    for name in ["t-ready", "t-claimed", "t-done", "t-failed", "t-cancelled", "t-dead", "t-ghost"] {
        queue.submit(new(name)).await.unwrap();
    }
    queue.submit(NewTask { run_at: Millis::NEVER, ..new("t-later") }).await.unwrap();
    claimed(harness, "t-claimed").await;
    let done = claimed(harness, "t-done").await;
    queue.complete(&done.id, done.fence, payload("42")).await.unwrap();
    let failed = claimed(harness, "t-failed").await;
    queue.fail(&failed.id, failed.fence, Failure::terminal("no such address")).await.unwrap();
    queue.cancel(&TaskId::new("t-cancelled").unwrap()).await.unwrap();
    let now = harness.store().now().await.unwrap();
    let dead = claimed(harness, "t-dead").await.reclaimed("its claimant is gone", 0, now);
    assert_eq!(dead.state, TaskState::Dead);
    let expect = Expect::Version(dead.version - 1);
    assert_eq!(harness.store().put_task(dead, expect).await.unwrap(), Written::Done);
    let ghost = queue.get(&TaskId::new("t-ghost").unwrap()).await.unwrap();
    let expect = Expect::Version(ghost.version);
    let ghost = Task { deliveries: 2, ..ghost.claimed(GHOST, now) };
    assert_eq!(harness.store().put_task(ghost, expect).await.unwrap(), Written::Done);
    let gpu = Want { owner: "w1".to_owned(), queue: QueueName::new("gpu").unwrap(), kind: None, limit: 2 };
    for task in queue.claim(gpu).await.unwrap() {
        if task.run == Some(id("remote-free")) {
            queue.release(&task.id, task.fence).await.unwrap();
        }
    }
}

async fn locks(harness: &Harness<'_>) {
    let locks = harness.client.locks();
    let hour = Duration::from_secs(3600);
    let name = |name: &str| LockName::new(name).unwrap();
    locks.acquire(&name("nightly"), "ana", hour).await.unwrap();
    for _ in 0..3 {
        let free = locks.acquire(&name("free"), "ben", hour).await.unwrap();
        locks.release(&free.name, "ben", free.fence).await.unwrap();
    }
    let held = locks.acquire(&name("of-node"), "cid", hour).await.unwrap();
    let expect = Expect::Version(held.version);
    let of_node = Lock { node: Some(GHOST.to_owned()), version: held.version + 1, ..held };
    assert_eq!(harness.store().put_lock(of_node, expect).await.unwrap(), Written::Done);
}

async fn damage(harness: &Harness<'_>) {
    let harm = harness.damage();
    harm.corrupt(&id("hurt"), Seq(3), "{\"half").await;
    harm.lose_event(&id("gap"), Seq(2)).await;
    harm.lose_row(&id("rowless")).await;
    harm.lose_task(&harness.row("taskless").await.task.unwrap()).await;
}

/// A copier between two stores.
pub(super) fn copier(from: &Harness<'_>, to: &Harness<'_>) -> Copier {
    Copier::new((&from.client, "here"), (&to.client, "there"), CopyOptions::default())
}

/// A copier that merges.
pub(super) fn merger(from: &Harness<'_>, to: &Harness<'_>) -> Copier {
    Copier::new((&from.client, "here"), (&to.client, "there"), CopyOptions { merge: true })
}

/// A harness on another store that shares the step counts of the first.
pub(super) fn beside<'a>(harness: &Harness<'_>, fixture: &'a Fixture) -> Harness<'a> {
    Harness { witness: harness.witness.clone(), ..Harness::on(fixture) }
}

/// One run as a store has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunSeen {
    pub(super) run: RunId,
    pub(super) log: Vec<Record>,
    pub(super) row: Option<Summary>,
    pub(super) task: Option<TaskId>,
}

/// Everything in a store but its nodes and the copy's own mark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Contents {
    pub(super) runs: Vec<RunSeen>,
    pub(super) tasks: Vec<Task>,
    pub(super) locks: Vec<Lock>,
}

/// Reads all of a small store.
pub(super) async fn contents(store: &dyn Store) -> Contents {
    let all = RunFilter { limit: 1_000, ..RunFilter::default() };
    let listed = store.runs(all).await.unwrap().items.into_iter().map(|row| row.summary.run);
    let mut names: Vec<RunId> = listed.chain(store.rowless(None, 1_000).await.unwrap()).collect();
    names.sort();
    let mut runs = Vec::new();
    for run in names {
        let log = store.read(&run, Seq::ZERO, 100_000).await.unwrap();
        let row = store.head(&run).await.unwrap().unwrap().row;
        let task = row.as_ref().and_then(|row| row.task.clone());
        runs.push(RunSeen { run, log, row: row.map(|row| row.summary), task });
    }
    let tasks = store.tasks(TaskFilter { limit: 1_000, ..TaskFilter::default() }).await.unwrap();
    let mut locks = store.locks(LockFilter { limit: 1_000, ..LockFilter::default() }).await.unwrap();
    locks.retain(|lock| lock.name.as_str() != "goldseam.copy");
    Contents { runs, tasks, locks }
}
