//! Statistics of a Postgres server during a measurement.

use std::collections::HashMap;

use tokio_postgres::Client;

use crate::Fallible;
use crate::raw::postgres;

/// A session that reads the statistics.
pub(crate) struct ServerStatistics(Client);

/// The counters of the measured database since its start.
#[derive(Debug, Clone)]
pub(crate) struct ServerCounters {
    pub(crate) commits: f64,
    pub(crate) rollbacks: f64,
    /// Deadlocks, and statements cancelled by a conflict.
    pub(crate) conflicts: f64,
    /// Bytes of the write-ahead log.
    pub(crate) wal: f64,
    /// CPU milliseconds by process; empty if the server is on another machine.
    cpu_ms: HashMap<i32, f64>,
}

impl ServerCounters {
    /// Returns the difference to earlier counters.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (pid, ms) in &mut self.cpu_ms {
            *ms -= before.cpu_ms.get(pid).copied().unwrap_or_default();
        }
        Self {
            commits: self.commits - before.commits,
            rollbacks: self.rollbacks - before.rollbacks,
            conflicts: self.conflicts - before.conflicts,
            wal: self.wal - before.wal,
            cpu_ms: self.cpu_ms,
        }
    }

    /// Returns the CPU milliseconds of all processes of the server.
    pub(crate) fn cpu_ms(&self) -> f64 {
        self.cpu_ms.values().sum()
    }
}

impl ServerStatistics {
    pub(crate) async fn open(url: &str) -> Fallible<Self> {
        Ok(Self(postgres::connect(url).await?))
    }

    /// Counts the sessions with this application name.
    pub(crate) async fn sessions(&self, name: &str) -> Fallible<f64> {
        let count: i64 = self.0.query_one(SESSIONS, &[&name]).await?.try_get(0)?;
        Ok(count as f64)
    }

    pub(crate) async fn counts(&self) -> Fallible<ServerCounters> {
        let row = self.0.query_one(COUNTS, &[]).await?;
        let pids: Vec<i32> = row.try_get(4)?;
        Ok(ServerCounters {
            commits: row.try_get(0)?,
            rollbacks: row.try_get(1)?,
            conflicts: row.try_get(2)?,
            wal: row.try_get(3)?,
            cpu_ms: pids.into_iter().filter_map(|pid| Some((pid, cpu_ms(pid)?))).collect(),
        })
    }
}

/// Returns the CPU milliseconds of a process on this machine.
fn cpu_ms(pid: i32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanos: f64 = stat.split_whitespace().next()?.parse().ok()?;
    Some(nanos / 1e6)
}

const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
const COUNTS: &str = "SELECT d.xact_commit::float8, d.xact_rollback::float8, (d.deadlocks + d.conflicts)::float8, \
    (pg_current_wal_insert_lsn() - '0/0')::float8, \
    (SELECT array_agg(a.pid) FROM pg_stat_activity AS a WHERE a.pid <> pg_backend_pid()) \
    FROM pg_stat_database AS d WHERE d.datname = current_database()";
