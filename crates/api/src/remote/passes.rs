//! Passes of a server.

use goldseam::RunId;

use super::Remote;
use super::http::{NO_BODY, segment};
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::pass::{MadePass, NewPass, Rotated};

impl Remote {
    /// Makes a pass. Not asked again if the answer is lost: it is told once.
    pub async fn create_pass(&self, caller: &Caller, run: &RunId, new: &NewPass) -> Answer<MadePass> {
        let path = format!("/v1/runs/{}/passes", segment(run.as_str()));
        self.ask(self.change(caller, path, new)?.once()).await
    }

    /// Passes are made with something new from now on; those of the time before the last change open nothing more. Not
    /// asked again if the answer is lost: twice in a row ends every pass there is.
    pub async fn rotate_passes(&self, caller: &Caller) -> Answer<Rotated> {
        self.ask(self.change(caller, "/v1/passes/rotate", NO_BODY)?.once()).await
    }
}
