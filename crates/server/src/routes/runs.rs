//! Runs: started, looked at, talked to, healed.

use std::sync::Arc;

use axum::extract::State;
use goldseam::{RunId, Summary};
use goldseam_api::doc::change::{
    Branched, Done, Jumped, NewJump, NewMigration, NewRecovery, NewSignal, Reason, Recovery, Resumed,
    Signalled,
};
use goldseam_api::doc::event::{History, HistoryQuery};
use goldseam_api::doc::run::{
    BranchItem, Detail, Diff, DiffQuery, Ending, Explanation, NewRun, RunsQuery, Started, WaitQuery,
};
use goldseam_api::doc::{Items, Page};
use goldseam_api::{Api, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, PathParam, Query};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, start))
        .routes(routes!(get))
        .routes(routes!(history))
        .routes(routes!(result))
        .routes(routes!(why))
        .routes(routes!(branches))
        .routes(routes!(diff))
        .routes(routes!(signal))
        .routes(routes!(pause))
        .routes(routes!(requeue))
        .routes(routes!(migrate))
        .routes(routes!(note))
        .routes(routes!(resume))
        .routes(routes!(reset))
        .routes(routes!(undo_recovery))
        .routes(routes!(jump))
        .routes(routes!(recover))
}

/// Lists runs by what their cached rows say.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", security(("key" = ["read"])), params(RunsQuery),
    responses((status = 200, body = Page<Summary>), (status = 400, body = Problem)))]
async fn list(
    State(app): State<Arc<App>>,
    access: Access,
    Query(mut query): Query<RunsQuery>,
) -> JsonResult<Page<Summary>> {
    app.cursors("runs", &access).open(&mut query.after)?;
    if let Some((key, value)) = query.tag.as_deref().and_then(|tag| tag.split_once('=')) {
        if app.redactor.is_secret_name(key) {
            return Err(hidden_tag(key).into());
        }
        if app.redactor.finds(value) {
            // To say more would confirm the value.
            return Ok(Json(Page::new(Vec::new(), None)));
        }
    }
    let page = access.namespace.api.runs(query).await?;
    Ok(Json(app.cursors("runs", &access).seal(page)?))
}

/// A search by a tag whose values are hidden would confirm guesses.
fn hidden_tag(key: &str) -> Problem {
    let key: String = key.chars().take(128).collect();
    Problem::bad_request(format!(
        "runs cannot be listed by the tag {key}: its values are hidden (redact_keys)"
    ))
    .code("GS0608")
    .hint("list runs by another tag, or by workflow, status and time")
}

/// Queues a run for whoever has its workflow. The same id and input again: the same run.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", security(("key" = ["start"])),
    request_body = NewRun,
    responses((status = 200, body = Started), (status = 400, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem)))]
async fn start(
    access: Access,
    CallerInfo(caller): CallerInfo,
    Body(new): Body<NewRun>,
) -> JsonResult<Started> {
    Ok(Json(access.namespace.api.start(&caller, new).await?))
}

/// Why a run is where it is, and what would move it.
#[utoipa::path(get, path = "/v1/runs/{run}/why", tag = "runs", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run")),
    responses((status = 200, body = Explanation), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn why(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<Explanation> {
    Ok(Json(access.namespace.api.why(&run).await?))
}

/// Everything about one run.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run")),
    responses((status = 200, body = Detail), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn get(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<Detail> {
    Ok(Json(access.namespace.api.detail(&run).await?))
}

/// A page of a run's log.
#[utoipa::path(get, path = "/v1/runs/{run}/history", tag = "runs", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run"), HistoryQuery),
    responses((status = 200, body = History), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn history(
    access: Access,
    PathParam(run): PathParam<RunId>,
    Query(query): Query<HistoryQuery>,
) -> JsonResult<History> {
    Ok(Json(access.namespace.api.history(&run, query).await?))
}

/// How a run ended; waits for it if that is wanted.
#[utoipa::path(get, path = "/v1/runs/{run}/result", tag = "runs", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run"), WaitQuery),
    responses((status = 200, body = Ending), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn result(
    State(app): State<Arc<App>>,
    access: Access,
    PathParam(run): PathParam<RunId>,
    Query(query): Query<WaitQuery>,
) -> JsonResult<Ending> {
    let now = WaitQuery { wait_ms: None };
    let ending = tokio::select! {
        ending = access.namespace.api.result(&run, query) => ending?,
        () = app.left() => access.namespace.api.result(&run, now).await?,
    };
    Ok(Json(ending))
}

/// The timelines of a run.
#[utoipa::path(get, path = "/v1/runs/{run}/branches", tag = "runs", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run")),
    responses((status = 200, body = Items<BranchItem>), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn branches(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<Items<BranchItem>> {
    Ok(Json(access.namespace.api.branches(&run).await?))
}

/// Two timelines of a run, compared.
#[utoipa::path(get, path = "/v1/runs/{run}/diff", tag = "runs", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run"), DiffQuery),
    responses((status = 200, body = Diff), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn diff(
    access: Access,
    PathParam(run): PathParam<RunId>,
    Query(query): Query<DiffQuery>,
) -> JsonResult<Diff> {
    Ok(Json(access.namespace.api.diff(&run, query).await?))
}

/// Sends a signal; durable once it is answered.
#[utoipa::path(post, path = "/v1/runs/{run}/signal", tag = "runs", security(("key" = ["signal"])),
    params(("run" = String, Path, description = "the run")),
    request_body = NewSignal,
    responses((status = 200, body = Signalled), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem), (status = 422, body = Problem)))]
async fn signal(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    Body(new): Body<NewSignal>,
) -> JsonResult<Signalled> {
    Ok(Json(access.namespace.api.signal(&caller, &run, new).await?))
}

/// Stops a run between two effects.
#[utoipa::path(post, path = "/v1/runs/{run}/pause", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<Reason>,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn pause(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<Reason>>,
) -> JsonResult<Done> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.pause(&caller, &run, new).await?))
}

/// Gives a run a new task, due now.
#[utoipa::path(post, path = "/v1/runs/{run}/requeue", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<Reason>,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn requeue(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<Reason>>,
) -> JsonResult<Done> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.requeue(&caller, &run, new).await?))
}

/// Moves a run to another version of its workflow, without a preflight. A run that a live node executes is refused: pause
/// it first.
#[utoipa::path(post, path = "/v1/runs/{run}/migrate", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = NewMigration,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn migrate(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    Body(new): Body<NewMigration>,
) -> JsonResult<Done> {
    Ok(Json(access.namespace.api.migrate(&caller, &run, new).await?))
}

/// Leaves a note in a run's log.
#[utoipa::path(post, path = "/v1/runs/{run}/note", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Reason,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn note(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    Body(new): Body<Reason>,
) -> JsonResult<Done> {
    Ok(Json(access.namespace.api.annotate(&caller, &run, new).await?))
}

/// Lets a run go on. Looks for something to recover first, and says what it did.
#[utoipa::path(post, path = "/v1/runs/{run}/resume", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<Reason>,
    responses((status = 200, body = Resumed), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn resume(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<Reason>>,
) -> JsonResult<Resumed> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.resume(&caller, &run, new).await?))
}

/// Takes back what has not settled, on a new branch.
#[utoipa::path(post, path = "/v1/runs/{run}/reset", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<Reason>,
    responses((status = 200, body = Branched), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn reset(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<Reason>>,
) -> JsonResult<Branched> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.reset(&caller, &run, new).await?))
}

/// Goes back to the other side of the latest seam.
#[utoipa::path(post, path = "/v1/runs/{run}/undo-recovery", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<Reason>,
    responses((status = 200, body = Branched), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn undo_recovery(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<Reason>>,
) -> JsonResult<Branched> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.undo_recovery(&caller, &run, new).await?))
}

/// Goes back to a step, on a new branch.
#[utoipa::path(post, path = "/v1/runs/{run}/jump", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = NewJump,
    responses((status = 200, body = Jumped), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem)))]
async fn jump(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    Body(new): Body<NewJump>,
) -> JsonResult<Jumped> {
    Ok(Json(access.namespace.api.jump(&caller, &run, new).await?))
}

/// Finds out what is wrong with a run, and heals it.
#[utoipa::path(post, path = "/v1/runs/{run}/recover", tag = "runs", security(("key" = ["operate"])),
    params(("run" = String, Path, description = "the run")),
    request_body = Option<NewRecovery>,
    responses((status = 200, body = Recovery), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn recover(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    body: Option<Body<NewRecovery>>,
) -> JsonResult<Recovery> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.recover(&caller, &run, new).await?))
}
