//! Passes: callers with a key create them, holders use them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::request::Parts;
use bytes::Bytes;
use goldseam::{Payload, RunId};
use goldseam_api::credentials::passes::{Allows, Ticket};
use goldseam_api::doc::change::{NewAnswer, NewSignal};
use goldseam_api::doc::pass::{
    CreatedPassDoc, NewPass, NewPassUse, RotatedPassesDoc, ShownPassDoc, UsedPassDoc,
};
use goldseam_api::doc::run::QuestionDoc;
use goldseam_api::{Caller, CommandsApi, PassesApi, Problem, RunsApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::auth;
use crate::extract::{Access, CallerInfo, JsonBody, PathParam};
use crate::principal::{Peer, PresentedPass, unauthenticated};
use crate::reply::{Json, JsonResult};

/// The header with the signature of a callback.
const SIGNATURE: &str = "goldseam-signature";

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show, spend))
        .routes(routes!(callback))
        .routes(routes!(rotate))
}

/// Creates a pass. Its holder may answer one question of this run or send it one signal, once.
#[utoipa::path(post, path = "/v1/runs/{run}/passes", tag = "passes", request_body = NewPass,
    responses((status = 200, body = CreatedPassDoc)))]
async fn create(
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    JsonBody(new): JsonBody<NewPass>,
) -> JsonResult<CreatedPassDoc> {
    Ok(Json(access.namespace.api.create_pass(&caller, &run, new).await?))
}

/// Shows what the presented pass allows.
#[utoipa::path(get, path = "/v1/pass", tag = "passes",
    responses((status = 200, body = ShownPassDoc), (status = 410, body = Problem)))]
async fn show(access: Access, presented: PresentedPass) -> JsonResult<ShownPassDoc> {
    let pass = &presented.opened.pass;
    let (question, signal) = match &pass.allows {
        Allows::Answer { question, since } => {
            let open = access.namespace.api.questions_of(&pass.run).await?.items;
            let is_it =
                |open: &QuestionDoc| (&open.open.input.path, open.open.input.since) == (question, *since);
            (Some(open.into_iter().find(is_it).ok_or_else(spent)?.open), None)
        }
        Allows::Signal { name } => (None, Some(name.clone())),
    };
    Ok(Json(ShownPassDoc { run: pass.run.clone(), question, signal, expires_at: pass.expires_at }))
}

/// Uses the presented pass. The same request again gets the same response, a different one is refused.
#[utoipa::path(post, path = "/v1/pass", tag = "passes", request_body = NewPassUse,
    responses((status = 200, body = UsedPassDoc), (status = 410, body = Problem), (status = 422, body = Problem)))]
async fn spend(
    access: Access,
    presented: PresentedPass,
    JsonBody(usage): JsonBody<NewPassUse>,
) -> JsonResult<UsedPassDoc> {
    use_pass(&access, &presented.opened.pass, usage).await
}

/// Uses a pass with a signature instead of its secret: for programs. The body is the payload.
///
/// `goldseam-signature: t=SECONDS,v1=HMAC`, where HMAC is the hexadecimal HMAC-SHA-256 of `SECONDS.POST.PATH.HASH`
/// with the secret of the pass as its key: the current time, the path of this request, and the hexadecimal SHA-256 of
/// the body. A signature is valid for five minutes.
#[utoipa::path(post, path = "/v1/callbacks/{ticket}", tag = "passes", request_body = serde_json::Value,
    responses((status = 200, body = UsedPassDoc), (status = 410, body = Problem), (status = 422, body = Problem)))]
async fn callback(
    State(app): State<Arc<ServerState>>,
    access: Access,
    presented: PresentedPass,
    parts: Parts,
    body: Bytes,
) -> JsonResult<UsedPassDoc> {
    let signature = parts.headers.get(SIGNATURE).and_then(|signature| signature.to_str().ok());
    let signature = signature.unwrap_or_default();
    if !presented.opened.is_signed(signature, parts.uri.path(), &body, app.clock.now()) {
        let client = parts.extensions.get::<Peer>().map(|peer| peer.client);
        return Err(auth::reject(&app, client, unauthenticated()).into());
    }
    let text = if body.is_empty() { b"null" } else { body.as_ref() };
    let payload: Payload = serde_json::from_slice(text).map_err(|error| {
        Problem::bad_request(format!("the body is not valid JSON: {error}")).code("GS0608")
    })?;
    use_pass(&access, &presented.opened.pass, NewPassUse { payload, by: None }).await
}

/// Generates a new secret for passes. Existing passes stay valid until the next rotation.
#[utoipa::path(post, path = "/v1/passes/rotate", tag = "passes", responses((status = 200, body = RotatedPassesDoc)))]
async fn rotate(access: Access, CallerInfo(caller): CallerInfo) -> JsonResult<RotatedPassesDoc> {
    Ok(Json(access.namespace.api.rotate_passes(&caller).await?))
}

/// Does what a pass allows. Its id is the idempotency key, so the run's log shows whether it was used.
async fn use_pass(access: &Access, pass: &Ticket, usage: NewPassUse) -> JsonResult<UsedPassDoc> {
    let NewPassUse { payload, by } = usage;
    let key = Some(format!("pass {}", pass.id));
    let caller = Caller { who: Some(access.principal.name.clone()), key, ..Caller::default() };
    let api = &access.namespace.api;
    let run = &pass.run;
    let event = match &pass.allows {
        Allows::Signal { name } => {
            let new = NewSignal { name: name.to_string(), payload, id: None };
            api.signal(&caller, run, new).await?.event
        }
        Allows::Answer { question, since } => {
            let new = NewAnswer { answer: payload, since: Some(*since), by, id: None };
            let answered = api.answer(&caller, run, question, new).await;
            answered.map_err(|problem| if problem.status == 404 { spent() } else { problem })?.event
        }
    };
    Ok(Json(UsedPassDoc { event, run: run.clone() }))
}

fn spent() -> Problem {
    Problem::new(410, "this pass was already used, or its question was closed")
        .code("GS0613")
        .hint("ask the sender of the pass for another one")
}
