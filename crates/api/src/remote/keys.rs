//! The keys of a server.

use super::Remote;
use super::http::{NO_BODY, NO_QUERY, segment};
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::Items;
use crate::doc::key::{Key, MadeKey, NewKey};

impl Remote {
    /// The keys of the namespace.
    pub async fn keys(&self) -> Answer<Items<Key>> {
        self.get("/v1/keys", NO_QUERY).await
    }

    /// Makes a key. Not asked again if the answer is lost: its credential is told once.
    pub async fn create_key(&self, caller: &Caller, new: &NewKey) -> Answer<MadeKey> {
        self.ask(self.change(caller, "/v1/keys", new)?.once()).await
    }

    /// Revokes a key, for good.
    pub async fn revoke_key(&self, caller: &Caller, id: &str) -> Answer<Key> {
        self.post(caller, format!("/v1/keys/{}/revoke", segment(id)), NO_BODY).await
    }
}
