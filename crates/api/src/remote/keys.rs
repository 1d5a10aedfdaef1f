//! Keys over HTTP: those of the caller's namespace.

use async_trait::async_trait;

use super::Remote;
use super::http::{NO_BODY, NO_QUERY, segment};
use crate::api::{Answer, KeysApi};
use crate::caller::Caller;
use crate::doc::Items;
use crate::doc::key::{CreatedKey, Key, NewKey};

#[async_trait]
impl KeysApi for Remote {
    async fn keys(&self) -> Answer<Items<Key>> {
        self.get("/v1/keys", NO_QUERY).await
    }

    async fn create_key(&self, caller: &Caller, new: NewKey) -> Answer<CreatedKey> {
        // Not repeated if the response is lost: the server shows the credential only once.
        self.send(self.change(caller, "/v1/keys", &new)?.not_repeatable()).await
    }

    async fn revoke_key(&self, caller: &Caller, id: &str) -> Answer<Key> {
        self.post(caller, format!("/v1/keys/{}/revoke", segment(id)), NO_BODY).await
    }
}
