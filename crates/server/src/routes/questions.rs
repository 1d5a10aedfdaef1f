//! Questions to people.

use std::sync::Arc;

use axum::extract::State;
use goldseam::{Path, RunId};
use goldseam_api::doc::change::{Answered, NewAnswer};
use goldseam_api::doc::run::{Question, QuestionsQuery};
use goldseam_api::doc::{Items, Page};
use goldseam_api::{CommandsApi, Problem, RunsApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Body, By, In, Named, Query};
use crate::reply::{Answer, Json};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(of_run))
        .routes(routes!(get))
        .routes(routes!(answer))
}

/// Open questions of all runs.
#[utoipa::path(get, path = "/v1/questions", tag = "questions", security(("key" = ["read"])), params(QuestionsQuery),
    responses((status = 200, body = Page<Question>), (status = 400, body = Problem)))]
async fn list(
    State(app): State<Arc<App>>,
    place: In,
    Query(mut query): Query<QuestionsQuery>,
) -> Answer<Page<Question>> {
    app.cursors("questions", &place).open(&mut query.after)?;
    let page = place.space.api.questions(query).await?;
    Ok(Json(app.cursors("questions", &place).seal(page)?))
}

/// Open questions of one run.
#[utoipa::path(get, path = "/v1/runs/{run}/questions", tag = "questions", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run")),
    responses((status = 200, body = Items<Question>), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn of_run(place: In, Named(run): Named<RunId>) -> Answer<Items<Question>> {
    Ok(Json(place.space.api.questions_of(&run).await?))
}

/// One open question.
#[utoipa::path(get, path = "/v1/runs/{run}/questions/{question}", tag = "questions", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run"), ("question" = String, Path, description = "the question, percent-encoded")),
    responses((status = 200, body = Question), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn get(place: In, Named((run, question)): Named<(RunId, Path)>) -> Answer<Question> {
    Ok(Json(place.space.api.question(&run, &question).await?))
}

/// Answers a question; durable once it is answered.
#[utoipa::path(post, path = "/v1/runs/{run}/questions/{question}/answer", tag = "questions", security(("key" = ["signal"])),
    params(("run" = String, Path, description = "the run"), ("question" = String, Path, description = "the question, percent-encoded")),
    request_body = NewAnswer,
    responses((status = 200, body = Answered), (status = 400, body = Problem), (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn answer(
    place: In,
    By(caller): By,
    Named((run, question)): Named<(RunId, Path)>,
    Body(new): Body<NewAnswer>,
) -> Answer<Answered> {
    Ok(Json(place.space.api.answer(&caller, &run, &question, new).await?))
}
