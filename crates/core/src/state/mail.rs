//! Mail that no wait can take.

use super::{Mail, State};
use crate::form::fits;
use crate::id::SignalName;
use crate::path::Path;
use crate::time::Seq;

impl State {
    /// Unread signals that an open wait looks for by name and that do not fit it: the wait, the name, where each stands, and
    /// what its content must look like.
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
