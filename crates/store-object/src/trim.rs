//! Trims a log after its events were archived.
//!
//! Invariant: batch 1 of a log always exists, or the log could begin again. A trim therefore overwrites the first
//! batch, conditional on its ETag, with a pointer to the first batch that is kept, and then removes the batches in
//! between: readers skip them. A crash in between leaves objects that no reader reads, and the next trim removes them.

use futures_util::future::try_join_all;
use goldseam_core::{RunId, Seq};
use goldseam_store::StoreError;

use crate::batch::LogBatch;
use crate::bucket::{CONCURRENT_GETS, Put, PutCondition};
use crate::fault::busy;
use crate::inner::BucketState;
use crate::keys::{self, Part};

impl BucketState {
    pub(crate) async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        let hint = self.cached_row(run).await?.map_or(0, |row| row.batch);
        let Some(mut log) = self.logs.find(&self.bucket, run, hint).await? else { return Ok(()) };
        let mut batch = self.logs.search(&self.bucket, run, &mut log, first).await?;
        while batch <= log.batch {
            let next = match self.logs.get(&self.bucket, run, batch).await? {
                Some((found, _)) if found.first == first && found.kept.is_none() => {
                    return self.trim_to(run, &found).await;
                }
                Some((found, _)) => found.next(),
                None => batch + 1,
            };
            batch = next;
        }
        Ok(())
    }

    async fn trim_to(&self, run: &RunId, first: &LogBatch) -> Result<(), StoreError> {
        if first.batch == 1 {
            return Ok(());
        }
        let key = keys::batch(run, 1);
        let found = self.bucket.get(&key).await?;
        let is_trimmed = match &found {
            Some(found) => LogBatch::decode(&key, &found.body)?.kept.is_some(),
            None => false,
        };
        if !is_trimmed {
            let pointer = LogBatch::trimmed_to(first, self.write_ids.next()).encode();
            let condition = found.map_or(PutCondition::Absent, |found| PutCondition::Unchanged(found.tag));
            let put = self.bucket.put_if(&key, pointer, condition).await;
            self.logs.drop_batch(&key);
            if let Put::Lost(_) = put? {
                return Err(busy("trimming a log", "another process is trimming it".into()));
            }
        }
        let listed = self.bucket.list(&keys::log(run), None, usize::MAX).await?;
        let removed = listed.into_iter().filter(|entry| match keys::run_part(&entry.key) {
            Some((_, Part::Batch(batch))) => (2..first.batch).contains(&batch),
            _ => false,
        });
        for entries in removed.collect::<Vec<_>>().chunks(CONCURRENT_GETS) {
            try_join_all(entries.iter().map(|entry| self.bucket.delete(&entry.key))).await?;
            entries.iter().for_each(|entry| self.logs.drop_batch(&entry.key));
        }
        self.logs.forget(run);
        Ok(())
    }
}
