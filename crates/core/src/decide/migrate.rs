//! Moving a run to another version of its workflow, on an operator's request.

use super::prune::refuse_archived;
use super::{Decision, Refusal, TaskMove, View};
use crate::command::Migrate;
use crate::event::{Event, Release};
use crate::time::Millis;

/// Appends `version.changed` and creates a new advance task, because the old one names the old version.
///
/// Refuses a run that a live node executes: a second node would begin the step that the first one is executing.
pub(super) fn migrate(view: View<'_>, migrate: &Migrate, now: Millis) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    if view.has_seen(&migrate.note.id)? {
        return Ok(Decision::default());
    }
    refuse_archived(summary)?;
    if summary.status.is_terminal() {
        return Err(Refusal::Finished { status: summary.status });
    }
    if migrate.to == 0 {
        return Err(Refusal::NothingToDo { why: "versions start at 1" });
    }
    if migrate.to == summary.version {
        return Err(Refusal::NothingToDo { why: "the run is already on this version" });
    }
    if let Some(owner) = &summary.owner
        && migrate.lost.as_ref() != Some(owner)
    {
        return Err(Refusal::Owned { owner: owner.clone() });
    }
    let reason = migrate.note.reason.clone();
    let from = summary.version;
    let to = migrate.to;
    let note = Some(migrate.note.clone());
    let task = match summary.paused {
        true => TaskMove::Renew(summary.stopped_until()),
        false => TaskMove::Ready,
    };
    // An event ends the lost owner's claim, as it does for every claim.
    let released = summary.owner.as_ref().map(|_| Event::RunReleased { reason: Release::HandOver });
    let changed = Event::VersionChanged { from, to, reason, note };
    Ok(Decision::new(now, released.into_iter().chain([changed]).collect(), task))
}
