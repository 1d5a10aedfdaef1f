//! What is left of a log that was archived.
//!
//! Invariant: number 1 of a log is always taken, or the log could be begun anew. So a log is trimmed by writing over its
//! first batch, by its ETag, where it goes on; what lies between is removed after that, and whoever reads does not miss
//! it. A crash in between leaves objects that nobody reads, and the next trim removes them.

use futures_util::future::try_join_all;
use goldseam_core::{RunId, Seq};
use goldseam_store::StoreError;

use crate::batch::Batch;
use crate::bucket::{Put, SIDE_BY_SIDE, When};
use crate::fault::busy;
use crate::keys::{self, Part};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        let hint = self.row_seen(run).await?.map_or(0, |known| known.batch);
        let Some(mut trace) = self.logs.find(&self.bucket, run, hint).await? else { return Ok(()) };
        let mut batch = self.logs.search(&self.bucket, run, &mut trace, first).await?;
        while batch <= trace.batch {
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

    async fn trim_to(&self, run: &RunId, first: &Batch) -> Result<(), StoreError> {
        if first.batch == 1 {
            return Ok(());
        }
        let key = keys::batch(run, 1);
        let found = self.bucket.get(&key).await?;
        let is_trimmed = match &found {
            Some(found) => Batch::decode(&key, &found.body)?.kept.is_some(),
            None => false,
        };
        if !is_trimmed {
            let left = Batch::trimmed_to(first, self.writes.next()).encode();
            let when = found.map_or(When::Absent, |found| When::Is(found.tag));
            let put = self.bucket.put_if(&key, left, when).await;
            self.logs.drop_batch(&key);
            if let Put::Lost(_) = put? {
                return Err(busy("trimming a log", "another process is trimming it".into()));
            }
        }
        let listed = self.bucket.list(&keys::log(run), None, usize::MAX).await?;
        let gone = listed.into_iter().filter(|entry| match keys::part(&entry.key) {
            Some((_, Part::Batch(batch))) => (2..first.batch).contains(&batch),
            _ => false,
        });
        for keys in gone.collect::<Vec<_>>().chunks(SIDE_BY_SIDE) {
            try_join_all(keys.iter().map(|entry| self.bucket.delete(&entry.key))).await?;
            keys.iter().for_each(|entry| self.logs.drop_batch(&entry.key));
        }
        self.logs.forget(run);
        Ok(())
    }
}
