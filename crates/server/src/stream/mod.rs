//! Logs as they grow, as server-sent events.
//!
//! Invariant: the log is what is sent. Only events of a log have an id; whoever comes back with the last one that he
//! saw gets what stands behind it, each once and in order, from whichever server he reaches.

mod fan_out;
mod feed;
mod message;
mod slots;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, unfold};
use goldseam::{RunId, Seq};
use goldseam_api::{Following, Problem};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, PathParam, Query};
use crate::reply::ProblemResponse;
use crate::waits::Wait;

pub(crate) use fan_out::FanOut;
use message::Message;
pub(crate) use slots::FollowerSlots;

/// While nothing happens, a comment is sent this often: it shows both ends that the other is there.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Where a follower says what it saw last.
const LAST_EVENT_ID: &str = "last-event-id";

pub(crate) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(of_run)).routes(routes!(feed::of_all))
}

/// Where to begin.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FollowQuery {
    /// Only events after this position; `Last-Event-ID` goes before it.
    #[serde(default)]
    after: Option<u64>,
}

/// A run's log: what is there, then what comes, until the run is over.
///
/// The id of an event is its position, its name the type of the event. `stalled`, with the diagnosis, and `moving` have
/// no id. A run that is over and told in full is answered with 204.
#[utoipa::path(get, path = "/v1/runs/{run}/events", tag = "streams", security(("key" = ["read"])),
    params(("run" = String, Path, description = "the run"), FollowQuery),
    responses((status = 200, description = "the stream", body = String, content_type = "text/event-stream"),
        (status = 204, description = "it is over"), (status = 400, body = Problem), (status = 404, body = Problem), (status = 429, body = Problem)))]
async fn of_run(
    State(app): State<Arc<App>>,
    (access, Extension(wait)): (Access, Extension<Arc<Wait>>),
    PathParam(run): PathParam<RunId>,
    Query(query): Query<FollowQuery>,
    headers: HeaderMap,
) -> Result<Response, ProblemResponse> {
    let after = match last_seen(&headers)? {
        Some(seen) => seen.parse().map_err(|_| not_an_id(seen))?,
        None => query.after.unwrap_or(0),
    };
    let summary = access.namespace.client().get(&run).await?;
    if after > summary.as_of.0 {
        return Err(not_an_id(&after.to_string()).into());
    }
    if summary.status.is_terminal() && summary.as_of.0 <= after && after > 0 {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let seat = app.followers.take(&access)?;
    let wake = access.namespace.tails.of(&run);
    let turns = Arc::clone(&app.catching_up);
    let following = access.namespace.api.follow_among(&run, Seq(after), (wake, turns)).await?;
    let sending = told(&app, following);
    Ok(sent(app, (seat, wait), sending))
}

/// The id that a follower saw last, if it came back.
fn last_seen(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(seen) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let seen = seen.to_str().map_err(|_| not_an_id("?"))?.trim();
    Ok((!seen.is_empty()).then_some(seen))
}

fn not_an_id(seen: &str) -> Problem {
    let shown: String = seen.chars().take(40).collect();
    Problem::bad_request(format!("{shown:?} is no id of an event of this stream"))
        .code("GS0608")
        .hint("send back the last id that was received, or none")
}

/// What a stream sends; the second is the problem that ended it.
type Sending = BoxStream<'static, Result<Message, Problem>>;

fn told(app: &Arc<App>, following: Following) -> Sending {
    let app = Arc::clone(app);
    let event = move |news: Result<goldseam_api::doc::event::News, Problem>| {
        let app = Arc::clone(&app);
        async move {
            let news = news?;
            let _turn = app.catching_up.acquire().await;
            let message = printed(&app, news.name(), &news)?;
            Ok(match news.seq() {
                Some(seq) => message.with_id(seq.to_string()),
                None => message,
            })
        }
    };
    following.then(event).boxed()
}

/// What is sent under a name: a document without secrets.
fn printed(app: &App, name: &str, document: &impl Serialize) -> Result<Message, Problem> {
    let text = serde_json::to_string(document)
        .map_err(|error| Problem::new(500, format!("an event cannot be sent: {error}")))?;
    Ok(Message::new(name, app.redactor.json(&text).into_owned()))
}

/// A follower as it is served.
struct Served {
    app: Arc<App>,
    sending: Sending,
    /// Its seat, which is free again when it has gone.
    _seat: slots::FollowerSlot,
    /// Ends when its key is not valid any more.
    wait: Arc<Wait>,
}

/// Sends a stream until it ends, the server leaves, or the key is not valid any more.
fn sent(app: Arc<App>, (seat, wait): (slots::FollowerSlot, Arc<Wait>), sending: Sending) -> Response {
    let served = Served { app, sending, _seat: seat, wait };
    let next = |served: Option<Served>| async move {
        let mut served = served?;
        match served.next().await? {
            Ok(sent) => Some((Ok::<_, Infallible>(sent), Some(served))),
            Err(problem) => Some((Ok(ended_by(&served.app, &problem)), None)),
        }
    };
    let content_type = [(header::CONTENT_TYPE, "text/event-stream")];
    (content_type, Body::from_stream(unfold(Some(served), next))).into_response()
}

/// The last thing that is sent when something is wrong; no event of a log.
fn ended_by(app: &App, problem: &Problem) -> Bytes {
    printed(app, "problem", problem).map_or_else(|_| message::comment(), |message| message.to_bytes())
}

impl Served {
    async fn next(&mut self) -> Option<Result<Bytes, Problem>> {
        let Self { app, sending, wait, .. } = self;
        tokio::select! {
            biased;
            () = app.left() => None,
            problem = wait.ended() => Some(Err(problem)),
            next = sending.next() => next.map(|message| message.map(|message| message.to_bytes())),
            () = tokio::time::sleep(HEARTBEAT) => Some(Ok(message::comment())),
        }
    }
}
