//! Passes: made by whoever has a key, used by whoever holds one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use bytes::Bytes;
use goldseam::{Payload, RunId};
use goldseam_api::doc::change::{NewAnswer, NewSignal};
use goldseam_api::doc::pass::{MadePass, NewPass, Rotated, ShownPass, UsePass, UsedPass};
use goldseam_api::doc::run::Question;
use goldseam_api::{Api, Caller, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{self, Peer, PresentedPass};
use crate::extract::{Access, Body, CallerInfo, PathParam};
use crate::pass::{Allows, Maker, Pass};
use crate::reply::{Json, JsonResult};

/// Where a program says that it has the secret.
const SIGNATURE: &str = "goldseam-signature";

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show, spend))
        .routes(routes!(callback))
        .routes(routes!(rotate))
}

/// Makes a pass: whoever holds it may answer one question of this run, or send it one signal, once.
#[utoipa::path(post, path = "/v1/runs/{run}/passes", tag = "passes", security(("key" = ["signal"])), request_body = NewPass,
    params(("run" = String, Path, description = "the run")),
    responses((status = 200, body = MadePass), (status = 400, body = Problem), (status = 404, body = Problem)))]
async fn create(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
    PathParam(run): PathParam<RunId>,
    Body(new): Body<NewPass>,
) -> JsonResult<MadePass> {
    let space = (access.namespace.name.as_str(), &access.namespace.api as &dyn Api);
    let once = caller.command_id("create pass", run.as_str());
    let key = access.principal.key.clone();
    let key_expires_at = match &key {
        Some(key) => app.keyring.expiry(key).await?,
        None => None,
    };
    let maker = Maker { who: caller.who, key, key_expires_at, once };
    Ok(Json(app.passes.make(space, maker, &run, new).await?))
}

/// What the pass allows that this was asked with.
#[utoipa::path(get, path = "/v1/pass", tag = "passes", security(("pass" = [])),
    responses((status = 200, body = ShownPass), (status = 403, body = Problem), (status = 410, body = Problem)))]
async fn show(access: Access, held: PresentedPass) -> JsonResult<ShownPass> {
    let pass = &held.opened.pass;
    let (question, signal) = match &pass.allows {
        Allows::Answer { question, since } => {
            let open = access.namespace.api.questions_of(&pass.run).await?.items;
            let is_it =
                |open: &Question| (&open.open.input.path, open.open.input.since) == (question, *since);
            (Some(open.into_iter().find(is_it).ok_or_else(over)?.open), None)
        }
        Allows::Signal { name } => (None, Some(name.clone())),
    };
    Ok(Json(ShownPass { run: pass.run.clone(), question, signal, expires_at: pass.expires_at }))
}

/// Uses the pass that this was asked with. The same again is answered the same way, something else is refused.
#[utoipa::path(post, path = "/v1/pass", tag = "passes", security(("pass" = [])), request_body = UsePass,
    responses((status = 200, body = UsedPass), (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 409, body = Problem), (status = 410, body = Problem), (status = 422, body = Problem)))]
async fn spend(access: Access, held: PresentedPass, Body(usage): Body<UsePass>) -> JsonResult<UsedPass> {
    used(&access, &held.opened.pass, usage).await
}

/// Uses a pass by a signature instead of showing it: for programs. The body is the payload itself.
///
/// `goldseam-signature: t=SECONDS,v1=HMAC`, where HMAC is HMAC-SHA-256, in hexadecimal, with the secret of the pass as
/// its key, over `SECONDS.POST.PATH.HASH`: the time now, the path of this request, and the SHA-256 of the body in
/// hexadecimal. It is good for five minutes.
#[utoipa::path(post, path = "/v1/callbacks/{ticket}", tag = "passes", security(("signature" = [])),
    params(("ticket" = String, Path, description = "from the answer that made the pass")),
    request_body = serde_json::Value,
    responses((status = 200, body = UsedPass), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 409, body = Problem), (status = 410, body = Problem), (status = 422, body = Problem)))]
async fn callback(
    State(app): State<Arc<App>>,
    (access, held, uri): (Access, PresentedPass, Uri),
    axum::Extension(Peer { client, .. }): axum::Extension<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> JsonResult<UsedPass> {
    let signature = headers.get(SIGNATURE).and_then(|signature| signature.to_str().ok()).unwrap_or_default();
    if !held.opened.is_signed(signature, uri.path(), &body, app.clock.now()) {
        return Err(auth::turned_away(&app, Some(client), auth::unauthenticated()).into());
    }
    let text = if body.is_empty() { b"null" } else { body.as_ref() };
    let payload: Payload = serde_json::from_slice(text)
        .map_err(|error| Problem::bad_request(format!("the body is no JSON: {error}")).code("GS0608"))?;
    used(&access, &held.opened.pass, UsePass { payload, by: None }).await
}

/// Makes passes with something new from now on. Those that were made before the last time open nothing any more.
#[utoipa::path(post, path = "/v1/passes/rotate", tag = "passes", security(("key" = ["admin"])),
    responses((status = 200, body = Rotated), (status = 403, body = Problem)))]
async fn rotate(
    State(app): State<Arc<App>>,
    access: Access,
    CallerInfo(caller): CallerInfo,
) -> JsonResult<Rotated> {
    if access.namespace.name != crate::NAMESPACE_DEFAULT {
        return Err(Problem::new(
            403,
            "passes of all namespaces are made with the same: ask in the main one",
        )
        .code("GS0602")
        .into());
    }
    Ok(Json(app.passes.rotate(&caller).await?))
}

/// Does what a pass allows. Its id is the idempotency key, so that the run's log knows whether it was used.
async fn used(access: &Access, pass: &Pass, UsePass { payload, by }: UsePass) -> JsonResult<UsedPass> {
    let key = Some(format!("pass {}", pass.id));
    let caller = Caller { who: Some(access.principal.name.clone()), key, ..Caller::default() };
    let (api, run) = (&access.namespace.api, &pass.run);
    let event = match &pass.allows {
        Allows::Signal { name } => {
            let new = NewSignal { name: name.to_string(), payload, id: None };
            api.signal(&caller, run, new).await?.event
        }
        Allows::Answer { question, since } => {
            let new = NewAnswer { answer: payload, since: Some(*since), by, id: None };
            let answered = api.answer(&caller, run, question, new).await;
            answered.map_err(|problem| if problem.status == 404 { over() } else { problem })?.event
        }
    };
    Ok(Json(UsedPass { event, run: run.clone() }))
}

fn over() -> Problem {
    Problem::new(410, "what this pass was for is over: it was used, or the question is not asked any more")
        .code("GS0613")
        .hint("ask whoever sent it for another one")
}
