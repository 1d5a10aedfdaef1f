//! The readers: threads with connections that can only read.
//!
//! Invariant: a read sees every write that was acknowledged before the read began. A read never waits for the writer,
//! and a read that panics affects no other read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use goldseam_core::{RunId, Seq};
use goldseam_store::{Head, Record, StoreError};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::fault::SqliteFault;
use crate::file_identity::FileIdentity;
use crate::job_queue::JobQueue;
use crate::rows::SqliteColumns;
use crate::sql::{cell, sql_int};
use crate::writer::may_block;

pub(crate) const READ: &str = "SELECT seq, body FROM events WHERE rid = (SELECT rid FROM runs WHERE id = ?1) \
    AND seq > ?2 ORDER BY seq LIMIT ?3";
/// One statement, so that row and end are of one moment.
const HEAD: &str = "SELECT summary, task, updated_at, status, as_of, \
    COALESCE((SELECT MAX(seq) FROM events WHERE events.rid = runs.rid), 0) FROM runs WHERE id = ?1";

type ReadJob = Box<dyn FnOnce(&Connection) + Send>;

/// The handle by which callers read.
pub(crate) struct Readers {
    queue: Arc<JobQueue<ReadJob>>,
    connections: Vec<Arc<Mutex<Connection>>>,
    file: Arc<FileIdentity>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Readers {
    /// Starts one thread per connection.
    pub(crate) fn start(connections: Vec<Connection>, file: Arc<FileIdentity>) -> std::io::Result<Self> {
        let queue = Arc::new(JobQueue::new());
        let connections: Vec<_> = connections.into_iter().map(|conn| Arc::new(Mutex::new(conn))).collect();
        let mut threads = Vec::new();
        for conn in connections.iter().map(Arc::clone) {
            let queue = Arc::clone(&queue);
            let thread = std::thread::Builder::new()
                .name("goldseam-sqlite-reader".to_owned())
                .spawn(move || serve(&conn, &queue))?;
            threads.push(thread);
        }
        Ok(Self { queue, connections, file, threads })
    }

    /// Runs `read` on the caller's thread if a connection is free, else as [`read`](Self::read). For reads of a few
    /// rows, which take less time than waking a thread.
    pub(crate) async fn read_on_caller_thread<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, SqliteFault> + Send + 'static,
    {
        let may_block = Handle::try_current().is_ok_and(|runtime| may_block(&runtime));
        if may_block && let Some(conn) = self.connections.iter().find_map(|conn| conn.try_lock().ok()) {
            self.file.last_check()?;
            let read = catch_unwind(AssertUnwindSafe(|| read(&conn).map_err(SqliteFault::into_read_error)));
            return read.unwrap_or_else(|_| Err(panicked()));
        }
        self.read(read).await
    }

    /// Runs `read` on a reader thread.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, SqliteFault> + Send + 'static,
    {
        self.file.last_check()?;
        let (reply, answer) = oneshot::channel();
        let job: ReadJob = Box::new(move |conn| {
            let _ = reply.send(read(conn).map_err(SqliteFault::into_read_error));
        });
        self.queue.push(job).map_err(|_| panicked())?;
        answer.await.unwrap_or_else(|_| Err(panicked()))
    }
}

fn panicked() -> StoreError {
    StoreError::Damaged { detail: "a read of this database panicked".to_owned() }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(conn: &Mutex<Connection>, queue: &JobQueue<ReadJob>) {
    let mut taken = Vec::with_capacity(1);
    while queue.take(&mut taken, 1) {
        for job in taken.drain(..) {
            let conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
            if catch_unwind(AssertUnwindSafe(|| job(&conn))).is_err() {
                tracing::error!("a database read panicked");
            }
        }
    }
}

/// Reads up to `limit` records after `after`.
pub(crate) fn records(
    conn: &Connection,
    run: &RunId,
    after: Seq,
    limit: u32,
) -> Result<Vec<Record>, SqliteFault> {
    let mut statement = conn.prepare_cached(READ)?;
    let records = statement.query_map(params![run.as_str(), sql_int(after.0), limit], |row| {
        Ok(Record { seq: Seq(row.get::<_, i64>(0)?.unsigned_abs()), body: body(row)? })
    })?;
    Ok(records.collect::<rusqlite::Result<_>>()?)
}

/// The text of an event. A value that is not text is returned as text that cannot be decoded, so that the reader of the
/// log finds the damage.
fn body(row: &rusqlite::Row<'_>) -> rusqlite::Result<String> {
    Ok(match cell(row, 1)? {
        Value::Text(text) => text,
        Value::Blob(bytes) => format!("{}{}", char::REPLACEMENT_CHARACTER, String::from_utf8_lossy(&bytes)),
        Value::Integer(_) | Value::Real(_) | Value::Null => char::REPLACEMENT_CHARACTER.to_string(),
    })
}

/// Reads the end of the log and the cached row at one moment.
pub(crate) fn head(conn: &Connection, run: &RunId) -> Result<Option<Head>, SqliteFault> {
    let found = conn
        .prepare_cached(HEAD)?
        .query_row([run.as_str()], |row| {
            let has_row = row.get_ref(0)? != rusqlite::types::ValueRef::Null;
            let raw = if has_row { Some(SqliteColumns::read(row)?) } else { None };
            Ok((raw, row.get::<_, i64>(5)?))
        })
        .optional()?;
    let Some((raw, end)) = found else { return Ok(None) };
    let (row, unreadable) = match raw.map(SqliteColumns::parse) {
        None => (None, None),
        Some(Ok(row)) => (Some(row), None),
        Some(Err(reason)) => (None, Some(reason)),
    };
    Ok(Some(Head { end: Seq(end.unsigned_abs()), row, unreadable }))
}
