//! The interface over a store in this process.

mod commands;
mod follow;
mod healing;
mod idempotency;
mod limit;
mod locks;
mod nodes;
mod retention;
mod runs;
mod tasks;

use std::sync::Arc;

use goldseam::core::argument;
use goldseam::{Client, Limits, Payload};

use crate::caller::Caller;
use crate::problem::Problem;

pub use limit::open_queue;

/// The interface over a store in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Local {
    client: Client,
    sweepers: Arc<healing::Sweepers>,
}

impl Local {
    /// Wraps a client of the store.
    pub fn new(client: Client) -> Self {
        Self { client, sweepers: Arc::default() }
    }

    /// The client of the store.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn limits(&self) -> &Limits {
        &self.client.ledger().limits
    }

    /// Checks a payload against the limits and returns it in its stored form.
    fn payload(&self, payload: &Payload) -> Result<Payload, Problem> {
        Ok(Payload::parse(payload.as_str(), self.limits())?)
    }

    fn check_text(&self, what: &str, text: &str) -> Result<(), Problem> {
        limit::text(what, text, self.limits())
    }

    /// Checks an id that deduplicates requests.
    fn check_id(&self, id: Option<&str>) -> Result<(), Problem> {
        let id = id.unwrap_or_default();
        self.check_text("the id", id)?;
        Ok(argument::text("the id", id)?)
    }

    /// The actor for the log: the authenticated caller, and the name that the request gives.
    fn who(&self, caller: &Caller, by: Option<String>) -> Result<Option<String>, Problem> {
        for name in [&caller.who, &by].into_iter().flatten() {
            self.check_text("the name", name)?;
            argument::text("the name", name)?;
        }
        Ok(match (&caller.who, by) {
            (Some(who), Some(by)) if *who != by => Some(format!("{by} via {who}")),
            (who, by) => who.clone().or(by),
        })
    }
}
