//! Concurrent parts of a workflow.

use std::future::IntoFuture;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};

use super::Context;
use crate::ledger::workflow_error::Result;

impl Context {
    /// Runs all parts concurrently and returns their results in order.
    ///
    /// If parts fail, the result is the first error in order, after all parts have ended. [`Join::at_most`] limits how
    /// many parts run at the same time.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn pack(ctx: Context, items: Vec<u32>) -> goldseam::Result<u32> {
    ///     let parts = items.iter().map(|item| ctx.step(("pick", item), move || async move { Ok(item * 2) }));
    ///     Ok(ctx.join(parts).at_most(8).await?.into_iter().sum())
    /// }
    /// # fn main() {}
    /// ```
    pub fn join<'a, I, F, T>(&self, parts: I) -> Join<'a, T>
    where
        I: IntoIterator<Item = F>,
        F: IntoFuture<Output = Result<T>>,
        F::IntoFuture: Send + 'a,
    {
        // All parts exist before the first one runs, so a limit does not change their paths.
        let numbered = parts.into_iter().map(IntoFuture::into_future).enumerate();
        let parts = numbered
            .map(|(number, part)| -> JoinPart<'a, T> { Box::pin(async move { (number, part.await) }) });
        Join { parts: parts.collect(), limit: usize::MAX }
    }
}

/// A part and its number.
type JoinPart<'a, T> = BoxFuture<'a, (usize, Result<T>)>;

/// Concurrent parts, which run when awaited; see [`Context::join`].
#[must_use = "nothing runs until it is awaited: add `.await?`"]
pub struct Join<'a, T> {
    parts: Vec<JoinPart<'a, T>>,
    limit: usize,
}

impl<T> Join<'_, T> {
    /// Limits how many parts run at the same time; at least one does. A part that waits for its turn costs little.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn fetch(ctx: Context, pages: Vec<u32>) -> goldseam::Result<Vec<u32>> {
    ///     let steps = pages.iter().map(|page| ctx.step(("fetch", page), move || async move { Ok(page + 1) }));
    ///     // The service allows two requests at a time.
    ///     ctx.join(steps).at_most(2).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("fetch", fetch).start().await?;
    /// # assert_eq!(engine.start(fetch, "f-1", &vec![1, 2, 3]).await?.result().await?, [2, 3, 4]);
    /// # Ok(()) }
    /// ```
    pub fn at_most(mut self, limit: usize) -> Self {
        self.limit = limit.max(1);
        self
    }
}

impl<'a, T: Send + 'a> IntoFuture for Join<'a, T> {
    type Output = Result<Vec<T>>;
    type IntoFuture = BoxFuture<'a, Result<Vec<T>>>;

    fn into_future(self) -> Self::IntoFuture {
        let limit = self.limit.min(self.parts.len()).max(1);
        Box::pin(async move {
            let mut results: Vec<_> = stream::iter(self.parts).buffer_unordered(limit).collect().await;
            results.sort_unstable_by_key(|(number, _)| *number);
            results.into_iter().map(|(_, result)| result).collect()
        })
    }
}
