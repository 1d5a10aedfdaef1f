//! Claims: due tasks, highest priority first, at most one claimed task per lane.
//!
//! Invariant: dormant tasks do not slow a claim. A claim first sets due tasks `ripe` by an index of dormant tasks, and
//! then reads ripe tasks until it has enough.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

use goldseam_core::Millis;
use goldseam_core::task::Task;
use goldseam_store::{ClaimRequest, ClaimedTasks};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::fault::SqliteFault;
use crate::sql::{cell, is_unreadable, sql_int};
use crate::tasks;
use crate::writer::JobContext;

const RIPEN: &str = "UPDATE tasks SET ripe = 1 \
    WHERE pool = ?1 AND state = 'ready' AND ripe = 0 AND run_at <= ?2";
const READY: &str = "SELECT tid, priority, run_at, lane FROM tasks INDEXED BY tasks_ready \
    WHERE pool = ?1 AND state = 'ready' AND ripe = 1 AND (?2 IS NULL OR kind = ?2) \
    ORDER BY priority DESC, run_at";
const READY_BELOW: &str = "SELECT tid, priority, run_at, lane FROM tasks INDEXED BY tasks_ready \
    WHERE pool = ?1 AND state = 'ready' AND ripe = 1 AND (?2 IS NULL OR kind = ?2) AND priority < ?3 \
    ORDER BY priority DESC, run_at";
const DORMANT: &str = "SELECT run_at, lane FROM tasks INDEXED BY tasks_dormant \
    WHERE pool = ?1 AND state = 'ready' AND ripe = 0 AND (?2 IS NULL OR kind = ?2) AND run_at < ?3 \
    ORDER BY run_at";
const LANE_BUSY: &str = "SELECT 1 FROM tasks WHERE lane = ?1 AND state = 'claimed' AND lane IS NOT NULL";
const TAKE: &str = "UPDATE tasks SET state = 'claimed', owner = ?2, fence = ?3, started_at = ?4, \
    heartbeat_at = ?5, changed_at = ?6, version = ?7 WHERE tid = ?1 AND state = 'ready'";

/// Most priorities that are searched for the next due task; beyond them it is a guess.
const PRIORITIES_MAX: u32 = 64;

/// A task that may be claimed.
struct ClaimCandidate {
    tid: i64,
    priority: i64,
    run_at: i64,
    lane: Option<String>,
}

impl ClaimCandidate {
    /// Reads a candidate; none if it is unreadable.
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Self>> {
        let read =
            || Ok(Self { tid: row.get(0)?, priority: row.get(1)?, run_at: row.get(2)?, lane: row.get(3)? });
        match read() {
            Err(error) if is_unreadable(&error) => Ok(None),
            read => read.map(Some),
        }
    }
}

/// What a claim has found out about lanes and tasks.
#[derive(Default)]
struct ClaimFacts {
    /// Whether a task of the lane is claimed.
    busy_lanes: HashMap<String, bool>,
    /// Numbers of unreadable tasks.
    unreadable: HashSet<i64>,
}

impl ClaimFacts {
    fn is_busy(&mut self, conn: &Connection, lane: &str) -> rusqlite::Result<bool> {
        if let Some(busy) = self.busy_lanes.get(lane) {
            return Ok(*busy);
        }
        let busy = conn.prepare_cached(LANE_BUSY)?.exists([lane])?;
        self.busy_lanes.insert(lane.to_owned(), busy);
        Ok(busy)
    }

    fn set_busy(&mut self, lane: &str) {
        self.busy_lanes.insert(lane.to_owned(), true);
    }
}

/// Claims due tasks.
pub(crate) fn claim(work: &JobContext<'_>, claim: &ClaimRequest) -> Result<ClaimedTasks, SqliteFault> {
    let conn = work.conn;
    let pools: BTreeSet<&str> = claim.pools.iter().map(String::as_str).collect();
    for pool in &pools {
        conn.prepare_cached(RIPEN)?.execute(params![pool, claim.now.0])?;
    }
    let mut known = ClaimFacts::default();
    let mut claimed = Vec::new();
    let limit = claim.limit as usize;
    loop {
        let mut candidates = Vec::new();
        for pool in &pools {
            let best = gather(conn, PoolQuery { claim, pool, most: limit - claimed.len() }, &mut known)?;
            candidates.extend(best);
        }
        candidates.sort_by_key(|candidate| (Reverse(candidate.priority), candidate.run_at, candidate.tid));
        let before = claimed.len();
        let unreadable = known.unreadable.len();
        let offered = candidates.len();
        for candidate in candidates {
            if claimed.len() < limit
                && let Some(task) = take(conn, claim, &candidate, &mut known)?
            {
                claimed.push(task);
            }
        }
        // Another round helps only if two pools offered the same lane, or if a candidate was unreadable.
        let taken = claimed.len() - before;
        let again = known.unreadable.len() > unreadable;
        if claimed.len() >= limit || !again && (taken == 0 || taken == offered) {
            break;
        }
    }
    let next_due = next_due(conn, claim, &mut known)?;
    Ok(ClaimedTasks { tasks: claimed, next_due })
}

/// What to read from one pool.
struct PoolQuery<'a> {
    claim: &'a ClaimRequest,
    pool: &'a str,
    most: usize,
}

/// Returns the best candidates of a pool, at most one per lane.
fn gather(
    conn: &Connection,
    offer: PoolQuery<'_>,
    known: &mut ClaimFacts,
) -> Result<Vec<ClaimCandidate>, SqliteFault> {
    let PoolQuery { claim, pool, most } = offer;
    let mut candidates: Vec<ClaimCandidate> = Vec::new();
    let mut offered: HashSet<String> = HashSet::new();
    let mut statement = conn.prepare_cached(READY)?;
    let mut rows = statement.query(params![pool, claim.kind])?;
    while candidates.len() < most
        && let Some(row) = rows.next()?
    {
        let Some(candidate) = ClaimCandidate::read(row)? else { continue };
        if candidate.run_at > claim.now.0 || known.unreadable.contains(&candidate.tid) {
            continue;
        }
        if let Some(lane) = &candidate.lane
            && (known.is_busy(conn, lane)? || !offered.insert(lane.clone()))
        {
            continue;
        }
        candidates.push(candidate);
    }
    Ok(candidates)
}

fn take(
    conn: &Connection,
    claim: &ClaimRequest,
    candidate: &ClaimCandidate,
    known: &mut ClaimFacts,
) -> Result<Option<Task>, SqliteFault> {
    if let Some(lane) = &candidate.lane
        && known.is_busy(conn, lane)?
    {
        return Ok(None);
    }
    let task = match tasks::by_number(conn, candidate.tid) {
        Ok(task) => task.claimed(&claim.owner, claim.now),
        Err(error) if is_unreadable(&error) => {
            // The task stays ready for an operator to look at, and does not delay others.
            tracing::debug!(tid = candidate.tid, %error, "skipped an unreadable task");
            known.unreadable.insert(candidate.tid);
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    conn.prepare_cached(TAKE)?.execute(params![
        candidate.tid,
        task.owner,
        sql_int(task.fence),
        task.started_at.map(|at| at.0),
        task.heartbeat_at.map(|at| at.0),
        task.changed_at.0,
        sql_int(task.version),
    ])?;
    if let Some(lane) = &candidate.lane {
        known.set_busy(lane);
    }
    Ok(Some(task))
}

/// When the next task is due whose lane is free.
fn next_due(
    conn: &Connection,
    claim: &ClaimRequest,
    known: &mut ClaimFacts,
) -> Result<Option<Millis>, SqliteFault> {
    let mut next = Millis::NEVER;
    for pool in &claim.pools {
        next = next.min(ripe_due(conn, claim, pool, known)?);
        let mut statement = conn.prepare_cached(DORMANT)?;
        let mut rows = statement.query(params![pool, claim.kind, next.0])?;
        while let Some(row) = rows.next()? {
            let (Value::Integer(run_at), lane) = (cell(row, 0)?, cell(row, 1)?) else { continue };
            let lane = match &lane {
                Value::Text(lane) => Some(lane.as_str()),
                _ => None,
            };
            if is_free(conn, lane, known)? {
                next = Millis(run_at);
                break;
            }
        }
    }
    Ok(Some(next).filter(|at| *at < Millis::NEVER))
}

/// The same among ripe tasks. Within a priority the first free task is the earliest, so the search skips to the next
/// priority.
fn ripe_due(
    conn: &Connection,
    claim: &ClaimRequest,
    pool: &str,
    known: &mut ClaimFacts,
) -> Result<Millis, SqliteFault> {
    let mut next = Millis::NEVER;
    let mut below = i64::MAX;
    let mut statement = conn.prepare_cached(READY_BELOW)?;
    for _ in 0..PRIORITIES_MAX {
        let mut rows = statement.query(params![pool, claim.kind, below])?;
        loop {
            let Some(row) = rows.next()? else { return Ok(next) };
            let Some(ripe) = ClaimCandidate::read(row)? else { continue };
            if !known.unreadable.contains(&ripe.tid) && is_free(conn, ripe.lane.as_deref(), known)? {
                below = ripe.priority;
                next = next.min(Millis(ripe.run_at));
                break;
            }
        }
    }
    Ok(next)
}

fn is_free(conn: &Connection, lane: Option<&str>, known: &mut ClaimFacts) -> Result<bool, SqliteFault> {
    match lane {
        Some(lane) => Ok(!known.is_busy(conn, lane)?),
        None => Ok(true),
    }
}
