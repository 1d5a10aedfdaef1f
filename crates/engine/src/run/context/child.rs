//! Child runs: recorded in the parent's log before they are created, so none is lost or duplicated.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use goldseam_core::decide::{Refusal, child_id, chosen_child_id, other_call};
use goldseam_core::delivery::child_ended;
use goldseam_core::event::{ChildStarted, RunQueued, WaitStarted};
use goldseam_core::state::{Found, Mail, OpKind, WaitOp};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{
    AttributeValue, Command, Event, Failure, Owned, Payload, PayloadError, RunId, WorkflowName,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::{Context, Name, wait};
use crate::ledger::error::EngineError;
use crate::ledger::open_name::{open_name, open_start};
use crate::ledger::start_options::StartOptions;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::{LiveRun, Mode, Spot, Stop, UndoFn};
use crate::run::spans;

impl Context {
    /// Starts a child run of another workflow and waits for its result.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn parcel(_: Context, weight: u32) -> goldseam::Result<u32> { Ok(weight * 3) }
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ///     // Both children run at the same time.
    ///     let small = ctx.child::<u32>("small", "parcel", &1).start().await?;
    ///     let large: u32 = ctx.child("large", "parcel", &10).await?;
    ///     println!("started {}", small.run_id());
    ///     Ok(large + small.result::<u32>().await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let engine = Engine::open(&url).await?.workflow("order", order).workflow("parcel", parcel).start().await?;
    /// assert_eq!(engine.start(order, "o-1", &()).await?.result().await?, 33);
    /// # Ok(()) }
    /// ```
    pub fn child<T: DeserializeOwned>(
        &self,
        name: impl Into<Name>,
        workflow: &str,
        input: &impl Serialize,
    ) -> Child<'_, T> {
        Child {
            ctx: self,
            spot: self.spot(name),
            workflow: WorkflowName::new(workflow).and_then(open_name),
            input: Payload::of(input, &self.live.ledger.limits),
            id: None,
            options: None,
            detached: false,
            undo: None,
            value: PhantomData,
        }
    }
}

/// A child run; see [`Context::child`].
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn parcel(_: Context, weight: u32) -> goldseam::Result<u32> { Ok(weight * 3) }
///
/// async fn order(ctx: Context, _: ()) -> goldseam::Result<()> {
///     let id = format!("{}-parcel", ctx.run_id());
///     let price: u32 = ctx
///         .child("parcel", "parcel", &10)
///         .id(id)
///         .priority(5)
///         .tag("size", "large")
///         .compensate(|price: u32| async move { refund(price).await })
///         .await?;
///     // Outlives this run, which goes on at once.
///     ctx.child::<u32>("survey", "parcel", &price).detached().await?;
///     Err(Error::terminal("the customer has cancelled"))
/// }
/// # async fn refund(_: u32) -> goldseam::Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("order", order).workflow("parcel", parcel).start().await?;
/// let run = engine.start(order, "o-1", &()).await?;
/// run.outcome().await?;
/// let parcel = engine.client().get(&goldseam::RunId::new("o-1-parcel").unwrap()).await?;
/// assert_eq!((parcel.priority, parcel.parent.as_ref()), (5, Some(run.id())));
/// assert!(run.history().await?.iter().any(|recorded| recorded.event.name() == "compensation.completed"));
/// # Ok(()) }
/// ```
#[must_use = "nothing is started until it is awaited: add `.await?`"]
pub struct Child<'a, T> {
    ctx: &'a Context,
    spot: Result<Spot>,
    workflow: Result<WorkflowName, goldseam_core::IdError>,
    input: Result<Payload, PayloadError>,
    id: Option<String>,
    options: Option<StartOptions>,
    detached: bool,
    undo: Option<UndoFn>,
    value: PhantomData<fn() -> T>,
}

impl<'a, T> Child<'a, T> {
    /// Sets the id of the child. Default: an id made of parent, branch and path.
    ///
    /// The id must not belong to a run that this run did not start (GS0172), nor to another call of this run
    /// (GS0173). After a jump, a retry and `continue_as_new`, another child does the work again: its id ends with the
    /// branch, as in `o-1-parcel.b2`.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets all options of the start at once. Queue and priority are those of the parent unless set; the child gets
    /// the parent's tags, too.
    pub fn options(mut self, options: StartOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Sets the queue. Default: the parent's.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.option(|options| options.queue(queue))
    }

    /// Sets the version, starting at 1. Default: the newest version of a live node.
    pub fn version(self, version: u32) -> Self {
        self.option(|options| options.version(version))
    }

    /// Sets the priority. Default: the parent's.
    pub fn priority(self, priority: i32) -> Self {
        self.option(|options| options.priority(priority))
    }

    /// Sets how long the child may take. After that it undoes its steps and fails with the code `timeout`, as with
    /// [`StartOptions::timeout`].
    pub fn timeout(self, span: Duration) -> Self {
        self.option(|options| options.timeout(span))
    }

    /// Adds a tag to those of the parent.
    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.option(|options| options.tag(key, value))
    }

    /// Adds an attribute.
    pub fn attribute(self, name: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        self.option(|options| options.attribute(name, value))
    }

    fn option(mut self, set: impl FnOnce(StartOptions) -> StartOptions) -> Self {
        self.options = Some(set(self.options.unwrap_or_default()));
        self
    }

    /// Starts a child that outlives this run: it is not cancelled with it, and its end is not delivered. Returns its
    /// id once it exists.
    pub fn detached(mut self) -> Detached<'a> {
        self.detached = true;
        let Self { ctx, spot, workflow, input, id, options, detached, .. } = self;
        Detached(Child { ctx, spot, workflow, input, id, options, detached, undo: None, value: PhantomData })
    }
}

impl<T: Serialize + DeserializeOwned + Send> Child<'_, T> {
    /// Sets the compensation, which gets the result of the completed child. Runs when the workflow fails or is
    /// cancelled, latest first, like that of a step.
    pub fn compensate<C, Fut>(mut self, undo: C) -> Self
    where
        C: Fn(T) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
        T: 'static,
    {
        self.undo = Some(super::step::undo_with(undo));
        self
    }
}

/// A child that outlives its parent; see [`Child::detached`].
#[must_use = "nothing is started until it is awaited"]
pub struct Detached<'a>(Child<'a, ()>);

impl<'a> IntoFuture for Detached<'a> {
    type Output = Result<RunId>;
    type IntoFuture = BoxFuture<'a, Result<RunId>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(begin(self.0).await?.0) })
    }
}

/// A started child.
#[derive(Debug, Clone)]
pub struct ChildHandle {
    run: RunId,
    spot: Spot,
    ctx: Context,
}

impl ChildHandle {
    /// The id of the child.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Waits for the child's result.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T> {
        finish(&self.ctx, &self.spot, self.run.clone()).await
    }
}

impl<'a, T: DeserializeOwned + 'a> Child<'a, T> {
    /// Starts the child without waiting for it.
    pub async fn start(self) -> Result<ChildHandle> {
        let ctx = self.ctx.clone();
        let (run, spot) = begin(self).await?;
        Ok(ChildHandle { run, spot, ctx })
    }
}

async fn begin<T>(child: Child<'_, T>) -> Result<(RunId, Spot)> {
    let Child { ctx, spot, workflow, input, id, options, detached, undo, .. } = child;
    let spot = spot?;
    let workflow = workflow.map_err(EngineError::from)?;
    let input = input?;
    let id = id.map(RunId::new).transpose().map_err(EngineError::from)?;
    let has_undo = undo.is_some();
    if let Some(undo) = undo {
        ctx.live.lock().undo.insert(spot.path.clone(), undo);
    }
    let (run, is_new) = match ctx.recorded(&spot, None).await {
        Some(OpKind::Wait(WaitOp { found: Some(_), child: Some(run), .. })) => return Ok((run, spot)),
        Some(OpKind::Wait(WaitOp { child: Some(run), .. })) => (run, false),
        Some(_) => return ctx.mismatch(&spot).await,
        None => {
            // Before the gate: a replay for compensations must get past a call that is refused.
            let run = choose(&ctx.live, &spot, id.as_ref())?;
            let given = StartOptions::default();
            open_start(&run, options.as_ref().unwrap_or(&given)).map_err(EngineError::from)?;
            queued(&ctx.live, &workflow, options.as_ref())?;
            ctx.live.gate().await?;
            (run, true)
        }
    };
    let start = match is_new {
        true => queued(&ctx.live, &workflow, options.as_ref())?,
        // Times of the options were resolved when the call was recorded.
        false if options.is_some() => recorded_start(&ctx.live, &run).await?,
        false => None,
    };
    let path = spot.path.clone();
    let ord = spot.ord;
    let started = ChildStarted { path, ord, run, workflow, input, start, detached, undo: has_undo };
    if is_new {
        let ticket = ctx.live.queue(Owned::Child(started.clone()));
        ctx.live.durable(ticket).await;
    }
    // What was refused once stays refused, also if the other run has been removed since.
    if let Some(failure) = refused(&ctx.live, &started.run) {
        return Err(failure.into());
    }
    // During a replay for compensation, a child that was never created is not needed.
    if ctx.live.lock().mode != Mode::Replay {
        create(ctx, &started, is_new).instrument(spans::child(&spot.path, &started.run)).await?;
    }
    Ok((started.run, spot))
}

/// How a new child starts, if its author gave options. Fails if they are invalid.
fn queued(
    live: &LiveRun,
    workflow: &WorkflowName,
    options: Option<&StartOptions>,
) -> Result<Option<Box<RunQueued>>, EngineError> {
    let Some(options) = options.cloned() else { return Ok(None) };
    let inner = live.lock();
    let queued = options.queued_for_child(workflow.clone(), &inner.state.summary, live.terms())?;
    Ok(Some(Box::new(queued)))
}

/// Why the log says that a child could not be created.
fn refused(live: &LiveRun, child: &RunId) -> Option<Failure> {
    live.lock().state.children.get(child)?.refused.clone()
}

/// How the log says that a child starts.
async fn recorded_start(live: &LiveRun, child: &RunId) -> Result<Option<Box<RunQueued>>> {
    let Some(seq) = live.lock().state.children.get(child).map(|child| child.seq) else { return Ok(None) };
    match live.ledger.history_to(&live.run, seq, seq).await {
        Ok((records, _)) => Ok(records.into_iter().find_map(|recorded| match recorded.event {
            Event::ChildStarted(started) => started.start,
            _ => None,
        })),
        Err(error) => live.stop_and_hang(Stop::Store(error.to_string())).await,
    }
}

/// The id of a new child.
fn choose(live: &LiveRun, spot: &Spot, id: Option<&RunId>) -> Result<RunId, EngineError> {
    let inner = live.lock();
    let Some(id) = id else { return Ok(child_id(&inner.state, &spot.path)) };
    let child = chosen_child_id(&inner.state, id)?;
    match other_call(&inner.state, &child, &spot.path) {
        None => Ok(child),
        Some(other) => {
            let run = live.run.clone();
            let path = spot.path.clone();
            let other = other.clone();
            Err(EngineError::ChildIdReused { run, path, child, other })
        }
    }
}

/// Creates the child unless it exists. After a crash this may be a repeat, which is harmless.
async fn create(ctx: &Context, child: &ChildStarted, is_new: bool) -> Result<()> {
    if ctx.live.lock().mode == Mode::Preflight {
        return Ok(());
    }
    let _busy = ctx.live.busy();
    match make(&ctx.live, child).await {
        Ok(()) => Ok(()),
        Err(error @ EngineError::Refused { .. }) => {
            // The times of a new child are the author's choice. Later, the child had no chance to begin in time.
            let is_late =
                matches!(&error, EngineError::Refused { refusal: Refusal::DeadlinePassed { .. }, .. });
            let code = if is_late && !is_new { "timeout" } else { error.code() };
            let failure = Failure::terminal(error.to_string()).with_code(code);
            record_refusal(&ctx.live, child, &failure).await;
            Err(failure.into())
        }
        Err(error) => ctx.live.stop_and_hang(Stop::Store(error.to_string())).await,
    }
}

async fn make(live: &LiveRun, child: &ChildStarted) -> Result<(), EngineError> {
    let workflow = &child.workflow;
    let queued = match &child.start {
        Some(start) => (**start).clone(),
        None => {
            let inner = live.lock();
            let parent = &inner.state.summary;
            StartOptions::default().queued_for_child(workflow.clone(), parent, live.terms())?
        }
    };
    let version = match queued.version {
        UNDECIDED => live.live_runs().newest_live(&live.ledger, workflow).await?,
        version => version,
    };
    let trace = queued.trace.or_else(|| live.trace.as_ref().map(|trace| trace.within_run(&live.run)));
    let parent = Some(live.run.clone());
    let plan = live.live_runs().plan(workflow);
    let queued = RunQueued { version, input: child.input.clone(), parent, plan, trace, ..queued };
    let started = live.ledger.start(&child.run, queued, None).await?;
    match started.records.is_empty() && !child.detached {
        true => fetch_end(live, &child.run).await,
        false => Ok(()),
    }
}

/// Delivers the end of an existing child. It may have ended while the parent had ended and could not receive it; a
/// retry of the parent asks again. A repeated delivery counts once.
async fn fetch_end(live: &LiveRun, run: &RunId) -> Result<(), EngineError> {
    if live.lock().state.children.get(run).is_some_and(|child| child.ended) {
        return Ok(());
    }
    let delivered = match live.ledger.load_surely(run).await.map(|loaded| loaded.state.outcome) {
        Ok(Some(outcome)) => live.ledger.commit(&live.run, &child_ended(run, outcome)).await.map(|_| ()),
        Ok(None) => return Ok(()),
        Err(error) => Err(error),
    };
    live.poke();
    match delivered {
        Ok(()) | Err(EngineError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Records that a child could not be created, before the code learns of it: a replay must fail at the same call.
async fn record_refusal(live: &LiveRun, child: &ChildStarted, failure: &Failure) {
    let refused = Command::ChildRefused { child: child.run.clone(), failure: failure.clone() };
    match live.ledger.commit(&live.run, &refused).await {
        Ok(_) => live.poke(),
        // The run has ended, or another process has it: the next append of this execution finds that out.
        Err(error @ EngineError::Refused { .. }) => {
            tracing::debug!(run = %live.run, child = %child.run, %error, "refused child was not recorded");
        }
        Err(error) => live.stop_and_hang(Stop::Store(error.to_string())).await,
    }
}

/// Creates a child for a remote worker. If that is refused, reports a failed child to the parent.
pub(crate) async fn create_for(live: &LiveRun, child: ChildStarted) {
    let failure = match make(live, &child).await {
        Ok(()) => return,
        Err(error @ EngineError::Refused { .. }) => {
            let code = error.code();
            let EngineError::Refused { refusal, .. } = error else { return };
            Failure::terminal(refusal.to_string()).with_code(code)
        }
        // The next claimant of the run creates it.
        Err(error) => {
            return tracing::warn!(run = %child.run, %error, "failed to create child; will be retried");
        }
    };
    // Nothing waits for a detached child.
    if child.detached {
        return;
    }
    let run = &child.run;
    let refused = Command::ChildRefused { child: run.clone(), failure };
    if let Err(error) = live.ledger.commit(&live.run, &refused).await {
        tracing::warn!(%run, %error, "failed to report child-start failure to parent");
    }
    live.poke();
}

async fn finish<T: DeserializeOwned>(ctx: &Context, spot: &Spot, run: RunId) -> Result<T> {
    let span = spans::child(&spot.path, &run);
    let wanted = |_| {
        let path = spot.path.clone();
        let ord = spot.ord;
        let signals = vec![];
        let schemas = BTreeMap::new();
        (WaitStarted { path, ord, signals, schemas, inputs: vec![], children: vec![run], due: None }, None)
    };
    match wait::wait(ctx, spot, wanted).instrument(span).await? {
        Found::Mail(Mail::Child { result: Ok(output), .. }) => {
            Ok(ctx.read_logged(&format!("the result of child {}", spot.path), &output).await)
        }
        Found::Mail(Mail::Child { result: Err(failure), .. }) => Err(Error::of_step(&spot.path, failure)),
        Found::Mail(_) | Found::Timer => ctx.mismatch(spot).await,
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for Child<'a, T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let ctx = self.ctx;
        let began = begin(self);
        Box::pin(async move {
            let (run, spot) = began.await?;
            finish(ctx, &spot, run).await
        })
    }
}
