//! [`SqliteStore`]: the trait's calls, each handed to the writer or to a reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq};
use goldseam_store::{
    Append, Claim, ClaimedTasks, Expect, Feed, Head, LockFilter, NodeRecord, NodeSeen, Page, Record,
    RecordKind, Row, RunFilter, Store, StoreError, TaskFilter, Unreadable, Written,
};
use rusqlite::Connection;

use crate::append::{self, Prepared};
use crate::clock::SteadyClock;
use crate::file_identity::Place;
use crate::nodes::Liveness;
use crate::open::Older;
use crate::read::Readers;
use crate::rows::PutRow;
use crate::url::Options;
use crate::watch::Watch;
use crate::writer::{Setup, Writer};
use crate::{claim, list, locks, nodes, open, read, tasks, url};

/// A store in one SQLite file. Share it in an `Arc`; dropping it waits for what was asked of it.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    clock: Arc<SteadyClock>,
    watch: Arc<Watch>,
    writer: Writer,
    pub(crate) readers: Readers,
    liveness: Arc<Liveness>,
}

impl SqliteStore {
    /// Opens a database, makes it if there is none, and brings its schema up to date.
    ///
    /// Blocks while it does; call it before the work begins.
    pub fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        Self::open_with(path, options, Older::Migrate)
    }

    /// The same, but a database with an older schema is refused, untouched.
    pub fn open_current(path: &Path, options: Options) -> Result<Self, StoreError> {
        Self::open_with(path, options, Older::Refuse)
    }

    fn open_with(path: &Path, options: Options, older: Older) -> Result<Self, StoreError> {
        let no_thread = |error: std::io::Error| {
            let what = format!("cannot start a thread for the store: {error}");
            open::refused("GS0205", what, "raise this user's limit of threads")
        };
        let conn = open::writer(path, &options, older)?;
        let connections: Result<Vec<_>, _> =
            (0..options.readers.max(1)).map(|_| open::reader(path, &options)).collect();
        let clock = Arc::new(SteadyClock::new(Arc::clone(&options.clock)));
        let watch = Arc::new(Watch::of(path));
        let place = Arc::new(Place::of(path));
        let setup = Setup {
            conn,
            place: Arc::clone(&place),
            clock: Arc::clone(&clock),
            watch: Arc::clone(&watch),
            durability: options.durability,
            group_max: options.group_max.max(1),
            busy_timeout: options.busy_timeout,
        };
        Ok(Self {
            path: path.to_owned(),
            clock,
            watch,
            writer: Writer::start(setup).map_err(no_thread)?,
            readers: Readers::start(connections?, place).map_err(no_thread)?,
            liveness: Arc::new(Liveness::beside(path)),
        })
    }

    /// Opens what a URL names: `sqlite:PATH?durability=process`.
    pub fn open_url(text: &str) -> Result<Self, StoreError> {
        let (path, options) = url::parse(text)?;
        Self::open(&path, options)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        let prepared = Prepared::new(append)?;
        self.writer.write_here(move |work| prepared.run(work)).await
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        let run = run.clone();
        self.readers.read(move |conn| read::records(conn, &run, after, limit)).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        let run = run.clone();
        self.readers.read(move |conn| read::head(conn, &run)).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        let run = run.clone();
        self.writer.write_quietly(move |work| append::trim(work, &run, first)).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.writer.write(move |work| tasks::put(work, &task, expect)).await
    }

    async fn claim(&self, claim: Claim) -> Result<ClaimedTasks, StoreError> {
        self.writer.write_quietly_here(move |work| claim::claim(work, &claim)).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        match filter.limit {
            1 => self.readers.read_here(move |conn| tasks::list(conn, &filter)).await,
            _ => self.readers.read(move |conn| tasks::list(conn, &filter)).await,
        }
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        self.writer.write(move |work| locks::put(work, &lock, expect)).await
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        match filter.limit {
            1 => self.readers.read_here(move |conn| locks::list(conn, &filter)).await,
            _ => self.readers.read(move |conn| locks::list(conn, &filter)).await,
        }
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let put = PutRow::new(row, expect)?;
        self.writer.write(move |work| put.run(work)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        let after = filter.cursor()?;
        self.readers.read(move |conn| list::runs(conn, &filter, after.as_ref())).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        let after = after.unwrap_or_default().to_owned();
        let number = after.parse().unwrap_or(0);
        let read = move |conn: &Connection| match kind {
            RecordKind::Row => list::unreadable(conn, number, limit),
            RecordKind::Task => tasks::unreadable(conn, number, limit),
            RecordKind::Lock => locks::unreadable(conn, &after, limit),
            RecordKind::Node => nodes::unreadable(conn),
            RecordKind::Index => Ok(Page::default()),
        };
        self.readers.read(read).await
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        let after = after.cloned();
        self.readers.read(move |conn| list::rowless(conn, after.as_ref(), limit)).await
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let (told, over) = (node.clone(), nodes::is_over(node));
        if !over {
            self.liveness.hold(&node.id)?;
        }
        let beaten = self.writer.write_unsynced(move |work| nodes::beat(work, &told)).await;
        if over {
            // Whatever came of the row: a node that is over must not look alive.
            self.liveness.release(&node.id);
        }
        beaten
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        let liveness = Arc::clone(&self.liveness);
        self.readers.read_here(move |conn| nodes::list(conn, &liveness)).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        let gone = node.clone();
        self.writer.write(move |work| nodes::forget(work, &gone)).await?;
        self.liveness.forget(node);
        Ok(())
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.watch.changed(seen, &self.writer).await
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(self)
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.clock.now())
    }
}
