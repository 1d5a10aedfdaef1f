//! Ids of commands, which identify a repeated command.

use super::Summary;
use crate::event::{Event, RequestWithdrawn};
use crate::id::RunId;

/// Number of command ids kept to recognise a repeated command without reading the history.
const MAIL_IDS_MAX: usize = 32;

impl Summary {
    /// Returns whether the run has taken a command with this id; `None` if only the history records it.
    pub fn has_seen(&self, id: &str) -> Option<bool> {
        if self.mail_ids.iter().any(|seen| seen == id) {
            return Some(true);
        }
        let complete = usize::try_from(self.mail_count).is_ok_and(|count| count == self.mail_ids.len());
        complete.then_some(false)
    }

    pub(super) fn see(&mut self, id: String) {
        self.mail_count += 1;
        self.mail_ids.push(id);
        if self.mail_ids.len() > MAIL_IDS_MAX {
            self.mail_ids.remove(0);
        }
    }
}

/// Returns the id that identifies a repeated external command, on any branch.
pub fn command_id(event: &Event) -> Option<String> {
    match event {
        Event::SignalReceived { id, .. } | Event::InputAnswered { id, .. } => Some(id.clone()),
        Event::RunPaused(note)
        | Event::RunResumed(note)
        | Event::RequestWithdrawn(RequestWithdrawn { note, .. })
        | Event::NoteAdded(note)
        | Event::VersionChanged { note: Some(note), .. } => Some(note.id.clone()),
        Event::RunCancelled { terminated: Some(terminated), .. } => Some(terminated.note.id.clone()),
        Event::RunCancelRequested(request) => Some(request.id.clone()),
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
            | Event::RequestAnswered(_)
            | Event::VersionChanged { .. }
    )
}
