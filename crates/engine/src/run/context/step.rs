//! Steps: durable units of work. A completed step never runs again on its lineage.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use goldseam_core::decide::idempotency_key;
use goldseam_core::event::{StepCompleted, StepFailed, StepStarted};
use goldseam_core::retry::Policy;
use goldseam_core::state::{OpKind, StepOp, StepProgress};
use goldseam_core::{Failure, Hash, Millis, Owned, Path, Payload, Retry};
use goldseam_store::TaskChange;
use serde::de::DeserializeOwned;
use tracing::{Instrument as _, Span};

use super::{BodyFuture, Context, FromPayload, Name, StepOutput, ToPayload, wait};
use crate::ledger::workflow_error::{Error, Result};
use crate::run::attempt::{self, AttemptLimits, Outcome, SpannedBody};
use crate::run::live_run::{Spot, UndoFn};
use crate::run::shapes;
use crate::run::spans::{self, OperationScope};

pub use crate::run::attempt::Attempt;

type StepBody<'a, T> = Box<dyn FnMut(Attempt) -> BoxFuture<'a, Result<T>> + Send + 'a>;
type ProbeFn<'a, T> = Box<dyn FnMut() -> BoxFuture<'a, Result<Probe<T>>> + Send + 'a>;

/// What a probe found about an attempt that a crash interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe<T> {
    /// The effect happened with this result.
    Done(T),
    /// The effect did not happen: run the step again.
    NotDone,
    /// Unknown: ask a person.
    Ask,
}

impl Context {
    /// Executes a step once: its result is durable before the next effect begins.
    ///
    /// After a crash in the middle, it runs again with the same idempotency key.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn order(ctx: Context, item: String) -> goldseam::Result<String> {
    ///     let hold = ctx.step("reserve", || async { Ok(format!("hold on {item}")) }).await?;
    ///     // A key tells the steps of a loop apart.
    ///     for line in 1..=2 {
    ///         ctx.step(("pick", line), || async { Ok(()) }).await?;
    ///     }
    ///     Ok(hold)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// # assert_eq!(engine.start(order, "o-1", &"tea".to_owned()).await?.result().await?, "hold on tea");
    /// # Ok(()) }
    /// ```
    pub fn step<'a, T, F, Fut>(&'a self, name: impl Into<Name>, mut body: F) -> Step<'a, T>
    where
        F: FnMut() -> Fut + Send + 'a,
        Fut: BodyFuture<T> + Send + 'a,
        T: StepOutput + Send + 'a,
    {
        self.step_with(name, move |_| body())
    }

    /// Like [`Context::step`], for a body that uses its attempt: the number, the idempotency key, and heartbeats.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn pay(ctx: Context, amount: u32) -> goldseam::Result<String> {
    ///     // The bank recognises a repeated request by the key, which is the same for every attempt.
    ///     ctx.step_with("charge", |attempt| async move {
    ///         Ok(format!("{amount} with {}", attempt.idempotency_key()))
    ///     })
    ///     .await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("pay", pay).start().await?;
    /// # assert!(engine.start(pay, "p-1", &5).await?.result().await?.starts_with("5 with "));
    /// # Ok(()) }
    /// ```
    pub fn step_with<'a, T, F, Fut>(&'a self, name: impl Into<Name>, mut body: F) -> Step<'a, T>
    where
        F: FnMut(Attempt) -> Fut + Send + 'a,
        Fut: BodyFuture<T> + Send + 'a,
        T: StepOutput + Send + 'a,
    {
        Step {
            ctx: self,
            spot: self.spot(name),
            body: Box::new(move |attempt| Box::pin(body(attempt))),
            retry: None,
            limits: AttemptLimits { watched: true, ..AttemptLimits::default() },
            input: None,
            undo: None,
            probe: None,
            at_most_once: false,
            execute: |step| Box::pin(step.run()),
        }
    }

    /// Executes a step that contains steps. Once it is complete, replay does not enter it again.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn order(ctx: Context, lines: u32) -> goldseam::Result<u32> {
    ///     ctx.group("pick-all", |ctx| async move {
    ///         let picks = (0..lines).map(|line| ctx.step(("pick", line), || async { Ok(1_u32) }));
    ///         Ok(ctx.join(picks).await?.into_iter().sum())
    ///     })
    ///     .await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// # assert_eq!(engine.start(order, "o-1", &3).await?.result().await?, 3);
    /// # Ok(()) }
    /// ```
    pub fn group<'a, T, F, Fut>(&'a self, name: impl Into<Name>, body: F) -> Group<'a, T>
    where
        F: FnOnce(Context) -> Fut + Send + 'a,
        Fut: BodyFuture<T> + Send + 'a,
        T: StepOutput + Send + 'a,
    {
        let body: GroupBody<'a, T> = Box::new(move |ctx| Box::pin(body(ctx)));
        Group { ctx: self, spot: self.spot(name), body, execute: Group::execute }
    }
}

/// A configured step, which runs when awaited; see [`Context::step`].
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn import(ctx: Context, file: String) -> goldseam::Result<u32> {
///     ctx.step_with("load", |attempt| async move {
///         // A later attempt continues where the earlier one stopped.
///         let start = attempt.last_heartbeat().unwrap_or(0);
///         for row in start..3_u32 {
///             attempt.heartbeat(&row);
///         }
///         Ok(3)
///     })
///     .input(&file)
///     .retry(Retry::exponential().attempts_max(5))
///     .timeout(mins(10))
///     .heartbeat_timeout(secs(30))
///     .await
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("import", import).start().await?;
/// # assert_eq!(engine.start(import, "i-1", &"a.csv".to_owned()).await?.result().await?, 3);
/// # Ok(()) }
/// ```
#[must_use = "a step does nothing until it is awaited: add `.await?`"]
pub struct Step<'a, T> {
    ctx: &'a Context,
    spot: Result<Spot>,
    body: StepBody<'a, T>,
    retry: Option<Retry>,
    limits: AttemptLimits,
    input: Option<Result<Hash, Error>>,
    undo: Option<UndoFn>,
    probe: Option<ProbeFn<'a, T>>,
    at_most_once: bool,
    /// So that `await` has no bounds of its own: the call that made the step has them, and only that call is reported.
    execute: fn(Self) -> BoxFuture<'a, Result<T>>,
}

impl<'a, T: 'a> Step<'a, T> {
    /// Sets the retry policy. Without it, that of the workflow ([`Builder::steps`](crate::Builder::steps)) or of the
    /// engine ([`Config::retry`](crate::Config::retry)) holds; if neither is set, one failure fails the step.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Sets how long one attempt may take. The default heartbeat timeout then does not apply.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.limits.timeout = Some(span);
        self
    }

    /// Sets how long an attempt may be silent; the body reports that it is alive with [`Attempt::heartbeat`], and the
    /// details that it reports are durable.
    ///
    /// A step that sets neither this nor [`Step::timeout`] may be silent for
    /// [`Config::heartbeat_timeout`](crate::Config::heartbeat_timeout), 60 s by default: a longer step must say so.
    pub fn heartbeat_timeout(mut self, silence_max: Duration) -> Self {
        self.limits.silence = Some(silence_max);
        self
    }

    /// Lets an attempt be silent without limit: the default heartbeat timeout does not apply.
    pub fn without_heartbeat_timeout(mut self) -> Self {
        self.limits.silence = None;
        self.limits.watched = false;
        self
    }

    /// Declares what the step depends on: a replay with different input then counts as a divergence.
    pub fn input(mut self, input: &impl ToPayload) -> Self {
        let payload = Payload::of(input, &self.ctx.live.ledger.limits);
        self.input = Some(payload.map(|payload| payload.hash()).map_err(Error::from));
        self
    }

    /// Sets the compensation, which gets the step's output. Runs when the workflow fails or is cancelled, latest
    /// first.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     let hold = || async { Ok("hold-7".to_owned()) };
    ///     ctx.step("reserve", hold).compensate(|hold| async move { release(hold).await }).await?;
    ///     ctx.step("charge", || async { Err(Error::terminal("card declined")) }).await
    /// }
    /// # async fn release(_: String) -> goldseam::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// let run = engine.start(order, "o-1", &()).await?;
    /// run.outcome().await?;
    /// assert!(run.history().await?.iter().any(|recorded| recorded.event.name() == "compensation.completed"));
    /// # Ok(()) }
    /// ```
    pub fn compensate<C, Fut>(mut self, undo: C) -> Self
    where
        C: Fn(T) -> Fut + Send + Sync + 'static,
        Fut: BodyFuture<()> + Send + 'static,
        T: FromPayload + 'static,
    {
        self.undo = Some(undo_with(undo));
        self
    }

    /// Sets a probe, which finds out after a crash in the middle of an attempt whether the effect happened.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn pay(ctx: Context, amount: u32) -> goldseam::Result<String> {
    ///     // The bank has no idempotency keys, but can list what it has done.
    ///     ctx.step("charge", || charge(amount))
    ///         .at_most_once()
    ///         .probe(|| async { Ok(find(amount).await?.map_or(Probe::NotDone, Probe::Done)) })
    ///         .await
    /// }
    /// # async fn find(_: u32) -> goldseam::Result<Option<String>> { Ok(None) }
    /// # async fn charge(amount: u32) -> goldseam::Result<String> { Ok(format!("paid {amount}")) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("pay", pay).start().await?;
    /// # assert_eq!(engine.start(pay, "p-1", &5).await?.result().await?, "paid 5");
    /// # Ok(()) }
    /// ```
    pub fn probe<P, Fut>(mut self, mut probe: P) -> Self
    where
        P: FnMut() -> Fut + Send + 'a,
        Fut: BodyFuture<Probe<T>> + Send + 'a,
    {
        self.probe = Some(Box::new(move || Box::pin(probe())));
        self
    }

    /// Never starts the step a second time: its start is durable first. If a crash interrupts it, the step fails with
    /// code `outcome-unknown`, unless a probe knows the outcome.
    pub fn at_most_once(mut self) -> Self {
        self.at_most_once = true;
        self
    }
}

impl<'a, T: StepOutput + Send + 'a> Step<'a, T> {
    async fn run(mut self) -> Result<T> {
        let ctx = self.ctx;
        let spot = std::mem::replace(&mut self.spot, Err(Error::terminal("taken")))?;
        let input = self.input.take().transpose()?;
        let mut span = None;
        loop {
            let step = match ctx.recorded(&spot, input).await {
                None => StepOp { progress: StepProgress::Retry(Millis(0)), ..StepOp::default() },
                Some(OpKind::Step(step)) => step,
                Some(_) => return ctx.mismatch(&spot).await,
            };
            match &step.progress {
                StepProgress::Completed(output) => {
                    self.register_undo(&spot);
                    return Ok(ctx.read_result(&spot, output).await);
                }
                StepProgress::Failed(failure) => return Err(Error::of_step(&spot.path, failure.clone())),
                StepProgress::Retry(due) if due.0 > 0 => wait::until(ctx, *due).await?,
                StepProgress::Retry(_) => {}
                // According to the log this is a remote step.
                StepProgress::Started if step.remote.is_some() => return ctx.mismatch(&spot).await,
                StepProgress::Started => {
                    ctx.live.gate().await?;
                    let span = span.get_or_insert_with(|| spans::step(&spot.path));
                    if let Some(value) = self.after_crash(&spot, &step, input, span).await? {
                        return Ok(value);
                    }
                }
            }
            ctx.live.gate().await?;
            let span = span.get_or_insert_with(|| spans::step(&spot.path));
            if let Some(value) = self.attempt(&spot, &step, input, span).await? {
                return Ok(value);
            }
        }
    }

    fn register_undo(&mut self, spot: &Spot) {
        if let Some(undo) = self.undo.take() {
            self.ctx.live.lock().undo.insert(spot.path.clone(), undo);
        }
    }

    /// Makes one attempt: its value, or none if another attempt is to follow.
    async fn attempt(
        &mut self,
        spot: &Spot,
        step: &StepOp,
        input: Option<Hash>,
        span: &Span,
    ) -> Result<Option<T>> {
        let live = &self.ctx.live;
        let number = step.attempts + 1;
        let began = live.now();
        let path = spot.path.clone();
        let ord = spot.ord;
        let started = StepStarted { path, ord, attempt: number, input, remote: None };
        // If this attempt crashes the process, the log names it.
        let suspect = live.lock().is_suspect();
        if self.at_most_once || self.probe.is_some() || self.limits.silence.is_some() || suspect {
            let ticket = live.queue(Owned::StepStarted(started.clone()));
            live.durable(ticket).await;
        }
        let key = idempotency_key(&live.lock().state, &spot.path);
        let _busy = live.busy();
        let attempt = Attempt::new(number, key, self.limits.silence.is_some());
        let limits = AttemptLimits { marked: suspect, ..self.limits };
        let (outcome, details) =
            attempt::run(live, &started, attempt, limits, SpannedBody { span, body: &mut self.body }).await;
        let (failure, timeout) = match outcome {
            Outcome::Done(value) => match Payload::of(&value, &live.ledger.limits) {
                Ok(output) => {
                    self.record(spot, output, Facts { number, began, input });
                    return Ok(Some(value));
                }
                Err(error) => (Failure::terminal(error.to_string()), None),
            },
            Outcome::Failed(failure) => (failure, None),
            Outcome::TimedOut(code, failure) => (failure, Some(code)),
        };
        let retry = self.retry.clone().unwrap_or_else(|| live.default_retry());
        let pause = retry.pause(step.failures + 1, &failure, spot.path.as_str());
        let retry_at = pause.map(|pause| live.now() + pause);
        let left = retry_at.map_or(0, |_| retry.attempts_max.saturating_sub(step.failures + 1));
        let is_first = retry_at.is_some() && step.failures == 0;
        let failed = StepFailed {
            path: spot.path.clone(),
            ord: spot.ord,
            attempt: number,
            began,
            failure: failure.clone(),
            left,
            input,
            group: false,
            fence: None,
            retry: is_first.then(|| Box::new(Policy::from(&retry))),
        };
        if let Some(task) = details.filter(|_| retry_at.is_none()) {
            live.lock().extra.push(TaskChange::Remove { task });
        }
        let ticket = live.queue(Owned::StepFailed { failed, retry_at, timeout });
        if retry_at.is_none() {
            return Err(Error::of_step(&spot.path, failure));
        }
        live.durable(ticket).await;
        Ok(None)
    }

    /// Queues the result before it is durable; the next effect waits for it.
    fn record(&mut self, spot: &Spot, output: Payload, facts: Facts) {
        let undo = self.undo.is_some();
        self.register_undo(spot);
        let completed = StepCompleted {
            path: spot.path.clone(),
            ord: spot.ord,
            attempt: facts.number,
            began: facts.began,
            output,
            input: facts.input,
            undo,
            group: false,
            fence: None,
        };
        self.ctx.live.queue_seen(spot, Owned::StepCompleted(completed));
    }

    /// Handles an attempt that a crash interrupted.
    async fn after_crash(
        &mut self,
        spot: &Spot,
        step: &StepOp,
        input: Option<Hash>,
        span: &Span,
    ) -> Result<Option<T>> {
        let live = &self.ctx.live;
        let found = match &mut self.probe {
            Some(probe) => {
                let _busy = live.busy();
                let key = idempotency_key(&live.lock().state, &spot.path);
                let scope = OperationScope::attempt(live, span, step.attempts, key.into());
                let probing = scope.call(probe);
                scope.wrap(probing).await?
            }
            None if self.at_most_once => Probe::Ask,
            None => return Ok(None),
        };
        let facts = Facts { number: step.attempts, began: live.now(), input };
        match found {
            Probe::NotDone => Ok(None),
            Probe::Done(value) => {
                let output = Payload::of(&value, &live.ledger.limits)?;
                self.record(spot, output, facts);
                Ok(Some(value))
            }
            Probe::Ask if self.probe.is_some() => self.ask_person(spot, facts).await,
            Probe::Ask => {
                let message = "a crash interrupted its only attempt; it is unknown whether it happened";
                let failure = Failure::terminal(message).with_code("outcome-unknown");
                let failed = StepFailed {
                    path: spot.path.clone(),
                    ord: spot.ord,
                    attempt: step.attempts,
                    began: facts.began,
                    failure: failure.clone(),
                    left: 0,
                    input,
                    group: false,
                    fence: None,
                    retry: None,
                };
                live.queue(Owned::StepFailed { failed, retry_at: None, timeout: None });
                Err(Error::of_step(&spot.path, failure))
            }
        }
    }

    async fn ask_person(&mut self, spot: &Spot, facts: Facts) -> Result<Option<T>> {
        let ctx = self.ctx.arm(("after-crash", facts.number))?;
        let prompt =
            format!("A crash interrupted step {}. Did it happen? If so, with which result?", spot.path);
        let result = shapes::of::<T>().schema().unwrap_or_default();
        let result = if result.is_null() { true.into() } else { result };
        let schema = serde_json::json!({
            "type": "object",
            "required": ["done"],
            "properties": { "done": { "type": "boolean" }, "result": true },
            "if": { "properties": { "done": { "const": true } } },
            "then": { "properties": { "result": result } },
        });
        let answer: serde_json::Value = ctx.ask("happened", prompt).schema(schema).await?;
        if answer["done"] != serde_json::Value::Bool(true) {
            return Ok(None);
        }
        let output = Payload::of(&answer["result"], &self.ctx.live.ledger.limits)?;
        let value = self.ctx.read_result(spot, &output).await;
        self.record(spot, output, facts);
        Ok(Some(value))
    }
}

impl Context {
    /// Reads the recorded result of a step.
    pub(super) async fn read_result<T: DeserializeOwned>(&self, spot: &Spot, output: &Payload) -> T {
        self.read_logged(&result_of(&spot.path), output).await
    }
}

fn result_of(path: &Path) -> String {
    format!("the result of {path}")
}

/// A compensation with its types erased.
pub(super) fn undo_with<T, C, Fut>(undo: C) -> UndoFn
where
    C: Fn(T) -> Fut + Send + Sync + 'static,
    Fut: BodyFuture<()> + Send + 'static,
    T: DeserializeOwned + 'static,
{
    Arc::new(move |path, output| {
        let value = output.read::<T>();
        let value = value.map_err(|error| shapes::misfit::<T>(&result_of(path), output, &error))?;
        Ok(Box::pin(undo(value)))
    })
}

#[derive(Clone, Copy)]
struct Facts {
    number: u32,
    began: Millis,
    input: Option<Hash>,
}

impl<'a, T> IntoFuture for Step<'a, T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        (self.execute)(self)
    }
}

type GroupBody<'a, T> = Box<dyn FnOnce(Context) -> BoxFuture<'a, Result<T>> + Send + 'a>;

/// A step that contains steps; see [`Context::group`].
#[must_use = "a group does nothing until it is awaited: add `.await?`"]
pub struct Group<'a, T> {
    ctx: &'a Context,
    spot: Result<Spot>,
    body: GroupBody<'a, T>,
    execute: fn(Self) -> BoxFuture<'a, Result<T>>,
}

impl<'a, T> IntoFuture for Group<'a, T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        (self.execute)(self)
    }
}

impl<'a, T: StepOutput + Send + 'a> Group<'a, T> {
    fn execute(self) -> BoxFuture<'a, Result<T>> {
        Box::pin(async move {
            let ctx = self.ctx;
            let spot = self.spot?;
            match ctx.recorded(&spot, None).await {
                None => {}
                Some(OpKind::Step(StepOp { progress: StepProgress::Completed(output), .. })) => {
                    return Ok(ctx.read_result(&spot, &output).await);
                }
                Some(OpKind::Step(StepOp { progress: StepProgress::Failed(failure), .. })) => {
                    return Err(Error::of_step(&spot.path, failure));
                }
                Some(_) => return ctx.mismatch(&spot).await,
            }
            let began = ctx.live.now();
            let inner = Context { live: Arc::clone(&ctx.live), arm: spot.path.clone() };
            let path = spot.path.clone();
            let ord = spot.ord;
            let input = None;
            let group = true;
            let fence = None;
            let span = spans::step(&spot.path);
            let body = span.in_scope(|| (self.body)(inner));
            let result = body.instrument(span).await;
            ctx.live.unless_replaying().await;
            match result {
                Ok(value) => {
                    let output = Payload::of(&value, &ctx.live.ledger.limits)?;
                    let attempt = 1;
                    let undo = false;
                    let completed =
                        StepCompleted { path, ord, attempt, began, output, input, undo, group, fence };
                    ctx.live.queue_seen(&spot, Owned::StepCompleted(completed));
                    Ok(value)
                }
                Err(error) if error.is_cancelled() || error.is_continue() => Err(error),
                Err(error) => {
                    let failure = error.failure().clone();
                    let attempt = 1;
                    let left = 0;
                    let retry = None;
                    let failed =
                        StepFailed { path, ord, attempt, began, failure, left, input, group, fence, retry };
                    ctx.live.queue(Owned::StepFailed { failed, retry_at: None, timeout: None });
                    Err(error)
                }
            }
        })
    }
}
