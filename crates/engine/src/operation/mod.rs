//! Bulk operations: the built-in workflow that carries them out, and what clients ask about them.
//!
//! An operation is a run of [`WORKFLOW`]. It fixes its targets first: each page of
//! its plan is the result of a step, and stays in the log. Then it acts on them in batches, one step each. A step that a
//! crash repeats acts on no run twice, because the log of a target records the action under the operation's id.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `plan` | which runs are targets, and reading them back from the operation's log |
//! | `act` | carries out the verb on one batch |
//! | `watch` | waits until the runs of a stage have passed |
//! | `ask` | beginning, listing and showing operations; a preview; groups of failures |

mod act;
mod ask;
mod plan;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::operation::{Chapter, OperationPhase, Progress, Spec, VERSION, WORKFLOW, action_id};
use goldseam_core::search::Condition;
use goldseam_core::{Millis, Retry, RunId, WorkflowName};

use crate::client::Client;
use crate::heal::claims::Claims;
use crate::ledger::config::ClaimRules;
use crate::ledger::error::EngineError;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::context::Context;
use crate::run::live_run::LiveRun;
use crate::run::registry::Registry;

pub(crate) use ask::no_operation;
pub use ask::{FailureGroup, FailureGroups, Operation, Preview};

/// Steps after which the run continues as new, so that its history stays short.
const CHAPTER_STEPS: u32 = 100;
/// From this interval on, the pace is kept by a durable sleep between two actions.
const SLOW: Duration = Duration::from_secs(5);
/// Shortest and longest time between two looks at a stage.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Returns a registry with the built-in workflow.
pub(crate) fn built_in() -> Registry {
    let mut registry = Registry::default();
    registry.add(workflow(), VERSION, operate);
    registry
}

impl Client {
    /// Returns a client for code of a live run.
    fn in_process(live: &LiveRun) -> Self {
        let claims = Claims::new(live.ledger.clone(), ClaimRules::default());
        Self::of(live.ledger.clone(), Arc::clone(live.live_runs()), claims, Arc::default())
    }
}

/// Returns the name of the built-in workflow.
pub(crate) fn workflow() -> WorkflowName {
    WorkflowName::new(WORKFLOW).unwrap_or_else(|_| unreachable!("the name is valid"))
}

/// An operation at work.
#[derive(Clone)]
struct OperationWorker {
    client: Client,
    operation: RunId,
    spec: Arc<Spec>,
    condition: Arc<Condition>,
    /// The id of its actions in the logs of its targets.
    id: String,
}

impl OperationWorker {
    fn new(ctx: &Context, spec: &Spec) -> Result<Self> {
        Ok(Self::of(Client::in_process(&ctx.live), ctx.run_id(), spec)?)
    }

    fn of(client: Client, operation: &RunId, spec: &Spec) -> std::result::Result<Self, EngineError> {
        // The text is canonical: it has no relative times.
        let condition = Arc::new(Condition::parse(&spec.condition, Millis(0))?);
        let id = action_id(operation);
        let operation = operation.clone();
        Ok(Self { client, operation, spec: Arc::new(spec.clone()), condition, id })
    }
}

/// Returns the retry policy of all steps: a store that is down delays an operation and never ends it.
fn patient() -> Retry {
    Retry::exponential().attempts_max(u32::MAX)
}

/// Carries out an operation.
async fn operate(ctx: Context, mut chapter: Chapter) -> Result<Progress> {
    let worker = OperationWorker::new(&ctx, &chapter.spec)?;
    chapter.begun_at.get_or_insert(ctx.now());
    if chapter.progress.phase == OperationPhase::Planning
        && !plan_targets(&ctx, &worker, &mut chapter).await?
    {
        return ctx.continue_as_new(&chapter);
    }
    for _ in 0..CHAPTER_STEPS {
        match chapter.progress.phase {
            OperationPhase::Planning | OperationPhase::Ended => return Ok(chapter.progress),
            OperationPhase::Acting => act(&ctx, &worker, &mut chapter).await?,
            OperationPhase::Watching => watch(&ctx, &worker, &mut chapter).await?,
        }
    }
    ctx.continue_as_new(&chapter)
}

/// Fixes targets until the chapter is full. Returns whether the run goes on in this chapter.
async fn plan_targets(ctx: &Context, worker: &OperationWorker, chapter: &mut Chapter) -> Result<bool> {
    let mut pages: u32 = 0;
    loop {
        let cursor = chapter.cursor.clone();
        let begun_at = chapter.begun_at.unwrap_or_default();
        let page = ctx
            .step("plan", || {
                let worker = worker.clone();
                let cursor = cursor.clone();
                async move { worker.plan(cursor, begun_at).await.map_err(again) }
            })
            .retry(patient())
            .await?;
        pages += 1;
        chapter.progress.planned += page.runs.len() as u64;
        chapter.progress.unreadable += page.unreadable;
        chapter.cursor = page.next;
        if chapter.cursor.is_none() || pages >= CHAPTER_STEPS {
            break;
        }
    }
    let index = ctx.step("index", || async { Ok(plan::index(ctx, pages)) }).retry(patient()).await?;
    chapter.plan.extend(index);
    if chapter.cursor.is_none() {
        chapter.progress.begin_acting(&chapter.spec);
    }
    // A long plan is not kept in memory while the operation acts.
    Ok(chapter.cursor.is_none() && pages == 1)
}

async fn act(ctx: &Context, worker: &OperationWorker, chapter: &mut Chapter) -> Result<()> {
    let now = chapter.clone();
    let acting = || {
        let worker = worker.clone();
        let chapter = now.clone();
        async move { worker.act(&chapter).await.map_err(again) }
    };
    chapter.progress = ctx.step("act", acting).retry(patient()).await?;
    let interval = chapter.spec.rate.map(goldseam_core::operation::ActionRate::interval);
    match interval.filter(|interval| *interval > SLOW && chapter.progress.phase == OperationPhase::Acting) {
        Some(interval) => ctx.sleep("pace", interval).await,
        None => Ok(()),
    }
}

async fn watch(ctx: &Context, worker: &OperationWorker, chapter: &mut Chapter) -> Result<()> {
    let now = chapter.clone();
    let watching = || {
        let worker = worker.clone();
        let chapter = now.clone();
        async move { worker.watch(&chapter).await.map_err(again) }
    };
    chapter.progress = ctx.step("watch", watching).retry(patient()).await?;
    let Some(until) =
        chapter.progress.watch_until.filter(|_| chapter.progress.phase == OperationPhase::Watching)
    else {
        return Ok(());
    };
    let left = until.since(ctx.now());
    let waited = Duration::from_millis(chapter.spec.canary_timeout_ms()).saturating_sub(left);
    // Looks become rarer, and the last one is at the deadline.
    let span = (waited / 4).clamp(LOOKS.0, LOOKS.1).min(left.max(LOOKS.0));
    ctx.sleep("wait", span).await
}

/// Returns an error after which the step is tried again.
fn again(error: EngineError) -> Error {
    Error::retryable(error.to_string())
}
