//! A queue between callers and a thread: callers push and never wait, the thread takes all that is there.
//!
//! Invariant: once it is closed nothing enters, and what a dead thread left behind is dropped, so
//! that whoever waits for a reply learns that none will come.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Many pushers, few takers.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
}

#[derive(Debug)]
struct State<T> {
    jobs: VecDeque<T>,
    idle: usize,
    closed: bool,
}

impl<T> Queue<T> {
    /// An open, empty one.
    pub(crate) fn new() -> Self {
        let state = State { jobs: VecDeque::new(), idle: 0, closed: false };
        Self { state: Mutex::new(state), ready: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job; gives it back if nobody will take it.
    pub(crate) fn push(&self, job: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        let wake = state.idle > 0;
        drop(state);
        if wake {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Whether nothing waits and nobody works.
    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.lock();
        state.jobs.is_empty() && state.idle > 0 && !state.closed
    }

    /// Waits for jobs and moves at most `max` of them into `taken`; `false` once it is closed and empty.
    pub(crate) fn take(&self, taken: &mut Vec<T>, max: usize) -> bool {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return false;
            }
            state.idle += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        let count = state.jobs.len().min(max);
        taken.extend(state.jobs.drain(..count));
        true
    }

    /// Lets nothing more in; what is there is still taken.
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

/// Held by the only taker: however its thread ends, nobody waits for ever.
#[derive(Debug)]
pub(crate) struct LastTaker<T>(pub(crate) Arc<Queue<T>>);

impl<T> Drop for LastTaker<T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
