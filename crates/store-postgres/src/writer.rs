//! What waits together is written together: one round trip and one transaction for all of it.
//!
//! While a group is on its way, the next one gathers; as many groups as there are links are on their way at once.
//!
//! Invariant: what one job is told never depends on the fate of another, except where both are unknown. A group
//! that the server cannot digest is taken apart, so that only the guilty job fails.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use goldseam_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::connection::Link;
use crate::fault::Fault;

/// How a group of jobs is written.
#[async_trait]
pub(crate) trait Group: Send + Sync + 'static {
    /// What is to be written.
    type Job: Send + Sync + 'static;
    /// What a job is told.
    type Answer: Send + 'static;

    /// Puts the jobs into the order in which they are written: the same on every node, so that no two groups
    /// wait for each other.
    fn sort(&self, jobs: &mut [Waiting<Self>]);

    /// What a job writes to that no other one of its group may: of those that share it, each waits for the one before.
    fn alone(_job: &Self::Job) -> Option<&str> {
        None
    }

    /// Writes them all in one transaction; an answer for each, in order.
    async fn write(
        &self,
        link: &Link,
        jobs: &[&Self::Job],
    ) -> Result<Vec<Result<Self::Answer, StoreError>>, Fault>;
}

/// A job and who waits for it.
pub(crate) struct Waiting<G: Group + ?Sized> {
    pub(crate) job: G::Job,
    reply: oneshot::Sender<Result<G::Answer, StoreError>>,
}

/// The callers' end.
pub(crate) struct Writer<G: Group> {
    shared: Arc<Shared<G>>,
    home: Handle,
}

struct Shared<G: Group> {
    group: G,
    group_max: usize,
    state: Mutex<State<G>>,
}

struct State<G: Group> {
    queue: VecDeque<Waiting<G>>,
    /// Links that no group is on.
    free: Vec<Arc<Link>>,
}

impl<G: Group> fmt::Debug for Writer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("waiting", &self.shared.state().queue.len()).finish_non_exhaustive()
    }
}

impl<G: Group> Shared<G> {
    fn state(&self) -> MutexGuard<'_, State<G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next group, or the link back to its place.
    fn next(&self, link: &Arc<Link>) -> Option<Vec<Waiting<G>>> {
        let mut state = self.state();
        if state.queue.is_empty() {
            state.free.push(Arc::clone(link));
            return None;
        }
        Some(state.take(self.group_max))
    }
}

impl<G: Group> State<G> {
    /// The first so many jobs, but for those that must wait for one of them.
    fn take(&mut self, most: usize) -> Vec<Waiting<G>> {
        let first = self.queue.len().min(most);
        let mut taken = HashSet::new();
        let ahead = self.queue.iter().take(first);
        let goes: Vec<bool> =
            ahead.map(|one| G::alone(&one.job).is_none_or(|place| taken.insert(place))).collect();
        let (mut group, mut wait) = (Vec::with_capacity(first), Vec::new());
        for (one, goes) in self.queue.drain(..first).zip(goes) {
            if goes { group.push(one) } else { wait.push(one) }
        }
        for one in wait.into_iter().rev() {
            self.queue.push_front(one);
        }
        group
    }
}

impl<G: Group> Writer<G> {
    pub(crate) fn new(group: G, links: Vec<Arc<Link>>, group_max: usize, home: Handle) -> Self {
        let state = Mutex::new(State { queue: VecDeque::new(), free: links });
        Self { shared: Arc::new(Shared { group, group_max: group_max.max(1), state }), home }
    }

    /// Has a job written; returns once that is committed.
    pub(crate) async fn write(&self, job: G::Job) -> Result<G::Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let link = {
            let mut state = self.shared.state();
            state.queue.push_back(Waiting { job, reply });
            state.free.pop()
        };
        if let Some(link) = link {
            let shared = Arc::clone(&self.shared);
            // Not by the caller: one that goes away must not take the others' answers with it.
            self.home.spawn(async move {
                while let Some(group) = shared.next(&link) {
                    commit(&shared.group, &link, group).await;
                }
            });
        }
        let unknown = || StoreError::Unknown { doing: "writing", source: "the writer stopped".into() };
        answer.await.unwrap_or_else(|_| Err(unknown()))
    }
}

async fn commit<G: Group>(group: &G, link: &Link, mut waiting: Vec<Waiting<G>>) {
    group.sort(&mut waiting);
    match try_write(group, link, &waiting).await {
        Ok(answers) => tell(waiting, answers),
        // What passes has been tried often enough for all of them.
        Err(fault @ Fault::Said(_)) if waiting.len() > 1 && !fault.may_pass() => {
            for alone in waiting {
                let one = [alone];
                let answer = match try_write(group, link, &one).await {
                    Ok(answers) => answers,
                    Err(fault) => vec![Err(fault.to_error("writing"))],
                };
                tell(Vec::from(one), answer);
            }
        }
        Err(fault) => {
            for one in waiting {
                let _ = one.reply.send(Err(fault.to_error("writing")));
            }
        }
    }
}

async fn try_write<G: Group>(
    group: &G,
    link: &Link,
    waiting: &[Waiting<G>],
) -> Result<Vec<Result<G::Answer, StoreError>>, Fault> {
    let jobs: Vec<&G::Job> = waiting.iter().map(|one| &one.job).collect();
    let answers = group.write(link, &jobs).await?;
    if answers.len() == jobs.len() {
        return Ok(answers);
    }
    Err(Fault::Damaged(format!("the server returned {} results for {} writes", answers.len(), jobs.len())))
}

fn tell<G: Group>(waiting: Vec<Waiting<G>>, answers: Vec<Result<G::Answer, StoreError>>) {
    for (one, answer) in waiting.into_iter().zip(answers) {
        // A caller that no longer waits has learned nothing, and that is all right.
        let _ = one.reply.send(answer);
    }
}
