//! Cached rows: `state.json` of each run, changed by compare-and-set only, with the markers by which runs are found.
//!
//! A row that only says that the run is running now is written a little later, together with whatever comes next:
//! most runs end before that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{try_join, try_join_all};
use goldseam_core::task::Task;
use goldseam_core::{Millis, RunId, Seq, Status, Summary, TaskId};
use goldseam_store::{Expect, Row, StoreError, Written};
use serde::{Deserialize, Serialize};

use crate::append::woken;
use crate::bucket::{Found, Put, Tag, When};
use crate::clock::Moment;
use crate::fault::damaged;
use crate::keys::{self, Active, Place};
use crate::store::Inner;

/// How late a row may be that says nothing but that its run is running.
pub(crate) const LATE: Duration = Duration::from_secs(2);
/// Rows whose tags are remembered.
const REMEMBERED_MAX: usize = 20_000;
/// Times that a row is tried to be written against others.
const RACES_MAX: u32 = 50;
/// What this program writes.
const FORMAT: u32 = 1;

/// `state.json`.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// Says that the object is ours: others keep states of their own under the same names.
    goldseam: u32,
    id: RunId,
    status: Status,
    updated_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<TaskId>,
    /// A batch that the log has, to begin at when its end is looked for.
    batch: u64,
    /// The position behind which the run went on last, which its marker names.
    active: Seq,
    write: String,
    summary: Summary,
}

/// A row with what belongs to it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) row: Row,
    pub(crate) batch: u64,
    pub(crate) active: Seq,
    pub(crate) tag: Tag,
}

/// What stands at the place of a row.
#[derive(Debug, Clone)]
pub(crate) enum Seen {
    /// Nothing, or the state of another system's workflow.
    None,
    /// A row.
    Row(Box<Known>),
    /// What cannot be read, and why.
    Unreadable(String),
}

impl Seen {
    pub(crate) fn row(self) -> Option<Known> {
        match self {
            Self::Row(known) => Some(*known),
            Self::None | Self::Unreadable(_) => None,
        }
    }
}

impl Known {
    /// Reads a `state.json`; none if it is somebody else's.
    pub(crate) fn read(key: &str, found: Found) -> Result<Option<Self>, StoreError> {
        #[derive(Deserialize)]
        struct Whose {
            goldseam: Option<u32>,
        }
        let state: State = match serde_json::from_slice(&found.body) {
            Ok(state) => state,
            Err(error) => match serde_json::from_slice::<Whose>(&found.body) {
                Ok(Whose { goldseam: None }) => return Ok(None),
                _ => return Err(damaged(key, error)),
            },
        };
        let row = Row { summary: state.summary, task: state.task, updated_at: state.updated_at };
        Ok(Some(Self { row, batch: state.batch, active: state.active, tag: found.tag }))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.row.summary.status.is_terminal()
    }
}

/// A row to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewRow {
    pub(crate) summary: Summary,
    pub(crate) task: Option<TaskId>,
    pub(crate) batch: u64,
    /// Where the marker stands if the run has just begun or gone on; none: as before.
    pub(crate) active: Option<Seq>,
}

/// A row that is written later.
#[derive(Debug, Clone)]
pub(crate) struct Late {
    pub(crate) summary: Option<Summary>,
    pub(crate) batch: u64,
    /// Tasks that could not be made when they should have been.
    pub(crate) unmade: Vec<Task>,
    /// When the run's own task should have been due, if it could not be woken.
    pub(crate) wake: Option<Millis>,
    pub(crate) since: Moment,
}

/// What this process remembers of rows.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    known: Mutex<HashMap<RunId, Known>>,
    late: Mutex<HashMap<RunId, Late>>,
    /// Somebody will come back for what was put off.
    coming: AtomicBool,
}

impl Rows {
    /// What this process last saw: perhaps outdated, but enough to try a compare-and-set.
    pub(crate) fn last_seen(&self, run: &RunId) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned()
    }

    fn see(&self, run: &RunId, row: Option<Known>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        match row {
            Some(row) => known.insert(run.clone(), row),
            None => known.remove(run),
        };
    }

    fn lateness(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Late>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a row for later. Whether somebody must come back for it, as nobody else will.
    pub(crate) fn put_off(&self, run: &RunId, late: Late) -> bool {
        let mut all = self.lateness();
        all.insert(run.clone(), late);
        !self.coming.swap(true, Ordering::SeqCst)
    }

    /// Rows that have been put off for long enough.
    pub(crate) fn long_put_off(&self) -> Vec<RunId> {
        let all = self.lateness();
        let old = all.iter().filter(|(_, late)| late.since.elapsed() >= LATE);
        old.map(|(run, _)| run.clone()).collect()
    }

    /// Whether somebody must come back once more; if not, whoever puts off the next row sees to that.
    pub(crate) fn is_more_put_off(&self) -> bool {
        let all = self.lateness();
        self.coming.store(!all.is_empty(), Ordering::SeqCst);
        !all.is_empty()
    }

    pub(crate) fn take_late(&self, run: &RunId) -> Option<Late> {
        self.lateness().remove(run)
    }

    /// Forgets what was last seen.
    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Keeps a row that could not be written, unless a newer one was put off meanwhile.
    pub(crate) fn put_back(&self, run: &RunId, late: Late) {
        self.lateness().entry(run.clone()).or_insert(late);
    }

    fn all_late(&self) -> Vec<RunId> {
        self.lateness().keys().cloned().collect()
    }
}

impl Inner {
    /// The row as it is now; none if there is none, if it cannot be read, or if it is somebody else's.
    pub(crate) async fn row(&self, run: &RunId) -> Result<Option<Known>, StoreError> {
        Ok(self.look_at_row(run).await?.row())
    }

    /// What stands at the place of the row now.
    pub(crate) async fn look_at_row(&self, run: &RunId) -> Result<Seen, StoreError> {
        let key = keys::state(run);
        let seen = match self.bucket.get(&key).await? {
            Some(found) => match Known::read(&key, found) {
                Ok(Some(known)) => Seen::Row(Box::new(known)),
                Ok(None) => Seen::None,
                Err(error) => Seen::Unreadable(error.to_string()),
            },
            None => Seen::None,
        };
        self.rows.see(run, seen.clone().row());
        Ok(seen)
    }

    /// What is known of the row, asked for only if nothing is.
    pub(crate) async fn row_seen(&self, run: &RunId) -> Result<Option<Known>, StoreError> {
        match self.rows.last_seen(run) {
            Some(known) => Ok(Some(known)),
            None => self.row(run).await,
        }
    }

    /// Writes what `make` makes of the row, again and again until nobody was faster or it makes nothing.
    pub(crate) async fn change_row(
        &self,
        run: &RunId,
        mut make: impl FnMut(Option<&Known>) -> Option<NewRow> + Send,
    ) -> Result<Option<Known>, StoreError> {
        let known = self.row_seen(run).await?;
        self.change_row_from(known, &mut make).await
    }

    /// The same for somebody who knows what the row is.
    pub(crate) async fn change_row_from(
        &self,
        mut known: Option<Known>,
        make: &mut (dyn FnMut(Option<&Known>) -> Option<NewRow> + Send),
    ) -> Result<Option<Known>, StoreError> {
        for _ in 0..RACES_MAX {
            let Some(new) = make(known.as_ref()) else { return Ok(known) };
            match self.write_row(new, known.as_ref()).await? {
                Ok(written) => return Ok(Some(written)),
                Err(there) => known = there,
            }
        }
        Err(crate::fault::busy("writing a row", "too many concurrent writers".into()))
    }

    /// Writes a row over `before`. What makes the run findable is written first, what no longer does is taken away
    /// after it. The error is the row that is there instead.
    async fn write_row(
        &self,
        new: NewRow,
        before: Option<&Known>,
    ) -> Result<Result<Known, Option<Known>>, StoreError> {
        let run = new.summary.run.clone();
        let old = before.map(|known| &known.row);
        let updated_at = self.clock.now().max(old.map_or(Millis(1), |row| Millis(row.updated_at.0 + 1)));
        let active = new.active.or(before.map(|known| known.active)).unwrap_or(Seq::ZERO);
        self.mark_run(&new, before, active).await?;
        let NewRow { summary, task, batch, .. } = new;
        let state = State {
            goldseam: FORMAT,
            id: run.clone(),
            status: summary.status,
            updated_at,
            task,
            batch,
            active,
            write: self.writes.next(),
            summary,
        };
        let body: Bytes = serde_json::to_vec(&state).unwrap_or_default().into();
        let key = keys::state(&run);
        let when = before.map_or(When::Absent, |known| When::Is(known.tag.clone()));
        let forget = |_: &StoreError| self.rows.see(&run, None);
        let mut put = self.bucket.put_if(&key, body.clone(), when).await.inspect_err(forget)?;
        // What cannot be read is as good as nothing, and the log beside it says whose it is.
        if before.is_none()
            && let Put::Lost(Some(found)) = &put
            && Known::read(&key, found.clone()).is_err()
        {
            let tag = found.tag.clone();
            put = self.bucket.put_if(&key, body, When::Is(tag)).await.inspect_err(forget)?;
        }
        match put {
            Put::Done(tag) => {
                let row = Row { summary: state.summary, task: state.task, updated_at };
                let known = Known { row, batch, active, tag };
                self.rows.see(&run, Some(known.clone()));
                Ok(Ok(known))
            }
            Put::Lost(found) => {
                let read = found.map(|found| Known::read(&key, found));
                let foreign = matches!(read, Some(Ok(None)));
                let known = read.and_then(Result::ok).flatten();
                if foreign {
                    return Err(damaged(
                        &key,
                        "the object is the state of another system's workflow with the same id",
                    ));
                }
                self.rows.see(&run, known.clone());
                Ok(Err(known))
            }
        }
    }

    /// Puts the markers there that a row needs and its predecessor did not.
    async fn mark_run(&self, new: &NewRow, before: Option<&Known>, active: Seq) -> Result<(), StoreError> {
        let NewRow { summary, .. } = new;
        let place = |at| Place { at, run: summary.run.clone() };
        let mut markers = Vec::new();
        if before.is_none() && new.active.is_none() {
            markers.push(place(summary.created_at).key(keys::RUNS));
        }
        let went_on = before.is_none_or(Known::is_over) && new.active.is_none();
        if went_on && !summary.status.is_terminal() {
            markers.push(self.active_marker(summary, active).key());
        }
        let recovered = summary.recovered_at;
        if let Some(at) =
            recovered.filter(|_| before.and_then(|known| known.row.summary.recovered_at) != recovered)
        {
            markers.push(place(at).key(keys::RECOVERED));
        }
        try_join_all(markers.iter().map(|key| self.bucket.put(key, Bytes::new()))).await?;
        Ok(())
    }

    fn active_marker(&self, summary: &Summary, after: Seq) -> Active {
        Active { created: summary.created_at, run: summary.run.clone(), after }
    }

    /// Marks a run that is about to begin: where it stands in lists, and that it is not over.
    pub(crate) async fn mark_new(&self, run: &RunId, created: Millis) -> Result<(), StoreError> {
        let active = Active { created, run: run.clone(), after: Seq::ZERO }.key();
        let place = Place { at: created, run: run.clone() }.key(keys::RUNS);
        try_join(self.bucket.put(&active, Bytes::new()), self.bucket.put(&place, Bytes::new())).await?;
        Ok(())
    }

    /// Marks a run that was over and is about to go on.
    pub(crate) async fn mark_again(&self, summary: &Summary, after: Seq) -> Result<(), StoreError> {
        self.bucket.put(&self.active_marker(summary, after).key(), Bytes::new()).await.map(drop)
    }

    /// The run is over, and its row says so: nobody needs to look for it.
    pub(crate) async fn unmark_run(&self, known: &Known) {
        let key = self.active_marker(&known.row.summary, known.active).key();
        if let Err(error) = self.bucket.delete(&key).await {
            tracing::debug!(key, %error, "failed to remove the marker of a finished run");
        }
    }

    pub(crate) async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let run = row.summary.run.clone();
        self.write_late(&run).await?;
        let known = self.row(&run).await?;
        let version = known.as_ref().map(|known| known.row.version());
        let as_expected = match expect {
            Expect::Absent => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        };
        if !as_expected {
            return Ok(Written::Lost(known.map(|known| known.row)));
        }
        let batch = match &known {
            // Whoever made this row has read the log: it is newer than whatever was put off before.
            Some(known) => known.batch.max(self.logs.last_batch(&run)),
            // A run without a log has no row either, and gets none.
            None => match self.logs.find(&self.bucket, &run, 0).await? {
                Some(trace) => trace.batch,
                None => return Ok(Written::Lost(None)),
            },
        };
        let goes_on = known.as_ref().is_some_and(Known::is_over) && !row.summary.status.is_terminal();
        if goes_on {
            self.mark_again(&row.summary, row.summary.as_of).await?;
        }
        let active = goes_on.then_some(row.summary.as_of);
        let new = NewRow { summary: row.summary, task: row.task, batch, active };
        match self.write_row(new, known.as_ref()).await? {
            Ok(written) => {
                if written.is_over() && !known.is_some_and(|known| known.is_over()) {
                    self.unmark_run(&written).await;
                }
                self.watch.bump();
                Ok(Written::Done)
            }
            Err(there) => Ok(Written::Lost(there.map(|known| known.row))),
        }
    }

    /// Writes a row that was put off, and makes the tasks that could not be made with it.
    pub(crate) async fn write_late(&self, run: &RunId) -> Result<(), StoreError> {
        let Some(late) = self.rows.take_late(run) else { return Ok(()) };
        let written = self.catch_up(run, &late).await;
        if written.is_err() {
            self.rows.put_back(run, late);
        }
        written
    }

    async fn catch_up(&self, run: &RunId, late: &Late) -> Result<(), StoreError> {
        for task in &late.unmade {
            self.create_task(task).await?;
        }
        let own = late.unmade.iter().rev().find(|task| task.is_advance()).map(|task| task.id.clone());
        let row = match &late.summary {
            Some(summary) => self.write_late_row(run, (summary, late.batch), own).await?,
            None => self.row_seen(run).await?,
        };
        let task = row.as_ref().and_then(|known| known.row.task.clone());
        if let (Some(at), Some(task)) = (late.wake, &task) {
            self.change_task(task, |task, now| woken(task, at, now)).await?;
        }
        // Nobody advances a run that is over, and nobody looks for it.
        if let Some(known) = row.filter(Known::is_over) {
            if let Some(task) = &task {
                self.remove_task(task).await?;
            }
            self.unmark_run(&known).await;
        }
        Ok(())
    }

    async fn write_late_row(
        &self,
        run: &RunId,
        (summary, batch): (&Summary, u64),
        own: Option<TaskId>,
    ) -> Result<Option<Known>, StoreError> {
        let written = self.change_row(run, |known| {
            let is_late = known.is_none_or(|known| known.batch <= batch);
            is_late.then(|| NewRow {
                summary: summary.clone(),
                task: own.clone().or_else(|| known.and_then(|known| known.row.task.clone())),
                batch,
                active: None,
            })
        });
        written.await
    }

    /// Writes every row that was put off.
    pub(crate) async fn write_all_late(&self) -> Result<(), StoreError> {
        self.write_these(&self.rows.all_late()).await
    }

    /// Writes these rows, if they were put off.
    pub(crate) async fn write_these(&self, late: &[RunId]) -> Result<(), StoreError> {
        for runs in late.chunks(crate::bucket::SIDE_BY_SIDE) {
            try_join_all(runs.iter().map(|run| self.write_late(run))).await?;
        }
        Ok(())
    }
}
