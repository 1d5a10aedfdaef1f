//! Questions to people.

use std::sync::Arc;

use axum::extract::State;
use goldseam::{Path, RunId};
use goldseam_api::doc::change::{AnsweredDoc, NewAnswer};
use goldseam_api::doc::run::{QuestionDoc, QuestionsQuery};
use goldseam_api::doc::{ItemsDoc, PageDoc};
use goldseam_api::{CommandsApi, Problem, RunsApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, PathParam, QueryParams};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(list_of_run))
        .routes(routes!(get))
        .routes(routes!(answer))
}

/// Lists the open questions of all runs.
#[utoipa::path(get, path = "/v1/questions", tag = "questions", params(QuestionsQuery),
    responses((status = 200, body = PageDoc<QuestionDoc>)))]
async fn list(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(mut query): QueryParams<QuestionsQuery>,
) -> JsonResult<PageDoc<QuestionDoc>> {
    app.cursors("questions", &access).open(&mut query.after)?;
    let page = access.namespace.api.questions(query).await?;
    Ok(Json(app.cursors("questions", &access).seal(page)?))
}

/// Lists the open questions of a run.
#[utoipa::path(get, path = "/v1/runs/{run}/questions", tag = "questions",
    responses((status = 200, body = ItemsDoc<QuestionDoc>)))]
async fn list_of_run(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<ItemsDoc<QuestionDoc>> {
    Ok(Json(access.namespace.api.questions_of(&run).await?))
}

/// Returns an open question.
#[utoipa::path(get, path = "/v1/runs/{run}/questions/{question}", tag = "questions",
    responses((status = 200, body = QuestionDoc)))]
async fn get(
    access: Access,
    PathParam((run, question)): PathParam<(RunId, Path)>,
) -> JsonResult<QuestionDoc> {
    Ok(Json(access.namespace.api.question(&run, &question).await?))
}

/// Answers a question. The answer is durable when the response arrives.
#[utoipa::path(post, path = "/v1/runs/{run}/questions/{question}/answer", tag = "questions",
    request_body = NewAnswer,
    responses((status = 200, body = AnsweredDoc), (status = 422, body = Problem)))]
async fn answer(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam((run, question)): PathParam<(RunId, Path)>,
    JsonBody(new): JsonBody<NewAnswer>,
) -> JsonResult<AnsweredDoc> {
    Ok(Json(access.namespace.api.answer(&caller, &run, &question, new).await?))
}
