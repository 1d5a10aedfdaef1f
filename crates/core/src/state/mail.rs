//! Mail: the ids of commands that were taken, and unread mail.

use std::collections::BTreeSet;

use super::{Mail, State};
use crate::event::WaitStarted;
use crate::form::fits;
use crate::id::SignalName;
use crate::path::Path;
use crate::time::Seq;

impl State {
    /// Returns the unread signals that an open wait looks for by name but whose content does not match: the wait, the
    /// name, the position, and the schema.
    pub fn misfits(&self) -> Vec<(Path, SignalName, Seq, serde_json::Value)> {
        let mut found = Vec::new();
        for wait in &self.summary.waits {
            for (seq, mail) in &self.unread {
                if let Mail::Signal { name, payload, .. } = mail
                    && let Some(Some(schema)) = wait.wants(name)
                    && !fits(schema, payload)
                {
                    found.push((wait.path.clone(), name.clone(), *seq, schema.clone()));
                }
            }
        }
        found
    }

    /// Returns whether a command with this id was taken, as far back as this state goes.
    pub fn has_seen(&self, id: &str) -> bool {
        self.seen.contains(id)
    }

    /// Returns whether this state knows the ids of all commands that the run ever took.
    pub(crate) fn knows_all_ids(&self) -> bool {
        usize::try_from(self.summary.mail_count).is_ok_and(|count| count <= self.seen.len())
    }

    /// Records that a command with this id was taken before this state begins.
    pub fn recall(&mut self, id: &str) {
        self.seen.insert(id.to_owned());
    }

    /// Returns the earliest unread mail that ends `wanted`, except `taken`.
    pub fn mail_for(&self, wanted: &WaitStarted, taken: &BTreeSet<Seq>) -> Option<Seq> {
        let fits = |mail: &Mail| match mail {
            Mail::Signal { name, payload, .. } => {
                wanted.signals.contains(name)
                    && wanted.schemas.get(name).is_none_or(|schema| fits(schema, payload))
            }
            Mail::Answer { question, .. } => wanted.inputs.contains(question),
            Mail::Child { run, .. } => wanted.children.contains(run),
        };
        let mut fitting = self.unread.iter().filter(|(seq, mail)| !taken.contains(*seq) && fits(mail));
        fitting.next().map(|(seq, _)| *seq)
    }
}
