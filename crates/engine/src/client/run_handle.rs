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
///
/// ```
/// use goldseam::client::By;
/// use goldseam::{Status, prelude::*};
///
/// async fn talk(ctx: Context, _: ()) -> goldseam::Result<String> {
///     let name: String = ctx.signal("name").await?;
///     let sure: bool = ctx.ask("sure", format!("Greet {name}?")).await?;
///     Ok(if sure { format!("Hello, {name}!") } else { "Silence.".to_owned() })
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("talk", talk).start().await?;
/// let run = engine.start(talk, "talk-1", &()).await?;
/// run.signal("name", "Ada").await?;
/// run.wait_until(|run| !run.inputs.is_empty()).await?;
/// assert_eq!(run.questions().await?[0].prompt, "Greet Ada?");
/// run.pause(By { who: Some("ops".to_owned()), ..By::from("lunch") }).await?;
/// run.resume("back").await?;
/// run.answer("sure", &true).await?;
/// assert_eq!(run.result().await?, "Hello, Ada!");
/// assert_eq!(run.status().await?, Status::Completed);
/// # Ok(()) }
/// ```
pub struct RunHandle<O = Untyped> {
    pub(super) client: Client,
    pub(super) run: RunId,
    output: PhantomData<fn() -> O>,
}

impl Client {
    /// Returns a handle of a run, which need not exist.
    ///
    /// ```
    /// use goldseam::RunId;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.handle(RunId::new("greet-1")?);
    /// assert_eq!(run.id().as_str(), "greet-1");
    /// assert_eq!(run.summary().await.unwrap_err().code(), "GS0104");
    /// # Ok(()) }
    /// ```
    pub fn handle(&self, run: RunId) -> RunHandle {
        RunHandle::new(self.clone(), run)
    }
}

impl RunHandle<Untyped> {
    /// Waits until the run has ended and returns the output of the workflow.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn double(_: Context, number: u32) -> goldseam::Result<u32> { Ok(number * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("double", double).start().await?;
    /// let run = engine.start("double", "d-1", &4).await?;
    /// assert_eq!(run.result::<u32>().await?, 8);
    /// # Ok(()) }
    /// ```
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        self.read_result().await
    }
}

impl<O: DeserializeOwned> RunHandle<O> {
    /// Waits until the run has ended and returns the output of the workflow.
    ///
    /// ```
    /// use goldseam::{EngineError, prelude::*};
    ///
    /// async fn pay(_: Context, _: ()) -> goldseam::Result<u32> { Err(Error::terminal("card declined")) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("pay", pay).start().await?;
    /// let run = engine.start(pay, "p-1", &()).await?;
    /// match run.result().await {
    ///     Err(EngineError::Ended { failure, .. }) => assert_eq!(failure.message, "card declined"),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
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
    ///
    /// ```
    /// use goldseam::{Outcome, prelude::*};
    ///
    /// async fn wait(ctx: Context, _: ()) -> goldseam::Result<u32> { ctx.signal("go").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("wait", wait).start().await?;
    /// let run = engine.start(wait, "w-1", &()).await?;
    /// run.cancel("no longer needed").await?;
    /// assert_eq!(run.outcome().await?, Outcome::Cancelled("no longer needed".to_owned()));
    /// # Ok(()) }
    /// ```
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
    ///
    /// ```
    /// use goldseam::{Status, prelude::*};
    ///
    /// async fn wait(ctx: Context, _: ()) -> goldseam::Result<u32> { ctx.signal("go").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("wait", wait).start().await?;
    /// let run = engine.start(wait, "w-1", &()).await?;
    /// let summary = run.wait_until(|run| run.status == Status::Waiting).await?;
    /// assert_eq!(summary.waits[0].path.as_str(), "go");
    /// # Ok(()) }
    /// ```
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
    ///
    /// ```
    /// use goldseam::healer::follow::Followed;
    /// use goldseam::prelude::*;
    ///
    /// async fn greet(_: Context, name: String) -> goldseam::Result<String> { Ok(format!("Hello, {name}!")) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("greet", greet).start().await?;
    /// let run = engine.start(greet, "g-1", &"Ada".to_owned()).await?;
    /// # run.result().await?;
    /// if let Followed::Events(events) = run.follow().next().await? {
    ///     assert_eq!(events[0].event.name(), "run.queued");
    ///     // Later, continue after the last event that was seen.
    ///     let mut rest = run.follow_after(events[0].seq);
    /// # assert!(matches!(rest.next().await?, Followed::Events(_)));
    /// }
    /// # assert_eq!(run.history().await?.last().map(|last| last.event.name()), Some("run.completed"));
    /// # Ok(()) }
    /// ```
    pub fn follow_after(&self, after: Seq) -> Follower {
        self.client.follower(self.run.clone(), after)
    }

    /// Explains why the run is in its status, and what would move it.
    ///
    /// ```
    /// use goldseam::{Hint, Status, prelude::*};
    ///
    /// async fn wait(ctx: Context, _: ()) -> goldseam::Result<u32> { ctx.signal("go").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("wait", wait).start().await?;
    /// let run = engine.start(wait, "w-1", &()).await?;
    /// run.wait_until(|run| run.status == Status::Waiting).await?;
    /// let why = run.why().await?;
    /// println!("{}", why.verdict);
    /// assert!(why.you_can.iter().flat_map(Hint::steps).any(|step| step.verb() == "signal"));
    /// # Ok(()) }
    /// ```
    pub async fn why(&self) -> Result<Explanation, EngineError> {
        self.client.why(&self.run).await
    }

    /// Sends a signal, for which the run waits with [`Context::signal`](crate::Context::signal) or a `select`. It is
    /// durable once this returns.
    pub async fn signal(&self, name: &str, payload: &(impl Serialize + ?Sized)) -> Result<Seq, EngineError> {
        let payload = Payload::of(payload, &self.client.ledger.limits)?;
        self.client.signal(&self.run, name, payload, None).await
    }

    /// Lists the open questions.
    pub async fn questions(&self) -> Result<Vec<OpenInput>, EngineError> {
        Ok(self.summary().await?.inputs)
    }

    /// Answers a question of [`Context::ask`](crate::Context::ask). The answer is durable once this returns. One that
    /// does not fit the form of the question is refused, and the question stays open.
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
    ///
    /// ```
    /// use goldseam::client::Jump;
    /// use goldseam::{Status, prelude::*};
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.step("price", || async { Ok(()) }).await?;
    ///     ctx.step("charge", || async { Err(Error::terminal("card declined")) }).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// let run = engine.start(order, "o-1", &()).await?;
    /// run.outcome().await?;
    /// // Tries `charge` again, with the same price.
    /// run.retry("the card was renewed").await?;
    /// run.outcome().await?;
    /// // Determines the price again, too.
    /// run.jump("price", Jump { by: "prices have changed".into(), ..Jump::default() }).await?;
    /// assert_eq!(run.wait_until(|_| false).await?.status, Status::Failed);
    /// # Ok(()) }
    /// ```
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
