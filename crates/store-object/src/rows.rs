//! Cached rows: `state.json` of each run, changed only by compare-and-set, and the markers that lists are made of.
//!
//! A row that only says that its run is running is deferred for a moment and written together with the next change:
//! most runs end before that.

use bytes::Bytes;
use futures_util::future::{try_join, try_join_all};
use goldseam_core::{Millis, RunId, Seq, Summary, TaskId};
use goldseam_store::{Expect, Row, StoreError, Written};

use crate::bucket::{CONCURRENT_GETS, Put, PutCondition};
use crate::fault::{busy, damaged};
use crate::inner::BucketState;
use crate::keys::{self, ActiveMarker, RunMarker};
use crate::row_cache::{DeferredRow, NewRow, RowState, StoredRow};
use crate::tasks::woken;

/// Most attempts to write a row against concurrent writers.
const RACES_MAX: u32 = 50;

impl BucketState {
    /// Reads the row; none if it does not exist, is unreadable, or belongs to another system.
    pub(crate) async fn row(&self, run: &RunId) -> Result<Option<StoredRow>, StoreError> {
        Ok(self.read_row(run).await?.row())
    }

    /// Reads the row, and tells an unreadable one from a missing one.
    pub(crate) async fn read_row(&self, run: &RunId) -> Result<RowState, StoreError> {
        let key = keys::state(run);
        let state = match self.bucket.get(&key).await? {
            Some(object) => match StoredRow::read(&key, object) {
                Ok(Some(row)) => RowState::Row(Box::new(row)),
                Ok(None) => RowState::None,
                Err(error) => RowState::Unreadable(error.to_string()),
            },
            None => RowState::None,
        };
        self.rows.remember(run, state.clone().row());
        Ok(state)
    }

    /// Returns the remembered row, and reads it only if this process remembers none.
    pub(crate) async fn cached_row(&self, run: &RunId) -> Result<Option<StoredRow>, StoreError> {
        match self.rows.last_seen(run) {
            Some(row) => Ok(Some(row)),
            None => self.row(run).await,
        }
    }

    /// Writes what `make` makes of the row. Repeats it after a lost race, until `make` returns none.
    pub(crate) async fn change_row(
        &self,
        run: &RunId,
        mut make: impl FnMut(Option<&StoredRow>) -> Option<NewRow> + Send,
    ) -> Result<Option<StoredRow>, StoreError> {
        let current = self.cached_row(run).await?;
        self.change_row_from(current, &mut make).await
    }

    /// As [`change_row`](Self::change_row), with the row that the caller has read.
    pub(crate) async fn change_row_from(
        &self,
        mut current: Option<StoredRow>,
        make: &mut (dyn FnMut(Option<&StoredRow>) -> Option<NewRow> + Send),
    ) -> Result<Option<StoredRow>, StoreError> {
        for _ in 0..RACES_MAX {
            let Some(new) = make(current.as_ref()) else { return Ok(current) };
            match self.write_row(new, current.as_ref()).await? {
                Ok(written) => return Ok(Some(written)),
                Err(rival) => current = rival,
            }
        }
        Err(busy("writing a row", "too many concurrent writers".into()))
    }

    /// Writes a row over `before`, after the markers that it needs. The inner error is the row that a rival wrote.
    async fn write_row(
        &self,
        new: NewRow,
        before: Option<&StoredRow>,
    ) -> Result<Result<StoredRow, Option<StoredRow>>, StoreError> {
        let run = new.summary.run.clone();
        let old = before.map(|before| &before.row);
        let updated_at = self.clock.now().max(old.map_or(Millis(1), |row| Millis(row.updated_at.0 + 1)));
        let active = new.active.or(before.map(|before| before.active)).unwrap_or(Seq::ZERO);
        self.mark_run(&new, before, active).await?;
        let NewRow { summary, task, batch, .. } = new;
        let row = Row { summary, task, updated_at };
        let body = StoredRow::encode(&row, batch, active, self.write_ids.next());
        let key = keys::state(&run);
        let condition =
            before.map_or(PutCondition::Absent, |before| PutCondition::Unchanged(before.tag.clone()));
        let forget = |_: &StoreError| self.rows.remember(&run, None);
        let mut put = self.bucket.put_if(&key, body.clone(), condition).await.inspect_err(forget)?;
        // An unreadable row counts as missing: the log beside it proves that it is ours.
        if before.is_none()
            && let Put::Lost(Some(found)) = &put
            && StoredRow::read(&key, found.clone()).is_err()
        {
            let condition = PutCondition::Unchanged(found.tag.clone());
            put = self.bucket.put_if(&key, body, condition).await.inspect_err(forget)?;
        }
        match put {
            Put::Done(tag) => {
                let written = StoredRow { row, batch, active, tag };
                self.rows.remember(&run, Some(written.clone()));
                Ok(Ok(written))
            }
            Put::Lost(found) => {
                let read = found.map(|found| StoredRow::read(&key, found));
                let is_foreign = matches!(read, Some(Ok(None)));
                let rival = read.and_then(Result::ok).flatten();
                if is_foreign {
                    return Err(damaged(
                        &key,
                        "the object is the state of another system's workflow with the same id",
                    ));
                }
                self.rows.remember(&run, rival.clone());
                Ok(Err(rival))
            }
        }
    }

    /// Writes the markers that a row needs and its predecessor did not.
    async fn mark_run(
        &self,
        new: &NewRow,
        before: Option<&StoredRow>,
        active: Seq,
    ) -> Result<(), StoreError> {
        let NewRow { summary, .. } = new;
        let marker = |at| RunMarker { at, run: summary.run.clone() };
        let mut markers = Vec::new();
        if before.is_none() && new.active.is_none() {
            markers.push(marker(summary.created_at).key(keys::RUNS));
        }
        let is_activated = before.is_none_or(StoredRow::is_over) && new.active.is_none();
        if is_activated && !summary.status.is_terminal() {
            markers.push(active_marker(summary, active).key());
        }
        let recovered = summary.recovered_at;
        let recovered_before = before.and_then(|before| before.row.summary.recovered_at);
        if let Some(at) = recovered.filter(|_| recovered_before != recovered) {
            markers.push(marker(at).key(keys::RECOVERED));
        }
        try_join_all(markers.iter().map(|key| self.bucket.put(key, Bytes::new()))).await?;
        Ok(())
    }

    /// Marks a run that is about to begin: as a run, and as active.
    pub(crate) async fn mark_new(&self, run: &RunId, created: Millis) -> Result<(), StoreError> {
        let active = ActiveMarker { created, run: run.clone(), after: Seq::ZERO }.key();
        let listed = RunMarker { at: created, run: run.clone() }.key(keys::RUNS);
        try_join(self.bucket.put(&active, Bytes::new()), self.bucket.put(&listed, Bytes::new())).await?;
        Ok(())
    }

    /// Marks an ended run that is about to be reactivated.
    pub(crate) async fn mark_reactivated(&self, summary: &Summary, after: Seq) -> Result<(), StoreError> {
        self.bucket.put(&active_marker(summary, after).key(), Bytes::new()).await.map(drop)
    }

    /// Removes the marker of an active run, whose row says that it has ended.
    pub(crate) async fn unmark_run(&self, ended: &StoredRow) {
        let key = active_marker(&ended.row.summary, ended.active).key();
        if let Err(error) = self.bucket.delete(&key).await {
            tracing::debug!(key, %error, "failed to remove the marker of a finished run");
        }
    }

    pub(crate) async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let run = row.summary.run.clone();
        self.write_deferred(&run).await?;
        let current = self.row(&run).await?;
        let version = current.as_ref().map(|current| current.row.version());
        let is_expected = match expect {
            Expect::Absent => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        };
        if !is_expected {
            return Ok(Written::Lost(current.map(|current| current.row)));
        }
        let batch = match &current {
            // The caller has read the log, so this row is newer than any that was deferred before.
            Some(current) => current.batch.max(self.logs.last_batch(&run)),
            // A run without a log gets no row.
            None => match self.logs.find(&self.bucket, &run, 0).await? {
                Some(log) => log.batch,
                None => return Ok(Written::Lost(None)),
            },
        };
        let was_over = current.as_ref().is_some_and(StoredRow::is_over);
        let reactivates = was_over && !row.summary.status.is_terminal();
        if reactivates {
            self.mark_reactivated(&row.summary, row.summary.as_of).await?;
        }
        let active = reactivates.then_some(row.summary.as_of);
        let new = NewRow { summary: row.summary, task: row.task, batch, active };
        match self.write_row(new, current.as_ref()).await? {
            Ok(written) => {
                if written.is_over() && !was_over {
                    self.unmark_run(&written).await;
                }
                self.watch.bump();
                Ok(Written::Done)
            }
            Err(rival) => Ok(Written::Lost(rival.map(|rival| rival.row))),
        }
    }

    /// Writes a deferred row, and the tasks whose creation failed with it.
    pub(crate) async fn write_deferred(&self, run: &RunId) -> Result<(), StoreError> {
        let Some(deferred) = self.rows.take_deferred(run) else { return Ok(()) };
        let written = self.catch_up(run, &deferred).await;
        if written.is_err() {
            self.rows.restore_deferred(run, deferred);
        }
        written
    }

    async fn catch_up(&self, run: &RunId, deferred: &DeferredRow) -> Result<(), StoreError> {
        for task in &deferred.unmade {
            self.create_task(task).await?;
        }
        let own = deferred.unmade.iter().rev().find(|task| task.is_advance()).map(|task| task.id.clone());
        let row = match &deferred.summary {
            Some(summary) => {
                let new = NewRow { summary: summary.clone(), task: own, batch: deferred.batch, active: None };
                self.write_deferred_row(run, new).await?
            }
            None => self.cached_row(run).await?,
        };
        let task: Option<TaskId> = row.as_ref().and_then(|stored| stored.row.task.clone());
        if let (Some(at), Some(task)) = (deferred.wake, &task) {
            self.change_task(task, |task, now| woken(task, at, now)).await?;
        }
        // An ended run needs neither its advance task nor its marker.
        if let Some(ended) = row.filter(StoredRow::is_over) {
            if let Some(task) = &task {
                self.remove_task(task).await?;
            }
            self.unmark_run(&ended).await;
        }
        Ok(())
    }

    /// Writes a row unless a later one is stored. Keeps the stored task if `new` has none.
    async fn write_deferred_row(&self, run: &RunId, new: NewRow) -> Result<Option<StoredRow>, StoreError> {
        let written = self.change_row(run, |current| {
            let is_newer = current.is_none_or(|current| current.batch <= new.batch);
            let task = || new.task.clone().or_else(|| current.and_then(|current| current.row.task.clone()));
            is_newer.then(|| NewRow { task: task(), ..new.clone() })
        });
        written.await
    }

    /// Writes every deferred row.
    pub(crate) async fn write_all_deferred(&self) -> Result<(), StoreError> {
        self.write_deferred_of(&self.rows.all_deferred()).await
    }

    /// Writes the deferred rows of these runs.
    pub(crate) async fn write_deferred_of(&self, runs: &[RunId]) -> Result<(), StoreError> {
        for runs in runs.chunks(CONCURRENT_GETS) {
            try_join_all(runs.iter().map(|run| self.write_deferred(run))).await?;
        }
        Ok(())
    }
}

fn active_marker(summary: &Summary, after: Seq) -> ActiveMarker {
    ActiveMarker { created: summary.created_at, run: summary.run.clone(), after }
}
