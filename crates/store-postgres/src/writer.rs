//! Writes waiting jobs together: one round trip and one transaction for all of them.
//!
//! While a group is under way, the next one gathers. There are as many groups under way as there are connections.
//!
//! Invariant: the result of one job never depends on another job, unless both are unknown. If the server refuses a
//! group, the jobs are written one by one, so that only the faulty job fails.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goldseam_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::connection::PgConnection;
use crate::fault::PgFault;

/// A kind of jobs that are written in groups.
#[async_trait]
pub(crate) trait JobGroup: Send + Sync + 'static {
    /// One write.
    type Job: Send + Sync + 'static;
    /// The result of a job.
    type Answer: Send + 'static;

    /// Sorts the jobs by the same order on every node, so that no two groups deadlock.
    fn sort(&self, jobs: &mut [WaitingJob<Self>]);

    /// The key of which a group may hold only one job. Further jobs with the key wait for the next group.
    fn exclusive_key(_job: &Self::Job) -> Option<&str> {
        None
    }

    /// Writes all jobs in one transaction. Returns one result for each, in order.
    async fn write(
        &self,
        connection: &PgConnection,
        jobs: &[&Self::Job],
    ) -> Result<Vec<Result<Self::Answer, StoreError>>, PgFault>;
}

/// A job and the reply to its caller.
pub(crate) struct WaitingJob<G: JobGroup + ?Sized> {
    pub(crate) job: G::Job,
    reply: oneshot::Sender<Result<G::Answer, StoreError>>,
}

/// The handle by which callers write.
pub(crate) struct GroupWriter<G: JobGroup> {
    shared: Arc<WriterShared<G>>,
    runtime: Handle,
}

struct WriterShared<G: JobGroup> {
    group: G,
    group_max: usize,
    state: Mutex<WriterQueue<G>>,
}

struct WriterQueue<G: JobGroup> {
    queue: VecDeque<WaitingJob<G>>,
    /// Connections without a group.
    free: Vec<Arc<PgConnection>>,
}

impl<G: JobGroup> fmt::Debug for GroupWriter<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupWriter")
            .field("waiting", &self.shared.state().queue.len())
            .finish_non_exhaustive()
    }
}

impl<G: JobGroup> WriterShared<G> {
    fn state(&self) -> MutexGuard<'_, WriterQueue<G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next group; none if no job waits, and then the connection is free.
    fn next(&self, connection: &Arc<PgConnection>) -> Option<Vec<WaitingJob<G>>> {
        let mut state = self.state();
        if state.queue.is_empty() {
            state.free.push(Arc::clone(connection));
            return None;
        }
        Some(state.take(self.group_max))
    }
}

impl<G: JobGroup> WriterQueue<G> {
    /// Takes the first `most` jobs, without those that must wait for one of them.
    fn take(&mut self, most: usize) -> Vec<WaitingJob<G>> {
        let first = self.queue.len().min(most);
        let mut taken = HashSet::new();
        let ahead = self.queue.iter().take(first);
        let goes: Vec<bool> =
            ahead.map(|one| G::exclusive_key(&one.job).is_none_or(|key| taken.insert(key))).collect();
        let mut group = Vec::with_capacity(first);
        let mut wait = Vec::new();
        for (one, goes) in self.queue.drain(..first).zip(goes) {
            if goes { group.push(one) } else { wait.push(one) }
        }
        for one in wait.into_iter().rev() {
            self.queue.push_front(one);
        }
        group
    }
}

impl<G: JobGroup> GroupWriter<G> {
    pub(crate) fn new(
        group: G,
        connections: Vec<Arc<PgConnection>>,
        group_max: usize,
        runtime: Handle,
    ) -> Self {
        let state = Mutex::new(WriterQueue { queue: VecDeque::new(), free: connections });
        Self { shared: Arc::new(WriterShared { group, group_max: group_max.max(1), state }), runtime }
    }

    /// Writes a job. Returns once it is committed.
    pub(crate) async fn write(&self, job: G::Job) -> Result<G::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let connection = {
            let mut state = self.shared.state();
            state.queue.push_back(WaitingJob { job, reply });
            state.free.pop()
        };
        if let Some(connection) = connection {
            let shared = Arc::clone(&self.shared);
            // In a separate task: a cancelled caller must not cancel the writes of others.
            self.runtime.spawn(async move {
                while let Some(group) = shared.next(&connection) {
                    commit(&shared.group, &connection, group).await;
                }
            });
        }
        let unknown = || StoreError::Unknown { doing: "writing", source: "the writer stopped".into() };
        answer.await.unwrap_or_else(|_| Err(unknown()))
    }
}

async fn commit<G: JobGroup>(group: &G, connection: &PgConnection, mut waiting: Vec<WaitingJob<G>>) {
    group.sort(&mut waiting);
    match try_write(group, connection, &waiting).await {
        Ok(answers) => reply(waiting, answers),
        // A transient failure has been retried for the whole group.
        Err(fault @ PgFault::Refused(_)) if waiting.len() > 1 && !fault.may_pass() => {
            for alone in waiting {
                let one = [alone];
                let answer = match try_write(group, connection, &one).await {
                    Ok(answers) => answers,
                    Err(fault) => vec![Err(fault.to_error("writing"))],
                };
                reply(Vec::from(one), answer);
            }
        }
        Err(fault) => {
            for one in waiting {
                let _ = one.reply.send(Err(fault.to_error("writing")));
            }
        }
    }
}

async fn try_write<G: JobGroup>(
    group: &G,
    connection: &PgConnection,
    waiting: &[WaitingJob<G>],
) -> Result<Vec<Result<G::Answer, StoreError>>, PgFault> {
    let jobs: Vec<&G::Job> = waiting.iter().map(|one| &one.job).collect();
    let answers = group.write(connection, &jobs).await?;
    if answers.len() == jobs.len() {
        return Ok(answers);
    }
    Err(PgFault::Damaged(format!("the server returned {} results for {} writes", answers.len(), jobs.len())))
}

fn reply<G: JobGroup>(waiting: Vec<WaitingJob<G>>, answers: Vec<Result<G::Answer, StoreError>>) {
    for (one, answer) in waiting.into_iter().zip(answers) {
        // The caller may have been cancelled.
        let _ = one.reply.send(answer);
    }
}
