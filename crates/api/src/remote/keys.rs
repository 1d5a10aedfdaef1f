//! The keys of a server.

use super::Remote;
use super::http::{NO_BODY, NO_QUERY, segment};
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::Items;
use crate::doc::key::{Key, MadeKey, NewKey};

impl Remote {
    /// Lists the keys of the namespace.
    pub async fn keys(&self) -> Answer<Items<Key>> {
        self.get("/v1/keys", NO_QUERY).await
    }

    /// Creates a key. Not repeated if the response is lost: the server shows the credential only once.
    pub async fn create_key(&self, caller: &Caller, new: &NewKey) -> Answer<MadeKey> {
        self.send(self.change(caller, "/v1/keys", new)?.not_repeatable()).await
    }

    /// Revokes a key permanently.
    pub async fn revoke_key(&self, caller: &Caller, id: &str) -> Answer<Key> {
        self.post(caller, format!("/v1/keys/{}/revoke", segment(id)), NO_BODY).await
    }
}
