//! Nodes, their workflows, and changes of the store over HTTP.

use std::time::Duration;

use async_trait::async_trait;

use super::Remote;
use super::http::{NO_QUERY, Request};
use crate::api::{Answer, NodesApi};
use crate::doc::Items;
use crate::doc::node::{Node, Workflow};
use crate::doc::run::{ChangesQuery, Mark};

#[async_trait]
impl NodesApi for Remote {
    async fn nodes(&self) -> Answer<Items<Node>> {
        self.get("/v1/nodes", NO_QUERY).await
    }

    async fn workflows(&self) -> Answer<Items<Workflow>> {
        self.get("/v1/workflows", NO_QUERY).await
    }

    async fn changed(&self, query: ChangesQuery) -> Answer<Mark> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        self.send(Request::get("/v1/changes", &query)?.waiting(wait)).await
    }
}
