//! The one writer: a thread with its own connection that commits whatever waits, together. While
//! nothing waits, a lone caller may use the connection itself.
//!
//! Invariant: a reply is sent only after the `COMMIT` that holds its work. One job's conflict does
//! not touch its neighbours; a failure of the transaction is told to every job in it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use goldseam_core::{Millis, RunId};
use goldseam_store::StoreError;
use rusqlite::{CachedStatement, Connection, OptionalExtension};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::clock::SteadyClock;
use crate::fault::{Fault, GroupFault, Nature, poisoned};
use crate::file_identity::Place;
use crate::job_queue::{LastTaker, Queue};
use crate::url::Durability;
use crate::watch::Watch;

/// How often a transaction that met another process is begun again.
const BUSY_ATTEMPTS_MAX: u32 = 3;
/// The pause between two tries to begin while another process writes.
const BUSY_PAUSE: Duration = Duration::from_micros(300);
/// Fewest answers that are worth a task of their own.
const TELL_TOGETHER_MIN: usize = 8;
/// Runs whose numbers are remembered, in each of two generations.
const RIDS_MAX: usize = 32_768;

/// What a job may use while the transaction is open.
pub(crate) struct Work<'w> {
    /// The connection, inside the transaction.
    pub(crate) conn: &'w Connection,
    /// Numbers of runs.
    pub(crate) rids: &'w mut Rids,
    /// Now, by the store's clock.
    pub(crate) now: Millis,
    /// The statement of the hot path, once the group has used it.
    pub(crate) first: Option<CachedStatement<'w>>,
}

impl<'w> Work<'w> {
    pub(crate) fn new(conn: &'w Connection, rids: &'w mut Rids, now: Millis) -> Self {
        Self { conn, rids, now, first: None }
    }
}

/// Work that shares a transaction with others. It may be begun again, so it must not change itself.
trait Job: Send {
    /// Does the work; an error fails the transaction.
    fn run(&mut self, work: &mut Work<'_>) -> Result<(), Fault>;
    /// Tells the caller, once the fate is known.
    fn settle(self: Box<Self>, fate: Result<(), StoreError>);
    /// Whether somebody may wait for what it changes.
    fn is_loud(&self) -> bool;
    /// Whether it must survive a power cut.
    fn is_synced(&self) -> bool;
    /// The runtime that the caller waits in.
    fn runtime(&self) -> Option<&Handle>;
}

struct Reply<T, F> {
    work: F,
    loud: bool,
    synced: bool,
    runtime: Option<Handle>,
    outcome: Option<Result<T, StoreError>>,
    /// The work goes back with the answer: it is freed where it was made, not on the hot thread.
    reply: oneshot::Sender<(Result<T, StoreError>, F)>,
}

impl<T, F> Job for Reply<T, F>
where
    T: Send,
    F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send,
{
    fn run(&mut self, work: &mut Work<'_>) -> Result<(), Fault> {
        self.outcome = Some(match (self.work)(work) {
            Ok(done) => Ok(done),
            Err(Fault::Conflict(end)) => Err(StoreError::Conflict { end }),
            Err(Fault::Damaged(detail)) => Err(StoreError::Damaged { detail }),
            Err(fault) => return Err(fault),
        });
        Ok(())
    }

    fn settle(self: Box<Self>, fate: Result<(), StoreError>) {
        let answer = match (fate, self.outcome) {
            (Ok(()), Some(outcome)) => outcome,
            (Ok(()), None) => Err(StoreError::Damaged { detail: "a write did not run".to_owned() }),
            (Err(error), _) => Err(error),
        };
        // A caller that no longer waits has learned nothing, and that is all right.
        let _ = self.reply.send((answer, self.work));
    }

    fn is_loud(&self) -> bool {
        self.loud
    }

    fn is_synced(&self) -> bool {
        self.synced
    }

    fn runtime(&self) -> Option<&Handle> {
        self.runtime.as_ref()
    }
}

/// Jobs whose commit is done; they are settled when this is dropped, wherever that is.
struct Committed(Vec<Box<dyn Job>>);

impl Committed {
    /// Each answer from outside costs a runtime a system call, so a large group is answered from
    /// within: one task tells them all. Only for callers that all wait in one runtime, because one
    /// that nobody drives must not keep the others waiting.
    fn tell(self) {
        let one = self.0.first().and_then(|job| job.runtime()).cloned();
        let id = one.as_ref().map(Handle::id);
        if self.0.len() >= TELL_TOGETHER_MIN
            && self.0.iter().all(|job| job.runtime().map(Handle::id) == id)
            && let Some(runtime) = one
        {
            runtime.spawn(async move { drop(self) });
        }
    }
}

impl Drop for Committed {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|job| job.settle(Ok(())));
    }
}

enum Message {
    Job(Box<dyn Job>),
    /// Look whether another process has committed since the last look.
    Peek(oneshot::Sender<Result<(), StoreError>>),
}

/// The callers' end.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Arc<Queue<Message>>,
    core: Arc<Mutex<Loop>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Job(_) => "Job",
            Self::Peek(_) => "Peek",
        })
    }
}

impl Writer {
    /// Starts the thread on a connection that is ready for use.
    pub(crate) fn start(setup: Setup) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new());
        let taker = LastTaker(Arc::clone(&queue));
        let core = Arc::new(Mutex::new(Loop::new(setup)));
        let shared = Arc::clone(&core);
        let thread = std::thread::Builder::new()
            .name("goldseam-sqlite-writer".to_owned())
            .spawn(move || run(&shared, &taker))?;
        Ok(Self { queue, core, thread: Some(thread) })
    }

    /// Has `work` done in the next transaction; returns once that is committed.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.send(work, Manner { loud: true, here: false, synced: true }).await
    }

    /// The same, but by the caller itself while nobody else writes: it saves two changes of thread,
    /// which cost as much as the commit. As soon as others write too, the thread takes over.
    pub(crate) async fn write_here<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.send(work, Manner { loud: true, here: true, synced: true }).await
    }

    /// The same for work whose outcome nobody waits for: a claim takes away, a beat only counts.
    pub(crate) async fn write_quietly<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.send(work, Manner { loud: false, here: false, synced: true }).await
    }

    /// The same, but by the caller itself while the writer is idle.
    pub(crate) async fn write_quietly_here<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.send(work, Manner { loud: false, here: true, synced: true }).await
    }

    /// The same for work that need not survive a power cut: no process does, so no beat has to.
    pub(crate) async fn write_unsynced<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.send(work, Manner { loud: false, here: false, synced: false }).await
    }

    async fn send<T, F>(&self, work: F, manner: Manner) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Work<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let runtime = Handle::try_current().ok();
        let here = manner.here && runtime.as_ref().is_some_and(may_block);
        let mut job: Option<Box<dyn Job>> = Some(Box::new(Reply {
            work,
            loud: manner.loud,
            synced: manner.synced,
            runtime,
            outcome: None,
            reply,
        }));
        if here
            && self.queue.is_quiet()
            && let Ok(mut core) = self.core.try_lock()
        {
            job = job.and_then(|job| core.commit_one(job));
        }
        if let Some(job) = job {
            self.queue.push(Message::Job(job)).map_err(|_| ended())?;
        }
        match answer.await {
            Ok((answer, _work)) => answer,
            Err(_) => Err(StoreError::Unknown { doing: "committing", source: "the writer stopped".into() }),
        }
    }

    /// Bumps the watch if another process has committed since the last peek. The peek itself bumps: a caller that is
    /// dropped while it waits for the thread must not lose the change.
    pub(crate) async fn peek(&self) -> Result<(), StoreError> {
        // Run by the caller if the writer is idle: waking the thread takes longer.
        if Handle::try_current().is_ok_and(|runtime| may_block(&runtime))
            && self.queue.is_quiet()
            && let Ok(mut core) = self.core.try_lock()
        {
            return core.peek();
        }
        let (reply, answer) = oneshot::channel();
        self.queue.push(Message::Peek(reply)).map_err(|_| ended())?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How a job wants to be done.
#[derive(Clone, Copy)]
struct Manner {
    /// Somebody may wait for what it changes.
    loud: bool,
    /// By the caller itself, if nobody else writes.
    here: bool,
    /// It must survive a power cut.
    synced: bool,
}

/// Whether a caller in this runtime may block for one commit: another worker goes on meanwhile, and
/// what it brings is then committed together.
pub(crate) fn may_block(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1
}

fn ended() -> StoreError {
    StoreError::Damaged {
        detail: "the writer thread of this database stopped; restart the process".to_owned(),
    }
}

/// What the thread begins with.
pub(crate) struct Setup {
    pub(crate) conn: Connection,
    pub(crate) place: Arc<Place>,
    pub(crate) clock: Arc<SteadyClock>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) durability: Durability,
    pub(crate) group_max: usize,
    pub(crate) busy_timeout: Duration,
}

struct Loop {
    setup: Setup,
    rids: Rids,
    data_version: i64,
    /// Whether commits are synced now.
    is_synced: bool,
    poison: Option<String>,
}

/// Why a group was not committed.
enum Undone {
    /// By this job alone; the others may go on without it.
    Job(usize, rusqlite::Error),
    /// As a whole.
    Group(GroupFault),
}

/// What the thread does: commits whatever waits, together, until the queue is closed.
fn run(core: &Mutex<Loop>, taker: &LastTaker<Message>) {
    let mut taken = Vec::new();
    let mut group = Vec::new();
    let max = core.lock().unwrap_or_else(PoisonError::into_inner).setup.group_max;
    while taker.0.take(&mut taken, max) {
        let mut core = core.lock().unwrap_or_else(PoisonError::into_inner);
        for message in taken.drain(..) {
            match message {
                Message::Job(job) => group.push(job),
                Message::Peek(reply) => {
                    let _ = reply.send(core.peek());
                }
            }
        }
        if !core.commit_safely(&mut group) {
            return;
        }
    }
}

impl std::fmt::Debug for Loop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loop").field("poison", &self.poison).finish_non_exhaustive()
    }
}

impl Loop {
    fn new(setup: Setup) -> Self {
        let mut fresh =
            Self { setup, rids: Rids::default(), data_version: -1, is_synced: true, poison: None };
        // A failure here is met again, and told, by the first waiter.
        let _ = fresh.peek();
        fresh
    }

    /// One job, done at once unless another process is in the way; then it is given back.
    fn commit_one(&mut self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let mut group = vec![job];
        if !self.is_free() {
            return group.pop();
        }
        self.commit_safely(&mut group);
        None
    }

    /// Whether a transaction can begin right now; if so, it has begun.
    fn is_free(&mut self) -> bool {
        let may = self.poison.is_none() && self.setup.place.known().is_ok();
        may && self.sync_next(true).is_ok() && begin(&self.setup.conn, Duration::ZERO).is_ok()
    }

    /// Commits; a panic is the end of all writing. Says whether writing goes on.
    fn commit_safely(&mut self, group: &mut Vec<Box<dyn Job>>) -> bool {
        let settled = catch_unwind(AssertUnwindSafe(|| self.commit(group)));
        if settled.is_err() {
            // Its jobs are dropped unanswered, so their callers learn that the outcome is unknown.
            tracing::error!("database writer panicked; refusing all further writes");
            self.poison = Some("the writer panicked".to_owned());
            group.clear();
        }
        settled.is_ok()
    }

    fn peek(&mut self) -> Result<(), StoreError> {
        self.setup.place.look()?;
        let look = || -> Result<i64, Fault> {
            Ok(self.setup.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
        };
        let version = look().map_err(Fault::into_read_error)?;
        if std::mem::replace(&mut self.data_version, version) != version {
            self.setup.watch.bump();
        }
        Ok(())
    }

    /// Commits the group, without those jobs that cannot be done; settles every one of them.
    fn commit(&mut self, group: &mut Vec<Box<dyn Job>>) {
        if let Some(words) = &self.poison {
            group.drain(..).for_each(|job| job.settle(Err(poisoned(words))));
        }
        if self.setup.place.known().is_err() {
            self.refuse_lost(group);
        }
        let mut busy = 0;
        while !group.is_empty() {
            let before = self.setup.conn.total_changes();
            match self.transact(group) {
                Ok(()) => {
                    if let Err(lost) = self.setup.place.look() {
                        // What is in a file without a name is lost, unless its write-ahead log is found.
                        let words = lost.to_string();
                        let unknown =
                            || StoreError::Unknown { doing: "committing", source: words.clone().into() };
                        group.drain(..).for_each(|job| job.settle(Err(unknown())));
                        return;
                    }
                    if self.setup.conn.total_changes() != before {
                        self.setup.watch.committed(group.iter().any(|job| job.is_loud()));
                    }
                    Committed(std::mem::take(group)).tell();
                }
                Err(Undone::Job(index, error)) => {
                    self.undo();
                    group.remove(index).settle(Err(GroupFault::new(&error, false).to_error()));
                }
                Err(Undone::Group(fault)) => {
                    // One that could not even begin has waited long enough.
                    let begun = !self.setup.conn.is_autocommit();
                    self.undo();
                    busy += 1;
                    if begun && fault.nature == Nature::Busy && busy < BUSY_ATTEMPTS_MAX {
                        continue;
                    }
                    if fault.poisons() {
                        tracing::error!(error = fault.message, "disk failed; refusing all further writes");
                        self.poison = Some(fault.message.clone());
                    }
                    group.drain(..).for_each(|job| job.settle(Err(fault.to_error())));
                }
            }
        }
    }

    fn refuse_lost(&self, group: &mut Vec<Box<dyn Job>>) {
        group.drain(..).for_each(|job| job.settle(self.setup.place.known()));
    }

    fn transact(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), Undone> {
        if self.setup.conn.is_autocommit() {
            let synced = group.iter().any(|job| job.is_synced());
            self.sync_next(synced).map_err(|error| Undone::Group(GroupFault::new(&error, false)))?;
            begin(&self.setup.conn, self.setup.busy_timeout)?;
        }
        let conn = &self.setup.conn;
        let mut work = Work::new(conn, &mut self.rids, self.setup.clock.now());
        for (index, job) in group.iter_mut().enumerate() {
            if let Err(Fault::Sql(error)) = job.run(&mut work) {
                return Err(match Nature::of(&error) {
                    Nature::Other => Undone::Job(index, error),
                    _ => Undone::Group(GroupFault::new(&error, false)),
                });
            }
        }
        drop(work);
        execute(conn, "COMMIT").map_err(|error| Undone::Group(GroupFault::new(&error, true)))
    }

    /// Sets whether the next transaction is synced, unless the database was opened without syncing. A later commit that
    /// is synced, by any process, takes everything before it to the disk, too.
    fn sync_next(&mut self, synced: bool) -> rusqlite::Result<()> {
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

    fn undo(&mut self) {
        self.rids = Rids::default();
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

/// Takes the write lock, patiently. SQLite's own handler waits ever longer, up to a tenth of a
/// second, and so starves beside another process that always has something to commit.
fn begin(conn: &Connection, patience: Duration) -> Result<(), Undone> {
    let mut waited = Duration::ZERO;
    loop {
        match execute(conn, "BEGIN IMMEDIATE") {
            Ok(()) => return Ok(()),
            Err(error) if Nature::of(&error) == Nature::Busy && waited < patience => {
                std::thread::park_timeout(BUSY_PAUSE);
                waited += BUSY_PAUSE;
            }
            Err(error) => return Err(Undone::Group(GroupFault::new(&error, false))),
        }
    }
}

/// Numbers of runs that were used lately: two generations, the older one is forgotten at once.
#[derive(Debug, Default)]
pub(crate) struct Rids {
    young: HashMap<RunId, i64>,
    old: HashMap<RunId, i64>,
}

impl Rids {
    /// The run's number; none if there is no such run.
    pub(crate) fn find(&mut self, conn: &Connection, run: &RunId) -> rusqlite::Result<Option<i64>> {
        if let Some(rid) = self.young.get(run) {
            return Ok(Some(*rid));
        }
        let rid = match self.old.get(run) {
            Some(rid) => Some(*rid),
            None => conn
                .prepare_cached("SELECT rid FROM runs WHERE id = ?1")?
                .query_row([run.as_str()], |row| row.get(0))
                .optional()?,
        };
        if let Some(rid) = rid {
            self.keep(run, rid);
        }
        Ok(rid)
    }

    /// Remembers a number.
    pub(crate) fn keep(&mut self, run: &RunId, rid: i64) {
        if self.young.len() >= RIDS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(run.clone(), rid);
    }
}
