//! Requests to a run. A request is mail: a signal whose name has a prefix, and whose id the run answers.

use super::{Mail, State};
use crate::id::{ID_BYTES_MAX, IdError, SignalName};

/// Prefix of the signals that bring requests.
const PREFIX: &str = "request.";

/// Returns the name of the signal that brings requests with this name.
pub fn request_signal(name: &str) -> Result<SignalName, IdError> {
    let refuse = |reason| IdError::new("request name", name, reason);
    if name.len() > ID_BYTES_MAX - PREFIX.len() {
        return Err(refuse("it is longer than 120 bytes"));
    }
    SignalName::new(name).map_err(|error| refuse(error.reason))?;
    SignalName::new(format!("{PREFIX}{name}")).map_err(|error| refuse(error.reason))
}

/// Returns the name of the request that a signal with this name brings, if it brings one.
pub fn requested_name(signal: &SignalName) -> Option<&str> {
    signal.as_str().strip_prefix(PREFIX).filter(|name| !name.is_empty())
}

impl State {
    /// Returns the unread requests: name and id, oldest first.
    pub fn unread_requests(&self) -> Vec<(&str, &str)> {
        let mut requests = Vec::new();
        for mail in self.unread.values() {
            if let Mail::Signal { name, id, .. } = mail
                && let Some(name) = requested_name(name)
            {
                requests.push((name, id.as_str()));
            }
        }
        requests
    }
}
