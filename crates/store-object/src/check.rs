//! Checks a store and its server, for `goldseam store`.
//!
//! Invariant: a check writes only below `probe/`, and removes what it wrote.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use goldseam_core::{Hash, RunId, Seq};
use goldseam_store::check::{Fact, Migrated, StoreReport};
use goldseam_store::{OpenMode, StoreError};

use crate::batch::LogBatch;
use crate::bucket::{BucketPrefix, CONCURRENT_GETS};
use crate::fault;
use crate::keys::{self, ActiveMarker, Part};
use crate::open::{FORMAT, StoreOpening};
use crate::row_cache::StoredRow;
use crate::soak_test::{self, SoakReport, shown};
use crate::url::BucketOptions;

/// Most complaints that are reported.
const COMPLAINTS_MAX: usize = 100;
/// Keys listed at a time.
const CHUNK: usize = 10_000;
/// A marker whose run never began counts as left behind after this time.
const PENDING_MAX: Duration = Duration::from_secs(600);

/// Checks a prefix: races two writers at its server for two seconds, then reads everything. Changes nothing.
pub async fn check(options: BucketOptions) -> Result<StoreReport, StoreError> {
    let opening = StoreOpening::new(&options)?;
    // A check has no caller that retries.
    report(&options, &opening).await.map_err(|error| fault::at_opening(error, &options.place()))
}

async fn report(options: &BucketOptions, opening: &StoreOpening) -> Result<StoreReport, StoreError> {
    let format = opening.format().await?;
    let bucket = &opening.bucket;
    let soak = soak_test::run(bucket).await?;
    let mut found = CheckFindings::default();
    if format > 0 {
        found.scan(bucket).await?;
    }
    let left = match format {
        0 => 0,
        _ => count_leftover_markers(opening, &found.runs).await?,
    };
    let mut facts = vec![
        ("server", Fact::Text(bucket.server().unwrap_or("unnamed").to_owned())),
        ("bucket", Fact::Text(options.bucket.clone())),
        ("prefix", Fact::Text(options.prefix.clone())),
    ];
    facts.extend(soak_facts(soak.as_ref()));
    if let Some(ahead) = opening.clock.ahead() {
        facts.push(("server_clock_ahead", Fact::Text(format!("{ahead} ms"))));
    }
    facts.push(("round_trip_longest", Fact::Text(shown(bucket.round_trip()))));
    facts.push(("foreign_states", Fact::Number(found.foreign)));
    facts.push(("markers_left_behind", Fact::Number(left)));
    let counted = async |folder: &str| match format {
        0 => Ok(0),
        _ => count(bucket, folder).await,
    };
    Ok(StoreReport {
        schema: i64::from(format),
        schema_latest: i64::from(FORMAT),
        facts,
        runs: found.runs.len() as u64,
        events: found.events,
        tasks: counted(keys::TASKS).await?,
        locks: counted(keys::LOCKS).await?,
        nodes: counted(keys::NODES).await?,
        complaints: found.complaints,
    })
}

/// Creates a store in an empty prefix.
pub async fn migrate(options: BucketOptions) -> Result<Migrated, StoreError> {
    let from = crate::open::prepare(&options, OpenMode::CreateOrMigrate).await?;
    Ok(Migrated { from: i64::from(from), to: i64::from(FORMAT) })
}

/// The facts of a soak test.
fn soak_facts(soak: Option<&SoakReport>) -> Vec<(&'static str, Fact)> {
    let Some(soak) = soak else {
        return vec![("conditions", Fact::Text("not tested: these access keys may not write".to_owned()))];
    };
    let listed = if soak.listed { "at once" } else { "late" };
    let enforced = format!("enforced in {} races and {} counted updates", soak.races, soak.updates);
    vec![
        ("conditions", Fact::Text(enforced)),
        ("versioned", Fact::Text(if soak.versioned { "yes" } else { "no" }.to_owned())),
        ("listed", Fact::Text(listed.to_owned())),
        ("put", Fact::Text(soak.puts.to_string())),
        ("get", Fact::Text(soak.gets.to_string())),
        ("list", Fact::Text(soak.lists.to_string())),
    ]
}

async fn count(bucket: &BucketPrefix, folder: &str) -> Result<u64, StoreError> {
    let mut count = 0;
    let mut after: Option<String> = None;
    loop {
        let listed = bucket.list(folder, after.as_deref(), CHUNK).await?;
        count += listed.len() as u64;
        match listed.last() {
            Some(last) if listed.len() == CHUNK => after = Some(last.key.clone()),
            _ => return Ok(count),
        }
    }
}

/// Counts old markers of runs that never began.
async fn count_leftover_markers(opening: &StoreOpening, runs: &HashSet<RunId>) -> Result<u64, StoreError> {
    let now = opening.clock.now();
    let listed = opening.bucket.list(keys::ACTIVE, None, usize::MAX).await?;
    let left = listed.iter().filter(|entry| {
        now.since(entry.modified) > PENDING_MAX
            && ActiveMarker::parse(&entry.key).is_none_or(|marker| !runs.contains(&marker.run))
    });
    Ok(left.count() as u64)
}

/// The objects of a run.
#[derive(Debug)]
struct RunObjects {
    run: RunId,
    batches: Vec<u64>,
    state: bool,
    /// Keys in its folder that are not ours.
    strange: Vec<String>,
}

impl RunObjects {
    fn of(run: RunId) -> Self {
        Self { run, batches: Vec::new(), state: false, strange: Vec::new() }
    }
}

/// What a check found under `workflow/`.
#[derive(Debug, Default)]
struct CheckFindings {
    runs: HashSet<RunId>,
    events: u64,
    /// States of other systems.
    foreign: u64,
    complaints: Vec<String>,
}

impl CheckFindings {
    /// Checks all runs, one after the other: the keys of one run are adjacent.
    async fn scan(&mut self, bucket: &BucketPrefix) -> Result<(), StoreError> {
        let mut current: Option<RunObjects> = None;
        let mut after: Option<String> = None;
        loop {
            let listed = bucket.list(keys::WORKFLOWS, after.as_deref(), CHUNK).await?;
            for entry in &listed {
                let Some(run) = keys::run_of(&entry.key) else {
                    self.foreign += 1;
                    continue;
                };
                if current.as_ref().is_some_and(|parts| parts.run != run) {
                    self.run(bucket, current.take()).await?;
                }
                let parts = current.get_or_insert_with(|| RunObjects::of(run));
                match keys::run_part(&entry.key) {
                    Some((_, Part::Batch(batch))) => parts.batches.push(batch),
                    Some((_, Part::State)) => parts.state = true,
                    None => parts.strange.push(entry.key.clone()),
                }
            }
            match listed.last() {
                Some(last) if listed.len() == CHUNK => after = Some(last.key.clone()),
                _ => return self.run(bucket, current).await,
            }
        }
    }

    fn complain(&mut self, complaint: String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint);
        }
    }

    async fn run(&mut self, bucket: &BucketPrefix, parts: Option<RunObjects>) -> Result<(), StoreError> {
        let Some(RunObjects { run, batches, state, strange }) = parts else { return Ok(()) };
        if batches.is_empty() {
            // Without a log of ours, the objects are not ours.
            self.foreign += strange.len() as u64;
        } else {
            strange.iter().for_each(|key| self.complain(format!("{key:?} is not an object of this store")));
        }
        if batches.is_empty() && !state {
            return Ok(());
        }
        if batches.is_empty() && state {
            let key = keys::state(&run);
            match bucket.get(&key).await?.map(|object| StoredRow::read(&key, object)).transpose() {
                Ok(Some(Some(_))) => self.complain(format!("run {run} has a row but no log")),
                Ok(Some(None)) => {
                    self.foreign += 1;
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                // An unreadable state without a log of ours is not ours.
                Err(_) => {
                    self.foreign += 1;
                    return Ok(());
                }
            }
        }
        self.log(bucket, &run, &batches).await?;
        self.runs.insert(run);
        Ok(())
    }

    /// Reads a log from its first batch to its last. Each batch must follow the previous one.
    async fn log(&mut self, bucket: &BucketPrefix, run: &RunId, batches: &[u64]) -> Result<(), StoreError> {
        let gets = batches.iter().map(|batch| async move {
            let key = keys::batch(run, *batch);
            let found = bucket.get(&key).await?;
            Ok::<_, StoreError>((*batch, key, found))
        });
        let mut gets = futures_util::stream::iter(gets).buffered(CONCURRENT_GETS);
        let mut end = ChainEnd { batch: 0, end: Some(Seq::ZERO), hash: Some(Hash::ZERO) };
        let mut trimmed: Option<(u64, Hash)> = None;
        while let Some(got) = gets.next().await {
            let (number, key, found) = got?;
            // The object was removed after the list.
            let Some(found) = found else { continue };
            if let Some((kept, before)) = trimmed {
                // A trim has not yet removed the objects in between.
                if number < kept {
                    continue;
                }
                trimmed = None;
                end = ChainEnd { batch: kept - 1, end: None, hash: Some(before) };
            }
            if number != end.batch + 1 {
                let missing = end.batch + 1;
                self.complain(format!("the log of run {run} has no batch {missing} before batch {number}"));
                end.hash = None;
            }
            end.batch = number;
            let hash = Hash::of(&found.body);
            match LogBatch::decode(&key, &found.body) {
                Ok(batch) => {
                    if let Some(complaint) = end.complaint_about(&batch) {
                        let what = format!("the log of run {run} is broken at batch {number}: {complaint}");
                        self.complain(what);
                    }
                    self.events += batch.records.len() as u64;
                    end.end = end.end.max(Some(batch.end()));
                    if let Some(kept) = batch.kept {
                        trimmed = Some((kept, batch.before));
                    }
                }
                Err(error) => self.complain(error.to_string()),
            }
            end.hash = Some(hash);
        }
        Ok(())
    }
}

/// The end of a log so far.
#[derive(Debug)]
struct ChainEnd {
    batch: u64,
    /// None after trimmed batches: the next batch may begin anywhere.
    end: Option<Seq>,
    /// The hash of the last batch; none if it is missing.
    hash: Option<Hash>,
}

impl ChainEnd {
    /// Describes the error of the next batch; none if it is correct.
    fn complaint_about(&self, batch: &LogBatch) -> Option<String> {
        if batch.batch != self.batch {
            return Some(format!("its header names batch {}", batch.batch));
        }
        // The first batch of a trimmed log names the next batch, and follows none.
        if batch.kept.is_some() {
            return (!batch.records.is_empty()).then(|| "it is trimmed but has events".to_owned());
        }
        if self.hash.is_some_and(|hash| hash != batch.before) {
            return Some("it does not follow the batch before it".to_owned());
        }
        let mut expected = self.end.map_or(batch.first, Seq::next);
        for record in &batch.records {
            if record.seq != expected && self.hash.is_some() {
                return Some(format!("event {expected} is missing"));
            }
            expected = record.seq.next();
        }
        batch.records.is_empty().then(|| "it has no events".to_owned())
    }
}

/// Whether the prefix holds a store. Changes nothing.
pub async fn exists(options: &BucketOptions) -> Result<bool, StoreError> {
    Ok(StoreOpening::new(options)?.format().await? > 0)
}
