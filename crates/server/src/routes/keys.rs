//! API keys: create, list and revoke them.

use std::sync::Arc;

use axum::extract::State;
use goldseam_api::Problem;
use goldseam_api::doc::Items;
use goldseam_api::doc::key::{Key, MadeKey, NewKey};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, PathParam};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// Lists the keys of this namespace.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", responses((status = 200, body = Items<Key>)))]
async fn list(State(app): State<Arc<App>>, access: Access) -> JsonResult<Items<Key>> {
    let mut items = app.keyring.keys.list().await?;
    items.retain(|key| key.namespace == access.namespace.name);
    Ok(Json(items.into()))
}

/// Creates a key for this namespace. Only this response contains its credential.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", request_body = NewKey,
    responses((status = 200, body = MadeKey)))]
async fn create(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    Body(mut new): Body<NewKey>,
) -> JsonResult<MadeKey> {
    let own = access.namespace.name.clone();
    if new.namespace.as_ref().is_some_and(|namespace| *namespace != own) {
        return Err(Problem::new(403, "a key may create keys for its own namespace only")
            .code("GS0602")
            .into());
    }
    new.namespace = Some(own);
    let (key, credential) = app.keyring.keys.create(new, &caller).await?;
    app.keyring.forget().await;
    Ok(Json(MadeKey { key, credential: credential.reveal().to_owned() }))
}

/// Revokes a key of this namespace permanently.
#[utoipa::path(post, path = "/v1/keys/{key}/revoke", tag = "keys", responses((status = 200, body = Key)))]
async fn revoke(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(id): PathParam<String>,
) -> JsonResult<Key> {
    let known = app.keyring.keys.list().await?;
    if !known.iter().any(|key| key.id == id && key.namespace == access.namespace.name) {
        return Err(Problem::not_found("key not found").hint("goldseam key list shows all keys").into());
    }
    let key = app.keyring.keys.revoke(&id, caller.who.as_deref()).await?;
    app.keyring.forget().await;
    Ok(Json(key))
}
