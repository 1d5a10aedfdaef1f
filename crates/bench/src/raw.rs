//! A store's tables without an engine: the raw baselines, and what fills a store or looks at it from outside.
//!
//! Invariant: a baseline is one connection, as durable as the store's own, and makes the row writes that the store
//! makes, with plain prepared statements.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::ops::RangeInclusive;
use std::time::Instant;

use async_trait::async_trait;

use crate::Fallible;
use crate::place::is_postgres;

/// Events of the append that starts a run: queued, started, claimed.
const EVENTS_FIRST: usize = 3;

/// One connection to a store.
#[async_trait(?Send)]
pub(crate) trait Raw {
    /// Seconds per durable commit of one row in a table of its own, over `count` of them.
    async fn commits(&mut self, count: u32) -> Fallible<f64>;

    /// What the finished runs of the store wrote.
    async fn written(&mut self) -> Fallible<Vec<Written>>;

    /// Makes the row writes of some appends in one transaction; how many they were.
    async fn write(&mut self, group: &[Piece<'_>]) -> Fallible<u64>;

    /// From now on `write` sends the statements of a group without waiting for each answer; whether it can.
    fn pipeline(&mut self) -> bool {
        false
    }

    /// Rows that were inserted, updated and deleted in the store's tables so far, where that is known.
    async fn row_writes(&mut self) -> Fallible<Option<[f64; 3]>> {
        Ok(None)
    }

    /// Runs that are not over: the append that ends a run, its last step in it, takes its task away.
    async fn open_runs(&mut self) -> Fallible<u32>;

    /// Completions of a step in all logs, and the runs that have one.
    async fn completions(&mut self, step: &str) -> Fallible<(u64, u64)>;

    /// How many copies of the one finished run there are.
    async fn filled(&mut self) -> Fallible<i64>;

    /// Copies the one finished run, `pattern`, events and all, under random-looking ids, until there are so many.
    async fn fill(&mut self, count: i64) -> Fallible<()>;

    /// Nothing of what was written is still on its way to the disk when this returns.
    async fn settle(&mut self) -> Fallible<()>;

    /// Bytes on disk, indexes included, what is dead cleared away.
    async fn bytes(&mut self) -> Fallible<f64>;
}

/// Opens a store that an engine has made.
pub(crate) async fn open(url: &str) -> Fallible<Box<dyn Raw>> {
    Ok(if is_postgres(url) {
        Box::new(postgres::Connection::open(url).await?)
    } else {
        Box::new(sqlite::Connection::open(url)?)
    })
}

/// Copies of the finished run are numbered from here on.
const RID_FIRST: i64 = 1_000;

/// What a finished run has in the store.
#[derive(Debug)]
pub(crate) struct Written {
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

impl Written {
    /// Its appends: the start, one for each step but the last, and the last one with the end.
    pub(crate) fn appends(&self) -> usize {
        self.bodies.len().saturating_sub(EVENTS_FIRST)
    }
}

/// One append of a run, to be made again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) run: &'a Written,
    pub(crate) rid: i64,
    pub(crate) nth: usize,
}

impl Piece<'_> {
    /// It makes the row and the task, too.
    fn is_first(&self) -> bool {
        self.nth == 0
    }

    /// It ends the row and removes the task, too.
    fn is_last(&self) -> bool {
        self.nth + 1 == self.run.appends()
    }

    /// Positions of its events.
    fn events(&self) -> RangeInclusive<usize> {
        match self.nth {
            0 => 1..=EVENTS_FIRST,
            nth if self.is_last() => nth + EVENTS_FIRST..=self.run.bodies.len(),
            nth => nth + EVENTS_FIRST..=nth + EVENTS_FIRST,
        }
    }
}

/// A plain loop that makes the row writes of these runs, `in_flight` of them at a time, in transactions of `group`
/// appends. Seconds, and row writes per run.
pub(crate) async fn replay(
    raw: &mut dyn Raw,
    runs: &[Written],
    in_flight: usize,
    group: usize,
) -> Fallible<(f64, f64)> {
    let mut pieces = Vec::new();
    for (block, of_block) in runs.chunks(in_flight).enumerate() {
        let appends = of_block.iter().map(Written::appends).max().unwrap_or_default();
        for nth in 0..appends {
            for (index, run) in of_block.iter().enumerate().filter(|(_, run)| nth < run.appends()) {
                let rid = i64::try_from(block * in_flight + index)? + 1;
                pieces.push(Piece { run, rid, nth });
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
