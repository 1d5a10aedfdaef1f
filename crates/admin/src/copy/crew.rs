//! Many things done side by side, so that their writes share commits; bounded, whatever there is to do.

use std::collections::VecDeque;

use super::side::Pages;
use goldseam_engine::ledger::error::EngineError;
use goldseam_engine::ledger::spawn::TaskSet;

/// Things done at once.
const SIDE_BY_SIDE: usize = 64;

/// Does `work` for everything that `pages` list, and hands each outcome to `take`. The first error ends it.
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
    let (mut crew, mut waiting, mut more) = (TaskSet::default(), VecDeque::new(), true);
    loop {
        while crew.in_progress() < SIDE_BY_SIDE {
            if waiting.is_empty() && more {
                match pages.next().await? {
                    Some(page) => waiting.extend(page),
                    None => more = false,
                }
            }
            let Some(item) = waiting.pop_front() else { break };
            crew.add(work(item));
        }
        match crew.next().await {
            Some(done) => take(done?),
            None => return Ok(()),
        }
    }
}
