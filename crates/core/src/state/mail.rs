//! Unread mail that no open wait accepts.

use super::{Mail, State};
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
                if let Mail::Signal { name, payload } = mail
                    && let Some(Some(schema)) = wait.wants(name)
                    && !fits(schema, payload)
                {
                    found.push((wait.path.clone(), name.clone(), *seq, schema.clone()));
                }
            }
        }
        found
    }
}
