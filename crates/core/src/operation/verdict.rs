//! The judgement of a canary: did a run pass what it had failed at?

use super::Relapse;
use crate::branch::Why;
use crate::event::{Event, Recorded};
use crate::hash::Hash;
use crate::path::Path;
use crate::state::{OpKind, State, StepOp, StepProgress, derive};
use crate::summary::{Status, Trouble, command_id};
use crate::time::Seq;

/// The state of a run after the action of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CanaryVerdict {
    /// The operation did not act on it.
    Untouched,
    /// It passed the step that had failed, or completed.
    Passed,
    /// It has neither passed nor failed; the text says what it does.
    Pending(Relapse),
    /// It failed or parked again, or was cancelled.
    Relapsed(Relapse),
}

/// Judges a run by its whole log, after the action with this id.
///
/// A run that a retry took back to a step has passed when that step has completed on the active branch after the action.
/// A run without such a step has passed when it made progress or waits for something else than a retry.
pub fn verdict(history: &[Recorded], state: &State, id: &str) -> CanaryVerdict {
    let Some(at) = history.iter().position(|recorded| command_id(&recorded.event).as_deref() == Some(id))
    else {
        return CanaryVerdict::Untouched;
    };
    let action = &history[at];
    let step = history[at..].iter().find_map(|recorded| match &recorded.event {
        Event::BranchOpened(opened) if recorded.write == action.write => match &opened.why {
            Why::Retry { from } => from.clone(),
            _ => None,
        },
        _ => None,
    });
    let summary = &state.summary;
    let before = || {
        let derived = derive(&summary.run, &history[..at], Hash::ZERO).ok();
        derived.and_then(|state| state.summary.trouble)
    };
    let relapse = |what: String, trouble: Option<&Trouble>| Relapse {
        run: summary.run.clone(),
        what,
        cause_before: before().map(|trouble| trouble.cause),
        cause: trouble.map(|trouble| trouble.cause.clone()),
        step: step.clone(),
    };
    match (summary.status, &summary.trouble) {
        (Status::Completed, _) => return CanaryVerdict::Passed,
        (status @ (Status::Failed | Status::Parked), trouble) => {
            let why = trouble.as_ref().map(|trouble| trouble.message.as_str()).unwrap_or_default();
            return CanaryVerdict::Relapsed(relapse(format!("{status} again: {why}"), trouble.as_ref()));
        }
        (Status::Cancelled, _) => {
            return CanaryVerdict::Relapsed(relapse("it was cancelled".to_owned(), None));
        }
        _ => {}
    }
    let acted = history[at..].iter().take_while(|recorded| recorded.write == action.write).last();
    let acted = acted.map_or(action.seq, |last| last.seq);
    if summary.base > acted || has_passed(state, step.as_ref(), acted) {
        return CanaryVerdict::Passed;
    }
    let doing = match &step {
        Some(step) => format!("it is {} and has not passed {step}", summary.status),
        None => format!("it is {} and has made no progress", summary.status),
    };
    CanaryVerdict::Pending(relapse(doing, None))
}

fn has_passed(state: &State, step: Option<&Path>, acted: Seq) -> bool {
    let is_completed =
        |kind: &OpKind| matches!(kind, OpKind::Step(StepOp { progress: StepProgress::Completed(_), .. }));
    match step {
        Some(step) => state.ops.get(step).is_some_and(|op| op.last > acted && is_completed(&op.kind)),
        None => {
            let summary = &state.summary;
            // A wait from before the action proves nothing until a node has replayed the run up to it.
            let replayed = summary.epoch > acted && summary.owner.is_none();
            let waits_well = summary.waits.iter().any(|wait| match state.ops.get(&wait.path) {
                Some(op) => !matches!(op.kind, OpKind::Step(_)) && (replayed || op.first > acted),
                None => false,
            });
            let progressed = state.ops.values().any(|op| op.last > acted && is_completed(&op.kind));
            progressed || waits_well && !summary.paused
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Owned};
    use crate::error::Failure;
    use crate::event::Release;
    use crate::testing::*;
    use crate::time::Millis;

    fn failed(message: &str) -> Log {
        let failure = Failure::terminal(message);
        Log::running().completed("price").failed("charge", None).owned(vec![Owned::Fail(failure)])
    }

    fn judged(log: &Log) -> CanaryVerdict {
        verdict(&log.records, log.state(), "op")
    }

    fn is_pending(log: &Log) -> bool {
        matches!(judged(log), CanaryVerdict::Pending(_))
    }

    #[test]
    fn a_retried_run_passes_with_the_step_that_had_failed() {
        let log = failed("card declined");
        assert_eq!(judged(&log), CanaryVerdict::Untouched);
        let log = log.act(Command::Retry(note("op")));
        assert!(is_pending(&log));
        let log = log.claimed("n-2");
        assert!(is_pending(&log), "a claim proves nothing");
        let log = log.completed("email");
        assert!(is_pending(&log), "another step proves nothing");
        assert_eq!(judged(&log.completed("charge")), CanaryVerdict::Passed);
    }

    #[test]
    fn a_relapse_names_both_causes() {
        let log = failed("card declined").act(Command::Retry(note("op"))).claimed("n-2");
        let before = failed("card declined").state().summary.trouble.clone().unwrap().cause;
        for (message, same) in [("card declined", true), ("no money", false)] {
            let again = Failure::terminal(message);
            let log = log.clone().failed("charge", None).owned(vec![Owned::Fail(again)]);
            let CanaryVerdict::Relapsed(relapse) = judged(&log) else { panic!("{message}") };
            assert_eq!(relapse.cause_before.as_ref(), Some(&before));
            assert_eq!(relapse.cause == relapse.cause_before, same, "{message}");
            assert_eq!(relapse.step, Some(path("charge")));
            assert!(relapse.what.starts_with("failed again: "), "{}", relapse.what);
        }
        let parked = log.clone().owned(vec![Owned::Park { code: "V1", reason: "step 3 differs".into() }]);
        assert!(matches!(judged(&parked), CanaryVerdict::Relapsed(_)));
        let retrying = log.failed("charge", Some(Millis(1_000)));
        assert!(is_pending(&retrying), "a retry of the step is not a relapse");
    }

    #[test]
    fn a_resumed_run_passes_with_any_progress() {
        let parked = Log::running()
            .waits("wait", &["go"])
            .owned(vec![Owned::Park { code: "V1", reason: "step 3 differs".into() }]);
        let log = parked.act(Command::Resume(note("op")));
        assert!(is_pending(&log), "a wait from before the action proves nothing");
        let log = log.claimed("n-2");
        assert!(is_pending(&log));
        assert_eq!(judged(&log.clone().completed("email")), CanaryVerdict::Passed);
        assert_eq!(judged(&log.clone().released(Release::Unload)), CanaryVerdict::Passed, "it waits again");
        assert_eq!(judged(&log.finishes()), CanaryVerdict::Passed);
    }
}
