//! The log: batches behind one another, found from a hint, never by listing alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::try_join_all;
use goldseam_core::{Hash, RunId, Seq};
use goldseam_store::{Append, Record, StoreError};

use crate::batch::Batch;
use crate::bucket::{Bucket, Put, SIDE_BY_SIDE, When};
use crate::keys::{self, Part};

/// Runs whose logs' ends are remembered.
const REMEMBERED_MAX: usize = 20_000;
/// Bytes of batches that are kept.
const KEPT_MAX: usize = 32 << 20;
/// Bytes that a batch costs besides its events.
const KEPT_EACH: usize = 256;
/// Batches whose first positions are remembered for one run.
const PLACES_MAX: usize = 20_000;

/// What this process knows of a log: a batch that was there, and what stood where.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// The last batch that is known; 0 is before the first one.
    pub(crate) batch: u64,
    /// Where the log ends with it.
    pub(crate) end: Seq,
    /// Its fingerprint.
    pub(crate) hash: Hash,
    /// Batches by their first positions.
    places: BTreeMap<Seq, u64>,
}

impl Trace {
    const fn empty() -> Self {
        Self { batch: 0, end: Seq::ZERO, hash: Hash::ZERO, places: BTreeMap::new() }
    }

    fn saw(&mut self, batch: &Batch, hash: Hash) {
        if self.places.len() >= PLACES_MAX {
            self.places.clear();
        }
        self.places.insert(batch.first, batch.batch);
        if batch.batch > self.batch {
            (self.batch, self.hash) = (batch.batch, hash);
            self.end = self.end.max(batch.end());
        }
    }

    /// A batch that begins at or before this position, as near as is known.
    fn at_or_before(&self, seq: Seq) -> u64 {
        self.places.range(..=seq).next_back().map_or(1, |(_, batch)| *batch)
    }

    /// The first batch that is known to begin behind this position.
    fn behind(&self, seq: Seq) -> Option<u64> {
        self.places.range(seq.next()..).next().map(|(_, batch)| *batch)
    }
}

/// The logs of all runs, with what this process remembers of them.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    traces: Mutex<HashMap<RunId, Trace>>,
    batches: Mutex<Batches>,
}

/// Batches that this process has written or read: nobody changes one, so none is read twice.
#[derive(Debug, Default)]
struct Batches {
    all: HashMap<String, (Arc<Batch>, Hash)>,
    bytes: usize,
}

impl Batches {
    fn keep(&mut self, key: String, batch: Arc<Batch>, hash: Hash) {
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

/// What became of an append.
#[derive(Debug)]
pub(crate) struct Appended {
    pub(crate) end: Seq,
    pub(crate) batch: u64,
}

impl Logs {
    fn known(&self, run: &RunId) -> Option<Trace> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned()
    }

    /// The last batch that this process knows of.
    pub(crate) fn last_batch(&self, run: &RunId) -> u64 {
        self.known(run).map_or(0, |trace| trace.batch)
    }

    fn remember(&self, run: &RunId, trace: Trace) {
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if traces.len() >= REMEMBERED_MAX {
            traces.clear();
        }
        traces.insert(run.clone(), trace);
    }

    /// Forgets what it knows of a run: somebody may have changed what nobody changes.
    pub(crate) fn forget(&self, run: &RunId) {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }

    /// Forgets a batch that is there no more, or not as it was.
    pub(crate) fn drop_batch(&self, key: &str) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).drop_one(key);
    }

    /// Forgets what it knows of every run.
    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.batches.lock().unwrap_or_else(PoisonError::into_inner) = Batches::default();
    }

    fn kept(&self, key: &str) -> Option<(Arc<Batch>, Hash)> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).all.get(key).cloned()
    }

    fn keep(&self, key: String, batch: Arc<Batch>, hash: Hash) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).keep(key, batch, hash);
    }

    /// Appends if the log ends at exactly `append.after`. `hint` names a batch that a row knew.
    pub(crate) async fn append(
        &self,
        bucket: &Bucket,
        append: &Append,
        write: String,
        hint: impl AsyncFnOnce() -> Result<u64, StoreError>,
    ) -> Result<Appended, StoreError> {
        let run = &append.run;
        let trace = match self.known(run) {
            Some(trace) if trace.end == append.after => trace,
            // Most runs that begin are new: nobody looks before.
            None if append.after == Seq::ZERO => Trace::empty(),
            _ => {
                let Some(trace) = self.find(bucket, run, hint().await?).await? else {
                    return Err(StoreError::Conflict { end: Seq::ZERO });
                };
                if trace.end != append.after {
                    return Err(StoreError::Conflict { end: trace.end });
                }
                trace
            }
        };
        let first = append.after.next();
        let records = (first.0..).map(Seq).zip(&append.bodies);
        let batch = Batch {
            batch: trace.batch + 1,
            first,
            epoch: append.row.as_ref().map(|row| row.epoch).filter(|epoch| *epoch > Seq::ZERO),
            write,
            before: trace.hash,
            records: records.map(|(seq, body)| Record { seq, body: body.clone() }).collect(),
            kept: None,
        };
        let object = batch.encode();
        let hash = Hash::of(&object);
        let key = keys::batch(run, batch.batch);
        match bucket.put_if(&key, object, When::Never).await {
            Ok(Put::Done(_)) => {
                let mut trace = trace;
                trace.saw(&batch, hash);
                self.keep(key, Arc::new(batch), hash);
                let appended = Appended { end: trace.end, batch: trace.batch };
                self.remember(run, trace);
                Ok(appended)
            }
            Ok(Put::Lost(_)) => {
                let found = self.forward(bucket, run, trace).await?;
                Err(StoreError::Conflict { end: found.end })
            }
            Err(error) => {
                self.forget(run);
                Err(error)
            }
        }
    }

    /// The end of the log as it is now; none if there is no log. Begins at the batch that `hint` names.
    pub(crate) async fn find(
        &self,
        bucket: &Bucket,
        run: &RunId,
        hint: u64,
    ) -> Result<Option<Trace>, StoreError> {
        let (known, places) =
            self.known(run).map_or_else(Default::default, |trace| (trace.batch, trace.places));
        let mut trace = Trace { places, ..Trace::empty() };
        let from = match hint.max(known) {
            0 => None,
            batch => self.get(bucket, run, batch).await?,
        };
        let from = match from {
            Some(from) => Some(from),
            // Nothing says where the log ends, or what said so was wrong: a list is a hint like any other.
            None => {
                let listed = bucket.list(&keys::log(run), None, usize::MAX).await?;
                let last = listed.iter().rev().find_map(|entry| match keys::part(&entry.key) {
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
            // An emptied batch ends where the one before it does.
            let mut earlier = batch.batch;
            while batch.records.is_empty() && trace.end == Seq::ZERO && earlier > 1 {
                earlier -= 1;
                if let Some((before, _)) = self.get(bucket, run, earlier).await? {
                    trace.end = before.end();
                }
            }
            trace.saw(&batch, hash);
        }
        let trace = self.forward(bucket, run, trace).await?;
        Ok((trace.batch > 0).then_some(trace))
    }

    /// Reads on from the last batch of `trace` to the end.
    async fn forward(&self, bucket: &Bucket, run: &RunId, mut trace: Trace) -> Result<Trace, StoreError> {
        let mut next = trace.batch + 1;
        while let Some((batch, hash)) = self.get(bucket, run, next).await? {
            trace.saw(&batch, hash);
            next = batch.next();
        }
        if trace.batch > 0 {
            self.remember(run, trace.clone());
        }
        Ok(trace)
    }

    /// A batch, if it is there.
    pub(crate) async fn get(
        &self,
        bucket: &Bucket,
        run: &RunId,
        batch: u64,
    ) -> Result<Option<(Arc<Batch>, Hash)>, StoreError> {
        let key = keys::batch(run, batch);
        if let Some(kept) = self.kept(&key) {
            return Ok(Some(kept));
        }
        let Some(found) = bucket.get(&key).await? else { return Ok(None) };
        let read = match Batch::decode(&key, &found.body) {
            Ok(read) if read.batch == batch => read,
            // The log shows its damage where it is, and goes on behind it.
            _ => Batch::salvage(&found.body, (batch, self.end_before(bucket, run, batch).await?)),
        };
        let (read, hash) = (Arc::new(read), Hash::of(&found.body));
        self.keep(key, Arc::clone(&read), hash);
        Ok(Some((read, hash)))
    }

    /// Where the log ends before this batch.
    async fn end_before(&self, bucket: &Bucket, run: &RunId, batch: u64) -> Result<Seq, StoreError> {
        for earlier in (1..batch).rev() {
            if let Some((before, _)) = Box::pin(self.get(bucket, run, earlier)).await?
                && !before.records.is_empty()
            {
                return Ok(before.end());
            }
        }
        Ok(Seq::ZERO)
    }

    /// Up to `limit` records after `after`. A batch that is missing before one that is there is a gap.
    pub(crate) async fn read(
        &self,
        bucket: &Bucket,
        run: &RunId,
        (after, limit): (Seq, usize),
        hint: impl AsyncFnOnce() -> Result<u64, StoreError>,
    ) -> Result<Vec<Record>, StoreError> {
        let mut trace = match self.known(run) {
            Some(trace) => trace,
            None => match self.find(bucket, run, hint().await?).await? {
                Some(trace) => trace,
                None => return Ok(Vec::new()),
            },
        };
        let mut next = self.search(bucket, run, &mut trace, after.next()).await?;
        let mut records = Vec::new();
        while records.len() < limit {
            // What is known to be there is fetched side by side; what may be there, one by one.
            let ahead = trace.batch.saturating_sub(next).saturating_add(1).clamp(1, SIDE_BY_SIDE as u64);
            let ahead = ahead.min((limit - records.len()) as u64);
            let gets = (next..next + ahead).map(|batch| self.get(bucket, run, batch));
            let found = try_join_all(gets).await?;
            let (mut over, mut behind) = (false, next + ahead);
            for (batch, found) in (next..).zip(found) {
                let Some((read, hash)) = found else {
                    over |= batch > trace.batch;
                    continue;
                };
                trace.saw(&read, hash);
                behind = behind.max(read.next());
                records.extend(read.records.iter().filter(|record| record.seq > after).cloned());
            }
            if over && behind == next + ahead {
                break;
            }
            next = behind;
        }
        records.truncate(limit);
        self.remember(run, trace);
        Ok(records)
    }

    /// The batch that holds `seq`, or one before it: halves what lies between the nearest ones that are known.
    pub(crate) async fn search(
        &self,
        bucket: &Bucket,
        run: &RunId,
        trace: &mut Trace,
        seq: Seq,
    ) -> Result<u64, StoreError> {
        if seq > trace.end {
            return Ok(trace.batch + 1);
        }
        let mut low = trace.at_or_before(seq);
        let mut high = trace.behind(seq).unwrap_or(trace.batch + 1);
        while high - low > SIDE_BY_SIDE as u64 {
            let middle = low + (high - low) / 2;
            let Some((batch, hash)) = self.get(bucket, run, middle).await? else {
                // A gap: begin before it.
                return Ok(low);
            };
            trace.saw(&batch, hash);
            if batch.first <= seq { low = middle } else { high = middle }
        }
        Ok(low)
    }
}
