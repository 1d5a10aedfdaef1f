//! Keys over HTTP: those of the caller's namespace.

use async_trait::async_trait;

use super::RemoteApi;
use super::http::{NO_BODY, NO_QUERY, segment};
use crate::api::{ApiResult, KeysApi};
use crate::caller::Caller;
use crate::doc::ItemsDoc;
use crate::doc::key::{CreatedKeyDoc, CurrentKeyDoc, KeyDoc, NewKey};

#[async_trait]
impl KeysApi for RemoteApi {
    async fn current_key(&self) -> ApiResult<CurrentKeyDoc> {
        self.get("/v1/key", NO_QUERY).await
    }

    async fn keys(&self) -> ApiResult<ItemsDoc<KeyDoc>> {
        self.get("/v1/keys", NO_QUERY).await
    }

    async fn create_key(&self, caller: &Caller, new: NewKey) -> ApiResult<CreatedKeyDoc> {
        // Not repeated if the response is lost: the server shows the credential only once.
        self.send(self.change(caller, "/v1/keys", &new)?.not_repeatable()).await
    }

    async fn revoke_key(&self, caller: &Caller, id: &str) -> ApiResult<KeyDoc> {
        self.post(caller, format!("/v1/keys/{}/revoke", segment(id)), NO_BODY).await
    }
}
