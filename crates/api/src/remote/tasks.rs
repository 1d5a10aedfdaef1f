//! User tasks and queues over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::unstable::core::TaskId;
use goldseam::unstable::core::task::Task;

use super::RemoteApi;
use super::http::{NO_BODY, NO_QUERY, segment};
use crate::api::{ApiResult, TasksApi};
use crate::caller::Caller;
use crate::doc::task::{
    ClaimedTaskDoc, Hold, NewClaim, NewFailure, NewHeartbeat, NewReclaim, NewResult, NewUserTask,
    QueueStatsDoc, ReclaimedDoc, TasksQuery,
};
use crate::doc::{ItemsDoc, PageDoc};

fn task_path(task: &TaskId, verb: &str) -> String {
    format!("/v1/tasks/{}/{verb}", segment(task.as_str()))
}

#[async_trait]
impl TasksApi for RemoteApi {
    async fn submit(&self, caller: &Caller, new: NewUserTask) -> ApiResult<Task> {
        self.post(caller, "/v1/tasks", &new).await
    }

    async fn tasks(&self, query: TasksQuery) -> ApiResult<PageDoc<Task>> {
        self.get("/v1/tasks", &query).await
    }

    async fn task(&self, task: &TaskId) -> ApiResult<Task> {
        self.get(format!("/v1/tasks/{}", segment(task.as_str())), NO_QUERY).await
    }

    async fn claim(&self, caller: &Caller, new: NewClaim) -> ApiResult<ItemsDoc<ClaimedTaskDoc>> {
        let wait = Duration::from_millis(new.wait_ms.unwrap_or(0));
        self.send(self.change(caller, "/v1/tasks/claim", &new)?.waiting(wait).not_repeatable()).await
    }

    async fn heartbeat(&self, caller: &Caller, task: &TaskId, new: NewHeartbeat) -> ApiResult<Task> {
        self.post(caller, task_path(task, "heartbeat"), &new).await
    }

    async fn complete(&self, caller: &Caller, task: &TaskId, new: NewResult) -> ApiResult<Task> {
        self.post(caller, task_path(task, "complete"), &new).await
    }

    async fn fail(&self, caller: &Caller, task: &TaskId, new: NewFailure) -> ApiResult<Task> {
        self.post(caller, task_path(task, "fail"), &new).await
    }

    async fn release(&self, caller: &Caller, task: &TaskId, hold: Hold) -> ApiResult<Task> {
        self.post(caller, task_path(task, "release"), &hold).await
    }

    async fn cancel_task(&self, caller: &Caller, task: &TaskId) -> ApiResult<Task> {
        self.post(caller, task_path(task, "cancel"), NO_BODY).await
    }

    async fn reclaim(&self, caller: &Caller, new: NewReclaim) -> ApiResult<ReclaimedDoc> {
        self.post(caller, "/v1/tasks/reclaim", &new).await
    }

    async fn queues(&self) -> ApiResult<QueueStatsDoc> {
        self.get("/v1/queues", NO_QUERY).await
    }
}
