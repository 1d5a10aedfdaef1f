//! Passes over HTTP.

use async_trait::async_trait;
use goldseam::RunId;

use super::Remote;
use super::http::{NO_BODY, run_path};
use crate::api::{Answer, PassesApi};
use crate::caller::Caller;
use crate::doc::pass::{CreatedPass, NewPass, RotatedPasses};

#[async_trait]
impl PassesApi for Remote {
    async fn create_pass(&self, caller: &Caller, run: &RunId, new: NewPass) -> Answer<CreatedPass> {
        // Not repeated if the response is lost: the server shows the pass only once.
        self.send(self.change(caller, run_path(run, "passes"), &new)?.not_repeatable()).await
    }

    async fn rotate_passes(&self, caller: &Caller) -> Answer<RotatedPasses> {
        // Not repeated if the response is lost: two rotations in a row invalidate every pass.
        self.send(self.change(caller, "/v1/passes/rotate", NO_BODY)?.not_repeatable()).await
    }
}
