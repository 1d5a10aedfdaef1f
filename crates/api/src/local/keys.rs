//! Keys of a server. With direct access to the main store every namespace is visible, through a server only its own.

use async_trait::async_trait;

use super::LocalApi;
use crate::api::{ApiResult, KeysApi};
use crate::caller::Caller;
use crate::credentials::NAMESPACE_DEFAULT;
use crate::doc::ItemsDoc;
use crate::doc::key::{CreatedKeyDoc, CurrentKeyDoc, KeyDoc, NewKey, Scope};
use crate::problem::Problem;

impl LocalApi {
    /// Whether this interface may see and change keys of a namespace.
    fn reaches(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

#[async_trait]
impl KeysApi for LocalApi {
    /// Direct access to a store has every right. A server answers with the key of the request instead.
    async fn current_key(&self) -> ApiResult<CurrentKeyDoc> {
        Ok(CurrentKeyDoc {
            id: None,
            name: "local".to_owned(),
            namespace: self.namespace.clone().unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned()),
            queues: None,
            scopes: Scope::ALL.into_iter().collect(),
        })
    }

    async fn keys(&self) -> ApiResult<ItemsDoc<KeyDoc>> {
        let mut items = self.keys.list().await?;
        items.retain(|key| self.reaches(&key.namespace));
        Ok(items.into())
    }

    async fn create_key(&self, caller: &Caller, mut new: NewKey) -> ApiResult<CreatedKeyDoc> {
        if let Some(own) = &self.namespace {
            if new.namespace.as_ref().is_some_and(|namespace| namespace != own) {
                return Err(
                    Problem::new(403, "a key may create keys for its own namespace only").code("GS0602")
                );
            }
            new.namespace = Some(own.clone());
        }
        let (key, credential) = self.keys.create(new, caller).await?;
        Ok(CreatedKeyDoc { key, credential: credential.reveal().to_owned() })
    }

    async fn revoke_key(&self, caller: &Caller, id: &str) -> ApiResult<KeyDoc> {
        if self.namespace.is_some() && !self.keys().await?.items.iter().any(|key| key.id == id) {
            return Err(Problem::not_found("key not found").hint("goldseam key list shows all keys"));
        }
        self.keys.revoke(id, caller.who.as_deref()).await
    }
}
