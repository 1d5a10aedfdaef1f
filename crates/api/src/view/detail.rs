//! Everything that is shown of one run.

use goldseam::Outcome;
use goldseam::core::branch::Branches;
use goldseam::core::{Recorded, State, StepName};

use super::text::answer_line;
use super::timeline::{self, Row};
use super::{branches, log};
use crate::doc::run::{Detail, More, OpenQuestion, Planned};

/// The document of a run whose log is `history`.
pub fn detail(state: State, history: &[Recorded]) -> Detail {
    let known = Branches::of(history);
    let steps = timeline::rows(&log::seen_by(history, &known, state.summary.branch));
    let (output, failure) = match state.outcome {
        Some(Outcome::Completed(output)) => (Some(output), None),
        Some(Outcome::Failed(failure)) => (None, Some(failure)),
        _ => (None, state.failure),
    };
    let summary = state.summary;
    let question =
        |input: &_| OpenQuestion { input: Clone::clone(input), command: answer_line(&summary.run, input) };
    let more = More {
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
    };
    Detail { summary, more }
}

/// The declared steps, and whether each is complete.
fn plan(declared: &[StepName], rows: &[Row]) -> Vec<Planned> {
    let done = |step: &StepName| {
        rows.iter().any(|row| row.state == timeline::State::Done && row.is_step(step.as_str()))
    };
    declared.iter().map(|step| Planned { step: step.clone(), done: done(step) }).collect()
}
