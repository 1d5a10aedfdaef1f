//! The one home of background work.

use std::future::Future;

use tokio::task::JoinHandle;

/// Runs `work` beside everything else on the present runtime.
pub(crate) fn spawn<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(work)
}

/// Runs `work` on a thread and a small runtime of its own, so that a blocked workflow cannot stop it.
pub(crate) fn thread<F>(name: &str, work: F) -> std::io::Result<std::thread::JoinHandle<()>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || runtime.block_on(work))
}
