//! The only place where the server spawns background tasks.

use std::future::Future;

use tokio::task::JoinHandle;

/// Spawns a background task.
pub(crate) fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}
