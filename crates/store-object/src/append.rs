//! Compare-and-append, and the row and the tasks that follow it.
//!
//! An append is done once its batch is stored. Row and tasks are hints: the append is acknowledged even if their
//! update fails, and the update is repeated later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use goldseam_core::task::Task;
use goldseam_core::{BranchId, RunId, Seq, Status, Summary, TaskId};
use goldseam_store::{Append, Head, Record, StoreError, TaskChange};

use crate::clock::MonotonicTime;
use crate::http::later;
use crate::inner::BucketState;
use crate::keys;
use crate::log::{AppendedBatch, ReadRange};
use crate::row_cache::{DEFER_MAX, DeferredRow, NewRow, RowState, StoredRow};
use crate::tasks::woken;

/// A finished append, and what its row must say.
#[derive(Clone)]
struct Followup<'a> {
    run: &'a RunId,
    appended: &'a AppendedBatch,
    summary: Option<Summary>,
    /// The position after which the run begins or is reactivated, if it does.
    active: Option<Seq>,
}

impl Followup<'_> {
    fn begins(&self) -> bool {
        self.active == Some(Seq::ZERO)
    }
}

impl BucketState {
    pub(crate) async fn append(self: &Arc<Self>, append: Append) -> Result<Seq, StoreError> {
        if append.bodies.is_empty() {
            return Err(StoreError::empty_append());
        }
        let run = &append.run;
        let begins = append.after == Seq::ZERO;
        let known = if begins { self.begin_run(&append).await? } else { self.cached_row(run).await? };
        let is_reactivated = append.row.as_deref().is_some_and(|row| reactivates(known.as_ref(), row));
        if !begins
            && is_reactivated
            && let Some(row) = &append.row
        {
            self.mark_reactivated(row, append.after).await?;
        }
        let hint = async || Ok(known.as_ref().map_or(0, |known| known.batch));
        let appended = self.logs.append(&self.bucket, &append, self.write_ids.next(), hint).await?;
        let end = appended.end;
        self.feed.note_append(&append.run, appended.batch);
        let active = (begins || is_reactivated).then_some(append.after);
        let Append { run, row, tasks, .. } = append;
        let new = |change: &TaskChange| match change {
            TaskChange::Create(task) => Some((**task).clone()),
            _ => None,
        };
        let unmade: Vec<Task> = tasks.iter().filter_map(new).collect();
        let wake = tasks.iter().find_map(|change| match change {
            TaskChange::Wake { at } => Some(*at),
            _ => None,
        });
        let summary = row.map(|row| *row);
        let followup = Followup { run: &run, appended: &appended, summary: summary.clone(), active };
        if let Err(error) = self.update_row_and_tasks(followup, tasks).await {
            tracing::warn!(%run, %error, "failed to update row and tasks after an append; retrying later");
            let since = MonotonicTime::now();
            self.defer(&run, DeferredRow { summary, batch: appended.batch, unmade, wake, since });
        }
        self.watch.bump();
        Ok(end)
    }

    /// Marks a run that is about to begin, and checks that no run has its id: a log whose first batch was removed must
    /// not begin again. Both requests run at once, because most runs that begin are new.
    async fn begin_run(&self, append: &Append) -> Result<Option<StoredRow>, StoreError> {
        let created = append.row.as_ref().map_or_else(|| self.clock.now(), |row| row.created_at);
        let key = keys::state(&append.run);
        let (marked, found) = tokio::join!(self.mark_new(&append.run, created), self.bucket.get(&key));
        marked?;
        let Some(found) = found? else { return Ok(None) };
        let refused = || StoreError::Refused {
            code: "GS0222",
            what: format!("{key} is the state of another system's workflow"),
            hint: "start the run under another id".into(),
        };
        // An unreadable row is ours if there is a log beside it.
        let known = match StoredRow::read(&key, found) {
            Ok(known) => Some(known.ok_or_else(refused)?),
            Err(_) => None,
        };
        let hint = known.as_ref().map_or(0, |known| known.batch);
        let end = self.logs.find(&self.bucket, &append.run, hint).await?.map_or(Seq::ZERO, |log| log.end);
        match (end, known) {
            (Seq::ZERO, Some(known)) => Ok(Some(known)),
            (Seq::ZERO, None) => Err(refused()),
            (end, _) => Err(StoreError::Conflict { end }),
        }
    }

    /// Applies everything that goes with an append. Writes the row at most once.
    async fn update_row_and_tasks(
        self: &Arc<Self>,
        followup: Followup<'_>,
        changes: Vec<TaskChange>,
    ) -> Result<(), StoreError> {
        if followup.summary.is_none() && changes.is_empty() {
            return Ok(());
        }
        let known = if followup.begins() { None } else { self.cached_row(followup.run).await? };
        if changes.is_empty()
            && followup.active.is_none()
            && let (Some(summary), Some(known)) = (&followup.summary, &known)
            && may_be_deferred(summary, known)
        {
            let deferred = DeferredRow {
                summary: Some(summary.clone()),
                batch: followup.appended.batch,
                unmade: Vec::new(),
                wake: None,
                since: MonotonicTime::now(),
            };
            self.defer(followup.run, deferred);
            return Ok(());
        }
        let own = known.as_ref().and_then(|known| known.row.task.clone());
        let has_row = followup.summary.is_some() || known.is_some();
        let row = match changes.iter().all(cannot_fail) {
            // Which task becomes the run's own is known before it exists, so row and tasks are written concurrently.
            true => {
                let adopted = has_row.then(|| last_advance_task(&changes)).flatten();
                let row = self.update_row(&followup, adopted);
                let tasks = self.apply_task_changes(&followup, OwnTask { id: own, has_row }, changes);
                let (row, tasks) = tokio::join!(row, tasks);
                tasks?;
                row?
            }
            false => {
                let own = OwnTask { id: own, has_row };
                let adopted = self.apply_task_changes(&followup, own, changes).await?;
                self.update_row(&followup, adopted).await?
            }
        };
        if let Some(ended) = row.filter(StoredRow::is_over) {
            self.unmark_run(&ended).await;
        }
        Ok(())
    }

    /// Writes the row, if something in it changes.
    async fn update_row(
        &self,
        followup: &Followup<'_>,
        adopted: Option<TaskId>,
    ) -> Result<Option<StoredRow>, StoreError> {
        let deferred = self.rows.take_deferred(followup.run);
        let deferred_summary = || deferred.as_ref().and_then(|deferred| deferred.summary.clone());
        let summary = followup.summary.clone().or_else(deferred_summary);
        let written = match summary.is_some() || adopted.is_some() {
            true => self.write_summary(&Followup { summary, ..*followup }, adopted).await,
            false => Ok(None),
        };
        // This row replaces the deferred one, but not the deferred changes of tasks.
        if let Some(deferred) = deferred {
            match &written {
                Ok(_) if deferred.unmade.is_empty() && deferred.wake.is_none() => {}
                Ok(_) => {
                    self.rows.restore_deferred(followup.run, DeferredRow { summary: None, ..deferred });
                }
                Err(_) => self.rows.restore_deferred(followup.run, deferred),
            }
        }
        written
    }

    async fn write_summary(
        &self,
        followup: &Followup<'_>,
        adopted: Option<TaskId>,
    ) -> Result<Option<StoredRow>, StoreError> {
        let Followup { run, appended, summary, active } = followup;
        // The row of a run that has just begun does not exist yet.
        let known = if followup.begins() { None } else { self.cached_row(run).await? };
        let mut make = |known: Option<&StoredRow>| {
            let current = known.map(|known| &known.row);
            let mine = summary.clone().filter(|_| known.is_none_or(|known| known.batch <= appended.batch));
            let task = adopted.clone().or_else(|| current.and_then(|row| row.task.clone()));
            let is_same_task = current.is_some_and(|row| row.task == task);
            let batch = appended.batch.max(known.map_or(0, |known| known.batch));
            match mine {
                Some(summary) => Some(NewRow { summary, task, batch, active: *active }),
                // A rival has written a later row meanwhile.
                None if is_same_task => None,
                None => Some(NewRow { summary: current?.summary.clone(), task, batch, active: None }),
            }
        };
        self.change_row_from(known, &mut make).await
    }

    /// Writes the row soon, unless another change writes it before.
    fn defer(self: &Arc<Self>, run: &RunId, row: DeferredRow) {
        if self.rows.defer(run, row) {
            schedule_deferred_writes(Arc::downgrade(self));
        }
    }

    /// Applies changes of tasks in order. Returns the task that became the run's own, if one did.
    async fn apply_task_changes(
        &self,
        followup: &Followup<'_>,
        mut own: OwnTask,
        changes: Vec<TaskChange>,
    ) -> Result<Option<TaskId>, StoreError> {
        let mut adopted = None;
        for change in changes {
            match change {
                TaskChange::Create(task) => {
                    let exists = self.create_task(&task).await?;
                    if exists && own.has_row && task.is_advance() {
                        adopted = Some(task.id.clone());
                        own.id = Some(task.id);
                    }
                }
                TaskChange::Rest { task, run_at } => {
                    let was_poked = AtomicBool::new(false);
                    let rest = |task: Task, now| {
                        was_poked.store(task.poked, Ordering::Relaxed);
                        task.state.is_live().then(|| task.returned(run_at, now))
                    };
                    self.change_task(&task, rest).await?;
                    if was_poked.into_inner() {
                        self.wake_if_behind(followup, &task).await?;
                    }
                }
                TaskChange::Wake { at } => {
                    if let Some(own) = &own.id {
                        self.change_task(own, |task, now| woken(task, at, now)).await?;
                    }
                }
                TaskChange::Cancel { task } => {
                    self.change_task(&task, |task, now| task.cancelled(now).ok()).await?;
                }
                TaskChange::Remove { task } => self.remove_task(&task).await?,
            }
        }
        Ok(adopted)
    }

    /// Wakes a task that was put to rest, if the log has grown since the append that did so. Tasks change after the
    /// log: the poke of a later append can come before the rest of an earlier one, which removes the poke.
    async fn wake_if_behind(&self, followup: &Followup<'_>, task: &TaskId) -> Result<(), StoreError> {
        let Followup { run, appended, .. } = followup;
        let log = self.logs.find(&self.bucket, run, appended.batch).await?;
        if log.is_some_and(|log| log.end > appended.end) {
            self.change_task(task, |task, now| woken(task, now, now)).await?;
        }
        Ok(())
    }

    pub(crate) async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.write_deferred(run).await?;
        // The row first: it is never ahead of a log that is read after it.
        let state = self.read_row(run).await?;
        let unreadable = match &state {
            RowState::Unreadable(reason) => Some(reason.clone()),
            RowState::None | RowState::Row(_) => None,
        };
        let known = state.row();
        let hint = known.as_ref().map_or(0, |known| known.batch);
        let Some(log) = self.logs.find(&self.bucket, run, hint).await? else { return Ok(None) };
        Ok(Some(Head { end: log.end, row: known.map(|known| known.row), unreadable }))
    }

    pub(crate) async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        let hint = async || Ok(self.cached_row(run).await?.map_or(0, |known| known.batch));
        let range = ReadRange { after, limit: limit as usize };
        self.logs.read(&self.bucket, run, range, hint).await
    }
}

/// A run's advance task while changes are applied.
struct OwnTask {
    id: Option<TaskId>,
    /// Whether there is a row to name it in; a run without a row adopts no task.
    has_row: bool,
}

/// Writes deferred rows again and again, as long as there are any.
fn schedule_deferred_writes(store: Weak<BucketState>) {
    later(DEFER_MAX, async move {
        let Some(inner) = store.upgrade() else { return };
        let runs = inner.rows.due_deferred();
        if let Err(error) = inner.write_deferred_of(&runs).await {
            tracing::warn!(%error, "failed to write deferred rows");
        }
        if inner.rows.has_more_deferred() {
            schedule_deferred_writes(store);
        }
    });
}

/// Whether a row says nothing new except that its run is running.
fn may_be_deferred(summary: &Summary, known: &StoredRow) -> bool {
    let before = &known.row.summary;
    summary.status == Status::Running
        && before.status != Status::Running
        && before.status.is_active()
        && before.recoveries == summary.recoveries
        && before.branch == summary.branch
}

/// Whether an ended, parked or paused run becomes active. A late row may not say yet that the run ended, but it cannot
/// name the branch on which the run becomes active, and no node owns the run there.
fn reactivates(known: Option<&StoredRow>, row: &Summary) -> bool {
    let branch = known.map_or(BranchId::ROOT, |known| known.row.summary.branch);
    let is_elsewhere = row.branch != branch && row.owner.is_none();
    let is_continued = known.is_some_and(StoredRow::is_stopped) && row.status.is_active();
    !row.status.is_terminal() && (known.is_some_and(StoredRow::is_over) || is_elsewhere || is_continued)
}

/// Whether no rival can prevent this change.
fn cannot_fail(change: &TaskChange) -> bool {
    match change {
        TaskChange::Create(task) => task.key.is_none() && task.lane.is_none(),
        _ => true,
    }
}

/// The last advance task that these changes create.
fn last_advance_task(changes: &[TaskChange]) -> Option<TaskId> {
    changes.iter().rev().find_map(|change| match change {
        TaskChange::Create(task) if task.is_advance() => Some(task.id.clone()),
        _ => None,
    })
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use goldseam_conformance::make::{advance, append_with, append_with_row, at, create, run, task_id};
    use goldseam_store::{ManualClock, Store, TaskFilter};
    use object_store::memory::InMemory;

    use super::*;
    use crate::BucketStore;
    use crate::bucket::BucketPrefix;
    use crate::clock::BucketClock;
    use crate::request_counter::RequestCounter;
    use crate::url::RequestCost;

    /// A run with a claimed task. A signal is appended right after the release of the run, and changes the task first.
    #[tokio::test]
    async fn a_late_rest_keeps_the_poke_of_a_later_append() {
        let bucket =
            BucketPrefix::new(Arc::new(InMemory::new()), "test", Arc::new(RequestCounter::default()));
        let clock = Arc::new(BucketClock::new(Some(ManualClock::default().clock())));
        let store = BucketStore::on(bucket, clock, RequestCost::Free);
        let task = advance("r", "own-r").claimed("n1", at(0));
        store.append(Append { tasks: vec![create(task)], ..append_with_row("r", 0) }).await.unwrap();
        store.append(append_with("r", 1, Vec::new())).await.unwrap();
        let released = store.inner().logs.find(&store.inner().bucket, &run("r"), 0).await.unwrap().unwrap();
        let released = AppendedBatch { end: released.end, batch: released.batch };
        let rest = || vec![TaskChange::Rest { task: task_id("own-r"), run_at: at(5_000_000) }];
        let resting = async || {
            let own = OwnTask { id: Some(task_id("own-r")), has_row: true };
            let run = run("r");
            let followup = Followup { run: &run, appended: &released, summary: None, active: None };
            store.inner().apply_task_changes(&followup, own, rest()).await.unwrap();
            let filter = TaskFilter { id: Some(task_id("own-r")), limit: 1, ..TaskFilter::default() };
            store.tasks(filter).await.unwrap().remove(0).run_at
        };
        store.append(append_with("r", 2, vec![TaskChange::Wake { at: at(3) }])).await.unwrap();
        assert!(resting().await < at(5_000_000), "the task is due");
    }
}
