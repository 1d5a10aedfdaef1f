//! Reading runs, logs and questions over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::{RunId, Seq, Summary};

use super::RemoteApi;
use super::http::{HttpRequest, NO_QUERY, run_path, segment};
use crate::api::{ApiResult, Following, RunsApi};
use crate::doc::activity::{ActivityDoc, ActivityQuery};
use crate::doc::diff::{DiffDoc, DiffQuery};
use crate::doc::event::{HistoryDoc, HistoryQuery};
use crate::doc::overview::{StatusesDoc, SuggestionDoc, SuggestionsQuery};
use crate::doc::run::{
    BranchDoc, DetailQuery, EndingDoc, ExplanationDoc, GroupsDoc, GroupsQuery, QuestionDoc, QuestionsQuery,
    RunDoc, RunsQuery, WaitQuery,
};
use crate::doc::{ItemsDoc, PageDoc};

#[async_trait]
impl RunsApi for RemoteApi {
    async fn runs(&self, query: RunsQuery) -> ApiResult<PageDoc<Summary>> {
        self.get("/v1/runs", &query).await
    }

    async fn groups(&self, query: GroupsQuery) -> ApiResult<GroupsDoc> {
        self.get("/v1/groups", &query).await
    }

    async fn statuses(&self) -> ApiResult<StatusesDoc> {
        self.get("/v1/statuses", NO_QUERY).await
    }

    async fn suggestions(&self, query: SuggestionsQuery) -> ApiResult<ItemsDoc<SuggestionDoc>> {
        self.get("/v1/suggestions", &query).await
    }

    async fn detail_at(&self, run: &RunId, query: DetailQuery) -> ApiResult<RunDoc> {
        self.get(format!("/v1/runs/{}", segment(run.as_str())), &query).await
    }

    async fn activity(&self, query: ActivityQuery) -> ApiResult<ActivityDoc> {
        self.get("/v1/activity", &query).await
    }

    async fn history(&self, run: &RunId, query: HistoryQuery) -> ApiResult<HistoryDoc> {
        self.get(run_path(run, "history"), &query).await
    }

    async fn result(&self, run: &RunId, query: WaitQuery) -> ApiResult<EndingDoc> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        self.send(HttpRequest::get(run_path(run, "result"), &query)?.waiting(wait)).await
    }

    async fn follow(&self, run: &RunId, after: Seq) -> ApiResult<Following> {
        self.stream(run, after).await
    }

    async fn why(&self, run: &RunId) -> ApiResult<ExplanationDoc> {
        self.get(run_path(run, "why"), NO_QUERY).await
    }

    async fn branches(&self, run: &RunId) -> ApiResult<ItemsDoc<BranchDoc>> {
        self.get(run_path(run, "branches"), NO_QUERY).await
    }

    async fn diff(&self, run: &RunId, query: DiffQuery) -> ApiResult<DiffDoc> {
        self.get(run_path(run, "diff"), &query).await
    }

    async fn questions(&self, query: QuestionsQuery) -> ApiResult<PageDoc<QuestionDoc>> {
        self.get("/v1/questions", &query).await
    }

    async fn questions_of(&self, run: &RunId) -> ApiResult<ItemsDoc<QuestionDoc>> {
        self.get(run_path(run, "questions"), NO_QUERY).await
    }
}
