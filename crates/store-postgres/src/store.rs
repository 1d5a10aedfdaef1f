//! [`PostgresStore`]: the calls of the trait, each done by a writer or on a connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Seq, Status, WorkflowName};
use goldseam_store::{
    Append, AuditLog, ChangeMark, ClaimRequest, ClaimedTasks, Expect, Feed, Head, LockFilter, NodeRecord,
    NodeSeen, OpenMode, Page, Record, RecordKind, Row, RunFilter, Store, StoreError, TaskFilter, Unproven,
    UnprovenFilter, Unreadable, Written,
};
use tokio::runtime::Handle;
use tokio_postgres::types::Type;

use crate::append::{self, Appends, PgAppend};
use crate::clock::{MonotonicTime, PgClock};
use crate::connection::{ConnectionTarget, PgConnection};
use crate::fault::{PgFault, refused};
use crate::liveness::{LivenessHandle, pulse_key};
use crate::nodes::{self, BeatArgs};
use crate::open;
use crate::tasks::{TaskPut, TaskPuts};
use crate::url::{self, PostgresOptions};
use crate::write_context::WriteContext;
use crate::writer::GroupWriter;
use crate::{claim, list, locks, read, rows, sql, tasks, unproven, watch};

/// Connections for appends: while one commits a group, the other sends the next.
const APPEND_CONNECTIONS: usize = 2;
/// Connections for reads.
const READ_CONNECTIONS: usize = 2;

/// A store in one schema of a Postgres database. Share it in an `Arc`.
///
/// At most six connections: two for appends, one for other writes, two for reads, and the liveness session.
#[derive(Debug)]
pub struct PostgresStore {
    target: Arc<ConnectionTarget>,
    context: Arc<WriteContext>,
    appends: GroupWriter<Appends>,
    puts: GroupWriter<TaskPuts>,
    pub(crate) write: Arc<PgConnection>,
    read: [PgConnection; READ_CONNECTIONS],
    /// Counts reads, to distribute them over the connections.
    reads: AtomicUsize,
    liveness: Mutex<Option<Arc<LivenessHandle>>>,
}

impl PostgresStore {
    /// Opens a schema. Creates it if it does not exist, and migrates an older one.
    pub async fn open(options: PostgresOptions) -> Result<Self, StoreError> {
        Self::open_with(options, OpenMode::CreateOrMigrate).await
    }

    /// Opens a schema. Refuses a missing or older one, and changes nothing.
    pub async fn open_current(options: PostgresOptions) -> Result<Self, StoreError> {
        Self::open_with(options, OpenMode::RequireCurrent).await
    }

    /// Opens the schema at a URL: `postgres://USER@HOST/DATABASE?schema=NAME`.
    pub async fn open_url(text: &str) -> Result<Self, StoreError> {
        Self::open(url::parse(text)?).await
    }

    async fn open_with(options: PostgresOptions, mode: OpenMode) -> Result<Self, StoreError> {
        let target = Arc::new(ConnectionTarget::new(options)?);
        open::prepare(&target, mode).await?;
        let options = &target.options;
        let home = Handle::current();
        let connection = || PgConnection::new(Arc::clone(&target), home.clone());
        let clock = PgClock::new(options.clock.clone());
        let context =
            Arc::new(WriteContext::new(clock, Arc::new(ChangeMark::default()), options.schema.clone()));
        let write = Arc::new(connection());
        let appends = (0..APPEND_CONNECTIONS).map(|_| Arc::new(connection())).collect();
        let store = Self {
            appends: GroupWriter::new(
                Appends(Arc::clone(&context)),
                appends,
                options.group_max,
                home.clone(),
            ),
            puts: GroupWriter::new(
                TaskPuts(Arc::clone(&context)),
                vec![Arc::clone(&write)],
                options.group_max,
                home.clone(),
            ),
            read: std::array::from_fn(|_| connection()),
            reads: AtomicUsize::new(0),
            liveness: Mutex::default(),
            write,
            context,
            target: Arc::clone(&target),
        };
        store.set_clock().await?;
        Ok(store)
    }

    /// Reads the time of the database before any call needs it.
    async fn set_clock(&self) -> Result<(), StoreError> {
        let sent = MonotonicTime::now();
        let rows = self.reader().read("SELECT goldseam.clock()", &[]).await?;
        if let Some(row) = rows.first() {
            let time = sql::column(row, 0).map_err(|fault| fault.to_read_error())?;
            self.context.clock.observe(time, sent);
        }
        Ok(())
    }

    pub(crate) fn reader(&self) -> &PgConnection {
        &self.read[self.reads.fetch_add(1, Ordering::Relaxed) % READ_CONNECTIONS]
    }

    /// The liveness session, if it was started.
    fn liveness(&self) -> Option<Arc<LivenessHandle>> {
        self.liveness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The liveness session; starts it if necessary. None behind a pooler without a direct address.
    fn start_liveness(&self) -> Result<Option<Arc<LivenessHandle>>, StoreError> {
        if !self.target.options.has_sessions() {
            return Ok(None);
        }
        let mut liveness = self.liveness.lock().unwrap_or_else(PoisonError::into_inner);
        if liveness.is_none() {
            let started = LivenessHandle::start(Arc::clone(&self.target), Arc::clone(&self.context.mark));
            let failed = |error: std::io::Error| {
                let what = format!("cannot start the thread of the liveness session: {error}");
                refused("GS0205", what, "raise this user's limit of threads")
            };
            *liveness = Some(Arc::new(started.map_err(failed)?));
        }
        Ok(liveness.clone())
    }

    async fn beat_on(&self, liveness: Option<&LivenessHandle>, beat: BeatArgs) -> Result<i64, PgFault> {
        let Some(liveness) = liveness else {
            return BeatArgs::time(&self.write.query(nodes::BEAT, &beat.values()).await?);
        };
        let sql = self.target.sql(nodes::BEAT).into_owned();
        liveness
            .on_session(
                move |session| async move { BeatArgs::time(&session.query(&sql, &beat.values()).await?) },
            )
            .await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn append(&self, append: Append) -> Result<Seq, StoreError> {
        self.appends.write(PgAppend::new(append, self.context.clock.now())?).await
    }

    async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, StoreError> {
        read::records(self.reader(), run, after, limit).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError> {
        read::head(self.reader(), run).await
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), StoreError> {
        append::trim(&self.write, run, first).await
    }

    async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        self.puts.write(TaskPut::new(&task, expect, self.context.clock.now())?).await
    }

    async fn claim(&self, claim: ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        claim::claim(&self.write, &claim).await
    }

    async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, StoreError> {
        tasks::list(self.reader(), &filter).await
    }

    async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        let written = locks::put(&self.write, &lock, expect).await?;
        if matches!(written, Written::Done) {
            self.context.mark.bump();
        }
        Ok(written)
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, StoreError> {
        locks::list(self.reader(), &filter).await
    }

    async fn put_row(&self, row: Row, expect: Expect) -> Result<Written<Row>, StoreError> {
        let written = rows::put(&self.write, row, expect, self.context.clock.now()).await?;
        if matches!(written, Written::Done) {
            self.context.mark.bump();
        }
        Ok(written)
    }

    async fn runs(&self, filter: RunFilter) -> Result<Page<Row>, StoreError> {
        let after = filter.cursor()?;
        list::runs(self.reader(), &filter, after.as_ref()).await
    }

    async fn status_counts(&self, workflow: Option<&WorkflowName>) -> Result<Vec<(Status, u64)>, StoreError> {
        list::status_counts(self.reader(), workflow).await
    }

    async fn unreadable(
        &self,
        kind: RecordKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Unreadable>, StoreError> {
        let connection = self.reader();
        let after = after.unwrap_or_default();
        let number = after.parse().unwrap_or(0);
        match kind {
            RecordKind::Row => list::unreadable(connection, number, limit).await,
            RecordKind::Task => tasks::unreadable(connection, after, limit).await,
            RecordKind::Lock => locks::unreadable(connection, after, limit).await,
            RecordKind::Node => nodes::unreadable(connection).await,
            RecordKind::Index => Ok(Page::default()),
        }
    }

    async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        list::rowless(self.reader(), after, limit).await
    }

    async fn unproven(&self, filter: UnprovenFilter) -> Result<Unproven, StoreError> {
        unproven::unproven(self.reader(), &filter).await
    }

    fn watches(&self) -> bool {
        true
    }

    async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let sent = MonotonicTime::now();
        let is_over = nodes::is_over(node);
        let liveness = if is_over { self.liveness() } else { self.start_liveness()? };
        let key = pulse_key(&self.target.options.schema, &node.id);
        if is_over {
            self.context.remove_node(&node.id);
            liveness.as_ref().and_then(|liveness| liveness.release(&node.id));
        } else {
            self.context.add_node(&node.id);
            liveness.iter().for_each(|liveness| liveness.hold(&node.id, key));
        }
        let pulse = self.target.options.has_sessions().then_some(key);
        let beat = BeatArgs::new(self.context.clock.injected(), pulse, node)?;
        let beaten = self.beat_on(liveness.as_deref(), beat).await;
        let time = beaten.map_err(|fault| fault.to_error("beating"))?;
        Ok(self.context.clock.observe(time, sent))
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        nodes::list(self.reader(), self.liveness().is_none_or(|liveness| liveness.is_settled())).await
    }

    async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        self.context.remove_node(node);
        let failed = |fault: PgFault| fault.to_error("forgetting a node");
        self.write.query(nodes::FORGET, &[(&node.as_str() as _, Type::TEXT)]).await.map_err(failed)?;
        if let Some(liveness) = self.liveness()
            && let Some(key) = liveness.release(node)
            && let Err(fault) = liveness.unlock(key).await
        {
            tracing::debug!(?fault, %node, "failed to unlock a forgotten node; its lock ends with the session");
        }
        Ok(())
    }

    async fn changed(&self, seen: u64) -> Result<u64, StoreError> {
        let is_notified = self.context.has_nodes() && self.target.options.has_sessions();
        Ok(watch::changed(&self.context.mark, seen, is_notified).await)
    }

    fn audit(&self) -> Option<&dyn AuditLog> {
        Some(self)
    }

    fn feed(&self) -> Option<&dyn Feed> {
        Some(self)
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.context.clock.now())
    }
}
