//! The stream of all events of a namespace, in the order of its feed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use goldseam::RunId;
use goldseam::unstable::core::codec;
use goldseam::unstable::store::{Feed, FeedEvent, Store};
use goldseam_api::Problem;
use goldseam_api::doc::event::EventDoc;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::{IntoParams, ToSchema};

use super::message::Message;
use super::{ConnectedFollower, Messages, last_event_id, redacted_message, respond};
use crate::app::ServerState;
use crate::extract::{QueryParams, WaitingAccess};
use crate::reply::ProblemResponse;

/// Maximum number of events per read.
const PAGE: u32 = 64;
/// Events in the first read, while their size is unknown.
const FIRST_PAGE: u32 = 8;
/// Bytes of unsent events that a follower keeps. The rest is read again later.
const KEPT_BYTES: usize = 16 * 1024;
/// Pause before the second read after a wake-up, because an append may enter the feed a moment later.
const LATE: Duration = Duration::from_millis(250);
/// Shortest time between two messages about changes of the store.
const CHANGES_PAUSE: Duration = Duration::from_secs(1);
/// Interval between two reads without a wake-up.
const IDLE: Duration = Duration::from_secs(5);

/// The start of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum From {
    /// The first event.
    #[default]
    Start,
    /// New events only.
    Now,
}

/// The start of the stream.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedQuery {
    /// Where the stream starts. `Last-Event-ID` takes precedence.
    #[serde(default)]
    #[param(inline)]
    from: From,
    /// Also sends `changed`, without an id and at most once in a second, if anything in the store may have changed:
    /// logs, tasks, locks or nodes.
    #[serde(default)]
    changes: bool,
}

/// A change of the store that may be in no log.
#[derive(Debug, Serialize)]
struct StoreChanged {
    /// As in the response of `/v1/changes`.
    mark: u64,
}

/// An event and its run.
#[derive(Debug, Serialize, ToSchema)]
struct RunEvent {
    run: RunId,
    #[serde(flatten)]
    event: EventDoc,
}

/// Follows all events of this namespace: existing events, then new ones. Events of one run are in order.
///
/// With `changes`, messages `changed` say that a list of tasks, locks or nodes may have changed.
#[utoipa::path(get, path = "/v1/events", tag = "streams", params(FeedQuery),
    responses((status = 200, description = "The stream.", body = String, content_type = "text/event-stream"),
        (status = 501, body = Problem)))]
pub(super) async fn follow_all(
    State(app): State<Arc<ServerState>>,
    WaitingAccess { access, wait }: WaitingAccess,
    QueryParams(query): QueryParams<FeedQuery>,
    headers: HeaderMap,
) -> Result<Response, ProblemResponse> {
    let store = Arc::clone(access.namespace.client().store());
    let no_feed = || {
        Problem::new(501, "this store has no feed of all events")
            .code("GS0612")
            .hint("follow single runs: GET /v1/runs/{run}/events")
    };
    let feed = store.feed().ok_or_else(no_feed)?;
    let position = match (last_event_id(&headers)?, query.from) {
        (Some(id), _) => Some(id.to_owned()),
        (None, From::Now) => feed.latest().await?,
        (None, From::Start) => None,
    };
    let slot = app.followers.take(access.principal.key.clone())?;
    let mut reader = FeedReader {
        app: Arc::clone(&app),
        wake: access.namespace.fan_out.follow_all(),
        changes: query.changes.then(|| access.namespace.fan_out.follow_changes()),
        next_change: Duration::ZERO,
        store: Arc::clone(&store),
        position,
        unsent: VecDeque::new(),
        page: FIRST_PAGE,
        woken: false,
    };
    // Refuses an invalid position now, not inside the stream.
    reader.read().await?;
    Ok(respond(ConnectedFollower { app, messages: reader.messages(), _slot: slot, wait }))
}

/// The reader of one follower of the feed.
struct FeedReader {
    app: Arc<ServerState>,
    store: Arc<dyn Store>,
    /// Position of the last sent event.
    position: Option<String>,
    wake: watch::Receiver<u64>,
    /// The mark of the store, if the follower wants to know about changes.
    changes: Option<watch::Receiver<u64>>,
    /// When the next change may be sent, by the time since the start of the clock.
    next_change: Duration,
    unsent: VecDeque<FeedEvent>,
    /// Events in the next read.
    page: u32,
    /// Whether a log has just grown.
    woken: bool,
}

impl FeedReader {
    fn messages(self) -> Messages {
        let next = |reader: Option<Self>| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(message) => Some((Ok(message), Some(reader))),
                Err(problem) => Some((Err(problem), None)),
            }
        };
        unfold(Some(self), next).boxed()
    }

    async fn next(&mut self) -> Result<Message, Problem> {
        loop {
            if let Some(fed) = self.unsent.pop_front() {
                self.position = Some(fed.place.clone());
                let _permit = self.app.follower_reads.acquire().await;
                return message(&self.app, fed);
            }
            self.woken |= self.wake.has_changed().unwrap_or_default();
            self.wake.mark_unchanged();
            self.read().await?;
            if self.unsent.is_empty() {
                let pause = if self.woken { LATE } else { IDLE };
                let rest = self.next_change.saturating_sub(self.app.clock.elapsed());
                tokio::select! {
                    biased;
                    woken = tokio::time::timeout(pause, self.wake.changed()) => self.woken = woken.is_ok(),
                    mark = next_mark(self.changes.as_mut(), rest) => {
                        self.next_change = self.app.clock.elapsed() + CHANGES_PAUSE;
                        return redacted_message(&self.app, "changed", &StoreChanged { mark });
                    }
                }
            }
        }
    }

    /// Reads the next events, once a permit is free.
    async fn read(&mut self) -> Result<(), Problem> {
        let _permit = self.app.follower_reads.acquire().await;
        let feed: &dyn Feed =
            self.store.feed().ok_or_else(|| Problem::new(501, "the store no longer has a feed"))?;
        let read = feed.events_after(self.position.as_deref(), self.page).await?;
        let count = read.len();
        self.unsent = first_kept(read);
        let kept = u32::try_from(self.unsent.len()).unwrap_or(PAGE);
        if self.unsent.len() < count {
            self.page = kept.max(1);
        } else if kept == self.page {
            self.page = (kept * 2).min(PAGE);
        }
        Ok(())
    }
}

/// Waits for the next change of the store, at least for `rest`. Never returns if the follower wants no changes.
async fn next_mark(changes: Option<&mut watch::Receiver<u64>>, rest: Duration) -> u64 {
    let Some(changes) = changes else { return std::future::pending().await };
    tokio::time::sleep(rest).await;
    match changes.changed().await {
        Ok(()) => *changes.borrow_and_update(),
        Err(_) => std::future::pending().await,
    }
}

/// Keeps the first events up to [`KEPT_BYTES`], and at least one.
fn first_kept(read: Vec<FeedEvent>) -> VecDeque<FeedEvent> {
    let mut bytes = 0;
    let fits = |fed: &FeedEvent| {
        let fits = bytes < KEPT_BYTES;
        bytes += fed.record.body.len();
        fits
    };
    read.into_iter().take_while(fits).collect()
}

/// Builds the message of an event. An event that cannot be decoded is sent as `unreadable`, so followers see that it
/// exists.
fn message(app: &ServerState, fed: FeedEvent) -> Result<Message, Problem> {
    let FeedEvent { place, run, record } = fed;
    let message = match codec::decode(record.seq, &record.body) {
        Ok(recorded) => {
            let event = EventDoc::from(&recorded);
            let name = event.kind.clone();
            redacted_message(app, &name, &RunEvent { run, event })?
        }
        Err(corrupt) => {
            let document =
                serde_json::json!({ "run": run, "seq": record.seq, "detail": corrupt.to_string() });
            redacted_message(app, "unreadable", &document)?
        }
    };
    Ok(message.with_id(place))
}
