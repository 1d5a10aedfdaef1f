//! Passes. A pass is checked and used by a server; its use is a signal or an answer of this interface.

use async_trait::async_trait;
use goldseam::RunId;

use super::LocalApi;
use crate::api::{ApiResult, PassesApi};
use crate::caller::Caller;
use crate::credentials::NAMESPACE_DEFAULT;
use crate::credentials::passes::PassCreator;
use crate::doc::pass::{CreatedPassDoc, NewPass, RotatedPassesDoc};
use crate::problem::Problem;

#[async_trait]
impl PassesApi for LocalApi {
    async fn create_pass(&self, caller: &Caller, run: &RunId, new: NewPass) -> ApiResult<CreatedPassDoc> {
        let key_expires_at = match &caller.credential {
            Some(key) => self.keys.find(key).await?.and_then(|key| key.expires_at),
            None => None,
        };
        let by = PassCreator {
            namespace: self.namespace.clone().unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned()),
            who: caller.who.clone(),
            key: caller.credential.clone(),
            key_expires_at,
            once: caller.command_id("create pass", run.as_str()),
        };
        self.passes.create(self, by, run, new).await
    }

    async fn rotate_passes(&self, caller: &Caller) -> ApiResult<RotatedPassesDoc> {
        if self.namespace.as_deref().is_some_and(|own| own != NAMESPACE_DEFAULT) {
            return Err(Problem::new(403, "only a key of the main namespace may rotate the pass secret")
                .code("GS0602")
                .hint("all namespaces share one pass secret; use a key of namespace default"));
        }
        self.passes.rotate(caller).await
    }
}
