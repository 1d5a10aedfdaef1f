//! Small changes within one version: runs that are past the change keep the old path, all others take the new one.

use goldseam_core::{Owned, StepName};

use super::Context;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::Mode;

impl Context {
    /// Whether this run has a named change of the code.
    ///
    /// True if the run has recorded nothing after this call yet; a marker in its log then keeps the answer for every
    /// replay. False if the run is past this call, because its history was made without the change. The first answer
    /// holds for later calls with the same name in the same arm. Each arm decides separately.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn order(ctx: Context, amount: u32) -> goldseam::Result<()> {
    ///     if ctx.changed("fraud-check").await? {
    ///         ctx.step("check", || async move { check(amount).await }).await?;
    ///     }
    ///     ctx.step("charge", || async move { charge(amount).await }).await
    /// }
    /// # async fn check(_: u32) -> goldseam::Result<()> { Ok(()) }
    /// # async fn charge(_: u32) -> goldseam::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// # engine.start(order, "o-1", &3).await?.result().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The marker is not counted among the operations. Remove the call and the old path once no active run is on the
    /// old path: a preflight of the code without the call shows that.
    pub async fn changed(&self, name: &str) -> Result<bool> {
        let name = StepName::new(name)?;
        let answer = match self.decide_change(&name)? {
            Some(answer) => answer,
            // A jump waits for its compensations, or this is a preflight: decide later.
            None => {
                self.live.gate().await?;
                return Box::pin(self.changed(name.as_str())).await;
            }
        };
        self.live.lock().answer_change(&self.arm, &name, answer);
        Ok(answer)
    }

    /// The answer, marked in the log if it is new; none if nothing new may begin now.
    fn decide_change(&self, name: &StepName) -> Result<Option<bool>> {
        let (path, ord) = {
            let mut inner = self.live.lock();
            let (path, ord, known) = inner.has_change(&self.arm, name);
            if known.is_some() {
                return Ok(known);
            }
            if inner.mode.heeds_cancel() && inner.state.summary.cancel.is_some() {
                return Err(Error::cancelled());
            }
            // Compensation begins nothing, and the run failed without the change.
            if inner.state.failure.is_some() {
                return Ok(Some(false));
            }
            if inner.mode != Mode::Run {
                return Ok(None);
            }
            (path, ord)
        };
        self.live.queue(Owned::Change { path, ord });
        Ok(Some(true))
    }
}
