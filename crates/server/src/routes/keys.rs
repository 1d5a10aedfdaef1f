//! API keys: create, list and revoke them.

use std::sync::Arc;

use axum::extract::State;
use goldseam_api::KeysApi;
use goldseam_api::doc::Items;
use goldseam_api::doc::key::{CreatedKey, Key, NewKey};
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
async fn list(access: Access) -> JsonResult<Items<Key>> {
    Ok(Json(access.namespace.api.keys().await?))
}

/// Creates a key for this namespace. Only this response contains its credential.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", request_body = NewKey,
    responses((status = 200, body = CreatedKey)))]
async fn create(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    Body(new): Body<NewKey>,
) -> JsonResult<CreatedKey> {
    let created = access.namespace.api.create_key(&caller, new).await?;
    app.keyring.forget().await;
    Ok(Json(created))
}

/// Revokes a key of this namespace permanently.
#[utoipa::path(post, path = "/v1/keys/{key}/revoke", tag = "keys", responses((status = 200, body = Key)))]
async fn revoke(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(id): PathParam<String>,
) -> JsonResult<Key> {
    let key = access.namespace.api.revoke_key(&caller, &id).await?;
    app.keyring.forget().await;
    Ok(Json(key))
}
