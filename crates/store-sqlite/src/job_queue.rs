//! A queue between callers and threads: callers push without waiting, a thread takes all jobs that wait.
//!
//! Invariant: a closed queue accepts no job. If a thread dies, the jobs that it left are dropped, so their callers
//! learn that no answer will come.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A queue of many callers and few threads.
#[derive(Debug)]
pub(crate) struct JobQueue<T> {
    state: Mutex<QueueState<T>>,
    ready: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    jobs: VecDeque<T>,
    idle_threads: usize,
    closed: bool,
}

impl<T> JobQueue<T> {
    pub(crate) fn new() -> Self {
        let state = QueueState { jobs: VecDeque::new(), idle_threads: 0, closed: false };
        Self { state: Mutex::new(state), ready: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. Returns the job if the queue is closed.
    pub(crate) fn push(&self, job: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        let wake = state.idle_threads > 0;
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Whether no job waits and a thread is idle.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.jobs.is_empty() && state.idle_threads > 0 && !state.closed
    }

    /// Waits for jobs, and moves at most `max` of them into `taken`. Returns `false` once the queue is closed and
    /// empty.
    pub(crate) fn take(&self, taken: &mut Vec<T>, max: usize) -> bool {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return false;
            }
            state.idle_threads += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_threads -= 1;
        }
        let count = state.jobs.len().min(max);
        taken.extend(state.jobs.drain(..count));
        true
    }

    /// Accepts no further job. Threads still take the waiting ones.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }

    fn abandon(&self) {
        let left = {
            let mut state = self.lock();
            state.closed = true;
            std::mem::take(&mut state.jobs)
        };
        drop(left);
        self.ready.notify_all();
    }
}

/// Held by the only thread of a queue: when the thread ends, waiting jobs are dropped.
#[derive(Debug)]
pub(crate) struct OnlyTaker<T>(pub(crate) Arc<JobQueue<T>>);

impl<T> Drop for OnlyTaker<T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
