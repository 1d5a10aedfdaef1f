//! The one writer: a thread with its own connection that commits all waiting jobs together. While no job waits, a
//! caller may use the connection itself.
//!
//! Invariant: a reply is sent only after the `COMMIT` of its job. A conflict of one job does not affect the others; a
//! failure of the transaction is reported to every job in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_store::StoreError;
use rusqlite::{CachedStatement, Connection};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::clock::SteadyClock;
use crate::fault::{GroupFault, SqliteErrorKind, SqliteFault, poisoned};
use crate::file_identity::FileIdentity;
use crate::job_queue::{JobQueue, OnlyTaker};
use crate::run_numbers::RunNumbers;
use crate::url::Durability;
use crate::watch::FileWatch;

/// Most attempts of a transaction that meets another process.
const BUSY_ATTEMPTS_MAX: u32 = 3;
/// The pause between two attempts to begin while another process writes.
const BUSY_PAUSE: Duration = Duration::from_micros(300);
/// Fewest replies that are sent by one task of the runtime.
const REPLY_TOGETHER_MIN: usize = 8;

/// How a write is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteMode {
    /// Whether the caller may commit on its own thread while no other caller writes. This saves two changes of thread,
    /// which cost as much as the commit.
    pub(crate) on_caller_thread: bool,
    /// Whether the commit must survive a power cut.
    pub(crate) synced: bool,
    /// Whether waiters for changes are woken.
    pub(crate) wakes_waiters: bool,
}

impl WriteMode {
    /// On the writer's thread, synced, with a wake-up of waiters.
    pub(crate) const DEFAULT: Self = Self { on_caller_thread: false, synced: true, wakes_waiters: true };
}

/// What a job may use while the transaction is open.
pub(crate) struct JobContext<'w> {
    /// The connection, inside the transaction.
    pub(crate) conn: &'w Connection,
    pub(crate) run_numbers: &'w mut RunNumbers,
    /// The time of the transaction, by the store's clock.
    pub(crate) now: Millis,
    /// The statement that inserts the first event of an append, once the group has prepared it.
    pub(crate) insert_first: Option<CachedStatement<'w>>,
}

impl<'w> JobContext<'w> {
    pub(crate) fn new(conn: &'w Connection, run_numbers: &'w mut RunNumbers, now: Millis) -> Self {
        Self { conn, run_numbers, now, insert_first: None }
    }
}

/// Work that shares a transaction with others. It may run more than once, so it must not change itself.
trait WriteJob: Send {
    /// Does the work. An error fails the transaction.
    fn run(&mut self, work: &mut JobContext<'_>) -> Result<(), SqliteFault>;
    /// Replies to the caller once the outcome is known.
    fn reply(self: Box<Self>, outcome: Result<(), StoreError>);
    fn mode(&self) -> WriteMode;
    /// The runtime in which the caller waits.
    fn runtime(&self) -> Option<&Handle>;
}

struct CallerJob<T, F> {
    work: F,
    mode: WriteMode,
    runtime: Option<Handle>,
    result: Option<Result<T, StoreError>>,
    /// The work returns to the caller with the reply, which frees it there and not on the writer's thread.
    reply: oneshot::Sender<(Result<T, StoreError>, F)>,
}

impl<T, F> WriteJob for CallerJob<T, F>
where
    T: Send,
    F: FnMut(&mut JobContext<'_>) -> Result<T, SqliteFault> + Send,
{
    fn run(&mut self, work: &mut JobContext<'_>) -> Result<(), SqliteFault> {
        self.result = Some(match (self.work)(work) {
            Ok(done) => Ok(done),
            Err(SqliteFault::Conflict(end)) => Err(StoreError::Conflict { end }),
            Err(SqliteFault::Damaged(detail)) => Err(StoreError::Damaged { detail }),
            Err(fault) => return Err(fault),
        });
        Ok(())
    }

    fn reply(self: Box<Self>, outcome: Result<(), StoreError>) {
        let result = match (outcome, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(StoreError::Damaged { detail: "a write did not run".to_owned() }),
            (Err(error), _) => Err(error),
        };
        // The caller may have been cancelled.
        let _ = self.reply.send((result, self.work));
    }

    fn mode(&self) -> WriteMode {
        self.mode
    }

    fn runtime(&self) -> Option<&Handle> {
        self.runtime.as_ref()
    }
}

/// Committed jobs. Dropping this replies to their callers.
struct CommittedJobs(Vec<Box<dyn WriteJob>>);

impl CommittedJobs {
    /// Replies to the callers. A reply from another thread costs the runtime a system call, so one task of the runtime
    /// replies to a large group. Only if all callers wait in one runtime: a blocked runtime must not delay callers of
    /// another.
    fn reply(self) {
        let runtime = self.0.first().and_then(|job| job.runtime()).cloned();
        let id = runtime.as_ref().map(Handle::id);
        if self.0.len() >= REPLY_TOGETHER_MIN
            && self.0.iter().all(|job| job.runtime().map(Handle::id) == id)
            && let Some(runtime) = runtime
        {
            runtime.spawn(async move { drop(self) });
        }
    }
}

impl Drop for CommittedJobs {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|job| job.reply(Ok(())));
    }
}

enum WriterMessage {
    Job(Box<dyn WriteJob>),
    /// Check whether another process has committed since the last check.
    Peek(oneshot::Sender<Result<(), StoreError>>),
}

impl std::fmt::Debug for WriterMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Job(_) => "Job",
            Self::Peek(_) => "Peek",
        })
    }
}

/// The handle by which callers write.
#[derive(Debug)]
pub(crate) struct SqliteWriter {
    queue: Arc<JobQueue<WriterMessage>>,
    core: Arc<Mutex<Core>>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteWriter {
    /// Starts the thread on a prepared connection.
    pub(crate) fn start(setup: Setup) -> std::io::Result<Self> {
        let queue = Arc::new(JobQueue::new());
        let taker = OnlyTaker(Arc::clone(&queue));
        let core = Arc::new(Mutex::new(Core::new(setup)));
        let shared = Arc::clone(&core);
        let thread = std::thread::Builder::new()
            .name("goldseam-sqlite-writer".to_owned())
            .spawn(move || run(&shared, &taker))?;
        Ok(Self { queue, core, thread: Some(thread) })
    }

    /// Runs `work` in a transaction. Returns once the transaction is committed.
    pub(crate) async fn write<T, F>(&self, mode: WriteMode, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut JobContext<'_>) -> Result<T, SqliteFault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let runtime = Handle::try_current().ok();
        let on_caller_thread = mode.on_caller_thread && runtime.as_ref().is_some_and(may_block);
        let mut job: Option<Box<dyn WriteJob>> =
            Some(Box::new(CallerJob { work, mode, runtime, result: None, reply }));
        if on_caller_thread
            && self.queue.is_idle()
            && let Ok(mut core) = self.core.try_lock()
        {
            job = job.and_then(|job| core.commit_one(job));
        }
        if let Some(job) = job {
            self.queue.push(WriterMessage::Job(job)).map_err(|_| stopped())?;
        }
        match answer.await {
            Ok((result, _work)) => result,
            Err(_) => Err(StoreError::Unknown { doing: "committing", source: "the writer stopped".into() }),
        }
    }

    /// Bumps the watch if another process has committed since the last peek. The peek itself bumps: a caller that is
    /// dropped while it waits for the thread must not lose the change.
    pub(crate) async fn peek(&self) -> Result<(), StoreError> {
        // On the caller's thread if the writer is idle: waking the thread takes longer.
        if Handle::try_current().is_ok_and(|runtime| may_block(&runtime))
            && self.queue.is_idle()
            && let Ok(mut core) = self.core.try_lock()
        {
            return core.peek();
        }
        let (reply, answer) = oneshot::channel();
        self.queue.push(WriterMessage::Peek(reply)).map_err(|_| stopped())?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }
}

impl Drop for SqliteWriter {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a caller in this runtime may block for one commit: another worker of the runtime continues meanwhile, and
/// its writes are then committed together.
pub(crate) fn may_block(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1
}

fn stopped() -> StoreError {
    StoreError::Damaged {
        detail: "the writer thread of this database stopped; restart the process".to_owned(),
    }
}

/// What the writer starts with.
pub(crate) struct Setup {
    pub(crate) conn: Connection,
    pub(crate) file: Arc<FileIdentity>,
    pub(crate) clock: Arc<SteadyClock>,
    pub(crate) watch: Arc<FileWatch>,
    pub(crate) durability: Durability,
    pub(crate) group_max: usize,
    pub(crate) busy_timeout: Duration,
}

/// The connection and the state of the writer.
struct Core {
    setup: Setup,
    run_numbers: RunNumbers,
    data_version: i64,
    /// Whether the connection syncs commits.
    is_synced: bool,
    /// Why all further writes are refused, if they are.
    poison: Option<String>,
}

/// Why a group was not committed.
enum CommitFailure {
    /// One job failed; the others can be committed without it.
    Job(usize, rusqlite::Error),
    /// The whole group failed.
    Group(GroupFault),
}

/// Commits all waiting jobs together until the queue is closed.
fn run(core: &Mutex<Core>, taker: &OnlyTaker<WriterMessage>) {
    let mut taken = Vec::new();
    let mut group = Vec::new();
    let max = core.lock().unwrap_or_else(PoisonError::into_inner).setup.group_max;
    while taker.0.take(&mut taken, max) {
        let mut core = core.lock().unwrap_or_else(PoisonError::into_inner);
        for message in taken.drain(..) {
            match message {
                WriterMessage::Job(job) => group.push(job),
                WriterMessage::Peek(reply) => {
                    let _ = reply.send(core.peek());
                }
            }
        }
        if !core.commit_or_poison(&mut group) {
            return;
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("poison", &self.poison).finish_non_exhaustive()
    }
}

impl Core {
    fn new(setup: Setup) -> Self {
        let mut core = Self {
            setup,
            run_numbers: RunNumbers::default(),
            data_version: -1,
            is_synced: true,
            poison: None,
        };
        // The first waiter peeks again, and reports a failure.
        let _ = core.peek();
        core
    }

    /// Commits one job at once. Returns the job if another process is writing.
    fn commit_one(&mut self, job: Box<dyn WriteJob>) -> Option<Box<dyn WriteJob>> {
        if !self.try_begin(job.mode().synced) {
            return Some(job);
        }
        self.commit_or_poison(&mut vec![job]);
        None
    }

    /// Begins a transaction if that is possible without waiting.
    fn try_begin(&mut self, synced: bool) -> bool {
        let may_write = self.poison.is_none() && self.setup.file.last_check().is_ok();
        may_write && self.set_synced(synced).is_ok() && begin(&self.setup.conn, Duration::ZERO).is_ok()
    }

    /// Commits a group. After a panic all further writes are refused. Returns whether writing continues.
    fn commit_or_poison(&mut self, group: &mut Vec<Box<dyn WriteJob>>) -> bool {
        let committed = catch_unwind(AssertUnwindSafe(|| self.commit(group)));
        if committed.is_err() {
            // Dropping the jobs without a reply tells their callers that the outcome is unknown.
            tracing::error!("database writer panicked; refusing all further writes");
            self.poison = Some("the writer panicked".to_owned());
            group.clear();
        }
        committed.is_ok()
    }

    fn peek(&mut self) -> Result<(), StoreError> {
        self.setup.file.check()?;
        let read = || -> Result<i64, SqliteFault> {
            Ok(self.setup.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
        };
        let version = read().map_err(SqliteFault::into_read_error)?;
        if std::mem::replace(&mut self.data_version, version) != version {
            self.setup.watch.bump();
        }
        Ok(())
    }

    /// Commits the group without the jobs that fail, and replies to all of them.
    fn commit(&mut self, group: &mut Vec<Box<dyn WriteJob>>) {
        if let Some(message) = &self.poison {
            group.drain(..).for_each(|job| job.reply(Err(poisoned(message))));
        }
        if self.setup.file.last_check().is_err() {
            group.drain(..).for_each(|job| job.reply(self.setup.file.last_check()));
        }
        let mut busy_attempts = 0;
        while !group.is_empty() {
            let before = self.setup.conn.total_changes();
            match self.transact(group) {
                Ok(()) => {
                    if let Err(lost) = self.setup.file.check() {
                        // Data in a file without a name is lost, unless its write-ahead log is found.
                        let message = lost.to_string();
                        let unknown =
                            || StoreError::Unknown { doing: "committing", source: message.clone().into() };
                        group.drain(..).for_each(|job| job.reply(Err(unknown())));
                        return;
                    }
                    if self.setup.conn.total_changes() != before {
                        self.setup.watch.committed(group.iter().any(|job| job.mode().wakes_waiters));
                    }
                    CommittedJobs(std::mem::take(group)).reply();
                }
                Err(CommitFailure::Job(index, error)) => {
                    self.roll_back();
                    group.remove(index).reply(Err(GroupFault::new(&error, false).to_error()));
                }
                Err(CommitFailure::Group(fault)) => {
                    // A transaction that could not begin has already waited.
                    let has_begun = !self.setup.conn.is_autocommit();
                    self.roll_back();
                    busy_attempts += 1;
                    if has_begun && fault.kind == SqliteErrorKind::Busy && busy_attempts < BUSY_ATTEMPTS_MAX {
                        continue;
                    }
                    if fault.poisons() {
                        tracing::error!(error = fault.message, "disk failed; refusing all further writes");
                        self.poison = Some(fault.message.clone());
                    }
                    group.drain(..).for_each(|job| job.reply(Err(fault.to_error())));
                }
            }
        }
    }

    fn transact(&mut self, group: &mut [Box<dyn WriteJob>]) -> Result<(), CommitFailure> {
        if self.setup.conn.is_autocommit() {
            let synced = group.iter().any(|job| job.mode().synced);
            self.set_synced(synced).map_err(|error| CommitFailure::Group(GroupFault::new(&error, false)))?;
            begin(&self.setup.conn, self.setup.busy_timeout)?;
        }
        let conn = &self.setup.conn;
        let mut work = JobContext::new(conn, &mut self.run_numbers, self.setup.clock.now());
        for (index, job) in group.iter_mut().enumerate() {
            if let Err(SqliteFault::Sql(error)) = job.run(&mut work) {
                return Err(match SqliteErrorKind::of(&error) {
                    SqliteErrorKind::Other => CommitFailure::Job(index, error),
                    _ => CommitFailure::Group(GroupFault::new(&error, false)),
                });
            }
        }
        drop(work);
        execute(conn, "COMMIT").map_err(|error| CommitFailure::Group(GroupFault::new(&error, true)))
    }

    /// Sets whether the next commit is synced. Does nothing if the database was opened without syncing. A later synced
    /// commit of any process also syncs all commits before it.
    fn set_synced(&mut self, synced: bool) -> rusqlite::Result<()> {
        if self.setup.durability == Durability::Process || self.is_synced == synced {
            return Ok(());
        }
        execute(
            &self.setup.conn,
            if synced { "PRAGMA synchronous=FULL" } else { "PRAGMA synchronous=NORMAL" },
        )?;
        self.is_synced = synced;
        Ok(())
    }

    fn roll_back(&mut self) {
        self.run_numbers = RunNumbers::default();
        if !self.setup.conn.is_autocommit()
            && let Err(error) = self.setup.conn.execute_batch("ROLLBACK")
        {
            self.poison = Some(format!("rollback failed: {error}"));
        }
    }
}

fn execute(conn: &Connection, sql: &'static str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

/// Takes the write lock, and waits for it at most `timeout`. SQLite's own busy handler pauses up to 100 ms, and so
/// starves beside another process that commits all the time.
fn begin(conn: &Connection, timeout: Duration) -> Result<(), CommitFailure> {
    let mut waited = Duration::ZERO;
    loop {
        match execute(conn, "BEGIN IMMEDIATE") {
            Ok(()) => return Ok(()),
            Err(error) if SqliteErrorKind::of(&error) == SqliteErrorKind::Busy && waited < timeout => {
                std::thread::park_timeout(BUSY_PAUSE);
                waited += BUSY_PAUSE;
            }
            Err(error) => return Err(CommitFailure::Group(GroupFault::new(&error, false))),
        }
    }
}
