//! A user's own tasks, and those of remote steps.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use goldseam::core::TaskId;
use goldseam::core::task::Task;
use goldseam_api::doc::task::{
    Claimed, Hold, NewClaim, NewFailure, NewHeartbeat, NewReclaim, NewResult, NewTask, QueueStats, Reclaimed,
    TasksQuery,
};
use goldseam_api::doc::{Items, Page, WAIT_MS_MAX};
use goldseam_api::{Api, Caller, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, PathParam, Query};
use crate::reply::{Json, JsonResult};
use crate::waits::Wait;

mod token;

/// A claim that waits looks after so long whether the server is leaving, or its key is not valid any more.
const PIECE_MS: u64 = 500;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list, submit))
        .routes(routes!(get))
        .routes(routes!(claim))
        .routes(routes!(heartbeat))
        .routes(routes!(complete))
        .routes(routes!(fail))
        .routes(routes!(release))
        .routes(routes!(cancel))
        .routes(routes!(reclaim))
        .routes(routes!(queues))
}

/// Lists tasks, in order of id.
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", security(("key" = ["read"])), params(TasksQuery),
    responses((status = 200, body = Page<Task>), (status = 400, body = Problem)))]
async fn list(
    State(app): State<Arc<App>>,
    access: Access,
    Query(mut query): Query<TasksQuery>,
) -> JsonResult<Page<Task>> {
    app.cursors("tasks", &access).open(&mut query.after)?;
    let page = access.namespace.api.tasks(query).await?;
    Ok(Json(app.cursors("tasks", &access).seal(page)?))
}

/// Submits a task. A live task with the same key is returned instead of a second one.
#[utoipa::path(post, path = "/v1/tasks", tag = "tasks", security(("key" = ["start"])),
    request_body = NewTask,
    responses((status = 200, body = Task), (status = 400, body = Problem), (status = 409, body = Problem), (status = 413, body = Problem)))]
async fn submit(
    access: Access,
    CallerInfo(caller): CallerInfo,
    Body(new): Body<NewTask>,
) -> JsonResult<Task> {
    Ok(Json(access.namespace.api.submit(&caller, new).await?))
}

/// One task.
#[utoipa::path(get, path = "/v1/tasks/{task}", tag = "tasks", security(("key" = ["read"])),
    params(("task" = String, Path, description = "the task")),
    responses((status = 200, body = Task), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn get(access: Access, PathParam(task): PathParam<TaskId>) -> JsonResult<Task> {
    Ok(Json(access.namespace.api.task(&task).await?))
}

/// Claims tasks that are due, and waits for some if that is wanted. Each comes with a token: whoever has it, and nobody
/// else, can bring the result.
#[utoipa::path(post, path = "/v1/tasks/claim", tag = "tasks", security(("key" = ["worker"])), request_body = NewClaim,
    responses((status = 200, body = Items<Claimed>), (status = 400, body = Problem), (status = 403, body = Problem)))]
async fn claim(
    State(app): State<Arc<App>>,
    access: Access,
    (CallerInfo(caller), Extension(wait)): (CallerInfo, Extension<Arc<Wait>>),
    Body(new): Body<NewClaim>,
) -> JsonResult<Items<Claimed>> {
    access.principal.may_claim_from(&[new.queue_name()?])?;
    let mut claimed = claimed_in_time(&app, &access, (&caller, &wait, new)).await?;
    if let Some(problem) = wait.problem() {
        give_back(&access, &caller, claimed).await;
        return Err(problem.into());
    }
    for Claimed { task, token, .. } in &mut claimed.items {
        *token = Some(token::seal(&app, &access, task)?);
    }
    Ok(Json(claimed))
}

/// Waits in short pieces, each to its end: a claim that is cut off has taken a task that nobody is told of.
async fn claimed_in_time(
    app: &App,
    access: &Access,
    (caller, wait, new): (&Caller, &Wait, NewClaim),
) -> Result<Items<Claimed>, Problem> {
    let mut left_ms = new.wait_ms.unwrap_or(0);
    loop {
        // What is too much is refused as a whole.
        let piece_ms = if left_ms > WAIT_MS_MAX { left_ms } else { left_ms.min(PIECE_MS) };
        let piece = NewClaim { wait_ms: Some(piece_ms), ..new.clone() };
        let claimed = access.namespace.api.claim(caller, piece).await?;
        left_ms -= piece_ms.min(left_ms);
        if !claimed.items.is_empty() || left_ms == 0 || *app.leaving.borrow() || wait.problem().is_some() {
            return Ok(claimed);
        }
    }
}

/// Gives back what was claimed with a key that is not valid any more.
async fn give_back(access: &Access, caller: &Caller, claimed: Items<Claimed>) {
    for Claimed { task, .. } in claimed.items {
        let hold = Hold { fence: Some(task.fence), token: None };
        if let Err(problem) = access.namespace.api.release(caller, &task.id, hold).await {
            tracing::warn!(task = %task.id, %problem, "failed to release a task of a revoked key");
        }
    }
}

/// Says that the claimant is alive, and how far it is if it gives `details`.
#[utoipa::path(post, path = "/v1/tasks/{task}/heartbeat", tag = "tasks", security(("key" = ["worker"])),
    params(("task" = String, Path, description = "the task")), request_body = NewHeartbeat,
    responses((status = 200, body = Task), (status = 403, body = Problem), (status = 409, body = Problem)))]
async fn heartbeat(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    Body(mut new): Body<NewHeartbeat>,
) -> JsonResult<Task> {
    new.fence = Some(token::fence(&app, &access, &task, (new.fence, new.token.take()))?);
    Ok(Json(access.namespace.api.heartbeat(&caller, &task, new).await?))
}

/// The work is done. A remote step's result is in its run's log once this is answered.
#[utoipa::path(post, path = "/v1/tasks/{task}/complete", tag = "tasks", security(("key" = ["worker"])),
    params(("task" = String, Path, description = "the task")), request_body = NewResult,
    responses((status = 200, body = Task), (status = 403, body = Problem), (status = 409, body = Problem)))]
async fn complete(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    Body(mut new): Body<NewResult>,
) -> JsonResult<Task> {
    new.fence = Some(token::fence(&app, &access, &task, (new.fence, new.token.take()))?);
    Ok(Json(access.namespace.api.complete(&caller, &task, new).await?))
}

/// The work failed.
#[utoipa::path(post, path = "/v1/tasks/{task}/fail", tag = "tasks", security(("key" = ["worker"])),
    params(("task" = String, Path, description = "the task")), request_body = NewFailure,
    responses((status = 200, body = Task), (status = 403, body = Problem), (status = 409, body = Problem)))]
async fn fail(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    Body(mut new): Body<NewFailure>,
) -> JsonResult<Task> {
    new.fence = Some(token::fence(&app, &access, &task, (new.fence, new.token.take()))?);
    Ok(Json(access.namespace.api.fail(&caller, &task, new).await?))
}

/// Gives a task back unharmed.
#[utoipa::path(post, path = "/v1/tasks/{task}/release", tag = "tasks", security(("key" = ["worker"])),
    params(("task" = String, Path, description = "the task")), request_body = Hold,
    responses((status = 200, body = Task), (status = 403, body = Problem), (status = 409, body = Problem)))]
async fn release(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    Body(mut new): Body<Hold>,
) -> JsonResult<Task> {
    new.fence = Some(token::fence(&app, &access, &task, (new.fence, new.token.take()))?);
    Ok(Json(access.namespace.api.release(&caller, &task, new).await?))
}

/// Nobody wants the task any more.
#[utoipa::path(post, path = "/v1/tasks/{task}/cancel", tag = "tasks", security(("key" = ["operate"])),
    params(("task" = String, Path, description = "the task")),
    responses((status = 200, body = Task), (status = 404, body = Problem), (status = 409, body = Problem)))]
async fn cancel(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
) -> JsonResult<Task> {
    Ok(Json(access.namespace.api.cancel_task(&caller, &task).await?))
}

/// Takes tasks back from claimants who are gone or silent, and frees stale locks.
#[utoipa::path(post, path = "/v1/tasks/reclaim", tag = "tasks", security(("key" = ["operate"])),
    request_body = Option<NewReclaim>,
    responses((status = 200, body = Reclaimed), (status = 400, body = Problem)))]
async fn reclaim(
    access: Access,
    CallerInfo(caller): CallerInfo,
    body: Option<Body<NewReclaim>>,
) -> JsonResult<Reclaimed> {
    let new = body.map(|Body(new)| new).unwrap_or_default();
    Ok(Json(access.namespace.api.reclaim(&caller, new).await?))
}

/// What stands in each queue.
#[utoipa::path(get, path = "/v1/queues", tag = "tasks", security(("key" = ["read"])),
    responses((status = 200, body = QueueStats), (status = 503, body = Problem)))]
async fn queues(access: Access) -> JsonResult<QueueStats> {
    Ok(Json(access.namespace.api.queues().await?))
}
