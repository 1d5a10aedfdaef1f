//! The interface over HTTP.
//!
//! **Invariant:** a change carries an idempotency key, and a repeat carries the same one. The client therefore repeats
//! a request whose response was lost, and the server carries it out once.

mod commands;
mod follow;
mod healing;
mod http;
mod keys;
mod locks;
mod nodes;
mod passes;
mod retention;
mod runs;
mod sse;
mod tasks;
mod workers;

use std::time::Duration;

use goldseam::RunId;
use serde::de::DeserializeOwned;

use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::change::Reason;
use http::run_path;

pub use http::Remote;

/// How long an examination of a whole store may take.
const EXAMINATION_MAX: Duration = Duration::from_secs(3_600);

impl Remote {
    /// Posts a change of a run that carries only an actor and a reason.
    async fn post_reason<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        run: &RunId,
        verb: &str,
        reason: Reason,
    ) -> Answer<T> {
        let reason = Reason { by: reason.by.or_else(|| caller.who.clone()), ..reason };
        self.post(caller, run_path(run, verb), &reason).await
    }
}
