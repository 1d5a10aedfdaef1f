//! Child runs: recorded in the parent's log before they are created, so none is lost or duplicated.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::marker::PhantomData;

use futures_util::future::BoxFuture;
use goldseam_core::decide::child_id;
use goldseam_core::delivery::child_ended;
use goldseam_core::event::{ChildStarted, RunQueued, WaitStarted};
use goldseam_core::state::{Found, Mail, OpKind, WaitOp};
use goldseam_core::{Command, Failure, Owned, Payload, PayloadError, RunId, WorkflowName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::{Context, Name, wait};
use crate::ledger::error::EngineError;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::{LiveRun, Mode, Spot, Stop};
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
            workflow: WorkflowName::new(workflow),
            input: Payload::of(input, &self.live.ledger.limits),
            value: PhantomData,
        }
    }
}

/// A child run; see [`Context::child`].
#[must_use = "nothing is started until it is awaited: add `.await?`"]
pub struct Child<'a, T> {
    ctx: &'a Context,
    spot: Result<Spot>,
    workflow: Result<WorkflowName, goldseam_core::IdError>,
    input: Result<Payload, PayloadError>,
    value: PhantomData<fn() -> T>,
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
    let ctx = child.ctx;
    let spot = child.spot?;
    let workflow = child.workflow?;
    let input = child.input?;
    let run = match ctx.recorded(&spot, None).await {
        Some(OpKind::Wait(WaitOp { found: Some(_), child: Some(run), .. })) => return Ok((run, spot)),
        Some(OpKind::Wait(WaitOp { child: Some(run), .. })) => run,
        Some(_) => return ctx.mismatch(&spot).await,
        None => {
            ctx.live.gate().await?;
            let run = child_id(&ctx.live.lock().state, &spot.path);
            let (path, ord) = (spot.path.clone(), spot.ord);
            let (workflow, input) = (workflow.clone(), input.clone());
            let ticket =
                ctx.live.queue(Owned::Child(ChildStarted { path, ord, run: run.clone(), workflow, input }));
            ctx.live.durable(ticket).await;
            run
        }
    };
    // During a replay for compensation, a child that was never created is not needed.
    if ctx.live.lock().mode != Mode::Replay {
        create(ctx, &run, workflow, input).instrument(spans::child(&spot.path, &run)).await?;
    }
    Ok((run, spot))
}

/// Creates the child unless it exists. After a crash this may be a repeat, which is harmless.
async fn create(ctx: &Context, run: &RunId, workflow: WorkflowName, input: Payload) -> Result<()> {
    if ctx.live.lock().mode == Mode::Preflight {
        return Ok(());
    }
    let _busy = ctx.live.busy();
    match make(&ctx.live, run, workflow, input).await {
        Ok(()) => Ok(()),
        Err(error @ EngineError::Refused { .. }) => Err(Error::terminal(error.to_string())),
        Err(error) => ctx.live.stop_and_hang(Stop::Store(error.to_string())).await,
    }
}

async fn make(
    live: &LiveRun,
    run: &RunId,
    workflow: WorkflowName,
    input: Payload,
) -> Result<(), EngineError> {
    let (queue, priority, tags) = {
        let inner = live.lock();
        let summary = &inner.state.summary;
        (summary.queue.clone(), summary.priority, summary.tags.clone())
    };
    let version = live.live_runs().newest_live(&live.ledger, &workflow).await?;
    let parent = Some(live.run.clone());
    let plan = live.live_runs().plan(&workflow);
    let trace = live.trace.as_ref().map(|trace| trace.within_run(&live.run));
    let attributes = goldseam_core::Attributes::new();
    let queued =
        RunQueued { workflow, version, input, queue, priority, tags, attributes, parent, plan, trace };
    let started = live.ledger.start(run, queued, None).await?;
    if started.records.is_empty() { fetch_end(live, run).await } else { Ok(()) }
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

/// Creates a child for a remote worker. If that is refused, reports a failed child to the parent.
pub(crate) async fn create_for(live: &LiveRun, child: ChildStarted) {
    let ChildStarted { run, workflow, input, .. } = child;
    let failure = match make(live, &run, workflow, input).await {
        Ok(()) => return,
        Err(EngineError::Refused { refusal, .. }) => Failure::terminal(refusal.to_string()),
        // The next claimant of the run creates it.
        Err(error) => return tracing::warn!(%run, %error, "failed to create child; will be retried"),
    };
    let failed = Command::ChildEnded { child: run.clone(), result: Err(failure) };
    if let Err(error) = live.ledger.commit(&live.run, &failed).await {
        tracing::warn!(%run, %error, "failed to report child-start failure to parent");
    }
    live.poke();
}

async fn finish<T: DeserializeOwned>(ctx: &Context, spot: &Spot, run: RunId) -> Result<T> {
    let span = spans::child(&spot.path, &run);
    let wanted = |_| {
        let (path, ord, signals, schemas) = (spot.path.clone(), spot.ord, vec![], BTreeMap::new());
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
