//! What a row says about waits and length.

use super::Summary;
use crate::event::Event;
use crate::form::fits;
use crate::time::Millis;

impl Summary {
    /// Returns when the run must be looked at again if nothing else happens.
    pub fn due(&self) -> Option<Millis> {
        let waits = self.waits.iter().filter_map(|wait| wait.due);
        waits.chain(self.begins_at()).chain(self.times_out_at()).min()
    }

    /// Returns the number of events from where loading may begin.
    pub fn length(&self) -> u64 {
        self.as_of.0.saturating_sub(self.base.0)
    }

    /// Returns how many events the run itself has caused: mail extends a log without any progress.
    pub fn moves(&self) -> u64 {
        self.as_of.0.saturating_sub(u64::from(self.mail_count))
    }

    /// Returns whether this mail ends an open wait.
    pub fn awaits(&self, mail: &Event) -> bool {
        self.waits.iter().any(|wait| match mail {
            Event::SignalReceived { name, payload, .. } => {
                wait.wants(name).is_some_and(|schema| schema.is_none_or(|schema| fits(schema, payload)))
            }
            Event::InputAnswered { question, .. } => wait.inputs.contains(question),
            Event::ChildCompleted { run, .. } | Event::ChildFailed { run, .. } => wait.children.contains(run),
            _ => false,
        })
    }
}
