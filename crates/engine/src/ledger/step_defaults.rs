//! What holds for steps that do not state it themselves.

use std::time::Duration;

use goldseam_core::Retry;

/// Longest silence of a worker that a log records: 100 years, which means no limit. Stores add it to times.
pub const SILENCE_MOST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// Retry policy and heartbeat timeout of the steps of one workflow that state none, in this process and remote.
///
/// ```
/// use goldseam::prelude::*;
/// use goldseam::StepDefaults;
///
/// async fn import(ctx: Context, _: ()) -> goldseam::Result<u32> {
///     // Three attempts, each of which may be silent for ten minutes.
///     ctx.step("load", || async { Ok(7) }).await
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// let steps = StepDefaults::default().retry(Retry::exponential().attempts_max(3)).heartbeat_timeout(mins(10));
/// let engine = Engine::open(&url).await?.workflow("import", import).steps("import", steps).start().await?;
/// assert_eq!(engine.start(import, "i-1", &()).await?.result().await?, 7);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StepDefaults {
    pub(crate) retry: Option<Retry>,
    pub(crate) heartbeat_timeout: Silence,
}

/// How long a step may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Silence {
    /// As the next outer level says.
    #[default]
    Inherited,
    /// Without limit.
    Unlimited,
    /// For this time.
    Limited(Duration),
}

impl StepDefaults {
    /// Sets the retry policy. Default: that of the engine.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets how long an attempt may give no sign of life. Default: as the engine says.
    #[must_use]
    pub fn heartbeat_timeout(mut self, span: Duration) -> Self {
        self.heartbeat_timeout = Silence::Limited(span);
        self
    }

    /// Lets attempts be silent without limit.
    #[must_use]
    pub fn without_heartbeat_timeout(mut self) -> Self {
        self.heartbeat_timeout = Silence::Unlimited;
        self
    }
}
