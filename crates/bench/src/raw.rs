//! A store's tables without an engine: raw baselines, bulk filling, and statistics.
//!
//! Invariant: a baseline is one connection with the durability of the store, and makes the same row writes with plain
//! prepared statements.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::ops::RangeInclusive;
use std::time::Instant;

use async_trait::async_trait;

use crate::Fallible;
use crate::target::is_postgres;

/// Number of events in the first append of a run: queued, started, claimed.
const EVENTS_FIRST: usize = 3;

/// One connection to a store.
#[async_trait(?Send)]
pub(crate) trait Raw {
    /// Makes `count` durable single-row commits in a separate table; returns the seconds per commit.
    async fn commits(&mut self, count: u32) -> Fallible<f64>;

    /// Returns the records of the ended runs.
    async fn written(&mut self) -> Fallible<Vec<EndedRun>>;

    /// Makes the row writes of some appends in one transaction; returns their number.
    async fn write(&mut self, group: &[RawAppend<'_>]) -> Fallible<u64>;

    /// Lets `write` send the statements of a group without waiting for each reply. Returns whether that is supported.
    fn pipeline(&mut self) -> bool {
        false
    }

    /// Returns the number of rows inserted, updated and deleted so far, if known.
    async fn row_writes(&mut self) -> Fallible<Option<[f64; 3]>> {
        Ok(None)
    }

    /// Counts the runs that have not ended, by their tasks: the last append of a run removes its task.
    async fn open_runs(&mut self) -> Fallible<u32>;

    /// Counts the completions of a step in all logs, and the runs that have one.
    async fn completions(&mut self, step: &str) -> Fallible<(u64, u64)>;

    /// Counts the copies of the run `pattern`.
    async fn filled(&mut self) -> Fallible<i64>;

    /// Copies the ended run `pattern` with its events, under random-looking ids, until there are `count` copies.
    async fn fill(&mut self, count: i64) -> Fallible<()>;

    /// Flushes all writes to the disk.
    async fn settle(&mut self) -> Fallible<()>;

    /// Returns the bytes on disk after a vacuum, including indexes.
    async fn bytes(&mut self) -> Fallible<f64>;
}

/// Opens an existing store.
pub(crate) async fn open(url: &str) -> Fallible<Box<dyn Raw>> {
    Ok(if is_postgres(url) {
        Box::new(postgres::RawPostgres::open(url).await?)
    } else {
        Box::new(sqlite::RawSqlite::open(url)?)
    })
}

/// The first number of the copies.
const RID_FIRST: i64 = 1_000;

/// The records of an ended run.
#[derive(Debug)]
pub(crate) struct EndedRun {
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
    pub(crate) as_of: i64,
    pub(crate) task: String,
    pub(crate) summary: String,
    /// Its log.
    pub(crate) bodies: Vec<String>,
}

impl EndedRun {
    /// Returns the number of appends: the start, one per step except the last, and one for the last step and the end.
    pub(crate) fn appends(&self) -> usize {
        self.bodies.len().saturating_sub(EVENTS_FIRST)
    }
}

/// One append of a run, to be repeated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawAppend<'a> {
    pub(crate) run: &'a EndedRun,
    pub(crate) rid: i64,
    pub(crate) nth: usize,
}

impl RawAppend<'_> {
    /// Returns whether the append also creates the row and the task.
    fn is_first(&self) -> bool {
        self.nth == 0
    }

    /// Returns whether the append also ends the row and removes the task.
    fn is_last(&self) -> bool {
        self.nth + 1 == self.run.appends()
    }

    /// Returns the positions of its events.
    fn events(&self) -> RangeInclusive<usize> {
        match self.nth {
            0 => 1..=EVENTS_FIRST,
            nth if self.is_last() => nth + EVENTS_FIRST..=self.run.bodies.len(),
            nth => nth + EVENTS_FIRST..=nth + EVENTS_FIRST,
        }
    }
}

/// Makes the row writes of these runs in a plain loop, `in_flight` runs at a time, in transactions of `group` appends.
/// Returns the seconds, and the row writes per run.
pub(crate) async fn replay(
    raw: &mut dyn Raw,
    runs: &[EndedRun],
    in_flight: usize,
    group: usize,
) -> Fallible<(f64, f64)> {
    let mut pieces = Vec::new();
    for (block, of_block) in runs.chunks(in_flight).enumerate() {
        let appends = of_block.iter().map(EndedRun::appends).max().unwrap_or_default();
        for nth in 0..appends {
            for (index, run) in of_block.iter().enumerate().filter(|(_, run)| nth < run.appends()) {
                let rid = i64::try_from(block * in_flight + index)? + 1;
                pieces.push(RawAppend { run, rid, nth });
            }
        }
    }
    let mut rows = 0;
    let began = Instant::now();
    for group in pieces.chunks(group) {
        rows += raw.write(group).await?;
    }
    Ok((began.elapsed().as_secs_f64(), rows as f64 / runs.len() as f64))
}
