//! The one home of background work.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

/// Runs `work` beside everything else on the present runtime.
pub fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}

/// Runs `work` on a thread and a small runtime of its own, so that a blocked workflow cannot stop it.
pub fn thread<F>(name: &str, work: F) -> std::io::Result<std::thread::JoinHandle<()>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(work))
}

/// The thread for work that a blocked workflow must not stop; one for all engines of the process.
static APART: Mutex<Option<Handle>> = Mutex::new(None);

/// Runs `work` on a thread and a small runtime apart from workflows, so that a blocked workflow cannot stop it. `work`
/// must not block.
pub fn spawn_apart<F>(work: F) -> std::io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut apart = APART.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Work done side by side that ends with whoever waits for it.
#[derive(Debug)]
pub struct Crew<T>(JoinSet<T>);

impl<T> Default for Crew<T> {
    fn default() -> Self {
        Self(JoinSet::new())
    }
}

impl<T: Send + 'static> Crew<T> {
    /// Begins `work`.
    pub fn add(&mut self, work: impl Future<Output = T> + Send + 'static) {
        self.0.spawn(work);
    }

    /// How much is under way.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What is done first; none if nothing is under way. A panic goes on here.
    pub async fn next(&mut self) -> Option<T> {
        match self.0.join_next().await? {
            Ok(done) => Some(done),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is being shut down, and whoever waits here with it.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
