//! Everything that happens in a namespace, in one order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use goldseam::RunId;
use goldseam::core::codec;
use goldseam::store::{Fed, Feed, Store};
use goldseam_api::Problem;
use goldseam_api::doc::event::EventDoc;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::{IntoParams, ToSchema};

use super::message::Message;
use super::{Sending, last_seen, printed, sent};
use crate::app::App;
use crate::extract::{Access, Query};
use crate::reply::ProblemResponse;
use crate::waits::Wait;

/// Events read at a time.
const PAGE: u32 = 64;
/// Events in the first read: their size is not known before.
const FIRST: u32 = 8;
/// Bytes of them that are kept until they are sent, but for the last: what is behind is read again.
const KEPT_BYTES: usize = 16 * 1024;
/// What was appended may come into the order a moment later: it is looked for again.
const LATE: Duration = Duration::from_millis(250);

/// Where nothing happens, it is looked so often all the same.
const IDLE: Duration = Duration::from_secs(5);

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum From {
    /// With the very first event.
    #[default]
    Start,
    /// With what comes.
    Now,
}

/// Which events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedQuery {
    /// Where to begin; `Last-Event-ID` goes before it.
    #[serde(default)]
    #[param(inline)]
    from: From,
}

/// An event, and whose it is.
#[derive(Debug, Serialize, ToSchema)]
struct Told {
    run: RunId,
    #[serde(flatten)]
    event: EventDoc,
}

/// Everything that happens in this namespace: what is there, then what comes. Events of one run come in order.
#[utoipa::path(get, path = "/v1/events", tag = "streams", security(("key" = ["read"])), params(FeedQuery),
    responses((status = 200, description = "the stream", body = String, content_type = "text/event-stream"),
        (status = 429, body = Problem), (status = 501, body = Problem)))]
pub(super) async fn of_all(
    State(app): State<Arc<App>>,
    access: Access,
    Query(query): Query<FeedQuery>,
    Extension(wait): Extension<Arc<Wait>>,
    headers: HeaderMap,
) -> Result<Response, ProblemResponse> {
    let store = Arc::clone(access.namespace.client().store());
    let none = || {
        Problem::new(501, "this store knows no order of everything that happens in it")
            .code("GS0612")
            .hint("follow runs one by one: GET /v1/runs/{run}/events")
    };
    let feed = store.feed().ok_or_else(none)?;
    let behind = match (last_seen(&headers)?, query.from) {
        (Some(seen), _) => Some(seen.to_owned()),
        (None, From::Now) => feed.latest().await?,
        (None, From::Start) => None,
    };
    let seat = app.followers.take(&access)?;
    let wake = access.namespace.tails.any();
    let (shown_by, store) = (Arc::clone(&app), Arc::clone(&store));
    let read = VecDeque::new();
    let mut tail = Tail { app: shown_by, store, behind, wake, read, most: FIRST, woken: false };
    // Refuses an invalid position now, not inside the stream.
    tail.read().await?;
    Ok(sent(app, (seat, wait), tail.told()))
}

/// Somebody who follows everything.
struct Tail {
    app: Arc<App>,
    store: Arc<dyn Store>,
    behind: Option<String>,
    wake: watch::Receiver<u64>,
    read: VecDeque<Fed>,
    /// Events in its next read.
    most: u32,
    /// Whether something happened just now.
    woken: bool,
}

impl Tail {
    fn told(self) -> Sending {
        let next = |tail: Option<Self>| async move {
            let mut tail = tail?;
            match tail.next().await {
                Ok(event) => Some((Ok(event), Some(tail))),
                Err(problem) => Some((Err(problem), None)),
            }
        };
        unfold(Some(self), next).boxed()
    }

    async fn next(&mut self) -> Result<Message, Problem> {
        loop {
            if let Some(fed) = self.read.pop_front() {
                self.behind = Some(fed.place.clone());
                let _turn = self.app.catching_up.acquire().await;
                return event(&self.app, fed);
            }
            self.wake.mark_unchanged();
            self.read().await?;
            if self.read.is_empty() {
                let patience = if self.woken { LATE } else { IDLE };
                self.woken = tokio::time::timeout(patience, self.wake.changed()).await.is_ok();
            }
        }
    }
}

impl Tail {
    /// Reads the next events, once there is a permit.
    async fn read(&mut self) -> Result<(), Problem> {
        let _turn = self.app.catching_up.acquire().await;
        let feed: &dyn Feed = self.store.feed().ok_or_else(|| Problem::new(501, "the order is gone"))?;
        let read = feed.fed(self.behind.as_deref(), self.most).await?;
        let count = read.len();
        self.read = that_fit(read);
        let kept = u32::try_from(self.read.len()).unwrap_or(PAGE);
        if self.read.len() < count {
            self.most = kept.max(1);
        } else if kept == self.most {
            self.most = (kept * 2).min(PAGE);
        }
        Ok(())
    }
}

/// As many of them as may be kept, and one at least.
fn that_fit(read: Vec<Fed>) -> VecDeque<Fed> {
    let mut bytes = 0;
    let fits = |fed: &Fed| {
        let fits = bytes < KEPT_BYTES;
        bytes += fed.record.body.len();
        fits
    };
    read.into_iter().take_while(fits).collect()
}

/// An event that cannot be read is told as such: whoever follows sees that there is one.
fn event(app: &App, fed: Fed) -> Result<Message, Problem> {
    let Fed { place, run, record } = fed;
    let event = match codec::decode(record.seq, &record.body) {
        Ok(recorded) => {
            let event = EventDoc::from(&recorded);
            let name = event.kind.clone();
            printed(app, &name, &Told { run, event })?
        }
        Err(corrupt) => {
            let told = serde_json::json!({ "run": run, "seq": record.seq, "detail": corrupt.to_string() });
            printed(app, "unreadable", &told)?
        }
    };
    Ok(event.with_id(place))
}
