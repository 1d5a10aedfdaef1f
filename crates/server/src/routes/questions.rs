//! Questions to people.

use std::sync::Arc;

use axum::extract::State;
use goldseam::{Path, RunId};
use goldseam_api::doc::change::{Answered, NewAnswer};
use goldseam_api::doc::run::{Question, QuestionsQuery};
use goldseam_api::doc::{Items, Page};
use goldseam_api::{Api, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, PathParam, Query};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(list_of_run))
        .routes(routes!(get))
        .routes(routes!(answer))
}

/// Lists the open questions of all runs.
#[utoipa::path(get, path = "/v1/questions", tag = "questions", params(QuestionsQuery),
    responses((status = 200, body = Page<Question>)))]
async fn list(
    State(app): State<Arc<App>>,
    access: Access,
    Query(mut query): Query<QuestionsQuery>,
) -> JsonResult<Page<Question>> {
    app.cursors("questions", &access).open(&mut query.after)?;
    let page = access.namespace.api.questions(query).await?;
    Ok(Json(app.cursors("questions", &access).seal(page)?))
}

/// Lists the open questions of a run.
#[utoipa::path(get, path = "/v1/runs/{run}/questions", tag = "questions",
    responses((status = 200, body = Items<Question>)))]
async fn list_of_run(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<Items<Question>> {
    Ok(Json(access.namespace.api.questions_of(&run).await?))
}

/// Returns an open question.
#[utoipa::path(get, path = "/v1/runs/{run}/questions/{question}", tag = "questions",
    responses((status = 200, body = Question)))]
async fn get(access: Access, PathParam((run, question)): PathParam<(RunId, Path)>) -> JsonResult<Question> {
    Ok(Json(access.namespace.api.question(&run, &question).await?))
}

/// Answers a question. The answer is durable when the response arrives.
#[utoipa::path(post, path = "/v1/runs/{run}/questions/{question}/answer", tag = "questions",
    request_body = NewAnswer,
    responses((status = 200, body = Answered), (status = 422, body = Problem)))]
async fn answer(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam((run, question)): PathParam<(RunId, Path)>,
    Body(new): Body<NewAnswer>,
) -> JsonResult<Answered> {
    Ok(Json(access.namespace.api.answer(&caller, &run, &question, new).await?))
}
