//! API keys: create, list and revoke them.

use std::sync::Arc;

use axum::extract::State;
use goldseam_api::KeysApi;
use goldseam_api::doc::ItemsDoc;
use goldseam_api::doc::key::{CreatedKeyDoc, KeyDoc, NewKey};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, PathParam};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
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
