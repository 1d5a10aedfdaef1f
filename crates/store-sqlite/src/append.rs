//! Compare-and-append: one run's events, its cached row and its tasks in one transaction.
//!
//! Invariant: the first row goes in only if its predecessor is there and its place is free; nothing
//! else is written unless it went in. A step's completion is one inserted row.

use goldseam_core::{RunId, Seq, TaskId};
use goldseam_store::{Append, TaskChange};
use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::Fault;
use crate::runs::{self, RowText};
use crate::tasks;
use crate::writer::Work;

const FIRST_OF_ALL: &str = "INSERT OR IGNORE INTO events (rid, seq, body) VALUES (?1, 1, ?2)";
const FIRST: &str = "INSERT OR IGNORE INTO events (rid, seq, body) \
    SELECT ?1, ?2 + 1, ?3 WHERE EXISTS (SELECT 1 FROM events WHERE rid = ?1 AND seq = ?2)";
const NEXT: &str = "INSERT INTO events (rid, seq, body) VALUES (?1, ?2, ?3)";
const END: &str = "SELECT seq FROM events WHERE rid = ?1 ORDER BY seq DESC LIMIT 1";

/// An append whose row is text already, so that the writer need not make it.
#[derive(Debug)]
pub(crate) struct Prepared {
    append: Append,
    row: Option<RowText>,
}

impl Prepared {
    pub(crate) fn new(mut append: Append) -> Result<Self, Fault> {
        let row = append.row.take().map(|summary| RowText::new(&summary)).transpose()?;
        Ok(Self { append, row })
    }

    /// The advance task that becomes the run's own.
    fn own_task(&self) -> Option<&TaskId> {
        self.append.tasks.iter().rev().find_map(|change| match change {
            TaskChange::Create(task) if task.is_advance() => Some(&task.id),
            _ => None,
        })
    }

    /// Appends, or says where the log ends instead.
    pub(crate) fn run(&self, work: &mut Work<'_>) -> Result<Seq, Fault> {
        let Append { run, after, bodies, tasks, .. } = &self.append;
        let Some((first, rest)) = bodies.split_first() else {
            return Err(Fault::Damaged("an append without events".to_owned()));
        };
        let rid = match work.rids.find(work.conn, run)? {
            Some(rid) => {
                insert_first(work.conn, rid, *after, first)?;
                self.update_row(work, rid)?;
                rid
            }
            None if *after == Seq::ZERO => {
                let rid = self.insert_run(work, run)?;
                insert_first(work.conn, rid, *after, first)?;
                rid
            }
            None => return Err(Fault::Conflict(Seq::ZERO)),
        };
        let mut end = after.next();
        if !rest.is_empty() {
            let mut insert = work.conn.prepare_cached(NEXT)?;
            for body in rest {
                end = end.next();
                insert.execute(params![rid, sql_int(end.0), body])?;
            }
        }
        for change in tasks {
            tasks::apply(work, rid, change)?;
        }
        Ok(end)
    }

    fn insert_run(&self, work: &mut Work<'_>, run: &RunId) -> Result<i64, Fault> {
        let rid = runs::insert(work, run, self.row.as_ref(), self.own_task())?;
        work.rids.keep(run, rid);
        Ok(rid)
    }

    fn update_row(&self, work: &Work<'_>, rid: i64) -> Result<(), Fault> {
        match (&self.row, self.own_task()) {
            (Some(row), task) => runs::update(work, rid, row, task),
            (None, Some(task)) => runs::set_task(work, rid, task),
            (None, None) => Ok(()),
        }
    }
}

fn insert_first(conn: &Connection, rid: i64, after: Seq, body: &str) -> Result<(), Fault> {
    let inserted = if after == Seq::ZERO {
        conn.prepare_cached(FIRST_OF_ALL)?.execute(params![rid, body])?
    } else {
        conn.prepare_cached(FIRST)?.execute(params![rid, sql_int(after.0), body])?
    };
    if inserted == 1 { Ok(()) } else { Err(Fault::Conflict(end_of(conn, rid)?)) }
}

/// Where a log ends.
pub(crate) fn end_of(conn: &Connection, rid: i64) -> rusqlite::Result<Seq> {
    let end = conn.prepare_cached(END)?.query_row([rid], |row| row.get::<_, i64>(0)).optional()?;
    Ok(end.map_or(Seq::ZERO, |end| Seq(end.unsigned_abs())))
}

/// An unsigned number as SQLite keeps it; what does not fit is larger than anything stored.
pub(crate) fn sql_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
