//! Published values: what the code of a run shows to readers outside.

use goldseam_core::event::ValuePublished;
use goldseam_core::state::OpKind;
use goldseam_core::{Owned, Path, Payload, ValueName};
use serde::Serialize;

use super::Context;
use crate::ledger::dialogue::PublishError;
use crate::ledger::error::EngineError;
use crate::ledger::workflow_error::Result;
use crate::run::live_run::{Inner, Mode, Spot};

impl Context {
    /// Publishes a value under a name. Readers get the latest value without waking the run, also after its end.
    ///
    /// Recorded once: a replay publishes nothing again, and a value that equals the latest one costs nothing. A jump
    /// back to before the call restores the earlier value.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn import(ctx: Context, files: u32) -> goldseam::Result<()> {
    ///     for file in 1..=files {
    ///         ctx.step(("load", file), || async { Ok(()) }).await?;
    ///         ctx.publish("progress", &(file * 100 / files)).await?;
    ///     }
    ///     Ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("import", import).start().await?;
    /// let run = engine.start(import, "i-1", &4).await?;
    /// # run.result().await?;
    /// assert_eq!(run.published::<u32>("progress").await?, 100);
    /// assert_eq!(run.published::<u32>("speed").await.unwrap_err().code(), "GS0168");
    /// # Ok(()) }
    /// ```
    pub async fn publish(&self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<()> {
        let name = ValueName::new(name).map_err(EngineError::from)?;
        let value = Payload::of(value, &self.live.ledger.limits)?;
        let spot = self.spot(("publish", &name))?;
        // Before the log is looked at: a replay refuses what was refused.
        self.check_published(&spot, &name, &value)?;
        if !self.is_new(&spot, &OpKind::Published).await {
            return Ok(());
        }
        self.live.gate().await?;
        self.live.queue(Owned::Publish(ValuePublished { path: spot.path, ord: spot.ord, name, value }));
        Ok(())
    }

    fn check_published(&self, spot: &Spot, name: &ValueName, value: &Payload) -> Result<(), EngineError> {
        // What the log has was accepted under the limits of its time.
        if self.live.lock().state.ops.contains_key(&spot.path) {
            return Ok(());
        }
        let limits = &self.live.ledger.limits;
        let bytes = value.as_str().len();
        let max = limits.published_bytes_max;
        if bytes > max {
            return Err(PublishError::TooLarge { name: name.clone(), bytes, max }.into());
        }
        let max = limits.published_names_max;
        let inner = self.live.lock();
        if inner.published_names(name) >= max {
            return Err(PublishError::TooMany { name: name.clone(), max }.into());
        }
        Ok(())
    }

    /// Returns whether an operation that may leave no event is still to be done: the log does not have it, and the
    /// code has not got past it.
    pub(super) async fn is_new(&self, spot: &Spot, kind: &OpKind) -> bool {
        if self.live.lock().was_silent(&self.arm, spot) {
            return false;
        }
        match self.recorded(spot, None).await {
            None => true,
            Some(recorded) if recorded == *kind => false,
            Some(_) => self.mismatch(spot).await,
        }
    }
}

impl Inner {
    /// Returns whether an operation that may leave no event is not to be done: the code of `arm` got past it before, or
    /// this is a replay for compensations, which begins nothing.
    fn was_silent(&self, arm: &Path, spot: &Spot) -> bool {
        self.is_absent(spot) && (self.mode == Mode::Replay || self.has_gone_on(arm))
    }

    /// Returns whether the code of `arm` got past an operation that the log does not have.
    pub(super) fn got_past(&self, arm: &Path, spot: &Spot) -> bool {
        self.is_absent(spot) && self.has_gone_on(arm)
    }

    fn is_absent(&self, spot: &Spot) -> bool {
        !self.state.ops.contains_key(&spot.path) && self.state.nth(spot.path.arm(), spot.ord).is_none()
    }

    /// Returns under how many other names the run publishes values, those in the queue included.
    fn published_names(&self, name: &ValueName) -> usize {
        let known = &self.state.summary.published;
        let queued = self.queue.iter().filter_map(|doing| match &doing.what {
            Owned::Publish(published) if !known.contains_key(&published.name) => Some(&published.name),
            _ => None,
        });
        let queued: std::collections::BTreeSet<&ValueName> =
            queued.filter(|queued| *queued != name).collect();
        known.keys().filter(|known| *known != name).count() + queued.len()
    }
}
