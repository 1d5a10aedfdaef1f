//! API keys: create, list and revoke them.

use std::sync::Arc;

use axum::extract::State;
use goldseam_api::KeysApi;
use goldseam_api::doc::ItemsDoc;
use goldseam_api::doc::key::{CreatedKeyDoc, CurrentKeyDoc, KeyDoc, NewKey};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, PathParam};
use crate::principal::Principal;
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(current)).routes(routes!(list, create)).routes(routes!(revoke))
}

/// Returns the name and the scopes of the key that the request was made with.
#[utoipa::path(get, path = "/v1/key", tag = "keys", responses((status = 200, body = CurrentKeyDoc)))]
async fn current(access: Access) -> JsonResult<CurrentKeyDoc> {
    let Principal { name, key, scopes, queues } = Principal::clone(&access.principal);
    let namespace = access.namespace.name.clone();
    Ok(Json(CurrentKeyDoc { id: key, name, namespace, queues, scopes }))
}

/// Lists the keys of this namespace.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", responses((status = 200, body = ItemsDoc<KeyDoc>)))]
async fn list(access: Access) -> JsonResult<ItemsDoc<KeyDoc>> {
    Ok(Json(access.namespace.api.keys().await?))
}

/// Creates a key for this namespace. Only this response contains its credential.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", request_body = NewKey,
    responses((status = 200, body = CreatedKeyDoc)))]
async fn create(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(new): JsonBody<NewKey>,
) -> JsonResult<CreatedKeyDoc> {
    let created = access.namespace.api.create_key(&caller, new).await?;
    app.keyring.forget().await;
    Ok(Json(created))
}

/// Revokes a key of this namespace permanently.
#[utoipa::path(post, path = "/v1/keys/{key}/revoke", tag = "keys", responses((status = 200, body = KeyDoc)))]
async fn revoke(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(id): PathParam<String>,
) -> JsonResult<KeyDoc> {
    let key = access.namespace.api.revoke_key(&caller, &id).await?;
    app.keyring.forget().await;
    Ok(Json(key))
}
