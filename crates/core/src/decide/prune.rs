//! Pruning: a tombstone replaces the log of a run that has ended and is archived. It accepts no further commands.

use super::{Decision, Refusal, TaskMove, View};
use crate::command::Prune;
use crate::event::{Event, RunPruned};
use crate::state::Outcome;
use crate::summary::Summary;
use crate::time::Millis;

pub(super) fn prune(view: View<'_>, prune: &Prune, now: Millis) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    if summary.pruned.is_some() {
        return Ok(Decision::default());
    }
    if !summary.status.is_terminal() {
        return Err(Refusal::NotPrunable { why: "it has not ended" });
    }
    if summary.as_of != prune.at {
        return Err(Refusal::NotPrunable { why: "it changed after it was archived" });
    }
    let state = view.state()?;
    let ended = match state.outcome.clone() {
        Some(Outcome::Completed(output)) => Event::RunCompleted { output },
        Some(Outcome::Failed(failure)) => Event::RunFailed { failure },
        Some(Outcome::Cancelled(reason)) => {
            Event::RunCancelled { reason, terminated: state.terminated.clone() }
        }
        None => return Err(Refusal::NotPrunable { why: "its log does not say how it ended" }),
    };
    let pruned = RunPruned {
        note: prune.note.clone(),
        archive: prune.archive.clone(),
        sha256: prune.sha256.clone(),
        events: prune.at.0,
        summary: Box::new(state.summary.clone()),
        ended: Box::new(ended),
    };
    Ok(Decision::new(now, vec![Event::RunPruned(pruned)], TaskMove::Remove))
}

/// Refuses every event after a tombstone.
pub(super) fn refuse_archived(summary: &Summary) -> Result<(), Refusal> {
    match &summary.pruned {
        Some(pruned) => Err(Refusal::Archived { archive: pruned.archive.clone() }),
        None => Ok(()),
    }
}
