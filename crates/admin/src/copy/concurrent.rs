//! Bounded concurrency, so that writes share commits.

use std::collections::VecDeque;

use super::side::Pages;
use goldseam_engine::ledger::error::EngineError;
use goldseam_engine::ledger::spawn::TaskSet;

/// Maximum number of items in progress.
const CONCURRENCY: usize = 64;

/// Runs `work` for every item of `pages`, and passes each result to `take`. The first error ends it.
pub(super) async fn each<P, T, W, Fut>(
    mut pages: P,
    work: W,
    mut take: impl FnMut(T),
) -> Result<(), EngineError>
where
    P: Pages,
    W: Fn(P::Item) -> Fut,
    Fut: Future<Output = Result<T, EngineError>> + Send + 'static,
    T: Send + 'static,
{
    let mut workers = TaskSet::default();
    let mut waiting = VecDeque::new();
    let mut more = true;
    loop {
        while workers.in_progress() < CONCURRENCY {
            if waiting.is_empty() && more {
                match pages.next().await? {
                    Some(page) => waiting.extend(page),
                    None => more = false,
                }
            }
            let Some(item) = waiting.pop_front() else { break };
            workers.add(work(item));
        }
        match workers.next().await {
            Some(done) => take(done?),
            None => return Ok(()),
        }
    }
}
