//! Passes over HTTP.

use async_trait::async_trait;
use goldseam::RunId;

use super::RemoteApi;
use super::http::{NO_BODY, run_path};
use crate::api::{ApiResult, PassesApi};
use crate::caller::Caller;
use crate::doc::pass::{CreatedPassDoc, NewPass, RotatedPassesDoc};

#[async_trait]
impl PassesApi for RemoteApi {
    async fn create_pass(&self, caller: &Caller, run: &RunId, new: NewPass) -> ApiResult<CreatedPassDoc> {
        // Not repeated if the response is lost: the server shows the pass only once.
        self.send(self.change(caller, run_path(run, "passes"), &new)?.not_repeatable()).await
    }

    async fn rotate_passes(&self, caller: &Caller) -> ApiResult<RotatedPassesDoc> {
        // Not repeated if the response is lost: two rotations in a row invalidate every pass.
        self.send(self.change(caller, "/v1/passes/rotate", NO_BODY)?.not_repeatable()).await
    }
}
