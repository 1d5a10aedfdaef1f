//! The interface over HTTP.
//!
//! **Invariant:** a change carries an idempotency key, and a repeat carries the same one. The client therefore repeats
//! a request whose response was lost, and the server carries it out once.

mod commands;
mod dialogue;
mod follow;
mod healing;
mod http;
mod keys;
mod locks;
mod nodes;
mod operations;
mod passes;
mod retention;
mod runs;
mod sse;
mod tasks;
mod workers;

use std::time::Duration;

use goldseam::RunId;
use serde::de::DeserializeOwned;

use crate::api::ApiResult;
use crate::caller::Caller;
use crate::doc::change::NewNote;
use http::run_path;

pub use http::RemoteApi;

/// How long an examination of a whole store may take.
const EXAMINATION_MAX: Duration = Duration::from_secs(3_600);

impl RemoteApi {
    /// Posts a change of a run that carries only an actor and a reason.
    async fn post_reason<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        run: &RunId,
        verb: &str,
        reason: NewNote,
    ) -> ApiResult<T> {
        let reason = NewNote { by: reason.by.or_else(|| caller.who.clone()), ..reason };
        self.post(caller, run_path(run, verb), &reason).await
    }
}
