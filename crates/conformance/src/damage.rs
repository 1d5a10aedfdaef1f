//! Damage on demand, for tests of healing on every store, and how a store behaves afterwards.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use goldseam_core::lock::{Ask, Lock};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LockName, NodeId, RunId, Seq, TaskId};
use goldseam_store::MemoryStore;
use goldseam_store::api::{Append, Expect, LockFilter, RunFilter, TaskChange};
use goldseam_store::error::StoreError;

use super::Fixture;
use super::make::{ALL, T, advance, append, append_with, append_with_row, at, create, run, task, task_id};

/// A record to make unreadable.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// The cached row of a run.
    Row(&'a RunId),
    /// A task.
    Task(&'a TaskId),
    /// A lock.
    Lock(&'a LockName),
    /// A node.
    Node(&'a NodeId),
}

/// How a record becomes unreadable; a store that does not support one way uses another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garble {
    /// Truncated text.
    Torn,
    /// A state that only a later release knows.
    Later,
    /// Bytes that are not text.
    Bytes,
    /// A number in place of a text, or the other way round.
    Type,
}

impl Garble {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Torn, Self::Later, Self::Bytes, Self::Type];
}

/// Damage to the data of a store, done behind its back. Product code cannot do this.
#[async_trait]
pub trait Damage: Debug + Send + Sync + 'static {
    /// Deletes the cached row of a run.
    async fn lose_row(&self, run: &RunId);

    /// Deletes a task.
    async fn lose_task(&self, task: &TaskId);

    /// Deletes an event; the others keep their positions.
    ///
    /// # Panics
    ///
    /// If the event does not exist.
    async fn lose_event(&self, run: &RunId, seq: Seq);

    /// Replaces the text of an event.
    ///
    /// # Panics
    ///
    /// If the event does not exist.
    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str);

    /// Deletes every row and every advance task. Logs, locks and users' tasks stay.
    async fn lose_hints(&self);

    /// Makes a record unreadable.
    ///
    /// # Panics
    ///
    /// If the record does not exist.
    async fn garble(&self, what: Target<'_>, how: Garble);

    /// Writes a state under this name as another system would.
    ///
    /// # Panics
    ///
    /// If the store cannot have foreign states.
    async fn put_foreign(&self, id: &RunId, body: &str) {
        panic!("this store cannot have foreign states: {id} {body}");
    }
}

#[async_trait]
impl Damage for MemoryStore {
    async fn lose_row(&self, run: &RunId) {
        self.lose_row(run);
    }

    async fn lose_task(&self, task: &TaskId) {
        self.lose_task(task);
    }

    async fn lose_event(&self, run: &RunId, seq: Seq) {
        assert!(self.lose_event(run, seq), "{run} has no event {seq} to lose");
    }

    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str) {
        assert!(self.corrupt(run, seq, body), "{run} has no event {seq} to change");
    }

    async fn lose_hints(&self) {
        self.lose_hints();
    }

    async fn garble(&self, what: Target<'_>, _: Garble) {
        let was_there = match what {
            Target::Row(run) => {
                self.garble_row(run);
                true
            }
            Target::Task(task) => self.garble_task(task),
            Target::Lock(lock) => self.garble_lock(lock),
            Target::Node(node) => self.garble_node(node),
        };
        assert!(was_there, "{what:?} does not exist");
    }

    async fn put_foreign(&self, id: &RunId, body: &str) {
        self.put_foreign(id, body);
    }
}

/// Creates a run with its row and its own task.
async fn a_run(fixture: &Fixture, name: &str, own: &str) {
    let tasks = vec![create(Task { run_at: at(1_000), ..advance(name, own) })];
    fixture.append(Append { tasks, ..append_with_row(name, 0) }).await;
}

/// Returns the positions that a run's log has.
async fn positions(fixture: &Fixture, after: u64, limit: u32) -> Vec<u64> {
    let page = fixture.store.read(&run("r"), Seq(after), limit).await.unwrap();
    page.iter().map(|record| record.seq.0).collect()
}

/// Losing a row leaves the log unchanged; lists omit the run, and it is found as rowless.
pub async fn a_lost_row_leaves_its_log(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    a_run(fixture, "r", "own").await;
    a_run(fixture, "other", "others").await;
    let log = fixture.log("r").await;
    damage.lose_row(&run("r")).await;
    let head = fixture.head("r").await;
    assert_eq!((head.end, head.row), (Seq(1), None));
    assert_eq!(fixture.log("r").await, log);
    assert_eq!(fixture.store.rowless(None, ALL).await.unwrap(), [run("r")]);
    let listed = fixture.store.runs(RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap();
    assert_eq!(listed.items, [fixture.row("other").await]);
    damage.lose_row(&run("r")).await;
    damage.lose_row(&run("unknown")).await;
    assert_eq!(fixture.store.head(&run("unknown")).await.unwrap(), None);
    fixture.append(append_with_row("r", 1)).await;
    assert_eq!(fixture.row("r").await.summary.as_of, Seq(2), "the next append writes the row");
}

/// Only the row names the run's task: without it the run has no task, although the task exists.
pub async fn a_lost_row_leaves_the_run_without_a_task(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    a_run(fixture, "r", "own").await;
    let own = fixture.task("own").await;
    damage.lose_row(&run("r")).await;
    fixture.append(append_with("r", 1, vec![TaskChange::Wake { at: T }])).await;
    assert_eq!(fixture.task("own").await, own);
    fixture.append(append_with_row("r", 2)).await;
    assert_eq!(fixture.row("r").await.task, None);
}

/// Only the lost task is missing.
pub async fn a_lost_task_is_gone(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    a_run(fixture, "r", "own").await;
    fixture.submit(task("mine")).await;
    damage.lose_task(&task_id("own")).await;
    damage.lose_task(&task_id("nothing")).await;
    assert_eq!(fixture.find("own").await, None);
    assert_eq!(fixture.task("mine").await.state, TaskState::Ready);
    assert_eq!(fixture.row("r").await.task, Some(task_id("own")), "the row still names it");
}

/// A lost event shows as a gap in the positions, in pages of any size; the end stays.
pub async fn a_gap_reads_as_a_gap(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b", "c", "d", "e"])).await;
    damage.lose_event(&run("r"), Seq(3)).await;
    assert_eq!(fixture.head("r").await.end, Seq(5));
    assert_eq!(positions(fixture, 0, ALL).await, [1, 2, 4, 5]);
    for (after, limit, expected) in [(1, 2, &[2, 4][..]), (2, 1, &[4]), (3, 1, &[4]), (0, 2, &[1, 2])] {
        assert_eq!(positions(fixture, after, limit).await, expected, "{limit} after {after}");
    }
    let bodies: Vec<String> = fixture.log("r").await.into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["a", "b", "d", "e"]);
    damage.lose_event(&run("r"), Seq(1)).await;
    assert_eq!(positions(fixture, 0, ALL).await, [2, 4, 5]);
    assert_eq!(fixture.head("r").await.end, Seq(5));
}

/// A gap does not prevent appends at the end: the store does not judge it.
pub async fn a_log_continues_after_a_gap(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b", "c"])).await;
    damage.lose_event(&run("r"), Seq(2)).await;
    assert_eq!(fixture.append(append("r", 3, &["d", "e"])).await, Seq(5));
    assert_eq!(positions(fixture, 0, ALL).await, [1, 3, 4, 5]);
}

/// A late writer conflicts with the end: a gap is never filled.
pub async fn a_gap_is_never_filled(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b", "c", "d"])).await;
    for seq in [1, 3] {
        damage.lose_event(&run("r"), Seq(seq)).await;
    }
    for (after, bodies) in [(0, &["x"][..]), (2, &["x"]), (1, &["x"]), (3, &["x"]), (0, &["x", "y", "z"])] {
        let outcome = fixture.store.append(append("r", after, bodies)).await;
        assert!(matches!(outcome, Err(StoreError::Conflict { end: Seq(4) })), "after {after}: {outcome:?}");
    }
    assert_eq!(positions(fixture, 0, ALL).await, [2, 4]);
}

/// If the last event is lost, the log ends earlier, and the store cannot notice.
pub async fn a_lost_last_event_is_not_a_gap(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b"])).await;
    damage.lose_event(&run("r"), Seq(2)).await;
    assert_eq!(fixture.head("r").await.end, Seq(1));
    assert_eq!(fixture.append(append("r", 1, &["c"])).await, Seq(2));
}

/// A store returns the text that it has, without interpreting it.
pub async fn a_changed_event_reads_as_it_is(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b", "c"])).await;
    damage.corrupt(&run("r"), Seq(2), "{ torn").await;
    let bodies: Vec<String> = fixture.log("r").await.into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["a", "{ torn", "c"]);
    assert_eq!(fixture.head("r").await.end, Seq(3));
}

/// Without its hints, a store still has every log, lock and user's task.
pub async fn all_hints_are_lost_and_truths_stay(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    for name in ["a", "b"] {
        a_run(fixture, name, &format!("own-{name}")).await;
    }
    fixture.submit(task("mine")).await;
    let name = LockName::new("l").unwrap();
    let ask = Ask { name: &name, holder: "h", node: None, ttl: Duration::from_secs(9) };
    let lock = Lock::acquired(None, ask, T).unwrap();
    fixture.store.put_lock(lock.clone(), Expect::Absent).await.unwrap();
    damage.lose_hints().await;
    for name in ["a", "b"] {
        assert_eq!(fixture.head(name).await.row, None);
        assert_eq!(fixture.find(&format!("own-{name}")).await, None);
        assert_eq!(fixture.log(name).await.len(), 1);
    }
    assert_eq!(fixture.store.rowless(None, ALL).await.unwrap(), [run("a"), run("b")]);
    assert_eq!(fixture.task("mine").await, task("mine"));
    let locks = fixture.store.locks(LockFilter { limit: ALL, ..LockFilter::default() }).await.unwrap();
    assert_eq!(locks, [lock]);
}
