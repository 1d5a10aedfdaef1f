//! Remote steps: executed as tasks by workers, with or without the workflow's code.
//!
//! The owner only waits. Results reach the log from outside, so a run with only remote steps leaves memory like any
//! run that waits.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use goldseam_core::decide::next_task;
use goldseam_core::event::{Remote as Sent, StepStarted};
use goldseam_core::retry::Policy;
use goldseam_core::state::{OpKind, StepOp, StepProgress};
use goldseam_core::{IdError, LaneName, Owned, Payload, PayloadError, QueueName, Retry};
use tracing::Instrument as _;

use super::step::undo_with;
use super::{BodyFuture, Context, FromPayload, Name, ToPayload, wait};
use crate::ledger::config::{SILENCE_MOST, default_queue};
use crate::ledger::meter::WaitKind;
use crate::ledger::step_defaults::Silence;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::{Slow, Spot, UndoFn};
use crate::run::spans;

impl Context {
    /// Lets a worker execute a step. The step's name is the kind of its task.
    ///
    /// The append that starts the step creates the task. A worker claims it with
    /// [`Queue::claim`](crate::client::queue::Queue::claim), reports that it is alive with `heartbeat`, and ends it
    /// with `complete` or `fail`; the result is in the run's log before the worker gets its reply. `task.step` has
    /// the idempotency key to pass to other systems, the same for every attempt.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// use goldseam::queue::{QueueName, Want};
    ///
    /// async fn thumbnail(ctx: Context, image: String) -> goldseam::Result<String> {
    ///     ctx.remote("resize", &image).queue("gpu").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("thumbnail", thumbnail).start().await?;
    /// let run = engine.start(thumbnail, "t-1", &"cat.png".to_owned()).await?;
    /// run.wait_until(|run| run.status == goldseam::Status::Waiting).await?;
    /// // The worker, here in the same process.
    /// let queue = goldseam::connect(&url).await?.queue();
    /// let want = Want { owner: "worker-1".to_owned(), queue: QueueName::new("gpu")?, kind: None, limit: 1 };
    /// for task in queue.claim(want).await? {
    ///     queue.complete(&task.id, task.fence, task.payload.clone()).await?;
    /// }
    /// assert_eq!(run.result().await?, "cat.png");
    /// # Ok(()) }
    /// ```
    pub fn remote<T: FromPayload>(&self, name: impl Into<Name>, input: &impl ToPayload) -> Remote<'_, T> {
        Remote {
            ctx: self,
            spot: self.spot(name),
            input: Payload::of(input, &self.live.ledger.limits),
            queue: Ok(default_queue()),
            priority: 0,
            lane: Ok(None),
            retry: None,
            silence: Silence::Inherited,
            undo: None,
            value: PhantomData,
        }
    }
}

/// A remote step; see [`Context::remote`].
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn thumbnail(ctx: Context, image: String) -> goldseam::Result<String> {
///     ctx.remote("resize", &image)
///         .queue("gpu")
///         .priority(5)
///         .lane("tenant-7")
///         .retry(Retry::exponential().attempts_max(3))
///         .heartbeat_timeout(secs(60))
///         .compensate(|thumbnail: String| async move { delete(&thumbnail).await })
///         .await
/// }
/// # async fn delete(_: &str) -> goldseam::Result<()> { Ok(()) }
/// # fn main() {}
/// ```
#[must_use = "nothing is handed out until it is awaited: add `.await?`"]
pub struct Remote<'a, T> {
    ctx: &'a Context,
    spot: Result<Spot>,
    input: Result<Payload, PayloadError>,
    queue: Result<QueueName, IdError>,
    priority: i32,
    lane: Result<Option<LaneName>, IdError>,
    retry: Option<Retry>,
    silence: Silence,
    undo: Option<UndoFn>,
    value: PhantomData<fn() -> T>,
}

impl<T: FromPayload> Remote<'_, T> {
    /// Sets the queue of its task. Default: `default`.
    pub fn queue(mut self, queue: &str) -> Self {
        self.queue = QueueName::new(queue);
        self
    }

    /// Sets the priority; larger values go first. Default: 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the lane of its task: at most one task of a lane is claimed at a time, in the whole store. Runs of the same
    /// lane ([`StartOptions::lane`](crate::StartOptions::lane)) take turns with it.
    pub fn lane(mut self, lane: &str) -> Self {
        self.lane = LaneName::new(lane).map(Some);
        self
    }

    /// Sets the retry policy. Without it, that of the workflow or of the engine holds, as for
    /// [`Step::retry`](super::Step::retry). A lost worker does not count as an attempt.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets how long the worker may be silent before the attempt is given up. Default:
    /// [`Config::heartbeat_timeout`](crate::Config::heartbeat_timeout), 60 s.
    pub fn heartbeat_timeout(mut self, span: Duration) -> Self {
        self.silence = Silence::Limited(span);
        self
    }

    /// Lets the worker be silent without limit. If it dies, the step waits until an operator cancels its task.
    pub fn without_heartbeat_timeout(mut self) -> Self {
        self.silence = Silence::Unlimited;
        self
    }

    /// Sets the compensation, which gets the step's output. Runs in this process when the workflow fails or is
    /// cancelled, latest first.
    pub fn compensate<C, Fut>(mut self, undo: C) -> Self
    where
        C: Fn(T) -> Fut + Send + Sync + 'static,
        Fut: BodyFuture<()> + Send + 'static,
        T: 'static,
    {
        self.undo = Some(undo_with(undo));
        self
    }

    async fn run(self) -> Result<T> {
        let ctx = self.ctx;
        let spot = self.spot?;
        let queue = self.queue?;
        let lane = self.lane?;
        let payload = self.input?;
        let input = Some(payload.hash());
        let undo = self.undo.is_some();
        // Registered at once: the result may come after the code stopped waiting, and must still be compensated.
        if let Some(undo) = self.undo {
            ctx.live.lock().undo.insert(spot.path.clone(), undo);
        }
        let silence = match self.silence {
            Silence::Inherited => ctx.live.default_heartbeat_timeout(),
            Silence::Unlimited => None,
            Silence::Limited(span) => Some(span),
        };
        let silence = silence.unwrap_or(SILENCE_MOST).min(SILENCE_MOST);
        let retry = Policy::from(&self.retry.unwrap_or_else(|| ctx.live.default_retry()));
        let priority = self.priority;
        let call = Call { ctx, spot: &spot, queue, priority, lane, payload, retry, silence, undo };
        loop {
            let step = match ctx.recorded(&spot, input).await {
                None => {
                    call.hand_out(1).await?;
                    continue;
                }
                Some(OpKind::Step(step)) => step,
                Some(_) => return ctx.mismatch(&spot).await,
            };
            let StepOp { attempts, progress, remote, .. } = step;
            match progress {
                StepProgress::Completed(output) => return Ok(ctx.read_result(&spot, &output).await),
                StepProgress::Failed(failure) => return Err(Error::of_step(&spot.path, failure)),
                StepProgress::Retry(due) => {
                    wait::until(ctx, due).await?;
                    call.hand_out(attempts + 1).await?;
                }
                StepProgress::Started if remote.is_none() => return ctx.mismatch(&spot).await,
                StepProgress::Started if call.is_open() => call.ended().await?,
                // The run left this step and came back: start it again, without counting an attempt.
                StepProgress::Started => call.hand_out(attempts + 1).await?,
            }
        }
    }
}

impl<'a, T: FromPayload + 'a> IntoFuture for Remote<'a, T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let span = match &self.spot {
            Ok(spot) => spans::step(&spot.path),
            Err(_) => tracing::Span::none(),
        };
        Box::pin(self.run().instrument(span))
    }
}

/// One call of a remote step.
struct Call<'a> {
    ctx: &'a Context,
    spot: &'a Spot,
    queue: QueueName,
    priority: i32,
    lane: Option<LaneName>,
    payload: Payload,
    retry: Policy,
    silence: Duration,
    undo: bool,
}

impl Call<'_> {
    /// Starts an attempt. Its task exists once this returns.
    async fn hand_out(&self, attempt: u32) -> Result<()> {
        let live = &self.ctx.live;
        live.gate().await?;
        let (task, delivery) = next_task(&live.lock().state, &self.spot.path, attempt);
        let remote = Some(Box::new(Sent {
            task,
            queue: self.queue.clone(),
            priority: self.priority,
            lane: self.lane.clone(),
            payload: Some(self.payload.clone()),
            retry: self.retry,
            silence_ms: u64::try_from(self.silence.as_millis()).unwrap_or(u64::MAX),
            delivery,
            undo: self.undo,
        }));
        let path = self.spot.path.clone();
        let ord = self.spot.ord;
        let input = Some(self.payload.hash());
        let _waiting = live.waiting(WaitKind::RemoteStep, Slow::No);
        let ticket = live.queue(Owned::StepStarted(StepStarted { path, ord, attempt, input, remote }));
        live.durable(ticket).await;
        Ok(())
    }

    /// Whether the step still needs a worker.
    fn is_open(&self) -> bool {
        let inner = self.ctx.live.lock();
        match inner.state.ops.get(&self.spot.path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => inner.state.awaited(step).is_some(),
            _ => false,
        }
    }

    /// Returns once the log has the end of the attempt, or the step no longer needs a worker.
    async fn ended(&self) -> Result<()> {
        let live = &self.ctx.live;
        let _waiting = live.waiting(WaitKind::RemoteStep, Slow::No);
        loop {
            let (revision, cancelled) = {
                let inner = live.lock();
                (inner.revision(), inner.state.summary.cancel.is_some() && inner.mode.heeds_cancel())
            };
            if !self.is_open() {
                return Ok(());
            }
            if cancelled {
                return Err(Error::cancelled());
            }
            live.changed(revision).await;
        }
    }
}
