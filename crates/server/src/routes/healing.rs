//! What is wrong, what was healed, and who works here.

use std::sync::Arc;

use axum::extract::State;
use goldseam_api::doc::heal::{
    Checkup, Healing, HealingStats, HealingStatsQuery, NewCheckup, NewSweep, RecoveriesQuery, Sweep,
};
use goldseam_api::doc::node::{Node, Workflow};
use goldseam_api::doc::run::{ChangesQuery, Mark};
use goldseam_api::doc::{Items, PAGE_MAX, Page};
use goldseam_api::{Api, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, Query};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(recoveries))
        .routes(routes!(stats))
        .routes(routes!(sweep))
        .routes(routes!(doctor))
        .routes(routes!(nodes))
        .routes(routes!(workflows))
        .routes(routes!(changes))
}

/// What was healed, newest first.
#[utoipa::path(get, path = "/v1/recoveries", tag = "healing", security(("key" = ["read"])), params(RecoveriesQuery),
    responses((status = 200, body = Page<Healing>), (status = 400, body = Problem)))]
async fn recoveries(
    State(app): State<Arc<App>>,
    access: Access,
    Query(mut query): Query<RecoveriesQuery>,
) -> JsonResult<Page<Healing>> {
    app.cursors("recoveries", &access).open(&mut query.after)?;
    let page = access.namespace.api.recoveries(query).await?;
    Ok(Json(app.cursors("recoveries", &access).seal(page)?))
}

/// What was healed, counted by rule.
#[utoipa::path(get, path = "/v1/recoveries/stats", tag = "healing", security(("key" = ["read"])),
    params(HealingStatsQuery),
    responses((status = 200, body = Items<HealingStats>), (status = 400, body = Problem)))]
async fn stats(access: Access, Query(query): Query<HealingStatsQuery>) -> JsonResult<Items<HealingStats>> {
    Ok(Json(access.namespace.api.recovery_stats(query).await?))
}

/// Looks over the next batch of active runs, and heals those that are stalled.
#[utoipa::path(post, path = "/v1/sweep", tag = "healing", security(("key" = ["operate"])),
    request_body = Option<NewSweep>,
    responses((status = 200, body = Sweep), (status = 400, body = Problem)))]
async fn sweep(
    access: Access,
    CallerInfo(caller): CallerInfo,
    body: Option<Body<NewSweep>>,
) -> JsonResult<Sweep> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.sweep(&caller, new).await?))
}

/// Examines the whole store by every rule; heals what can be healed if that is wanted. The answer has 500 findings at the
/// most, the worst first, and counts of all by rule and fate; `rule` narrows it.
#[utoipa::path(post, path = "/v1/doctor", tag = "healing", security(("key" = ["operate"])),
    request_body = Option<NewCheckup>,
    responses((status = 200, body = Checkup), (status = 400, body = Problem)))]
async fn doctor(
    access: Access,
    CallerInfo(caller): CallerInfo,
    body: Option<Body<NewCheckup>>,
) -> JsonResult<Checkup> {
    let mut new = body.map(|Body(new)| new).unwrap_or_default();
    match new.limit.get_or_insert(PAGE_MAX) {
        1..=PAGE_MAX => {}
        other => {
            let words = format!("an answer holds 1 to {PAGE_MAX} findings, not {other}");
            return Err(Problem::bad_request(words).limit(u64::from(PAGE_MAX)).into());
        }
    }
    Ok(Json(access.namespace.api.doctor(&caller, new, &mut |_| ()).await?))
}

/// Engines that work on the store, or did.
#[utoipa::path(get, path = "/v1/nodes", tag = "nodes", security(("key" = ["read"])),
    responses((status = 200, body = Items<Node>), (status = 503, body = Problem)))]
async fn nodes(access: Access) -> JsonResult<Items<Node>> {
    Ok(Json(access.namespace.api.nodes().await?))
}

/// Workflows that live nodes have.
#[utoipa::path(get, path = "/v1/workflows", tag = "nodes", security(("key" = ["read"])),
    responses((status = 200, body = Items<Workflow>), (status = 503, body = Problem)))]
async fn workflows(access: Access) -> JsonResult<Items<Workflow>> {
    Ok(Json(access.namespace.api.workflows().await?))
}

/// Returns once something may have changed since a mark, or after a while.
#[utoipa::path(get, path = "/v1/changes", tag = "nodes", security(("key" = ["read"])),
    params(ChangesQuery),
    responses((status = 200, body = Mark), (status = 400, body = Problem)))]
async fn changes(
    State(app): State<Arc<App>>,
    access: Access,
    Query(query): Query<ChangesQuery>,
) -> JsonResult<Mark> {
    let now = ChangesQuery { wait_ms: None, ..query };
    let mark = tokio::select! {
        mark = access.namespace.api.changed(query) => mark?,
        () = app.left() => access.namespace.api.changed(now).await?,
    };
    Ok(Json(mark))
}
