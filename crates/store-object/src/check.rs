//! Looks a store over, and its server, for `goldseam store`.
//!
//! Invariant: it writes below `probe/` only, and removes that again.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use goldseam_core::{Hash, RunId, Seq};
use goldseam_store::StoreError;
use goldseam_store::check::{Fact, Migrated, Report};

use crate::batch::Batch;
use crate::bucket::{Bucket, SIDE_BY_SIDE};
use crate::fault;
use crate::keys::{self, Active, Part};
use crate::open::{FORMAT, Older, Opening};
use crate::rows::Known;
use crate::soak_test::{self, Tried};
use crate::url::Options;

/// Most complaints that are reported.
const COMPLAINTS_MAX: usize = 100;
/// Keys listed at a time.
const CHUNK: usize = 10_000;
/// A marker whose run was never begun counts as left behind after this long.
const ON_THE_WAY: Duration = Duration::from_secs(600);

/// Looks a prefix over: races two writers at its server for two seconds, then reads all of it and changes nothing.
pub async fn check(options: Options) -> Result<Report, StoreError> {
    let opening = Opening::new(&options)?;
    // Nobody waits and tries again here.
    look(&options, &opening).await.map_err(|error| fault::at_opening(error, &options.place()))
}

async fn look(options: &Options, opening: &Opening) -> Result<Report, StoreError> {
    let format = opening.format().await?;
    let bucket = &opening.bucket;
    let tried = soak_test::long(bucket).await?;
    let mut found = Found::default();
    if format > 0 {
        found.walk(bucket).await?;
    }
    let left = match format {
        0 => 0,
        _ => markers_left(opening, &found.runs).await?,
    };
    let mut facts = vec![
        ("server", Fact::Text(bucket.server().unwrap_or("unnamed").to_owned())),
        ("bucket", Fact::Text(options.bucket.clone())),
        ("prefix", Fact::Text(options.prefix.clone())),
    ];
    facts.extend(tried_facts(tried.as_ref()));
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
    Ok(Report {
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

/// Makes a store in an empty prefix.
pub async fn migrate(options: Options) -> Result<Migrated, StoreError> {
    let from = crate::open::ready(&options, Older::Make).await?;
    Ok(Migrated { from: i64::from(from), to: i64::from(FORMAT) })
}

/// What the server showed of itself.
fn tried_facts(tried: Option<&Tried>) -> Vec<(&'static str, Fact)> {
    let Some(tried) = tried else {
        return vec![("conditions", Fact::Text("not tested: these access keys may not write".to_owned()))];
    };
    let listed = if tried.listed { "at once" } else { "late" };
    let kept = format!("enforced in {} races and {} counted updates", tried.races, tried.updates);
    vec![
        ("conditions", Fact::Text(kept)),
        ("versioned", Fact::Text(if tried.versioned { "yes" } else { "no" }.to_owned())),
        ("listed", Fact::Text(listed.to_owned())),
        ("put", Fact::Text(tried.puts.to_string())),
        ("get", Fact::Text(tried.gets.to_string())),
        ("list", Fact::Text(tried.lists.to_string())),
    ]
}

/// A time for people.
pub(crate) fn shown(span: Duration) -> String {
    format!("{:.1} ms", span.as_secs_f64() * 1_000.0)
}

async fn count(bucket: &Bucket, folder: &str) -> Result<u64, StoreError> {
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

/// Markers of runs that were never begun and that nobody is about to begin.
async fn markers_left(opening: &Opening, runs: &HashSet<RunId>) -> Result<u64, StoreError> {
    let now = opening.clock.now();
    let listed = opening.bucket.list(keys::ACTIVE, None, usize::MAX).await?;
    let left = listed.iter().filter(|entry| {
        now.since(entry.modified) > ON_THE_WAY
            && Active::parse(&entry.key).is_none_or(|marker| !runs.contains(&marker.run))
    });
    Ok(left.count() as u64)
}

/// What a run has in the bucket.
#[derive(Debug)]
struct Parts {
    run: RunId,
    batches: Vec<u64>,
    state: bool,
    /// Keys in its folder that no run has.
    strange: Vec<String>,
}

impl Parts {
    fn of(run: RunId) -> Self {
        Self { run, batches: Vec::new(), state: false, strange: Vec::new() }
    }
}

/// What was found under `workflow/`.
#[derive(Debug, Default)]
struct Found {
    runs: HashSet<RunId>,
    events: u64,
    /// States without a log that are somebody else's.
    foreign: u64,
    complaints: Vec<String>,
}

impl Found {
    /// Goes through all runs, one after the other: keys of one run stand together.
    async fn walk(&mut self, bucket: &Bucket) -> Result<(), StoreError> {
        let mut current: Option<Parts> = None;
        let mut after: Option<String> = None;
        loop {
            let listed = bucket.list(keys::WORKFLOWS, after.as_deref(), CHUNK).await?;
            for entry in &listed {
                let Some(run) = keys::folder(&entry.key) else {
                    self.foreign += 1;
                    continue;
                };
                if current.as_ref().is_some_and(|parts| parts.run != run) {
                    self.run(bucket, current.take()).await?;
                }
                let parts = current.get_or_insert_with(|| Parts::of(run));
                match keys::part(&entry.key) {
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

    async fn run(&mut self, bucket: &Bucket, parts: Option<Parts>) -> Result<(), StoreError> {
        let Some(Parts { run, batches, state, strange }) = parts else { return Ok(()) };
        if batches.is_empty() {
            // Beside no log of ours, it is not ours.
            self.foreign += strange.len() as u64;
        } else {
            strange.iter().for_each(|key| self.complain(format!("{key:?} is not an object of this store")));
        }
        if batches.is_empty() && !state {
            return Ok(());
        }
        if batches.is_empty() && state {
            let key = keys::state(&run);
            match bucket.get(&key).await?.map(|object| Known::read(&key, object)).transpose() {
                Ok(Some(Some(_))) => self.complain(format!("run {run} has a row but no log")),
                Ok(Some(None)) => {
                    self.foreign += 1;
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                // What cannot be read, and stands beside no log of ours, is not ours.
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

    /// Reads a log from its first batch to its last: each must follow the one before.
    async fn log(&mut self, bucket: &Bucket, run: &RunId, batches: &[u64]) -> Result<(), StoreError> {
        let gets = batches.iter().map(|batch| async move {
            let key = keys::batch(run, *batch);
            let found = bucket.get(&key).await?;
            Ok::<_, StoreError>((*batch, key, found))
        });
        let mut gets = futures_util::stream::iter(gets).buffered(SIDE_BY_SIDE);
        let mut end = Link { batch: 0, end: Some(Seq::ZERO), hash: Some(Hash::ZERO) };
        let mut trimmed: Option<(u64, Hash)> = None;
        while let Some(got) = gets.next().await {
            let (number, key, found) = got?;
            // It was listed a moment ago.
            let Some(found) = found else { continue };
            if let Some((kept, before)) = trimmed {
                // Objects between are on their way out.
                if number < kept {
                    continue;
                }
                trimmed = None;
                end = Link { batch: kept - 1, end: None, hash: Some(before) };
            }
            if number != end.batch + 1 {
                let missing = end.batch + 1;
                self.complain(format!("the log of run {run} has no batch {missing} before batch {number}"));
                end.hash = None;
            }
            end.batch = number;
            let hash = Hash::of(&found.body);
            match Batch::decode(&key, &found.body) {
                Ok(batch) => {
                    if let Some(complaint) = end.complaint(&batch) {
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

/// Where a log ends so far.
#[derive(Debug)]
struct Link {
    batch: u64,
    /// None if what came before was trimmed: the next batch begins anywhere.
    end: Option<Seq>,
    /// Of the last batch; none if that is missing.
    hash: Option<Hash>,
}

impl Link {
    /// What is wrong with a batch that should follow.
    fn complaint(&self, batch: &Batch) -> Option<String> {
        if batch.batch != self.batch {
            return Some(format!("its header names batch {}", batch.batch));
        }
        // What is left of a trimmed log tells where it goes on, and follows nothing.
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

/// Whether there is a store at all. Changes nothing.
pub async fn is_there(options: &Options) -> Result<bool, StoreError> {
    Ok(Opening::new(options)?.format().await? > 0)
}
