//! All background work.

use std::future::Future;
use std::sync::Mutex;

use crate::ledger::sync::lock;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

/// Runs `work` as a task of the current runtime.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}

/// Begins `work` on the calling task, and lets a task of its own continue it if it must wait. So work that waits only for
/// one write changes threads once. Returns that task; none if the work has ended.
pub fn spawn_begun<F>(work: F) -> Option<JoinHandle<()>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut work = Box::pin(work);
    // The task registers its own waker with its first poll.
    let begun = work.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    begun.is_pending().then(|| tokio::spawn(work))
}

/// Runs `work`, which may block, on a thread of the runtime for such work.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}

/// Runs `work` on its own thread and runtime, so a blocked workflow cannot stop it.
pub fn thread<F>(name: &str, work: F) -> std::io::Result<std::thread::JoinHandle<()>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(work))
}

/// The thread for work that a blocked workflow must not stop; all engines of the process share it.
static APART: Mutex<Option<Handle>> = Mutex::new(None);

/// Runs `work` on a thread and runtime separate from workflows, so a blocked workflow cannot stop it. `work` must not
/// block.
pub fn spawn_apart<F>(work: F) -> std::io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut apart = lock(&APART);
    let handle = match &*apart {
        Some(handle) => handle,
        None => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
            let handle = runtime.handle().clone();
            let thread = std::thread::Builder::new().name("goldseam-beat".to_owned());
            thread.spawn(move || runtime.block_on(std::future::pending::<()>()))?;
            apart.insert(handle)
        }
    };
    handle.spawn(work);
    Ok(())
}

/// Concurrent work that is aborted when this is dropped.
#[derive(Debug)]
pub struct TaskSet<T>(JoinSet<T>);

impl<T> Default for TaskSet<T> {
    fn default() -> Self {
        Self(JoinSet::new())
    }
}

impl<T: Send + 'static> TaskSet<T> {
    /// Starts `work`.
    pub fn add(&mut self, work: impl Future<Output = T> + Send + 'static) {
        self.0.spawn(work);
    }

    /// Number of futures in progress.
    pub fn in_progress(&self) -> usize {
        self.0.len()
    }

    /// Waits for the next result; none if nothing is in progress. Resumes a panic of the work.
    pub async fn next(&mut self) -> Option<T> {
        match self.0.join_next().await? {
            Ok(done) => Some(done),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and this future with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
