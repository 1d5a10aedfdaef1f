//! Logs: batches with dense numbers, found from a hint and never by listing alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::try_join_all;
use goldseam_core::{Hash, RunId, Seq};
use goldseam_store::{Append, Record, StoreError};

use crate::batch::LogBatch;
use crate::bucket::{BucketPrefix, CONCURRENT_GETS, Put, PutCondition};
use crate::keys::{self, Part};

/// Most logs whose ends are remembered.
const REMEMBERED_MAX: usize = 20_000;
/// Most bytes of batches that are cached.
const KEPT_MAX: usize = 32 << 20;
/// Bytes that a cached batch costs besides its events.
const KEPT_EACH: usize = 256;
/// Most batches of one run whose first positions are remembered.
const POSITIONS_MAX: usize = 20_000;

/// What this process knows of a log: where it ends, and where batches begin.
#[derive(Debug, Clone)]
pub(crate) struct LogIndex {
    /// The last known batch; 0 before the first.
    pub(crate) batch: u64,
    /// The last position of that batch.
    pub(crate) end: Seq,
    /// The hash of that batch.
    pub(crate) hash: Hash,
    /// Batches by their first positions.
    batch_by_first: BTreeMap<Seq, u64>,
}

impl LogIndex {
    const fn empty() -> Self {
        Self { batch: 0, end: Seq::ZERO, hash: Hash::ZERO, batch_by_first: BTreeMap::new() }
    }

    fn record(&mut self, batch: &LogBatch, hash: Hash) {
        if self.batch_by_first.len() >= POSITIONS_MAX {
            self.batch_by_first.clear();
        }
        self.batch_by_first.insert(batch.first, batch.batch);
        if batch.batch > self.batch {
            (self.batch, self.hash) = (batch.batch, hash);
            self.end = self.end.max(batch.end());
        }
    }

    /// The nearest known batch that begins at or before this position.
    fn at_or_before(&self, seq: Seq) -> u64 {
        self.batch_by_first.range(..=seq).next_back().map_or(1, |(_, batch)| *batch)
    }

    /// The first known batch that begins after this position.
    fn after(&self, seq: Seq) -> Option<u64> {
        self.batch_by_first.range(seq.next()..).next().map(|(_, batch)| *batch)
    }
}

/// The logs of all runs.
#[derive(Debug, Default)]
pub(crate) struct LogTable {
    indexes: Mutex<HashMap<RunId, LogIndex>>,
    batches: Mutex<BatchCache>,
}

/// Batches that this process has written or read. Batches never change, so none is read twice.
#[derive(Debug, Default)]
struct BatchCache {
    all: HashMap<String, (Arc<LogBatch>, Hash)>,
    bytes: usize,
}

impl BatchCache {
    fn keep(&mut self, key: String, batch: Arc<LogBatch>, hash: Hash) {
        let bytes = batch.records.iter().map(|record| record.body.len()).sum::<usize>() + KEPT_EACH;
        if self.bytes + bytes > KEPT_MAX {
            *self = Self::default();
        }
        if bytes <= KEPT_MAX && self.all.insert(key, (batch, hash)).is_none() {
            self.bytes += bytes;
        }
    }

    fn drop_one(&mut self, key: &str) {
        if let Some((batch, _)) = self.all.remove(key) {
            let bytes = batch.records.iter().map(|record| record.body.len()).sum::<usize>() + KEPT_EACH;
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }
}

/// Which records to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadRange {
    /// The position before the first record.
    pub(crate) after: Seq,
    /// Most records.
    pub(crate) limit: usize,
}

/// Where a log ends after an append.
#[derive(Debug)]
pub(crate) struct AppendedBatch {
    pub(crate) end: Seq,
    pub(crate) batch: u64,
}

impl LogTable {
    fn index(&self, run: &RunId) -> Option<LogIndex> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned()
    }

    /// The last known batch of a run.
    pub(crate) fn last_batch(&self, run: &RunId) -> u64 {
        self.index(run).map_or(0, |log| log.batch)
    }

    fn remember(&self, run: &RunId, log: LogIndex) {
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if indexes.len() >= REMEMBERED_MAX {
            indexes.clear();
        }
        indexes.insert(run.clone(), log);
    }

    /// Forgets the index of a run, for example after a write with an unknown outcome.
    pub(crate) fn forget(&self, run: &RunId) {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }

    /// Removes a batch from the cache after it was trimmed.
    pub(crate) fn drop_batch(&self, key: &str) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).drop_one(key);
    }

    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.batches.lock().unwrap_or_else(PoisonError::into_inner) = BatchCache::default();
    }

    fn kept(&self, key: &str) -> Option<(Arc<LogBatch>, Hash)> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).all.get(key).cloned()
    }

    fn keep(&self, key: String, batch: Arc<LogBatch>, hash: Hash) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).keep(key, batch, hash);
    }

    /// Appends if the log ends at exactly `append.after`. `hint` names a batch that the row knows.
    pub(crate) async fn append(
        &self,
        bucket: &BucketPrefix,
        append: &Append,
        write: String,
        hint: impl AsyncFnOnce() -> Result<u64, StoreError>,
    ) -> Result<AppendedBatch, StoreError> {
        let run = &append.run;
        let log = match self.index(run) {
            Some(log) if log.end == append.after => log,
            // Most runs that begin are new, so their logs are not searched.
            None if append.after == Seq::ZERO => LogIndex::empty(),
            _ => {
                let Some(log) = self.find(bucket, run, hint().await?).await? else {
                    return Err(StoreError::Conflict { end: Seq::ZERO });
                };
                if log.end != append.after {
                    return Err(StoreError::Conflict { end: log.end });
                }
                log
            }
        };
        let first = append.after.next();
        let records = (first.0..).map(Seq).zip(&append.bodies);
        let batch = LogBatch {
            batch: log.batch + 1,
            first,
            epoch: append.row.as_ref().map(|row| row.epoch).filter(|epoch| *epoch > Seq::ZERO),
            write,
            before: log.hash,
            records: records.map(|(seq, body)| Record { seq, body: body.clone() }).collect(),
            kept: None,
        };
        let object = batch.encode();
        let hash = Hash::of(&object);
        let key = keys::batch(run, batch.batch);
        match bucket.put_if(&key, object, PutCondition::CreateOnce).await {
            Ok(Put::Done(_)) => {
                let mut log = log;
                log.record(&batch, hash);
                self.keep(key, Arc::new(batch), hash);
                let appended = AppendedBatch { end: log.end, batch: log.batch };
                self.remember(run, log);
                Ok(appended)
            }
            Ok(Put::Lost(_)) => {
                let found = self.forward(bucket, run, log).await?;
                Err(StoreError::Conflict { end: found.end })
            }
            Err(error) => {
                self.forget(run);
                Err(error)
            }
        }
    }

    /// Finds the current end of a log, beginning at batch `hint`; none without a log.
    pub(crate) async fn find(
        &self,
        bucket: &BucketPrefix,
        run: &RunId,
        hint: u64,
    ) -> Result<Option<LogIndex>, StoreError> {
        let (known, batch_by_first) =
            self.index(run).map_or_else(Default::default, |log| (log.batch, log.batch_by_first));
        let mut log = LogIndex { batch_by_first, ..LogIndex::empty() };
        let from = match hint.max(known) {
            0 => None,
            batch => self.get(bucket, run, batch).await?,
        };
        let from = match from {
            Some(from) => Some(from),
            // The hint is missing or wrong: a list is a hint like any other.
            None => {
                let listed = bucket.list(&keys::log(run), None, usize::MAX).await?;
                let last = listed.iter().rev().find_map(|entry| match keys::run_part(&entry.key) {
                    Some((_, Part::Batch(batch))) => Some(batch),
                    _ => None,
                });
                match last {
                    Some(last) => self.get(bucket, run, last).await?,
                    None => None,
                }
            }
        };
        if let Some((batch, hash)) = from {
            // An emptied batch ends where the batch before it ends.
            let mut earlier = batch.batch;
            while batch.records.is_empty() && log.end == Seq::ZERO && earlier > 1 {
                earlier -= 1;
                if let Some((before, _)) = self.get(bucket, run, earlier).await? {
                    log.end = before.end();
                }
            }
            log.record(&batch, hash);
        }
        let log = self.forward(bucket, run, log).await?;
        Ok((log.batch > 0).then_some(log))
    }

    /// Reads from the last batch of `log` to the end.
    async fn forward(
        &self,
        bucket: &BucketPrefix,
        run: &RunId,
        mut log: LogIndex,
    ) -> Result<LogIndex, StoreError> {
        let mut next = log.batch + 1;
        while let Some((batch, hash)) = self.get(bucket, run, next).await? {
            log.record(&batch, hash);
            next = batch.next();
        }
        if log.batch > 0 {
            self.remember(run, log.clone());
        }
        Ok(log)
    }

    /// Returns a batch, if it exists.
    pub(crate) async fn get(
        &self,
        bucket: &BucketPrefix,
        run: &RunId,
        batch: u64,
    ) -> Result<Option<(Arc<LogBatch>, Hash)>, StoreError> {
        let key = keys::batch(run, batch);
        if let Some(kept) = self.kept(&key) {
            return Ok(Some(kept));
        }
        let Some(found) = bucket.get(&key).await? else { return Ok(None) };
        let read = match LogBatch::decode(&key, &found.body) {
            Ok(read) if read.batch == batch => read,
            // A damaged batch shows as damaged events, and the log continues after it.
            _ => LogBatch::salvage(&found.body, batch, self.end_before(bucket, run, batch).await?),
        };
        let read = Arc::new(read);
        let hash = Hash::of(&found.body);
        self.keep(key, Arc::clone(&read), hash);
        Ok(Some((read, hash)))
    }

    /// The last position before this batch.
    async fn end_before(&self, bucket: &BucketPrefix, run: &RunId, batch: u64) -> Result<Seq, StoreError> {
        for earlier in (1..batch).rev() {
            if let Some((before, _)) = Box::pin(self.get(bucket, run, earlier)).await?
                && !before.records.is_empty()
            {
                return Ok(before.end());
            }
        }
        Ok(Seq::ZERO)
    }

    /// Reads records. A missing batch before an existing one is a gap.
    pub(crate) async fn read(
        &self,
        bucket: &BucketPrefix,
        run: &RunId,
        range: ReadRange,
        hint: impl AsyncFnOnce() -> Result<u64, StoreError>,
    ) -> Result<Vec<Record>, StoreError> {
        let ReadRange { after, limit } = range;
        let mut log = match self.index(run) {
            Some(log) => log,
            None => match self.find(bucket, run, hint().await?).await? {
                Some(log) => log,
                None => return Ok(Vec::new()),
            },
        };
        let mut next = self.search(bucket, run, &mut log, after.next()).await?;
        let mut records = Vec::new();
        while records.len() < limit {
            // Known batches are read concurrently, possible ones one by one.
            let ahead = log.batch.saturating_sub(next).saturating_add(1).clamp(1, CONCURRENT_GETS as u64);
            let ahead = ahead.min((limit - records.len()) as u64);
            let gets = (next..next + ahead).map(|batch| self.get(bucket, run, batch));
            let found = try_join_all(gets).await?;
            let mut is_at_end = false;
            let mut following = next + ahead;
            for (batch, found) in (next..).zip(found) {
                let Some((read, hash)) = found else {
                    is_at_end |= batch > log.batch;
                    continue;
                };
                log.record(&read, hash);
                following = following.max(read.next());
                records.extend(read.records.iter().filter(|record| record.seq > after).cloned());
            }
            if is_at_end && following == next + ahead {
                break;
            }
            next = following;
        }
        records.truncate(limit);
        self.remember(run, log);
        Ok(records)
    }

    /// Finds the batch that holds `seq`, or one before it, by bisection between the nearest known batches.
    pub(crate) async fn search(
        &self,
        bucket: &BucketPrefix,
        run: &RunId,
        log: &mut LogIndex,
        seq: Seq,
    ) -> Result<u64, StoreError> {
        if seq > log.end {
            return Ok(log.batch + 1);
        }
        let mut low = log.at_or_before(seq);
        let mut high = log.after(seq).unwrap_or(log.batch + 1);
        while high - low > CONCURRENT_GETS as u64 {
            let middle = low + (high - low) / 2;
            let Some((batch, hash)) = self.get(bucket, run, middle).await? else {
                // Begin before a gap.
                return Ok(low);
            };
            log.record(&batch, hash);
            if batch.first <= seq { low = middle } else { high = middle }
        }
        Ok(low)
    }
}
