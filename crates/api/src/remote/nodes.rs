//! Nodes, their workflows, and changes of the store over HTTP.

use std::time::Duration;

use async_trait::async_trait;

use super::RemoteApi;
use super::http::{HttpRequest, NO_QUERY};
use crate::api::{ApiResult, NodesApi};
use crate::doc::ItemsDoc;
use crate::doc::node::{NodeDoc, WorkflowDoc};
use crate::doc::run::{ChangesQuery, MarkDoc};

#[async_trait]
impl NodesApi for RemoteApi {
    async fn nodes(&self) -> ApiResult<ItemsDoc<NodeDoc>> {
        self.get("/v1/nodes", NO_QUERY).await
    }

    async fn workflows(&self) -> ApiResult<ItemsDoc<WorkflowDoc>> {
        self.get("/v1/workflows", NO_QUERY).await
    }

    async fn changed(&self, query: ChangesQuery) -> ApiResult<MarkDoc> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        self.send(HttpRequest::get("/v1/changes", &query)?.waiting(wait)).await
    }
}
