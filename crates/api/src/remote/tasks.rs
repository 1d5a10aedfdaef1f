//! User tasks and queues over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::core::TaskId;
use goldseam::core::task::Task;

use super::Remote;
use super::http::{NO_BODY, NO_QUERY, segment};
use crate::api::{Answer, TasksApi};
use crate::caller::Caller;
use crate::doc::task::{
    Claimed, Hold, NewClaim, NewFailure, NewHeartbeat, NewReclaim, NewResult, NewTask, QueueStats, Reclaimed,
    TasksQuery,
};
use crate::doc::{Items, Page};

fn task_path(task: &TaskId, verb: &str) -> String {
    format!("/v1/tasks/{}/{verb}", segment(task.as_str()))
}

#[async_trait]
impl TasksApi for Remote {
    async fn submit(&self, caller: &Caller, new: NewTask) -> Answer<Task> {
        self.post(caller, "/v1/tasks", &new).await
    }

    async fn tasks(&self, query: TasksQuery) -> Answer<Page<Task>> {
        self.get("/v1/tasks", &query).await
    }

    async fn task(&self, task: &TaskId) -> Answer<Task> {
        self.get(format!("/v1/tasks/{}", segment(task.as_str())), NO_QUERY).await
    }

    async fn claim(&self, caller: &Caller, new: NewClaim) -> Answer<Items<Claimed>> {
        let wait = Duration::from_millis(new.wait_ms.unwrap_or(0));
        self.send(self.change(caller, "/v1/tasks/claim", &new)?.waiting(wait).not_repeatable()).await
    }

    async fn heartbeat(&self, caller: &Caller, task: &TaskId, new: NewHeartbeat) -> Answer<Task> {
        self.post(caller, task_path(task, "heartbeat"), &new).await
    }

    async fn complete(&self, caller: &Caller, task: &TaskId, new: NewResult) -> Answer<Task> {
        self.post(caller, task_path(task, "complete"), &new).await
    }

    async fn fail(&self, caller: &Caller, task: &TaskId, new: NewFailure) -> Answer<Task> {
        self.post(caller, task_path(task, "fail"), &new).await
    }

    async fn release(&self, caller: &Caller, task: &TaskId, hold: Hold) -> Answer<Task> {
        self.post(caller, task_path(task, "release"), &hold).await
    }

    async fn cancel_task(&self, caller: &Caller, task: &TaskId) -> Answer<Task> {
        self.post(caller, task_path(task, "cancel"), NO_BODY).await
    }

    async fn reclaim(&self, caller: &Caller, new: NewReclaim) -> Answer<Reclaimed> {
        self.post(caller, "/v1/tasks/reclaim", &new).await
    }

    async fn queues(&self) -> Answer<QueueStats> {
        self.get("/v1/queues", NO_QUERY).await
    }
}
