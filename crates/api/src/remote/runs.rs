//! Reading runs, logs and questions over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::{RunId, Seq, Summary};

use super::Remote;
use super::http::{NO_QUERY, Request, run_path, segment};
use crate::api::{Answer, Following, RunsApi};
use crate::doc::event::{History, HistoryQuery};
use crate::doc::run::{
    BranchItem, Detail, Diff, DiffQuery, Ending, Explanation, Question, QuestionsQuery, RunsQuery, WaitQuery,
};
use crate::doc::{Items, Page};

#[async_trait]
impl RunsApi for Remote {
    async fn runs(&self, query: RunsQuery) -> Answer<Page<Summary>> {
        self.get("/v1/runs", &query).await
    }

    async fn detail(&self, run: &RunId) -> Answer<Detail> {
        self.get(format!("/v1/runs/{}", segment(run.as_str())), NO_QUERY).await
    }

    async fn history(&self, run: &RunId, query: HistoryQuery) -> Answer<History> {
        self.get(run_path(run, "history"), &query).await
    }

    async fn result(&self, run: &RunId, query: WaitQuery) -> Answer<Ending> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        self.send(Request::get(run_path(run, "result"), &query)?.waiting(wait)).await
    }

    async fn follow(&self, run: &RunId, after: Seq) -> Answer<Following> {
        self.stream(run, after).await
    }

    async fn why(&self, run: &RunId) -> Answer<Explanation> {
        self.get(run_path(run, "why"), NO_QUERY).await
    }

    async fn branches(&self, run: &RunId) -> Answer<Items<BranchItem>> {
        self.get(run_path(run, "branches"), NO_QUERY).await
    }

    async fn diff(&self, run: &RunId, query: DiffQuery) -> Answer<Diff> {
        self.get(run_path(run, "diff"), &query).await
    }

    async fn questions(&self, query: QuestionsQuery) -> Answer<Page<Question>> {
        self.get("/v1/questions", &query).await
    }

    async fn questions_of(&self, run: &RunId) -> Answer<Items<Question>> {
        self.get(run_path(run, "questions"), NO_QUERY).await
    }
}
