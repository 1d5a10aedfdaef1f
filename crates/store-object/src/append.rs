//! Compare-and-append, and what follows from it. An append is done once its batch is there; the row and the tasks
//! are hints, and whatever becomes of them the append is acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{BranchId, Millis, RunId, Seq, Status, Summary, TaskId};
use goldseam_store::{Append, Head, Record, StoreError, TaskChange};

use crate::clock::Moment;
use crate::http::later;
use crate::keys;
use crate::log::Appended;
use crate::rows::{Known, LATE, Late, NewRow, Seen};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn append(self: &Arc<Self>, append: Append) -> Result<Seq, StoreError> {
        if append.bodies.is_empty() {
            return Err(StoreError::empty_append());
        }
        let run = &append.run;
        let begins = append.after == Seq::ZERO;
        let known = if begins { self.begin(&append).await? } else { self.row_seen(run).await? };
        let revived = append.row.as_deref().is_some_and(|row| goes_on(known.as_ref(), row));
        if !begins
            && revived
            && let Some(row) = &append.row
        {
            self.mark_again(row, append.after).await?;
        }
        let hint = async || Ok(known.as_ref().map_or(0, |known| known.batch));
        let appended = self.logs.append(&self.bucket, &append, self.writes.next(), hint).await?;
        let end = appended.end;
        let active = (begins || revived).then_some(append.after);
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
        if let Err(error) = self.follow(&run, &appended, (summary.clone(), active), tasks).await {
            tracing::warn!(%run, %error, "failed to update row and tasks after an append; retrying later");
            let since = Moment::now();
            self.put_off(&run, Late { summary, batch: appended.batch, unmade, wake, since });
        }
        self.watch.bump();
        Ok(end)
    }

    /// Marks a run that is about to begin, and looks whether there is one of its name: a log whose first batch was
    /// removed must not be begun anew. Both at once, as most runs that begin are new.
    async fn begin(&self, append: &Append) -> Result<Option<Known>, StoreError> {
        let created = append.row.as_ref().map_or_else(|| self.clock.now(), |row| row.created_at);
        let key = keys::state(&append.run);
        let (marked, found) = tokio::join!(self.mark_new(&append.run, created), self.bucket.get(&key));
        marked?;
        let Some(found) = found? else { return Ok(None) };
        let refused = || StoreError::Refused {
            code: "GS0222",
            what: format!("{key} is the state of another system's workflow"),
            hint: "start the run under another id".to_owned(),
        };
        // What cannot be read is ours if there is a log beside it.
        let known = match Known::read(&key, found) {
            Ok(known) => Some(known.ok_or_else(refused)?),
            Err(_) => None,
        };
        let hint = known.as_ref().map_or(0, |known| known.batch);
        let end = self.logs.find(&self.bucket, &append.run, hint).await?.map_or(Seq::ZERO, |trace| trace.end);
        match (end, known) {
            (Seq::ZERO, Some(known)) => Ok(Some(known)),
            (Seq::ZERO, None) => Err(refused()),
            (end, _) => Err(StoreError::Conflict { end }),
        }
    }

    /// Everything that goes with an append: at most one write of the row, however much changed in it.
    async fn follow(
        self: &Arc<Self>,
        run: &RunId,
        appended: &Appended,
        (summary, active): (Option<Summary>, Option<Seq>),
        changes: Vec<TaskChange>,
    ) -> Result<(), StoreError> {
        if summary.is_none() && changes.is_empty() {
            return Ok(());
        }
        let begins = active == Some(Seq::ZERO);
        let known = if begins { None } else { self.row_seen(run).await? };
        if changes.is_empty()
            && active.is_none()
            && let (Some(summary), Some(known)) = (&summary, &known)
            && may_be_late(summary, known)
        {
            let since = Moment::now();
            let (batch, unmade) = (appended.batch, Vec::new());
            let summary = Some(summary.clone());
            self.put_off(run, Late { summary, batch, unmade, wake: None, since });
            return Ok(());
        }
        let own = known.as_ref().and_then(|known| known.row.task.clone());
        let has_row = summary.is_some() || known.is_some();
        let done = match changes.iter().all(is_certain) {
            // Which task will be the run's own is known before it is there: row and tasks go side by side.
            true => {
                let adopted = has_row.then(|| adopts(&changes)).flatten();
                let row = self.follow_with_row(run, appended, (summary, active), adopted);
                let (row, tasks) = tokio::join!(row, self.apply((run, appended), own, changes, has_row));
                tasks?;
                row?
            }
            false => {
                let adopted = self.apply((run, appended), own, changes, has_row).await?;
                self.follow_with_row(run, appended, (summary, active), adopted).await?
            }
        };
        if let Some(known) = done.filter(Known::is_over) {
            self.unmark_run(&known).await;
        }
        Ok(())
    }

    /// Writes the row, if something in it changes.
    async fn follow_with_row(
        &self,
        run: &RunId,
        appended: &Appended,
        (summary, active): (Option<Summary>, Option<Seq>),
        adopted: Option<TaskId>,
    ) -> Result<Option<Known>, StoreError> {
        let late = self.rows.take_late(run);
        let summary = summary.or_else(|| late.as_ref().and_then(|late| late.summary.clone()));
        let written = match summary.is_some() || adopted.is_some() {
            true => self.follow_with(run, appended, (summary, active), adopted).await,
            false => Ok(None),
        };
        // What was put off is over with this row, but not what could not be done to tasks.
        if let Some(late) = late {
            match &written {
                Ok(_) if late.unmade.is_empty() && late.wake.is_none() => {}
                Ok(_) => self.rows.put_back(run, Late { summary: None, ..late }),
                Err(_) => self.rows.put_back(run, late),
            }
        }
        written
    }

    async fn follow_with(
        &self,
        run: &RunId,
        appended: &Appended,
        (summary, active): (Option<Summary>, Option<Seq>),
        adopted: Option<TaskId>,
    ) -> Result<Option<Known>, StoreError> {
        // The row of a run that has just begun is not there yet.
        let known = if active == Some(Seq::ZERO) { None } else { self.row_seen(run).await? };
        let mut make = |known: Option<&Known>| {
            let there = known.map(|known| &known.row);
            let mine = summary.clone().filter(|_| known.is_none_or(|known| known.batch <= appended.batch));
            let task = adopted.clone().or_else(|| there.and_then(|row| row.task.clone()));
            let same_task = there.is_some_and(|row| row.task == task);
            let batch = appended.batch.max(known.map_or(0, |known| known.batch));
            match mine {
                Some(summary) => Some(NewRow { summary, task, batch, active }),
                // Somebody else has written a later row meanwhile.
                None if same_task => None,
                None => Some(NewRow { summary: there?.summary.clone(), task, batch, active: None }),
            }
        };
        self.change_row_from(known, &mut make).await
    }

    /// Writes the row in a moment, unless something else writes it before.
    fn put_off(self: &Arc<Self>, run: &RunId, late: Late) {
        if self.rows.put_off(run, late) {
            come_back(Arc::downgrade(self));
        }
    }

    /// Carries out changes of tasks in order. Returns the task that has become the run's own, if one has.
    async fn apply(
        &self,
        (run, appended): (&RunId, &Appended),
        mut own: Option<TaskId>,
        changes: Vec<TaskChange>,
        has_row: bool,
    ) -> Result<Option<TaskId>, StoreError> {
        let mut adopted = None;
        for change in changes {
            match change {
                TaskChange::Create(task) => {
                    let there = self.create_task(&task).await?;
                    if there && has_row && task.is_advance() {
                        adopted = Some(task.id.clone());
                        own = Some(task.id);
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
                        self.wake_if_behind(run, appended, &task).await?;
                    }
                }
                TaskChange::Wake { at } => {
                    if let Some(own) = &own {
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

    /// Wakes a task that was put to rest, if the log has grown since the append that did so. Tasks change after the log:
    /// the poke of a later append can come before the rest of an earlier one, which takes it away.
    async fn wake_if_behind(
        &self,
        run: &RunId,
        appended: &Appended,
        task: &TaskId,
    ) -> Result<(), StoreError> {
        let trace = self.logs.find(&self.bucket, run, appended.batch).await?;
        if trace.is_some_and(|trace| trace.end > appended.end) {
            self.change_task(task, |task, now| woken(task, now, now)).await?;
        }
        Ok(())
    }

    pub(crate) async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        self.write_late(run).await?;
        // The row first: it is never ahead of a log that is read after it.
        let seen = self.look_at_row(run).await?;
        let unreadable = match &seen {
            Seen::Unreadable(reason) => Some(reason.clone()),
            Seen::None | Seen::Row(_) => None,
        };
        let known = seen.row();
        let hint = known.as_ref().map_or(0, |known| known.batch);
        let Some(trace) = self.logs.find(&self.bucket, run, hint).await? else { return Ok(None) };
        Ok(Some(Head { end: trace.end, row: known.map(|known| known.row), unreadable }))
    }

    pub(crate) async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        let hint = async || Ok(self.row_seen(run).await?.map_or(0, |known| known.batch));
        self.logs.read(&self.bucket, run, (after, limit as usize), hint).await
    }
}

/// Comes back for rows that were put off, for as long as there are any.
fn come_back(store: Weak<Inner>) {
    later(LATE, async move {
        let Some(inner) = store.upgrade() else { return };
        let runs = inner.rows.long_put_off();
        if let Err(error) = inner.write_these(&runs).await {
            tracing::warn!(%error, "failed to write deferred rows");
        }
        if inner.rows.is_more_put_off() {
            come_back(store);
        }
    });
}

/// Whether a row says nothing new but that its run is running.
fn may_be_late(summary: &Summary, known: &Known) -> bool {
    let before = &known.row.summary;
    summary.status == Status::Running
        && before.status != Status::Running
        && before.status.is_active()
        && before.recoveries == summary.recoveries
        && before.branch == summary.branch
}

/// Whether a run that was over goes on. A row that is late may not say yet that it was over, but it cannot name the
/// branch on which the run goes on, and nobody has it there.
fn goes_on(known: Option<&Known>, row: &Summary) -> bool {
    let branch = known.map_or(BranchId::ROOT, |known| known.row.summary.branch);
    let is_elsewhere = row.branch != branch && row.owner.is_none();
    !row.status.is_terminal() && (known.is_some_and(Known::is_over) || is_elsewhere)
}

/// Whether nothing can keep this change from being done.
fn is_certain(change: &TaskChange) -> bool {
    match change {
        TaskChange::Create(task) => task.key.is_none() && task.lane.is_none(),
        _ => true,
    }
}

/// The last advance task that these changes make.
fn adopts(changes: &[TaskChange]) -> Option<TaskId> {
    changes.iter().rev().find_map(|change| match change {
        TaskChange::Create(task) if task.is_advance() => Some(task.id.clone()),
        _ => None,
    })
}

/// The run's own task is due at `at` if it is ready and would be later; if it is claimed, it is poked.
pub(crate) fn woken(mut task: Task, at: Millis, now: Millis) -> Option<Task> {
    match task.state {
        TaskState::Ready if task.run_at > at => task.run_at = at,
        TaskState::Claimed if !task.poked => task.poked = true,
        _ => return None,
    }
    task.changed_at = now.max(task.changed_at);
    task.version += 1;
    Some(task)
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use goldseam_store::conformance::make::{
        advance, append_with, append_with_row, at, create, run, task_id,
    };
    use goldseam_store::{ManualClock, Store, TaskFilter};
    use object_store::memory::InMemory;

    use super::*;
    use crate::BucketStore;
    use crate::bucket::Bucket;
    use crate::clock::StoreClock;
    use crate::request_counter::Tallies;
    use crate::url::Requests;

    /// A run with a claimed task. A signal's append comes right behind the one that releases the run, and changes the
    /// task first.
    #[tokio::test]
    async fn a_rest_that_comes_late_does_not_undo_the_poke_of_a_later_append() {
        let bucket = Bucket::new(Arc::new(InMemory::new()), "test", Arc::new(Tallies::default()));
        let clock = Arc::new(StoreClock::new(Some(ManualClock::default().clock())));
        let store = BucketStore::on(bucket, clock, Requests::Free);
        let task = advance("r", "own-r").claimed("n1", at(0));
        store.append(Append { tasks: vec![create(task)], ..append_with_row("r", 0) }).await.unwrap();
        store.append(append_with("r", 1, Vec::new())).await.unwrap();
        let released = store.inner().logs.find(&store.inner().bucket, &run("r"), 0).await.unwrap().unwrap();
        let released = Appended { end: released.end, batch: released.batch };
        let rest = || vec![TaskChange::Rest { task: task_id("own-r"), run_at: at(5_000_000) }];
        let resting = async || {
            let own = Some(task_id("own-r"));
            store.inner().apply((&run("r"), &released), own, rest(), true).await.unwrap();
            let filter = TaskFilter { id: Some(task_id("own-r")), limit: 1, ..TaskFilter::default() };
            store.tasks(filter).await.unwrap().remove(0).run_at
        };
        store.append(append_with("r", 2, vec![TaskChange::Wake { at: at(3) }])).await.unwrap();
        assert!(resting().await < at(5_000_000), "it is due");
    }
}
