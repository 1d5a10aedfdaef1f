//! [`SqliteStore`]: the calls of the trait, each done by the writer or by a reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq, Status, WorkflowName};
use goldseam_store::unproven::UnprovenPlace;
use goldseam_store::{
    Append, AuditLog, ClaimRequest, ClaimedTasks, Expect, Feed, Head, LockFilter, NodeRecord, NodeSeen,
    OpenMode, Page, Record, RecordKind, Row, RunFilter, Store, StoreError, TaskFilter, Unproven,
    UnprovenFilter, Unreadable, Written,
};
use rusqlite::Connection;

use crate::append::{self, SqliteAppend};
use crate::clock::SteadyClock;
use crate::fault::refused;
use crate::file_identity::FileIdentity;
use crate::liveness::LivenessLocks;
use crate::read::Readers;
use crate::rows::PutRowJob;
use crate::url::SqliteOptions;
use crate::watch::FileWatch;
use crate::writer::{Setup, SqliteWriter, WriteMode};
use crate::{claim, list, locks, migrate, nodes, open, read, tasks, unproven, url};

/// On the caller's thread: an append or a claim of a lone caller must not wait for the writer thread.
const APPEND: WriteMode = WriteMode { on_caller_thread: true, ..WriteMode::DEFAULT };
const CLAIM: WriteMode = WriteMode { wakes_waiters: false, ..APPEND };
const TRIM: WriteMode = WriteMode { wakes_waiters: false, ..WriteMode::DEFAULT };
/// Not synced: no process survives a power cut, so its beat need not.
const BEAT: WriteMode = WriteMode { synced: false, ..TRIM };

/// A store in one SQLite file. Share it in an `Arc`. Dropping it waits for calls that are under way.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    clock: Arc<SteadyClock>,
    watch: Arc<FileWatch>,
    pub(crate) writer: SqliteWriter,
    pub(crate) readers: Readers,
    liveness: Arc<LivenessLocks>,
}

impl SqliteStore {
    /// Opens a database. Creates it if it does not exist, and migrates an older schema.
    ///
    /// Blocks; call it before the runtime has work to do.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::open_with(path, options, OpenMode::CreateOrMigrate)
    }

    /// Opens a database. Refuses an older schema, and does not change it.
    pub fn open_current(path: &Path, options: SqliteOptions) -> Result<Self, StoreError> {
        Self::open_with(path, options, OpenMode::RequireCurrent)
    }

    /// Opens a backup to read it. Changes nothing, and creates no file beside it.
    pub fn open_backup(path: &Path) -> Result<Self, StoreError> {
        let options = SqliteOptions::default();
        let conn = open::frozen(path)?;
        migrate::refuse_older(&conn, path)?;
        let readers = (0..options.readers).map(|_| open::frozen(path)).collect::<Result<_, _>>()?;
        Self::on(path, options, conn, readers)
    }

    fn open_with(path: &Path, options: SqliteOptions, mode: OpenMode) -> Result<Self, StoreError> {
        let conn = open::writer(path, &options, mode)?;
        let count = options.readers.max(1);
        let readers = (0..count).map(|_| open::reader(path, &options)).collect::<Result<_, _>>()?;
        Self::on(path, options, conn, readers)
    }

    fn on(
        path: &Path,
        options: SqliteOptions,
        conn: Connection,
        readers: Vec<Connection>,
    ) -> Result<Self, StoreError> {
        let no_thread = |error: std::io::Error| {
            let what = format!("cannot start a thread for the store: {error}");
            refused("GS0205", what, "raise this user's limit of threads")
        };
        let clock = Arc::new(SteadyClock::new(Arc::clone(&options.clock)));
        let watch = Arc::new(FileWatch::of(path));
        let file = Arc::new(FileIdentity::of(path));
        let setup = Setup {
            conn,
            file: Arc::clone(&file),
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
            writer: SqliteWriter::start(setup).map_err(no_thread)?,
            readers: Readers::start(readers, file).map_err(no_thread)?,
            liveness: Arc::new(LivenessLocks::beside(path)),
        })
    }

    /// Opens the database at a URL: `sqlite:PATH?durability=process`.
    pub fn open_url(text: &str) -> Result<Self, StoreError> {
        let (path, options) = url::parse(text)?;
        Self::open(&path, options)
    }

    /// The path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub(crate) fn writer(&self) -> &SqliteWriter {
        &self.writer
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        let prepared = SqliteAppend::new(append)?;
        self.writer.write(APPEND, move |work| prepared.run(work)).await
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
        self.writer.write(TRIM, move |work| append::trim(work, &run, first)).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.writer.write(WriteMode::DEFAULT, move |work| tasks::put(work, &task, expect)).await
    }

    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        self.writer.write(CLAIM, move |work| claim::claim(work, &claim)).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        match filter.limit {
            1 => self.readers.read_on_caller_thread(move |conn| tasks::list(conn, &filter)).await,
            _ => self.readers.read(move |conn| tasks::list(conn, &filter)).await,
        }
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        self.writer.write(WriteMode::DEFAULT, move |work| locks::put(work, &lock, expect)).await
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        match filter.limit {
            1 => self.readers.read_on_caller_thread(move |conn| locks::list(conn, &filter)).await,
            _ => self.readers.read(move |conn| locks::list(conn, &filter)).await,
        }
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let put = PutRowJob::new(row, expect)?;
        self.writer.write(WriteMode::DEFAULT, move |work| put.run(work)).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        let after = filter.cursor()?;
        self.readers.read(move |conn| list::runs(conn, &filter, after.as_ref())).await
    }

    async fn status_counts(&self, workflow: Option<&WorkflowName>) -> Result<Vec<(Status, u64)>, StoreError> {
        let workflow = workflow.cloned();
        self.readers.read(move |conn| list::status_counts(conn, workflow.as_ref())).await
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

    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        let place = UnprovenPlace::of(&filter)?;
        self.readers.read(move |conn| unproven::unproven(conn, &filter, place)).await
    }

    fn watches(&self) -> bool {
        true
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let record = node.clone();
        let is_over = nodes::is_over(node);
        if !is_over {
            self.liveness.hold(&node.id)?;
        }
        let beaten = self.writer.write(BEAT, move |work| nodes::beat(work, &record)).await;
        if is_over {
            // Even if the write failed: an ended node must not look alive.
            self.liveness.release(&node.id);
        }
        beaten
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        let liveness = Arc::clone(&self.liveness);
        self.readers.read_on_caller_thread(move |conn| nodes::list(conn, &liveness)).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        let forgotten = node.clone();
        self.writer.write(WriteMode::DEFAULT, move |work| nodes::forget(work, &forgotten)).await?;
        self.liveness.forget(node);
        Ok(())
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        self.watch.changed(seen, || self.writer.peek()).await
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        Some(self)
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(self)
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.clock.now())
    }
}
