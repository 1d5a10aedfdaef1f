//! Bulk operations through a server.

use async_trait::async_trait;
use goldseam::RunId;

use super::http::HttpRequest;
use super::{EXAMINATION_MAX, RemoteApi};
use crate::api::{ApiResult, OperationsApi};
use crate::caller::Caller;
use crate::doc::PageDoc;
use crate::doc::change::NewNote;
use crate::doc::operation::{
    BulkOperationDoc, FailuresDoc, FailuresQuery, NewOperation, OperationsQuery, PreviewDoc,
};

impl RemoteApi {
    async fn change_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        verb: &str,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc> {
        let reason = NewNote { by: reason.by.or_else(|| caller.who.clone()), ..reason };
        self.post(caller, format!("/v1/operations/{id}/{verb}"), &reason).await
    }
}

#[async_trait]
impl OperationsApi for RemoteApi {
    async fn begin_operation(&self, caller: &Caller, new: NewOperation) -> ApiResult<BulkOperationDoc> {
        let new = NewOperation { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, "/v1/operations", &new).await
    }

    async fn preview_operation(&self, new: NewOperation) -> ApiResult<PreviewDoc> {
        let caller = Caller::named(None);
        self.send(self.change(&caller, "/v1/operations/preview", &new)?.waiting(EXAMINATION_MAX)).await
    }

    async fn operations(&self, query: OperationsQuery) -> ApiResult<PageDoc<BulkOperationDoc>> {
        self.get("/v1/operations", &query).await
    }

    async fn operation(&self, id: &RunId) -> ApiResult<BulkOperationDoc> {
        self.get(format!("/v1/operations/{id}"), &()).await
    }

    async fn pause_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc> {
        self.change_operation(caller, id, "pause", reason).await
    }

    async fn resume_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc> {
        self.change_operation(caller, id, "resume", reason).await
    }

    async fn stop_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc> {
        self.change_operation(caller, id, "stop", reason).await
    }

    async fn failures(&self, query: FailuresQuery) -> ApiResult<FailuresDoc> {
        self.send(HttpRequest::get("/v1/failures", &query)?.waiting(EXAMINATION_MAX)).await
    }
}
