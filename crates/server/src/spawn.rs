//! The one home of background work of a server.

use std::future::Future;

use tokio::task::JoinHandle;

/// Runs `work` beside everything else.
pub(crate) fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}
