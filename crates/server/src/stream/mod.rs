//! Logs as server-sent events.
//!
//! Invariant: a stream sends the log. Only log events have an id. A follower that reconnects to any server with the
//! last id it received gets the events after it, each once and in order.

mod feed;
mod message;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, unfold};
use goldseam::{RunId, Seq};
use goldseam_api::doc::event::NewsDoc;
use goldseam_api::{Following, Problem};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{PathParam, QueryParams, WaitingAccess};
use crate::follower_slots::FollowerSlot;
use crate::reply::ProblemResponse;
use crate::waits::WaitingRequest;

use message::Message;

/// Interval of the comments that show both ends that an idle connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The header in which a reconnecting follower sends the last id it received.
const LAST_EVENT_ID: &str = "last-event-id";

pub(crate) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(follow_run)).routes(routes!(feed::follow_all))
}

/// The start of a stream.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FollowQuery {
    /// Sends only events after this position. `Last-Event-ID` takes precedence.
    #[serde(default)]
    after: Option<u64>,
}

/// Follows the log of a run: existing events, then new ones, until the run ends.
///
/// The id of a message is the position of its event, its name the event type. The messages `stalled`, with the
/// diagnosis, and `moving` have no id. The response is 204 if the run has ended and all its events were received.
#[utoipa::path(get, path = "/v1/runs/{run}/events", tag = "streams", params(FollowQuery),
    responses((status = 200, description = "The stream.", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The run has ended, and all its events were received.")))]
async fn follow_run(
    State(app): State<Arc<ServerState>>,
    WaitingAccess { access, wait }: WaitingAccess,
    PathParam(run): PathParam<RunId>,
    QueryParams(query): QueryParams<FollowQuery>,
    headers: HeaderMap,
) -> Result<Response, ProblemResponse> {
    let after = match last_event_id(&headers)? {
        Some(id) => id.parse().map_err(|_| invalid_id(id))?,
        None => query.after.unwrap_or(0),
    };
    let summary = access.namespace.client().get(&run).await?;
    if after > summary.as_of.0 {
        return Err(invalid_id(&after.to_string()).into());
    }
    if summary.status.is_terminal() && summary.as_of.0 <= after && after > 0 {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let slot = app.followers.take(access.principal.key.clone())?;
    let wake = access.namespace.fan_out.follow_run(&run);
    let permits = Arc::clone(&app.follower_reads);
    let following = access.namespace.api.follow_shared(&run, Seq(after), wake, permits).await?;
    let messages = run_messages(&app, following);
    Ok(respond(ConnectedFollower { app, messages, _slot: slot, wait }))
}

/// Returns the last id that a reconnecting follower received.
fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let id = id.to_str().map_err(|_| invalid_id("?"))?.trim();
    Ok((!id.is_empty()).then_some(id))
}

fn invalid_id(id: &str) -> Problem {
    let shown: String = id.chars().take(40).collect();
    Problem::bad_request(format!("{shown:?} is not an event id of this stream"))
        .code("GS0608")
        .hint("send the last received id, or none")
}

/// The messages of a stream. A problem ends it.
type Messages = BoxStream<'static, Result<Message, Problem>>;

fn run_messages(app: &Arc<ServerState>, following: Following) -> Messages {
    let app = Arc::clone(app);
    let message = move |news: Result<NewsDoc, Problem>| {
        let app = Arc::clone(&app);
        async move {
            let news = news?;
            let _permit = app.follower_reads.acquire().await;
            let message = redacted_message(&app, news.name(), &news)?;
            Ok(match news.seq() {
                Some(seq) => message.with_id(seq.to_string()),
                None => message,
            })
        }
    };
    following.then(message).boxed()
}

/// Builds a message without secrets.
fn redacted_message(app: &ServerState, name: &str, document: &impl Serialize) -> Result<Message, Problem> {
    let text = serde_json::to_string(document)
        .map_err(|error| Problem::new(500, format!("cannot encode an event: {error}")))?;
    Ok(Message::new(name, app.redactor.json(&text).into_owned()))
}

/// A connected follower.
struct ConnectedFollower {
    app: Arc<ServerState>,
    messages: Messages,
    /// Freed when the follower disconnects.
    _slot: FollowerSlot,
    /// Ends with the key.
    wait: Arc<WaitingRequest>,
}

/// Sends the messages until they end, the server shuts down, or the key ends.
fn respond(follower: ConnectedFollower) -> Response {
    let next = |follower: Option<ConnectedFollower>| async move {
        let mut follower = follower?;
        match follower.next().await? {
            Ok(bytes) => Some((Ok::<_, Infallible>(bytes), Some(follower))),
            Err(problem) => Some((Ok(last_message(&follower.app, &problem)), None)),
        }
    };
    let content_type = [(header::CONTENT_TYPE, "text/event-stream")];
    (content_type, Body::from_stream(unfold(Some(follower), next))).into_response()
}

/// Returns the last message of a stream that ends with a problem. It has no id.
fn last_message(app: &ServerState, problem: &Problem) -> Bytes {
    let message = redacted_message(app, "problem", problem);
    message.map_or_else(|_| message::comment(), |message| message.to_bytes())
}

impl ConnectedFollower {
    async fn next(&mut self) -> Option<Result<Bytes, Problem>> {
        let Self { app, messages, wait, .. } = self;
        tokio::select! {
            biased;
            () = app.shutdown_started() => None,
            problem = wait.ended() => Some(Err(problem)),
            next = messages.next() => next.map(|message| message.map(|message| message.to_bytes())),
            () = tokio::time::sleep(HEARTBEAT) => Some(Ok(message::comment())),
        }
    }
}
