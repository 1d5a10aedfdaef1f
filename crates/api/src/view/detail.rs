//! The detail document of one run.

use goldseam::unstable::core::branch::Branches;
use goldseam::unstable::core::derive;
use goldseam::unstable::core::event::Request;
use goldseam::unstable::core::hash::Hash;
use goldseam::unstable::core::{BranchId, Recorded, Seq, State, StepName};

use goldseam::unstable::engine::salvage::Log;
use goldseam::{EngineError, Outcome, RunId};

use super::timeline::{self, OperationDoc};
use super::{branches, log};
use crate::doc::ending::PendingDoc;
use crate::doc::run::{OpenQuestionDoc, PlannedDoc, RunDoc, RunDocParts};
use crate::next_step::answer_command;
use crate::problem::Problem;

/// Builds the document of a run from its state and its log. The operations are those of `branch`, or of the active
/// branch.
pub fn detail(state: State, history: &[Recorded], branch: Option<BranchId>) -> RunDoc {
    let known = Branches::of(history);
    let seen = log::seen_by(history, &known, branch.unwrap_or(state.summary.branch));
    let steps = timeline::rows(&seen);
    let pending = pending(&state);
    let (output, failure) = match state.outcome {
        Some(Outcome::Completed(output)) => (Some(output), None),
        Some(Outcome::Failed(failure)) => (None, Some(failure)),
        _ => (None, state.failure),
    };
    let summary = state.summary;
    let question = |input: &_| OpenQuestionDoc {
        input: Clone::clone(input),
        command: answer_command(&summary.run, input),
    };
    let more = RunDocParts {
        input: state.queued.input,
        output,
        failure,
        steps_done: summary.steps,
        plan: plan(&state.queued.plan, &steps),
        branches: branches::items(history, &known),
        seams: timeline::seams(history),
        questions: summary.inputs.iter().map(question).collect(),
        damage: Vec::new(),
        steps,
        spans: timeline::ownership(&seen),
        pending,
        left_standing: state.terminated.map(|left| *left),
    };
    RunDoc { summary, more }
}

/// Derives the state of a run from its events up to a position, which must be one of its log before any damage.
pub fn until<'a>(run: &RunId, log: &'a Log, at: Seq) -> Result<(State, &'a [Recorded]), Problem> {
    let whole = log.whole();
    let count = whole.iter().take_while(|recorded| recorded.seq <= at).count();
    if whole[..count].last().is_none_or(|last| last.seq != at) {
        let first = whole.first().map_or(log.end, |first| first.seq);
        let last = whole.last().map_or(log.end, |last| last.seq);
        return Err(Problem::not_found(format!("run {run} has no readable event {at}"))
            .code("GS0626")
            .hint(format!("it has events {first} to {last}: goldseam history {run}")));
    }
    let events = &whole[..count];
    let corrupt = |corrupt| EngineError::Corrupt { run: run.clone(), corrupt };
    Ok((derive(run, events, Hash::ZERO).map_err(corrupt)?, events))
}

/// Requests that no worker has carried out yet.
fn pending(state: &State) -> Vec<PendingDoc> {
    let summary = &state.summary;
    let mut pending = Vec::new();
    if let Some(jump) = state.jump.as_ref().filter(|_| !summary.status.is_terminal()) {
        let cutoff = state.ops.get(&jump.to).map_or(Seq::ZERO, |op| op.first.before());
        pending.push(PendingDoc {
            by: jump.note.by.clone(),
            reason: jump.note.reason.clone(),
            since: summary.jump.as_ref().map(|jump| jump.at),
            to: Some(jump.to.clone()),
            undoes: state.to_undo(cutoff),
            what: Request::Jump,
        });
    }
    if let Some(reason) = summary.cancel.as_ref().filter(|_| summary.is_cancel_pending()) {
        pending.push(PendingDoc {
            by: summary.cancel_asked.as_ref().and_then(|asked| asked.by.clone()),
            reason: reason.clone(),
            since: summary.cancel_asked.as_ref().map(|asked| asked.at),
            to: None,
            undoes: state.to_undo(Seq::ZERO),
            what: Request::Cancel,
        });
    }
    pending
}

/// The declared steps, and whether each is complete.
fn plan(declared: &[StepName], rows: &[OperationDoc]) -> Vec<PlannedDoc> {
    let done = |step: &StepName| {
        rows.iter().any(|row| row.state == timeline::OperationState::Done && row.is_step(step.as_str()))
    };
    declared.iter().map(|step| PlannedDoc { step: step.clone(), done: done(step) }).collect()
}
