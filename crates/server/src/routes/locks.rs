//! Named locks.

use std::sync::Arc;

use axum::extract::State;
use goldseam::core::LockName;
use goldseam::core::lock::Lock;
use goldseam::engine::claims::StaleLock;
use goldseam_api::doc::key::Scope;
use goldseam_api::doc::lock::{Extension, LocksQuery, NewHold, NewRelease, Released};
use goldseam_api::doc::{Items, Page};
use goldseam_api::{Api, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, PathParam, Query};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
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
    responses((status = 200, body = Page<Lock>)))]
async fn list(
    State(app): State<Arc<App>>,
    access: Access,
    Query(mut query): Query<LocksQuery>,
) -> JsonResult<Page<Lock>> {
    app.cursors("locks", &access).open(&mut query.after)?;
    let page = access.namespace.api.locks(query).await?;
    Ok(Json(app.cursors("locks", &access).seal(page)?))
}

/// Lists stale locks: expired, or held through a dead node.
#[utoipa::path(get, path = "/v1/locks/stale", tag = "locks",
    responses((status = 200, body = Items<StaleLock>)))]
async fn stale(access: Access) -> JsonResult<Items<StaleLock>> {
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
    Body(new): Body<NewHold>,
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
#[utoipa::path(post, path = "/v1/locks/{lock}/extend", tag = "locks", request_body = Extension,
    responses((status = 200, body = Lock)))]
async fn extend(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(lock): PathParam<LockName>,
    Body(new): Body<Extension>,
) -> JsonResult<Lock> {
    check_hold(&access, &lock, new.fence).await?;
    Ok(Json(access.namespace.api.extend_lock(&caller, &lock, new).await?))
}

/// Releases a lock.
#[utoipa::path(post, path = "/v1/locks/{lock}/release", tag = "locks", request_body = NewRelease,
    responses((status = 200, body = Released)))]
async fn release(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(lock): PathParam<LockName>,
    Body(new): Body<NewRelease>,
) -> JsonResult<Released> {
    check_hold(&access, &lock, new.fence).await?;
    Ok(Json(access.namespace.api.release_lock(&caller, &lock, new).await?))
}
