//! Recoveries, sweeps, the doctor, nodes and workflows.

use std::sync::Arc;

use axum::extract::State;
use goldseam_api::doc::heal::{
    CheckupDoc, ExamineQuery, HealingDoc, HealingStatsDoc, HealingStatsQuery, NewCheckup, NewSweep,
    RecoveriesQuery, SweepDoc,
};
use goldseam_api::doc::node::{NodeDoc, WorkflowDoc};
use goldseam_api::doc::run::{ChangesQuery, MarkDoc};
use goldseam_api::doc::{ItemsDoc, PAGE_MAX, PageDoc};
use goldseam_api::{HealingApi, NodesApi, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, OptionalBody, QueryParams};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(recoveries))
        .routes(routes!(stats))
        .routes(routes!(sweep))
        .routes(routes!(examine, doctor))
        .routes(routes!(nodes))
        .routes(routes!(workflows))
        .routes(routes!(changes))
}

/// Lists recoveries, newest first.
#[utoipa::path(get, path = "/v1/recoveries", tag = "healing", params(RecoveriesQuery),
    responses((status = 200, body = PageDoc<HealingDoc>)))]
async fn recoveries(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(mut query): QueryParams<RecoveriesQuery>,
) -> JsonResult<PageDoc<HealingDoc>> {
    app.cursors("recoveries", &access).open(&mut query.after)?;
    let page = access.namespace.api.recoveries(query).await?;
    Ok(Json(app.cursors("recoveries", &access).seal(page)?))
}

/// Counts recoveries by rule.
#[utoipa::path(get, path = "/v1/recoveries/stats", tag = "healing", params(HealingStatsQuery),
    responses((status = 200, body = ItemsDoc<HealingStatsDoc>)))]
async fn stats(
    access: Access,
    QueryParams(query): QueryParams<HealingStatsQuery>,
) -> JsonResult<ItemsDoc<HealingStatsDoc>> {
    Ok(Json(access.namespace.api.recovery_stats(query).await?))
}

/// Examines the next batch of active runs and heals the stalled ones.
#[utoipa::path(post, path = "/v1/sweep", tag = "healing", request_body = Option<NewSweep>,
    responses((status = 200, body = SweepDoc)))]
async fn sweep(
    access: Access,
    CallerInfo(caller): CallerInfo,
    OptionalBody(new): OptionalBody<NewSweep>,
) -> JsonResult<SweepDoc> {
    Ok(Json(access.namespace.api.sweep(&caller, new).await?))
}

/// Examines the whole store by every rule, and heals the findings if `fix` is set. The response has at most 500
/// findings, the most severe first, and counts of all findings by rule and outcome. `rule` selects one rule.
#[utoipa::path(post, path = "/v1/doctor", tag = "healing", request_body = Option<NewCheckup>,
    responses((status = 200, body = CheckupDoc)))]
async fn doctor(
    access: Access,
    CallerInfo(caller): CallerInfo,
    OptionalBody(mut new): OptionalBody<NewCheckup>,
) -> JsonResult<CheckupDoc> {
    match new.limit.get_or_insert(PAGE_MAX) {
        1..=PAGE_MAX => {}
        other => {
            let detail = format!("`limit` must be 1 to {PAGE_MAX}, not {other}");
            return Err(Problem::bad_request(detail).limit(u64::from(PAGE_MAX)).into());
        }
    }
    Ok(Json(access.namespace.api.doctor(&caller, new, &mut |_| ()).await?))
}

/// Examines the next part of the store by every rule, and changes nothing. Pass `next` as `after` until it is null.
#[utoipa::path(get, path = "/v1/doctor", tag = "healing", params(ExamineQuery),
    responses((status = 200, body = CheckupDoc)))]
async fn examine(
    access: Access,
    CallerInfo(caller): CallerInfo,
    QueryParams(query): QueryParams<ExamineQuery>,
) -> JsonResult<CheckupDoc> {
    let ExamineQuery { after, rule } = query;
    let new = NewCheckup { after, rule, page: true, limit: Some(PAGE_MAX), ..NewCheckup::default() };
    Ok(Json(access.namespace.api.doctor(&caller, new, &mut |_| ()).await?))
}

/// Lists the nodes of the store, live and dead.
#[utoipa::path(get, path = "/v1/nodes", tag = "nodes", responses((status = 200, body = ItemsDoc<NodeDoc>)))]
async fn nodes(access: Access) -> JsonResult<ItemsDoc<NodeDoc>> {
    Ok(Json(access.namespace.api.nodes().await?))
}

/// Lists the workflows of live nodes.
#[utoipa::path(get, path = "/v1/workflows", tag = "nodes", responses((status = 200, body = ItemsDoc<WorkflowDoc>)))]
async fn workflows(access: Access) -> JsonResult<ItemsDoc<WorkflowDoc>> {
    Ok(Json(access.namespace.api.workflows().await?))
}

/// Returns when something may have changed since a mark, or after a while.
#[utoipa::path(get, path = "/v1/changes", tag = "nodes", params(ChangesQuery),
    responses((status = 200, body = MarkDoc)))]
async fn changes(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(query): QueryParams<ChangesQuery>,
) -> JsonResult<MarkDoc> {
    let without_wait = ChangesQuery { wait_ms: None, ..query };
    let mark = tokio::select! {
        mark = access.namespace.api.changed(query) => mark?,
        () = app.shutdown_started() => access.namespace.api.changed(without_wait).await?,
    };
    Ok(Json(mark))
}
