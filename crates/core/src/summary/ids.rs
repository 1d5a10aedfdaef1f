//! The ids of commands, by which a repeated one is recognised.

use crate::event::{Event, RequestWithdrawn};
use crate::id::RunId;

/// The id by which a repeated command from outside is recognised, on whatever branch it was taken.
pub fn command_id(event: &Event) -> Option<String> {
    match event {
        Event::SignalReceived { id, .. } | Event::InputAnswered { id, .. } => Some(id.clone()),
        Event::RunPaused(note)
        | Event::RunResumed(note)
        | Event::RunCancelRequested(note)
        | Event::RequestWithdrawn(RequestWithdrawn { note, .. })
        | Event::NoteAdded(note)
        | Event::VersionChanged { note: Some(note), .. } => Some(note.id.clone()),
        Event::RunCancelled { terminated: Some(terminated), .. } => Some(terminated.note.id.clone()),
        Event::JumpRequested(jump) => Some(jump.note.id.clone()),
        Event::ChildCompleted { run, .. } | Event::ChildFailed { run, .. } => Some(child_command(run)),
        _ => None,
    }
}

/// The id under which a child's end is remembered: set apart, as a signal may be named like a run.
pub(crate) fn child_command(run: &RunId) -> String {
    format!("child:{run}")
}

/// Ownership and notes are of the run; what steps did is of a branch.
pub(crate) fn is_run_wide(event: &Event) -> bool {
    matches!(
        event,
        Event::RunQueued(_)
            | Event::RunStarted
            | Event::RunClaimed(_)
            | Event::RunReleased { .. }
            | Event::RunRecovered(_)
            | Event::RunPruned(_)
            | Event::RequestWithdrawn(_)
            | Event::NoteAdded(_)
            | Event::VersionChanged { .. }
    )
}
