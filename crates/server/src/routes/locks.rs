//! Named locks.

use std::sync::Arc;

use axum::extract::State;
use goldseam::core::LockName;
use goldseam::core::lock::Lock;
use goldseam::engine::claims::StaleLock;
use goldseam_api::doc::key::Scope;
use goldseam_api::doc::lock::{Extension, LocksQuery, NewHold, NewRelease, Released};
use goldseam_api::doc::{Items, Page};
use goldseam_api::{LocksApi, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Body, By, In, Named, Query};
use crate::reply::{Answer, Json};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(stale))
        .routes(routes!(get))
        .routes(routes!(acquire))
        .routes(routes!(extend))
        .routes(routes!(release))
}

/// Lists locks, in order of name.
#[utoipa::path(get, path = "/v1/locks", tag = "locks", security(("key" = ["read"])), params(LocksQuery),
    responses((status = 200, body = Page<Lock>), (status = 400, body = Problem)))]
async fn list(
    State(app): State<Arc<App>>,
    place: In,
    Query(mut query): Query<LocksQuery>,
) -> Answer<Page<Lock>> {
    app.cursors("locks", &place).open(&mut query.after)?;
    let page = place.space.api.locks(query).await?;
    Ok(Json(app.cursors("locks", &place).seal(page)?))
}

/// Locks that nobody alive holds.
#[utoipa::path(get, path = "/v1/locks/stale", tag = "locks", security(("key" = ["read"])),
    responses((status = 200, body = Items<StaleLock>), (status = 400, body = Problem)))]
async fn stale(place: In) -> Answer<Items<StaleLock>> {
    Ok(Json(place.space.api.stale_locks().await?))
}

/// One lock.
#[utoipa::path(get, path = "/v1/locks/{lock}", tag = "locks", security(("key" = ["read"])),
    params(("lock" = String, Path, description = "the lock")),
    responses((status = 200, body = Lock), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn get(place: In, Named(lock): Named<LockName>) -> Answer<Lock> {
    Ok(Json(place.space.api.lock(&lock).await?))
}

/// Takes a lock that is free or expired.
#[utoipa::path(post, path = "/v1/locks/{lock}/acquire", tag = "locks", security(("key" = ["worker"])),
    params(("lock" = String, Path, description = "the lock")),
    request_body = NewHold,
    responses((status = 200, body = Lock), (status = 400, body = Problem), (status = 409, body = Problem)))]
async fn acquire(
    place: In,
    By(caller): By,
    Named(lock): Named<LockName>,
    Body(new): Body<NewHold>,
) -> Answer<Lock> {
    Ok(Json(place.space.api.acquire_lock(&caller, &lock, new).await?))
}

/// Refuses the hold of another key: its holder and its fence can be read, and are no secret.
async fn check_hold(place: &In, name: &LockName, fence: u64) -> Result<(), Problem> {
    let In { space, principal } = place;
    if principal.scopes.contains(&Scope::Operate) {
        return Ok(());
    }
    // A lock that was taken again meanwhile has another fence, and is refused for that.
    let held =
        space.client().locks().get(name).await?.filter(|lock| lock.fence == fence && lock.holder.is_some());
    match held.is_none_or(|lock| lock.credential() == principal.key.as_deref()) {
        true => Ok(()),
        false => Err(Problem::new(403, format!("lock {name} is held with another key"))
            .code("GS0602")
            .hint("use the key that took it, or one with the scope operate")),
    }
}

/// Holds on to a lock.
#[utoipa::path(post, path = "/v1/locks/{lock}/extend", tag = "locks", security(("key" = ["worker"])),
    params(("lock" = String, Path, description = "the lock")),
    request_body = Extension,
    responses((status = 200, body = Lock), (status = 400, body = Problem), (status = 409, body = Problem)))]
async fn extend(
    place: In,
    By(caller): By,
    Named(lock): Named<LockName>,
    Body(new): Body<Extension>,
) -> Answer<Lock> {
    check_hold(&place, &lock, new.fence).await?;
    Ok(Json(place.space.api.extend_lock(&caller, &lock, new).await?))
}

/// Lets a lock go.
#[utoipa::path(post, path = "/v1/locks/{lock}/release", tag = "locks", security(("key" = ["worker"])),
    params(("lock" = String, Path, description = "the lock")),
    request_body = NewRelease,
    responses((status = 200, body = Released), (status = 400, body = Problem), (status = 409, body = Problem)))]
async fn release(
    place: In,
    By(caller): By,
    Named(lock): Named<LockName>,
    Body(new): Body<NewRelease>,
) -> Answer<Released> {
    check_hold(&place, &lock, new.fence).await?;
    Ok(Json(place.space.api.release_lock(&caller, &lock, new).await?))
}
