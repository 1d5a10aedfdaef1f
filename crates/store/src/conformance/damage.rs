//! Damage on demand, for tests of healing on every store, and what a store does with what is left.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use goldseam_core::lock::{Ask, Lock};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LockName, NodeId, RunId, Seq, TaskId};

use super::Fixture;
use super::make::{ALL, T, advance, append, append_with, append_with_row, at, create, run, task, task_id};
use crate::api::{Append, Expect, LockFilter, RunFilter, TaskChange};
use crate::error::StoreError;

/// A record to be made unreadable.
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

/// How a record becomes unreadable; a store that has no such way takes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garble {
    /// Text that is cut off.
    Torn,
    /// A state that only a later release knows.
    Later,
    /// Bytes that are no text.
    Bytes,
    /// A number where there was a text, or the other way round.
    Type,
}

impl Garble {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Torn, Self::Later, Self::Bytes, Self::Type];
}

/// Harm to what a store keeps, done past the store itself. No product code can do this.
#[async_trait]
pub trait Damage: Debug + Send + Sync + 'static {
    /// The cached row of a run is lost, with whatever only the row said.
    async fn lose_row(&self, run: &RunId);

    /// A task is lost.
    async fn lose_task(&self, task: &TaskId);

    /// An event is lost; the others stay where they are.
    ///
    /// # Panics
    ///
    /// If there is no such event.
    async fn lose_event(&self, run: &RunId, seq: Seq);

    /// The text of an event is another one.
    ///
    /// # Panics
    ///
    /// If there is no such event.
    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str);

    /// Every row and every advance task is lost. Logs, locks and users' tasks stay.
    async fn lose_hints(&self);

    /// A record cannot be read any more.
    ///
    /// # Panics
    ///
    /// If there is no such record.
    async fn garble(&self, what: Target<'_>, how: Garble);

    /// Somebody else writes a state of his own under this name.
    ///
    /// # Panics
    ///
    /// If the store has no place for such states.
    async fn put_foreign(&self, id: &RunId, body: &str) {
        panic!("there is no place for a state of {id} that says {body}");
    }
}

/// A run with its row and its own task.
async fn a_run(fixture: &Fixture, name: &str, own: &str) {
    let tasks = vec![create(Task { run_at: at(1_000), ..advance(name, own) })];
    fixture.append(Append { tasks, ..append_with_row(name, 0) }).await;
}

/// The positions that a run's log has.
async fn positions(fixture: &Fixture, after: u64, limit: u32) -> Vec<u64> {
    let page = fixture.store.read(&run("r"), Seq(after), limit).await.unwrap();
    page.iter().map(|record| record.seq.0).collect()
}

/// A lost row is none: the log is as it was, lists leave the run out, and it is found as rowless.
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
    damage.lose_row(&run("nobody")).await;
    assert_eq!(fixture.store.head(&run("nobody")).await.unwrap(), None);
    fixture.append(append_with_row("r", 1)).await;
    assert_eq!(fixture.row("r").await.summary.as_of, Seq(2), "the next row is the row");
}

/// Whose a task is was said by the row alone: with the row, the run has lost its task, though it is there.
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

/// A lost task is gone, and only that one.
pub async fn a_lost_task_is_gone(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    a_run(fixture, "r", "own").await;
    fixture.submit(task("mine")).await;
    damage.lose_task(&task_id("own")).await;
    damage.lose_task(&task_id("nothing")).await;
    assert_eq!(fixture.find("own").await, None);
    assert_eq!(fixture.task("mine").await.state, TaskState::Ready);
    assert_eq!(fixture.row("r").await.task, Some(task_id("own")), "the row does not know");
}

/// Where an event is lost, the positions of the others show it, in pages of any size; the end stays.
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

/// A gap does not keep others from appending at the end: that something is missing is not theirs to judge.
pub async fn a_log_goes_on_behind_a_gap(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b", "c"])).await;
    damage.lose_event(&run("r"), Seq(2)).await;
    assert_eq!(fixture.append(append("r", 3, &["d", "e"])).await, Seq(5));
    assert_eq!(positions(fixture, 0, ALL).await, [1, 3, 4, 5]);
}

/// A late writer finds the end, not the gap: nothing new takes the place of what was lost.
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

/// A log that lost its last event ends earlier, and a store cannot know better.
pub async fn a_lost_end_is_no_gap(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b"])).await;
    damage.lose_event(&run("r"), Seq(2)).await;
    assert_eq!(fixture.head("r").await.end, Seq(1));
    assert_eq!(fixture.append(append("r", 1, &["c"])).await, Seq(2));
}

/// A store hands out the text that it has, and does not ask whether it makes sense.
pub async fn a_changed_event_reads_as_it_is(fixture: &Fixture) {
    let Some(damage) = &fixture.damage else { return };
    fixture.append(append("r", 0, &["a", "b", "c"])).await;
    damage.corrupt(&run("r"), Seq(2), "{ torn").await;
    let bodies: Vec<String> = fixture.log("r").await.into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, ["a", "{ torn", "c"]);
    assert_eq!(fixture.head("r").await.end, Seq(3));
}

/// Without its hints a store still has every log, lock and user's task.
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
