//! Passes of a server.

use goldseam::RunId;

use super::Remote;
use super::http::{NO_BODY, segment};
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::pass::{MadePass, NewPass, Rotated};

impl Remote {
    /// Creates a pass. Not repeated if the response is lost: the server shows the pass only once.
    pub async fn create_pass(&self, caller: &Caller, run: &RunId, new: &NewPass) -> Answer<MadePass> {
        let path = format!("/v1/runs/{}/passes", segment(run.as_str()));
        self.send(self.change(caller, path, new)?.not_repeatable()).await
    }

    /// Rotates the signing key of passes; passes from before the previous rotation become invalid. Not repeated if the
    /// response is lost: two rotations in a row invalidate every pass.
    pub async fn rotate_passes(&self, caller: &Caller) -> Answer<Rotated> {
        self.send(self.change(caller, "/v1/passes/rotate", NO_BODY)?.not_repeatable()).await
    }
}
