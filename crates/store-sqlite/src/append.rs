//! Compare-and-append: the events of a run, its cached row and its tasks in one transaction.
//!
//! Invariant: the first event is inserted only if the log ends where the append expects, even if the log has gaps;
//! nothing else is written otherwise. The completion of a step inserts one row.

use goldseam_core::{RunId, Seq, TaskId};
use goldseam_store::{Append, StoreError, TaskChange};
use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::SqliteFault;
use crate::rows::{self, SqliteRowText};
use crate::sql::sql_int;
use crate::tasks::{self, AppendedRun};
use crate::writer::JobContext;

const FIRST: &str = "INSERT INTO events (rid, seq, body) SELECT ?1, ?2 + 1, ?3 \
    WHERE COALESCE((SELECT MAX(seq) FROM events WHERE rid = ?1), 0) = ?2";
const NEXT: &str = "INSERT INTO events (rid, seq, body) VALUES (?1, ?2, ?3)";
const TRIM: &str = "DELETE FROM events WHERE rid = ?1 AND seq < ?2 \
    AND EXISTS (SELECT 1 FROM events WHERE rid = ?1 AND seq = ?2)";
const END: &str = "SELECT seq FROM events WHERE rid = ?1 ORDER BY seq DESC LIMIT 1";

/// An append whose row is already encoded, so that the writer need not do it.
#[derive(Debug)]
pub(crate) struct SqliteAppend {
    append: Append,
    row: Option<SqliteRowText>,
}

impl SqliteAppend {
    pub(crate) fn new(mut append: Append) -> Result<Self, StoreError> {
        if append.bodies.is_empty() {
            return Err(StoreError::empty_append());
        }
        let row = append.row.take().map(SqliteRowText::new).transpose()?;
        Ok(Self { append, row })
    }

    /// Appends, or fails with the position where the log ends.
    pub(crate) fn run(&self, work: &mut JobContext<'_>) -> Result<Seq, SqliteFault> {
        let Append { run, after, .. } = &self.append;
        match work.run_numbers.find(work.conn, run)? {
            Some(rid) => {
                let end = self.insert_events(work, rid)?;
                let adopted = self.change_tasks(work, Some(rid))?;
                match (&self.row, adopted) {
                    (Some(row), task) => rows::update(work, rid, row, task)?,
                    (None, Some(task)) => rows::set_task(work, rid, task)?,
                    (None, None) => {}
                }
                Ok(end)
            }
            None if *after == Seq::ZERO => {
                let adopted = self.change_tasks(work, None)?;
                let rid = rows::insert(work, run, self.row.as_ref(), adopted)?;
                work.run_numbers.insert(run, rid);
                self.insert_events(work, rid)
            }
            None => Err(SqliteFault::Conflict(Seq::ZERO)),
        }
    }

    fn insert_events(&self, work: &mut JobContext<'_>, rid: i64) -> Result<Seq, SqliteFault> {
        let mut end = self.append.after;
        for body in &self.append.bodies {
            if end == self.append.after {
                insert_first(work, rid, end, body)?;
            } else {
                work.conn.prepare_cached(NEXT)?.execute(params![rid, sql_int(end.0 + 1), body])?;
            }
            end = end.next();
        }
        Ok(end)
    }

    /// Applies the changes of tasks. Returns the advance task that the run adopts; a run without a row adopts none.
    fn change_tasks(&self, work: &JobContext<'_>, rid: Option<i64>) -> Result<Option<&TaskId>, SqliteFault> {
        let mut adopted = None;
        for change in &self.append.tasks {
            if tasks::apply(work, AppendedRun { rid, adopted }, change)?
                && let TaskChange::Create(task) = change
                && (self.row.is_some() || rows::has_row(work, rid)?)
            {
                adopted = Some(&task.id);
            }
        }
        Ok(adopted)
    }
}

fn insert_first(work: &mut JobContext<'_>, rid: i64, after: Seq, body: &str) -> Result<(), SqliteFault> {
    let statement = match &mut work.insert_first {
        Some(statement) => statement,
        none => none.insert(work.conn.prepare_cached(FIRST)?),
    };
    let inserted = statement.execute(params![rid, sql_int(after.0), body])?;
    if inserted == 1 { Ok(()) } else { Err(SqliteFault::Conflict(end_of(work.conn, rid)?)) }
}

/// Removes the events before position `first`, if that event exists.
pub(crate) fn trim(work: &mut JobContext<'_>, run: &RunId, first: Seq) -> Result<(), SqliteFault> {
    if let Some(rid) = work.run_numbers.find(work.conn, run)? {
        work.conn.prepare_cached(TRIM)?.execute(params![rid, sql_int(first.0)])?;
    }
    Ok(())
}

/// The last position of a log.
fn end_of(conn: &Connection, rid: i64) -> rusqlite::Result<Seq> {
    let end = conn.prepare_cached(END)?.query_row([rid], |row| row.get::<_, i64>(0)).optional()?;
    Ok(end.map_or(Seq::ZERO, |end| Seq(end.unsigned_abs())))
}
