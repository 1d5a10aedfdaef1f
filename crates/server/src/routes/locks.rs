//! Named locks.

use std::sync::Arc;

use axum::extract::State;
use goldseam::unstable::core::LockName;
use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::engine::claims::StaleLock;
use goldseam_api::doc::key::Scope;
use goldseam_api::doc::lock::{LocksQuery, NewExtension, NewHold, NewRelease, ReleasedDoc};
use goldseam_api::doc::{ItemsDoc, PageDoc};
use goldseam_api::{LocksApi, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, PathParam, QueryParams};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(stale))
        .routes(routes!(get))
        .routes(routes!(acquire))
        .routes(routes!(extend))
        .routes(routes!(release))
}

/// Lists locks in order of name.
#[utoipa::path(get, path = "/v1/locks", tag = "locks", params(LocksQuery),
    responses((status = 200, body = PageDoc<Lock>)))]
async fn list(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(mut query): QueryParams<LocksQuery>,
) -> JsonResult<PageDoc<Lock>> {
    app.cursors("locks", &access).open(&mut query.after)?;
    let page = access.namespace.api.locks(query).await?;
    Ok(Json(app.cursors("locks", &access).seal(page)?))
}

/// Lists stale locks: expired, or held through a dead node.
#[utoipa::path(get, path = "/v1/locks/stale", tag = "locks",
    responses((status = 200, body = ItemsDoc<StaleLock>)))]
async fn stale(access: Access) -> JsonResult<ItemsDoc<StaleLock>> {
    Ok(Json(access.namespace.api.stale_locks().await?))
}

/// Returns a lock.
#[utoipa::path(get, path = "/v1/locks/{lock}", tag = "locks", responses((status = 200, body = Lock)))]
async fn get(access: Access, PathParam(lock): PathParam<LockName>) -> JsonResult<Lock> {
    Ok(Json(access.namespace.api.lock(&lock).await?))
}

/// Acquires a free or expired lock.
#[utoipa::path(post, path = "/v1/locks/{lock}/acquire", tag = "locks", request_body = NewHold,
    responses((status = 200, body = Lock)))]
async fn acquire(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(lock): PathParam<LockName>,
    JsonBody(new): JsonBody<NewHold>,
) -> JsonResult<Lock> {
    Ok(Json(access.namespace.api.acquire_lock(&caller, &lock, new).await?))
}

/// Refuses a hold of another key. Holder and fence are no proof, because both can be read.
async fn check_hold(access: &Access, name: &LockName, fence: u64) -> Result<(), Problem> {
    let Access { namespace, principal } = access;
    if principal.scopes.contains(&Scope::Operate) {
        return Ok(());
    }
    // A lock that was acquired again meanwhile has another fence, which the API refuses.
    let lock = namespace.client().locks().get(name).await?;
    let held = lock.filter(|lock| lock.fence == fence && lock.holder.is_some());
    match held.is_none_or(|lock| lock.credential() == principal.key.as_deref()) {
        true => Ok(()),
        false => Err(Problem::new(403, format!("lock {name} is held with another key"))
            .code("GS0602")
            .hint("use the key that acquired it, or one with the scope operate")),
    }
}

/// Extends the hold of a lock.
#[utoipa::path(post, path = "/v1/locks/{lock}/extend", tag = "locks", request_body = NewExtension,
    responses((status = 200, body = Lock)))]
async fn extend(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(lock): PathParam<LockName>,
    JsonBody(new): JsonBody<NewExtension>,
) -> JsonResult<Lock> {
    check_hold(&access, &lock, new.fence).await?;
    Ok(Json(access.namespace.api.extend_lock(&caller, &lock, new).await?))
}

/// Releases a lock.
#[utoipa::path(post, path = "/v1/locks/{lock}/release", tag = "locks", request_body = NewRelease,
    responses((status = 200, body = ReleasedDoc)))]
async fn release(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(lock): PathParam<LockName>,
    JsonBody(new): JsonBody<NewRelease>,
) -> JsonResult<ReleasedDoc> {
    check_hold(&access, &lock, new.fence).await?;
    Ok(Json(access.namespace.api.release_lock(&caller, &lock, new).await?))
}
