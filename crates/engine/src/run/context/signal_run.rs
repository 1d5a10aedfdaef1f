//! Signals from one run to another.

use goldseam_core::decide::Refusal;
use goldseam_core::{Command, Failure, Payload, Retry, RunId, SignalName};
use serde::Serialize;

use super::Context;
use crate::ledger::error::EngineError;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::Stop;

/// Attempts to signal a run whose mail is full.
const ATTEMPTS_MAX: u32 = 10;

impl Context {
    /// Sends a signal to another run, exactly once: a repetition after a crash has the same id and has no effect.
    ///
    /// A step in the log. Fails if the other run does not exist (GS0104) or has ended (GS0105). While its mail is
    /// full, the step is retried.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn ship(ctx: Context, order: String) -> goldseam::Result<()> {
    ///     ctx.step("load", || async { Ok(()) }).await?;
    ///     ctx.signal_run(&order, "shipped", &"truck 7").await
    /// }
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<String> { ctx.signal("shipped").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("ship", ship).workflow("order", order).start().await?;
    /// let waiting = engine.start(order, "o-1", &()).await?;
    /// engine.start(ship, "s-1", &"o-1".to_owned()).await?.result().await?;
    /// assert_eq!(waiting.result().await?, "truck 7");
    /// # Ok(()) }
    /// ```
    pub async fn signal_run(
        &self,
        run: impl AsRef<str>,
        name: &str,
        payload: &(impl Serialize + ?Sized),
    ) -> Result<()> {
        let run = RunId::new(run).map_err(EngineError::from)?;
        let name = SignalName::new(name).map_err(EngineError::from)?;
        let payload = Payload::of(payload, &self.live.ledger.limits)?;
        let target = (run.as_str().to_owned(), name.as_str().to_owned());
        let send = |attempt: super::Attempt| {
            let id = format!("signal-{}", attempt.idempotency_key());
            let run = run.clone();
            let name = name.clone();
            let payload = payload.clone();
            async move {
                let command = Command::Signal { name, id, fresh: false, payload };
                match self.live.ledger.commit(&run, &command).await {
                    Ok(_) => {
                        self.live.ledger.process.poke(&run);
                        Ok(())
                    }
                    Err(error @ EngineError::Refused { .. }) => Err(failed(&error)),
                    Err(error) => self.live.stop_and_hang(Stop::Store(error.to_string())).await,
                }
            }
        };
        let retry = Retry::exponential().attempts_max(ATTEMPTS_MAX);
        self.step_with(("signal_run", &name), send).input(&target).retry(retry).await
    }
}

/// The failure of the step: final if the other run refuses the signal, unless its mail is full.
fn failed(error: &EngineError) -> Error {
    let failure = match error {
        EngineError::Refused { refusal: Refusal::TooMuchMail { .. }, .. } => {
            Failure::retryable(error.to_string())
        }
        _ => Failure::terminal(error.to_string()),
    };
    failure.with_code(error.code()).into()
}
