//! Runs: start, read, signal and operate them.

use std::sync::Arc;

use axum::extract::State;
use goldseam::search::Condition;
use goldseam::{EngineError, Millis, RunId, Summary};
use goldseam_api::doc::activity::{ActivityDoc, ActivityQuery};
use goldseam_api::doc::change::{
    BranchedDoc, DoneDoc, JumpedDoc, NewJump, NewMigration, NewNote, NewRecovery, NewSignal, RecoveryDoc,
    ResumedDoc, SignalledDoc,
};
use goldseam_api::doc::diff::{DiffDoc, DiffQuery};
use goldseam_api::doc::event::{HistoryDoc, HistoryQuery};
use goldseam_api::doc::overview::{StatusesDoc, SuggestionDoc, SuggestionsQuery};
use goldseam_api::doc::run::{
    BranchDoc, DetailQuery, EndingDoc, ExplanationDoc, GroupsDoc, GroupsQuery, NewRun, RunDoc, RunsQuery,
    StartedDoc, WaitQuery,
};
use goldseam_api::doc::{ItemsDoc, PageDoc};
use goldseam_api::{CommandsApi, HealingApi, Problem, RunsApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, OptionalBody, PathParam, QueryParams, RunCommand};
use crate::reply::{Json, JsonResult};

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list, start))
        .routes(routes!(groups))
        .routes(routes!(activity))
        .routes(routes!(statuses))
        .routes(routes!(suggestions))
        .routes(routes!(remedies))
        .routes(routes!(get))
        .routes(routes!(history))
        .routes(routes!(result))
        .routes(routes!(why))
        .routes(routes!(branches))
        .routes(routes!(diff))
        .routes(routes!(signal))
        .routes(routes!(pause))
        .routes(routes!(requeue))
        .routes(routes!(migrate))
        .routes(routes!(note))
        .routes(routes!(resume))
        .routes(routes!(reset))
        .routes(routes!(undo_recovery))
        .routes(routes!(jump))
        .routes(routes!(recover))
}

/// Lists runs by their cached rows.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", params(RunsQuery),
    responses((status = 200, body = PageDoc<Summary>)))]
async fn list(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(mut query): QueryParams<RunsQuery>,
) -> JsonResult<PageDoc<Summary>> {
    app.cursors("runs", &access).open(&mut query.after)?;
    if let Some((key, value)) = query.tag.as_deref().and_then(|tag| tag.split_once('=')) {
        if app.redactor.is_secret_name(key) {
            return Err(hidden_tag(key).into());
        }
        if app.redactor.finds(value) {
            // A result would confirm the value.
            return Ok(Json(PageDoc::new(Vec::new(), None)));
        }
    }
    if !may_search(&app, query.condition.as_deref(), &[])? {
        return Ok(Json(PageDoc::new(Vec::new(), None)));
    }
    let page = access.namespace.api.runs(query).await?;
    Ok(Json(app.cursors("runs", &access).seal(page)?))
}

/// Counts runs by their cached rows, and groups them.
#[utoipa::path(get, path = "/v1/groups", tag = "runs", params(GroupsQuery),
    responses((status = 200, body = GroupsDoc)))]
async fn groups(
    State(app): State<Arc<ServerState>>,
    access: Access,
    QueryParams(query): QueryParams<GroupsQuery>,
) -> JsonResult<GroupsDoc> {
    let by = query.by.as_deref().map(|by| by.strip_prefix("tag.").or(by.strip_prefix("attr.")).unwrap_or(by));
    if !may_search(&app, query.condition.as_deref(), by.as_slice())? {
        let by = query.by;
        let groups = Vec::new();
        let unreadable = Vec::new();
        return Ok(Json(GroupsDoc { total: 0, by, groups, left_out: 0, unreadable, note: None }));
    }
    Ok(Json(access.namespace.api.groups(query).await?))
}

/// Refuses a condition on a redacted name, and returns false for one with a redacted value: a result would confirm
/// guesses.
pub(super) fn may_search(
    app: &ServerState,
    condition: Option<&str>,
    names: &[&str],
) -> Result<bool, Problem> {
    let condition = match condition {
        Some(text) => Some(Condition::parse(text, Millis(0)).map_err(EngineError::from)?),
        None => None,
    };
    let used = condition.as_ref().map(Condition::names).unwrap_or_default();
    if let Some(name) =
        used.iter().copied().chain(names.iter().copied()).find(|name| app.redactor.is_secret_name(name))
    {
        return Err(hidden_tag(name));
    }
    Ok(!condition.is_some_and(|condition| condition.texts().iter().any(|text| app.redactor.finds(text))))
}

/// A search by a redacted tag would confirm guesses.
fn hidden_tag(key: &str) -> Problem {
    let key: String = key.chars().take(128).collect();
    Problem::bad_request(format!("cannot list runs by tag {key}: its values are redacted (redact_keys)"))
        .code("GS0608")
        .hint("list runs by another tag, or by workflow, status and time")
}

/// Queues a run for a node that has its workflow. A repeat with the same id and input returns the same run.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", request_body = NewRun,
    params(
        ("traceparent" = Option<String>, Header,
            description = "The caller's place in a distributed trace (W3C), which the run joins. Ignored if invalid."),
        ("tracestate" = Option<String>, Header,
            description = "Data of tracing systems along the way (W3C). Ignored if invalid or without `traceparent`."),
    ),
    responses((status = 200, body = StartedDoc)))]
async fn start(
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(new): JsonBody<NewRun>,
) -> JsonResult<StartedDoc> {
    Ok(Json(access.namespace.api.start(&caller, new).await?))
}

/// Explains why a run is in its state and what would move it.
#[utoipa::path(get, path = "/v1/runs/{run}/why", tag = "runs", responses((status = 200, body = ExplanationDoc)))]
async fn why(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<ExplanationDoc> {
    Ok(Json(access.namespace.api.why(&run).await?))
}

/// Counts all runs by status, without operations.
#[utoipa::path(get, path = "/v1/statuses", tag = "runs", responses((status = 200, body = StatusesDoc)))]
async fn statuses(access: Access) -> JsonResult<StatusesDoc> {
    Ok(Json(access.namespace.api.statuses().await?))
}

/// Suggests values for a filter of the list of runs, from the latest 500 runs, the most frequent first.
#[utoipa::path(get, path = "/v1/suggestions", tag = "runs", params(SuggestionsQuery),
    responses((status = 200, body = ItemsDoc<SuggestionDoc>)))]
async fn suggestions(
    access: Access,
    QueryParams(query): QueryParams<SuggestionsQuery>,
) -> JsonResult<ItemsDoc<SuggestionDoc>> {
    Ok(Json(access.namespace.api.suggestions(query).await?))
}

/// Returns what each rule that applies to a run would do, the most urgent first. Changes nothing.
#[utoipa::path(get, path = "/v1/runs/{run}/remedies", tag = "healing",
    responses((status = 200, body = ItemsDoc<RecoveryDoc>)))]
async fn remedies(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<ItemsDoc<RecoveryDoc>> {
    Ok(Json(access.namespace.api.remedies(&run).await?))
}

/// Counts starts, ends and recoveries for each interval of a recent time.
#[utoipa::path(get, path = "/v1/activity", tag = "runs", params(ActivityQuery),
    responses((status = 200, body = ActivityDoc)))]
async fn activity(access: Access, QueryParams(query): QueryParams<ActivityQuery>) -> JsonResult<ActivityDoc> {
    Ok(Json(access.namespace.api.activity(query).await?))
}

/// Returns all details of a run: now, or as derived at an earlier event.
#[utoipa::path(get, path = "/v1/runs/{run}", tag = "runs", params(DetailQuery),
    responses((status = 200, body = RunDoc)))]
async fn get(
    access: Access,
    PathParam(run): PathParam<RunId>,
    QueryParams(query): QueryParams<DetailQuery>,
) -> JsonResult<RunDoc> {
    Ok(Json(access.namespace.api.detail_at(&run, query).await?))
}

/// Returns a page of a run's log.
#[utoipa::path(get, path = "/v1/runs/{run}/history", tag = "runs", params(HistoryQuery),
    responses((status = 200, body = HistoryDoc)))]
async fn history(
    access: Access,
    PathParam(run): PathParam<RunId>,
    QueryParams(query): QueryParams<HistoryQuery>,
) -> JsonResult<HistoryDoc> {
    Ok(Json(access.namespace.api.history(&run, query).await?))
}

/// Returns the result of a run. With `wait_ms`, waits for the run to end.
#[utoipa::path(get, path = "/v1/runs/{run}/result", tag = "runs", params(WaitQuery),
    responses((status = 200, body = EndingDoc)))]
async fn result(
    State(app): State<Arc<ServerState>>,
    access: Access,
    PathParam(run): PathParam<RunId>,
    QueryParams(query): QueryParams<WaitQuery>,
) -> JsonResult<EndingDoc> {
    let without_wait = WaitQuery { wait_ms: None };
    let ending = tokio::select! {
        ending = access.namespace.api.result(&run, query) => ending?,
        () = app.shutdown_started() => access.namespace.api.result(&run, without_wait).await?,
    };
    Ok(Json(ending))
}

/// Lists the branches of a run.
#[utoipa::path(get, path = "/v1/runs/{run}/branches", tag = "runs",
    responses((status = 200, body = ItemsDoc<BranchDoc>)))]
async fn branches(access: Access, PathParam(run): PathParam<RunId>) -> JsonResult<ItemsDoc<BranchDoc>> {
    Ok(Json(access.namespace.api.branches(&run).await?))
}

/// Compares two branches of a run.
#[utoipa::path(get, path = "/v1/runs/{run}/diff", tag = "runs", params(DiffQuery),
    responses((status = 200, body = DiffDoc)))]
async fn diff(
    access: Access,
    PathParam(run): PathParam<RunId>,
    QueryParams(query): QueryParams<DiffQuery>,
) -> JsonResult<DiffDoc> {
    Ok(Json(access.namespace.api.diff(&run, query).await?))
}

/// Sends a signal. The signal is durable when the response arrives.
#[utoipa::path(post, path = "/v1/runs/{run}/signal", tag = "runs", request_body = NewSignal,
    responses((status = 200, body = SignalledDoc), (status = 422, body = Problem)))]
async fn signal(to: RunCommand<JsonBody<NewSignal>>) -> JsonResult<SignalledDoc> {
    Ok(Json(to.access.namespace.api.signal(&to.caller, &to.run, to.body.0).await?))
}

/// Pauses a run between two effects.
#[utoipa::path(post, path = "/v1/runs/{run}/pause", tag = "runs", request_body = Option<NewNote>,
    responses((status = 200, body = DoneDoc)))]
async fn pause(to: RunCommand<OptionalBody<NewNote>>) -> JsonResult<DoneDoc> {
    Ok(Json(to.access.namespace.api.pause(&to.caller, &to.run, to.body.0).await?))
}

/// Gives a run a new advance task that is due now.
#[utoipa::path(post, path = "/v1/runs/{run}/requeue", tag = "runs", request_body = Option<NewNote>,
    responses((status = 200, body = DoneDoc)))]
async fn requeue(to: RunCommand<OptionalBody<NewNote>>) -> JsonResult<DoneDoc> {
    Ok(Json(to.access.namespace.api.requeue(&to.caller, &to.run, to.body.0).await?))
}

/// Moves a run to another version of its workflow, without a preflight. A run that a live node executes is refused:
/// pause it first.
#[utoipa::path(post, path = "/v1/runs/{run}/migrate", tag = "runs", request_body = NewMigration,
    responses((status = 200, body = DoneDoc)))]
async fn migrate(to: RunCommand<JsonBody<NewMigration>>) -> JsonResult<DoneDoc> {
    Ok(Json(to.access.namespace.api.migrate(&to.caller, &to.run, to.body.0).await?))
}

/// Adds a note to a run's log.
#[utoipa::path(post, path = "/v1/runs/{run}/note", tag = "runs", request_body = NewNote,
    responses((status = 200, body = DoneDoc)))]
async fn note(to: RunCommand<JsonBody<NewNote>>) -> JsonResult<DoneDoc> {
    Ok(Json(to.access.namespace.api.note_run(&to.caller, &to.run, to.body.0).await?))
}

/// Resumes a run. Recovers it first if necessary, and reports what was done.
#[utoipa::path(post, path = "/v1/runs/{run}/resume", tag = "runs", request_body = Option<NewNote>,
    responses((status = 200, body = ResumedDoc)))]
async fn resume(to: RunCommand<OptionalBody<NewNote>>) -> JsonResult<ResumedDoc> {
    Ok(Json(to.access.namespace.api.resume(&to.caller, &to.run, to.body.0).await?))
}

/// Undoes what has not settled, on a new branch.
#[utoipa::path(post, path = "/v1/runs/{run}/reset", tag = "runs", request_body = Option<NewNote>,
    responses((status = 200, body = BranchedDoc)))]
async fn reset(to: RunCommand<OptionalBody<NewNote>>) -> JsonResult<BranchedDoc> {
    Ok(Json(to.access.namespace.api.reset(&to.caller, &to.run, to.body.0).await?))
}

/// Returns to the branch before the latest seam.
#[utoipa::path(post, path = "/v1/runs/{run}/undo-recovery", tag = "runs", request_body = Option<NewNote>,
    responses((status = 200, body = BranchedDoc)))]
async fn undo_recovery(to: RunCommand<OptionalBody<NewNote>>) -> JsonResult<BranchedDoc> {
    Ok(Json(to.access.namespace.api.undo_recovery(&to.caller, &to.run, to.body.0).await?))
}

/// Goes back to a step, on a new branch.
#[utoipa::path(post, path = "/v1/runs/{run}/jump", tag = "runs", request_body = NewJump,
    responses((status = 200, body = JumpedDoc)))]
async fn jump(to: RunCommand<JsonBody<NewJump>>) -> JsonResult<JumpedDoc> {
    Ok(Json(to.access.namespace.api.jump(&to.caller, &to.run, to.body.0).await?))
}

/// Diagnoses a run and heals it.
#[utoipa::path(post, path = "/v1/runs/{run}/recover", tag = "runs", request_body = Option<NewRecovery>,
    responses((status = 200, body = RecoveryDoc)))]
async fn recover(to: RunCommand<OptionalBody<NewRecovery>>) -> JsonResult<RecoveryDoc> {
    Ok(Json(to.access.namespace.api.recover(&to.caller, &to.run, to.body.0).await?))
}
