//! Keys: made, listed and revoked by whoever may.

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

/// The keys of this namespace.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", security(("key" = ["admin"])),
    responses((status = 200, body = Items<Key>), (status = 403, body = Problem)))]
async fn list(State(app): State<Arc<App>>, access: Access) -> JsonResult<Items<Key>> {
    let mut items = app.keyring.keys.list().await?;
    items.retain(|key| key.namespace == access.namespace.name);
    Ok(Json(items.into()))
}

/// Makes a key for this namespace. Its credential is in the answer, and nowhere else.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", security(("key" = ["admin"])), request_body = NewKey,
    responses((status = 200, body = MadeKey), (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 409, body = Problem)))]
async fn create(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    Body(mut new): Body<NewKey>,
) -> JsonResult<MadeKey> {
    let own = access.namespace.name.clone();
    if new.namespace.as_ref().is_some_and(|namespace| *namespace != own) {
        return Err(Problem::new(403, "a key can be made for one's own namespace only")
            .code("GS0602")
            .into());
    }
    new.namespace = Some(own);
    let (key, credential) = app.keyring.keys.create(new, &caller).await?;
    app.keyring.forget().await;
    Ok(Json(MadeKey { key, credential: credential.reveal().to_owned() }))
}

/// Revokes a key of this namespace, for good.
#[utoipa::path(post, path = "/v1/keys/{key}/revoke", tag = "keys", security(("key" = ["admin"])),
    params(("key" = String, Path, description = "its id")),
    responses((status = 200, body = Key), (status = 404, body = Problem)))]
async fn revoke(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(id): PathParam<String>,
) -> JsonResult<Key> {
    let known = app.keyring.keys.list().await?;
    if !known.iter().any(|key| key.id == id && key.namespace == access.namespace.name) {
        return Err(Problem::not_found("there is no such key").hint("goldseam key list lists them").into());
    }
    let key = app.keyring.keys.revoke(&id, caller.who.as_deref()).await?;
    app.keyring.forget().await;
    Ok(Json(key))
}
