//! A handle of one run: everything that can be done to it from outside.

use std::fmt;
use std::marker::PhantomData;

use goldseam_core::summary::OpenInput;
use goldseam_core::{Failure, Path, Payload, Recorded, RunId, Seq, Status, Summary};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::follow::Follower;
use crate::client::recover::Resumed;
use crate::client::why::Explanation;
use crate::client::{By, Client, Jump, Outcome};
use crate::ledger::error::EngineError;
use crate::run::workflow_ref::Untyped;

/// A handle of one run. Cheap to clone; the run does not depend on it.
///
/// `O` is the output of the workflow. It is [`Untyped`] if the run was started or found by name.
///
/// Commands take their author and reason as [`By`]; a plain text is the reason.
pub struct RunHandle<O = Untyped> {
    client: Client,
    run: RunId,
    output: PhantomData<fn() -> O>,
}

impl Client {
    /// Returns a handle of a run, which need not exist.
    pub fn handle(&self, run: RunId) -> RunHandle {
        RunHandle::new(self.clone(), run)
    }
}

impl RunHandle<Untyped> {
    /// Waits until the run has ended and returns the output of the workflow.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        self.read_result().await
    }
}

impl<O: DeserializeOwned> RunHandle<O> {
    /// Waits until the run has ended and returns the output of the workflow.
    pub async fn result(&self) -> Result<O, EngineError> {
        self.read_result().await
    }
}

impl<O> RunHandle<O> {
    pub(crate) fn new(client: Client, run: RunId) -> Self {
        Self { client, run, output: PhantomData }
    }

    /// The id of the run.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    async fn read_result<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        let ended = |status, failure| EngineError::Ended { run: self.run.clone(), status, failure };
        match self.outcome().await? {
            Outcome::Completed(output) => {
                output.read().map_err(|source| EngineError::NotThatType { what: "the run's output", source })
            }
            Outcome::Failed(failure) => Err(ended(Status::Failed, failure)),
            Outcome::Cancelled(reason) => {
                Err(ended(Status::Cancelled, Failure::terminal(reason).with_code("cancelled")))
            }
        }
    }

    /// Waits until the run has ended and returns how. Unlike [`RunHandle::result`], a failed run is not an error.
    pub async fn outcome(&self) -> Result<Outcome, EngineError> {
        self.client.outcome(&self.run).await
    }

    /// Reads the status.
    pub async fn status(&self) -> Result<Status, EngineError> {
        Ok(self.summary().await?.status)
    }

    /// Reads the summary: status, waits, open questions, owner, counts.
    pub async fn summary(&self) -> Result<Summary, EngineError> {
        self.client.get(&self.run).await
    }

    /// Waits until a condition holds, and returns the summary for which it held. Also returns when the run has ended.
    pub async fn wait_until(&self, mut is_met: impl FnMut(&Summary) -> bool) -> Result<Summary, EngineError> {
        let mut mark = 0;
        loop {
            let summary = self.summary().await?;
            if is_met(&summary) || summary.status.is_terminal() {
                return Ok(summary);
            }
            mark = self.client.wait_for_change(mark).await?;
        }
    }

    /// Reads the log: every event, those of abandoned branches included.
    pub async fn history(&self) -> Result<Vec<Recorded>, EngineError> {
        self.client.history(&self.run).await
    }

    /// Follows the run from its first event on. The follower also reports when the run is stalled, and why.
    pub fn follow(&self) -> Follower {
        self.follow_after(Seq::ZERO)
    }

    /// Follows the run from the event after `after` on.
    pub fn follow_after(&self, after: Seq) -> Follower {
        self.client.follower(self.run.clone(), after)
    }

    /// Explains why the run is in its status, and what would move it.
    pub async fn why(&self) -> Result<Explanation, EngineError> {
        self.client.why(&self.run).await
    }

    /// Sends a signal. It is durable once this returns.
    pub async fn signal(&self, name: &str, payload: &(impl Serialize + ?Sized)) -> Result<Seq, EngineError> {
        let payload = Payload::of(payload, &self.client.ledger.limits)?;
        self.client.signal(&self.run, name, payload, None).await
    }

    /// Lists the open questions.
    pub async fn questions(&self) -> Result<Vec<OpenInput>, EngineError> {
        Ok(self.summary().await?.inputs)
    }

    /// Answers a question. The answer is durable once this returns.
    pub async fn answer(
        &self,
        question: &str,
        answer: &(impl Serialize + ?Sized),
    ) -> Result<Seq, EngineError> {
        let answer = Payload::of(answer, &self.client.ledger.limits)?;
        self.client.answer(&self.run, &Path::new(question)?, answer, By::default()).await
    }

    /// Stops the run between two effects, until it is resumed.
    pub async fn pause(&self, by: impl Into<By>) -> Result<Seq, EngineError> {
        self.client.pause(&self.run, by.into()).await
    }

    /// Resumes the run if it is paused or parked. Recovers it first if a rule applies.
    pub async fn resume(&self, by: impl Into<By>) -> Result<Resumed, EngineError> {
        self.client.resume(&self.run, by.into()).await
    }

    /// Asks the run to cancel. It ends after its compensations.
    pub async fn cancel(&self, by: impl Into<By>) -> Result<Seq, EngineError> {
        self.client.cancel(&self.run, by.into()).await
    }

    /// Retries a failed run from its failed step, on a new branch. Completed steps keep their results.
    pub async fn retry(&self, by: impl Into<By>) -> Result<Seq, EngineError> {
        self.client.retry(&self.run, by.into()).await
    }

    /// Jumps back to a step, on a new branch: everything from that step on is done again.
    pub async fn jump(&self, to: &str, jump: Jump) -> Result<Seq, EngineError> {
        self.client.jump(&self.run, &Path::new(to)?, jump).await
    }
}

impl<O> Clone for RunHandle<O> {
    fn clone(&self) -> Self {
        Self::new(self.client.clone(), self.run.clone())
    }
}

impl<O> fmt::Debug for RunHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunHandle").field(&self.run).finish()
    }
}
