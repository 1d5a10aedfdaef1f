//! Ids of commands, which identify a repeated command.

use crate::event::{Event, RequestWithdrawn};
use crate::id::RunId;

/// Returns the id that identifies a repeated external command, on any branch.
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

/// Returns the id that records a child's end. The prefix sets it apart, because a signal id may equal a run id.
pub(crate) fn child_command(run: &RunId) -> String {
    format!("child:{run}")
}

/// Returns whether an event is a fact of the run, such as ownership and notes, and not of a branch.
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
