//! Settings of a builder for tests and simulation.

use std::sync::Arc;

use super::{Builder, Config, ConfigChanges};
use crate::run::witness::Witness;

impl Builder {
    /// Sets a witness that observes the start of user code.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use goldseam::prelude::*;
    /// use goldseam::unstable::engine::testing::{Beginning, Witness};
    ///
    /// #[derive(Debug, Default)]
    /// struct Seen(Mutex<Vec<String>>);
    ///
    /// impl Witness for Seen {
    ///     fn begins(&self, beginning: Beginning<'_>) {
    ///         self.0.lock().unwrap().push(format!("{} {}", beginning.run, beginning.path));
    ///     }
    /// }
    ///
    /// async fn greet(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.step("say", || async { Ok(()) }).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let seen = Arc::new(Seen::default());
    /// let builder = Engine::open(&url).await?.workflow("greet", greet);
    /// let engine = builder.witness(seen.clone()).start().await?;
    /// engine.start(greet, "g-1", &()).await?.result().await?;
    /// assert_eq!(*seen.0.lock().unwrap(), ["g-1 say"]);
    /// # engine.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn witness(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Makes the engine one of a release without bulk operations: it neither claims nor knows them.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let engine = Engine::open(&url).await?.without_operations().start().await?;
    /// let nodes = engine.client().store().nodes().await?;
    /// assert!(!nodes[0].record.workflows.iter().any(|name| name.starts_with("goldseam.operation")));
    /// # engine.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn without_operations(mut self) -> Self {
        self.registry.remove(&crate::operation::workflow());
        self
    }

    /// Changes the current configuration.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// use goldseam::Config;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let builder = Engine::open(&url).await?.slots(4);
    /// let double = |config: Config| Config { slots: 2 * config.slots, ..config };
    /// let engine = builder.configure(double).start().await?;
    /// let nodes = engine.client().store().nodes().await?;
    /// assert_eq!(nodes[0].record.slots, 8);
    /// # engine.shutdown().await;
    /// # Ok(()) }
    /// ```
    pub fn configure(mut self, change: impl FnOnce(Config) -> Config) -> Self {
        self.config = change(self.configured());
        self.changes = ConfigChanges::default();
        self
    }
}
