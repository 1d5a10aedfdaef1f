//! Tasks of users and of remote steps.

use std::sync::Arc;

use axum::extract::State;
use goldseam::unstable::core::TaskId;
use goldseam::unstable::core::task::Task;
use goldseam_api::doc::task::{
    ClaimedTaskDoc, Hold, NewClaim, NewFailure, NewHeartbeat, NewReclaim, NewResult, NewUserTask,
    QueueStatsDoc, ReclaimedDoc, TasksQuery,
};
use goldseam_api::doc::{ItemsDoc, PageDoc, WAIT_MS_MAX};
use goldseam_api::{Caller, Problem, TasksApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, OptionalBody, PathParam, QueryParams, WaitingAccess};
use crate::reply::{Json, JsonResult};
use crate::waits::WaitingRequest;

mod token;

use token::Proof;

/// A waiting claim checks at this interval whether the server shuts down or its key has ended.
const PIECE_MS: u64 = 500;

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
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

/// Lists tasks in order of id.
#[utoipa::path(get, path = "/v1/tasks", tag = "tasks", params(TasksQuery),
    responses((status = 200, body = PageDoc<Task>)))]
async fn list(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(mut query): QueryParams<TasksQuery>,
) -> JsonResult<PageDoc<Task>> {
    app.cursors("tasks", &access).open(&mut query.after)?;
    let page = access.namespace.api.tasks(query).await?;
    Ok(Json(app.cursors("tasks", &access).seal(page)?))
}

/// Submits a task. Returns the live task with the same key, if there is one.
#[utoipa::path(post, path = "/v1/tasks", tag = "tasks", request_body = NewUserTask,
    responses((status = 200, body = Task)))]
async fn submit(
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(new): JsonBody<NewUserTask>,
) -> JsonResult<Task> {
    Ok(Json(access.namespace.api.submit(&caller, new).await?))
}

/// Returns a task.
#[utoipa::path(get, path = "/v1/tasks/{task}", tag = "tasks", responses((status = 200, body = Task)))]
async fn get(access: Access, PathParam(task): PathParam<TaskId>) -> JsonResult<Task> {
    Ok(Json(access.namespace.api.task(&task).await?))
}

/// Claims tasks that are due. With `wait_ms`, waits for one. Each claimed task has a token, which the claimant sends
/// with its result.
#[utoipa::path(post, path = "/v1/tasks/claim", tag = "tasks", request_body = NewClaim,
    responses((status = 200, body = ItemsDoc<ClaimedTaskDoc>)))]
async fn claim(
    State(app): State<Arc<ServerState>>,
    WaitingAccess { access, wait }: WaitingAccess,
    CallerInfo(caller): CallerInfo,
    JsonBody(new): JsonBody<NewClaim>,
) -> JsonResult<ItemsDoc<ClaimedTaskDoc>> {
    access.principal.may_claim_from(&[new.queue_name()?])?;
    let claim = WaitingClaim { app: &app, access: &access, caller: &caller, wait: &wait };
    let mut claimed = claim.run(new).await?;
    if let Some(problem) = wait.problem() {
        release_all(&access, &caller, claimed).await;
        return Err(problem.into());
    }
    for ClaimedTaskDoc { task, token, .. } in &mut claimed.items {
        *token = Some(token::seal(&app, &access, task)?);
    }
    if !claimed.items.is_empty() {
        access.namespace.fan_out.note_change();
    }
    Ok(Json(claimed))
}

/// A claim that may wait.
struct WaitingClaim<'a> {
    app: &'a ServerState,
    access: &'a Access,
    caller: &'a Caller,
    wait: &'a WaitingRequest,
}

impl WaitingClaim<'_> {
    /// Waits in short pieces, none of which is interrupted: an interrupted claim may have claimed a task that no caller
    /// knows of.
    async fn run(&self, new: NewClaim) -> Result<ItemsDoc<ClaimedTaskDoc>, Problem> {
        let mut left_ms = new.wait_ms.unwrap_or(0);
        loop {
            // A wait beyond the limit is passed on whole, so that the API refuses it.
            let piece_ms = if left_ms > WAIT_MS_MAX { left_ms } else { left_ms.min(PIECE_MS) };
            let piece = NewClaim { wait_ms: Some(piece_ms), ..new.clone() };
            let claimed = self.access.namespace.api.claim(self.caller, piece).await?;
            left_ms -= piece_ms.min(left_ms);
            let must_end = *self.app.leaving.borrow() || self.wait.problem().is_some();
            if !claimed.items.is_empty() || left_ms == 0 || must_end {
                return Ok(claimed);
            }
        }
    }
}

/// Releases tasks that were claimed with a key that has ended meanwhile.
async fn release_all(access: &Access, caller: &Caller, claimed: ItemsDoc<ClaimedTaskDoc>) {
    for ClaimedTaskDoc { task, .. } in claimed.items {
        let hold = Hold { fence: Some(task.fence), token: None };
        if let Err(problem) = access.namespace.api.release(caller, &task.id, hold).await {
            tracing::warn!(task = %task.id, %problem, "failed to release a task of a revoked key");
        }
    }
}

/// Reports that the claimant is alive, and its progress in `details`.
#[utoipa::path(post, path = "/v1/tasks/{task}/heartbeat", tag = "tasks", request_body = NewHeartbeat,
    responses((status = 200, body = Task)))]
async fn heartbeat(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    JsonBody(mut new): JsonBody<NewHeartbeat>,
) -> JsonResult<Task> {
    let proof = Proof { fence: new.fence, token: new.token.take() };
    new.fence = Some(token::fence(&app, &access, &task, proof)?);
    Ok(Json(access.namespace.api.heartbeat(&caller, &task, new).await?))
}

/// Completes a task. The result of a remote step is in its run's log when the response arrives.
#[utoipa::path(post, path = "/v1/tasks/{task}/complete", tag = "tasks", request_body = NewResult,
    responses((status = 200, body = Task)))]
async fn complete(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    JsonBody(mut new): JsonBody<NewResult>,
) -> JsonResult<Task> {
    let proof = Proof { fence: new.fence, token: new.token.take() };
    new.fence = Some(token::fence(&app, &access, &task, proof)?);
    Ok(Json(access.namespace.api.complete(&caller, &task, new).await?))
}

/// Reports that a task failed.
#[utoipa::path(post, path = "/v1/tasks/{task}/fail", tag = "tasks", request_body = NewFailure,
    responses((status = 200, body = Task)))]
async fn fail(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    JsonBody(mut new): JsonBody<NewFailure>,
) -> JsonResult<Task> {
    let proof = Proof { fence: new.fence, token: new.token.take() };
    new.fence = Some(token::fence(&app, &access, &task, proof)?);
    Ok(Json(access.namespace.api.fail(&caller, &task, new).await?))
}

/// Releases a claimed task. Counts no delivery.
#[utoipa::path(post, path = "/v1/tasks/{task}/release", tag = "tasks", request_body = Hold,
    responses((status = 200, body = Task)))]
async fn release(
    State(app): State<Arc<ServerState>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
    JsonBody(mut new): JsonBody<Hold>,
) -> JsonResult<Task> {
    let proof = Proof { fence: new.fence, token: new.token.take() };
    new.fence = Some(token::fence(&app, &access, &task, proof)?);
    Ok(Json(access.namespace.api.release(&caller, &task, new).await?))
}

/// Cancels a task.
#[utoipa::path(post, path = "/v1/tasks/{task}/cancel", tag = "tasks", responses((status = 200, body = Task)))]
async fn cancel(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(task): PathParam<TaskId>,
) -> JsonResult<Task> {
    Ok(Json(access.namespace.api.cancel_task(&caller, &task).await?))
}

/// Reclaims the tasks of dead or silent claimants, and frees stale locks.
#[utoipa::path(post, path = "/v1/tasks/reclaim", tag = "tasks", request_body = Option<NewReclaim>,
    responses((status = 200, body = ReclaimedDoc)))]
async fn reclaim(
    access: Access,
    CallerInfo(caller): CallerInfo,
    OptionalBody(new): OptionalBody<NewReclaim>,
) -> JsonResult<ReclaimedDoc> {
    Ok(Json(access.namespace.api.reclaim(&caller, new).await?))
}

/// Counts the tasks of each queue.
#[utoipa::path(get, path = "/v1/queues", tag = "tasks", responses((status = 200, body = QueueStatsDoc)))]
async fn queues(access: Access) -> JsonResult<QueueStatsDoc> {
    Ok(Json(access.namespace.api.queues().await?))
}
