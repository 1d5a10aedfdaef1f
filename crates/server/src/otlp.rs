//! Traces, made from the log: a run is a trace, its steps are spans.
//!
//! Invariant: the ids of a trace and of its spans follow from the run and the step alone. So a trace is one whoever
//! executed the run, through crashes and recoveries, and sending something twice changes nothing. How far it was sent is
//! kept in the store: a server that comes back goes on from there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goldseam::core::branch::Branches;
use goldseam::core::lock::Lock;
use goldseam::core::{Event, LockName, Recorded, version};
use goldseam::store::{Expect, Fed, Feed, LockFilter, Store, StoreError, Written};
use goldseam::{Client, EngineError, Millis, Redactor, RunId, Status};
use goldseam_api::Problem;
use goldseam_api::view::log;
use goldseam_api::view::timeline::{self, Row, State};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::{hex, keys};

/// The lock that says how far traces were sent.
const NAME: &str = "goldseam.otlp";
/// Events looked at together.
const PAGE: u32 = 500;
/// Nothing new is looked for more often than this.
const LOOK: Duration = Duration::from_secs(1);
/// A collector that fails is tried again after so long.
const FAILED: Duration = Duration::from_secs(5);
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The code of a place that the store does not have.
const NO_SUCH_PLACE: &str = "GS0612";

/// The record of how far was sent, and the place that it names.
type Kept = (Option<Lock>, Option<String>);

/// Sends the traces of one namespace.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) redactor: Arc<Redactor>,
}

/// A client for a collector.
pub(crate) fn http() -> Result<reqwest::Client, Problem> {
    let built = reqwest::Client::builder().timeout(PATIENCE).build();
    built.map_err(|error| Problem::new(500, format!("traces cannot be sent: {error}")).code("GS0610"))
}

impl Tracer {
    /// Sends for as long as the server runs. What fails is tried again; nothing else waits for it.
    pub(crate) async fn run(self, mut leaving: watch::Receiver<bool>) {
        tokio::select! {
            () = self.send_on() => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    async fn send_on(&self) {
        loop {
            let pause = match self.send_page().await {
                Ok(true) => continue,
                Ok(false) => LOOK,
                Err(problem) => {
                    tracing::warn!(%problem, namespace = self.namespace, "traces could not be sent");
                    FAILED
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends what the next page of the feed ends. Whether there was one.
    async fn send_page(&self) -> Result<bool, Problem> {
        let store = Arc::clone(self.client.store());
        let Some(feed) = store.feed() else { return Err(no_order()) };
        let Some((lock, place)) = self.place(&*store, feed).await? else { return Ok(false) };
        let page = match feed.fed(place.as_deref(), PAGE).await {
            Err(StoreError::Refused { code: NO_SUCH_PLACE, .. }) => {
                return self.begin_again(&*store, (feed, lock)).await;
            }
            page => page?,
        };
        let Some(last) = page.last().map(|fed| fed.place.clone()) else { return Ok(false) };
        let mut spans = Vec::new();
        for (run, since) in moved(&page) {
            match self.spans(&run, since).await {
                Ok(found) => spans.extend(found),
                Err(error) if passes(&error) => return Err(error.into()),
                // What is damaged must not hold up all the others.
                Err(error) => {
                    let (run, namespace) = (run.as_str(), &self.namespace);
                    tracing::warn!(%error, run, namespace, "a run cannot be traced, and is left out");
                }
            }
        }
        if !spans.is_empty() {
            self.post(spans).await?;
        }
        self.keep(&*store, lock, &last).await?;
        Ok(true)
    }

    /// The place that was kept is not of this store, as after a restore from a backup: goes on with what comes.
    async fn begin_again(
        &self,
        store: &dyn Store,
        (feed, lock): (&dyn Feed, Option<Lock>),
    ) -> Result<bool, Problem> {
        let Some(latest) = feed.latest().await? else { return Ok(false) };
        tracing::warn!(
            namespace = self.namespace,
            "the place of traces is not of this store; going on from now"
        );
        self.keep(store, lock, &latest).await?;
        Ok(true)
    }

    /// How far was sent. None at first: what was there before traces were asked for is not sent.
    async fn place(&self, store: &dyn Store, feed: &dyn Feed) -> Result<Option<Kept>, Problem> {
        let filter = LockFilter { name: Some(LockName::new(NAME)?), limit: 1, ..LockFilter::default() };
        let lock = store.locks(filter).await?.into_iter().next();
        if let Some(place) = lock.as_ref().and_then(|lock| lock.holder.clone()) {
            return Ok(Some((lock, Some(place))));
        }
        let Some(latest) = feed.latest().await? else { return Ok(Some((lock, None))) };
        self.keep(store, lock, &latest).await?;
        Ok(None)
    }

    /// Remembers how far was sent. If another server was faster, it has sent the same.
    async fn keep(&self, store: &dyn Store, lock: Option<Lock>, place: &str) -> Result<(), Problem> {
        let (expect, mut lock) = match lock {
            Some(lock) => (Expect::Version(lock.version), lock),
            None => (Expect::Absent, keys::empty(LockName::new(NAME)?, store.now().await?)),
        };
        lock.holder = Some(place.to_owned());
        lock.version += 1;
        lock.fence += 1;
        let (Written::Done | Written::Lost(_)) = store.put_lock(lock, expect).await?;
        Ok(())
    }

    /// What ended in a run at or after a moment, as spans.
    async fn spans(&self, run: &RunId, since: Millis) -> Result<Vec<Value>, EngineError> {
        let history = self.client.readable(run).await?;
        let summary = self.client.get(run).await?;
        let branches = Branches::of(&history);
        let seen = log::seen_by(&history, &branches, summary.branch);
        let trace = trace_id(&self.namespace, run);
        let root = span_id(&trace, "");
        let ended = timeline::rows(&seen).into_iter().filter(|row| row.ended.is_some_and(|end| end >= since));
        let mut spans: Vec<Value> = ended.map(|row| step(&trace, &root, &row)).collect();
        let recovered = history.iter().filter(|recorded| recorded.at >= since);
        spans.extend(recovered.filter_map(|recorded| seam(&trace, &root, recorded)));
        if let Some(end) = summary.finished_at.filter(|_| summary.status.is_terminal()) {
            let attributes = [
                attribute("goldseam.run", run.as_str()),
                attribute("goldseam.workflow", &version::label(&summary.workflow, summary.version)),
                attribute("goldseam.recoveries", &summary.recoveries.to_string()),
            ];
            let failed = summary.status != Status::Completed;
            let name = summary.workflow.as_str();
            let times = (summary.created_at, end);
            spans.push(span((&trace, &root, None), name, times, &attributes, failed));
        }
        Ok(spans)
    }

    async fn post(&self, spans: Vec<Value>) -> Result<(), Problem> {
        let resource =
            [attribute("service.name", "goldseam"), attribute("goldseam.namespace", &self.namespace)];
        let document = json!({ "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "goldseam", "version": env!("CARGO_PKG_VERSION") }, "spans": spans }],
        }] });
        let url = format!("{}/v1/traces", self.url.trim_end_matches('/'));
        let body = self.redactor.json(&document.to_string()).into_owned();
        let request = self.http.post(url).header("content-type", "application/json").body(body);
        let failed =
            |what: String| Problem::new(503, format!("the collector did not take the traces: {what}"));
        let answer = request.send().await.map_err(|error| failed(error.without_url().to_string()))?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(failed(answer.status().to_string())),
        }
    }
}

/// Whether what could not be read now may be readable later.
fn passes(error: &EngineError) -> bool {
    match error {
        EngineError::Store(error) => !matches!(error, StoreError::Damaged { .. }),
        EngineError::Patience { .. } => true,
        _ => false,
    }
}

fn no_order() -> Problem {
    Problem::new(501, "traces are made in the order of everything, and this store knows none").code("GS0612")
}

/// The runs of a page, each with the moment of its first event there.
fn moved(page: &[Fed]) -> BTreeMap<RunId, Millis> {
    let mut moved = BTreeMap::new();
    for fed in page {
        if let Ok(recorded) = goldseam::core::codec::decode(fed.record.seq, &fed.record.body) {
            let first = moved.entry(fed.run.clone()).or_insert(recorded.at);
            *first = recorded.at.min(*first);
        }
    }
    moved
}

fn trace_id(namespace: &str, run: &RunId) -> String {
    hex(&Sha256::digest(format!("{namespace}/{run}"))[..16])
}

fn span_id(trace: &str, what: &str) -> String {
    hex(&Sha256::digest(format!("{trace}/{what}"))[..8])
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Nanoseconds, as text: they do not fit into a number of JSON.
fn nanos(at: Millis) -> String {
    (i128::from(at.0.max(0)) * 1_000_000).to_string()
}

fn span(
    (trace, id, parent): (&str, &str, Option<&str>),
    name: &str,
    (from, to): (Millis, Millis),
    attributes: &[Value],
    failed: bool,
) -> Value {
    json!({
        "traceId": trace,
        "spanId": id,
        "parentSpanId": parent.unwrap_or_default(),
        "name": name,
        "kind": 1,
        "startTimeUnixNano": nanos(from),
        "endTimeUnixNano": nanos(to.max(from)),
        "attributes": attributes,
        "status": { "code": if failed { 2 } else { 1 } },
    })
}

/// A step that ended.
fn step(trace: &str, root: &str, row: &Row) -> Value {
    let mut attributes = vec![
        attribute("goldseam.step", &row.path),
        attribute("goldseam.kind", row.kind.as_str()),
        attribute("goldseam.attempts", &row.attempts.to_string()),
    ];
    attributes.extend(row.note.as_deref().map(|note| attribute("goldseam.note", note)));
    let id = span_id(trace, &format!("{}/{}/{}", row.kind.as_str(), row.path, row.began.0));
    let times = (row.began, row.ended.unwrap_or(row.began));
    span((trace, &id, Some(root)), &row.path, times, &attributes, row.state == State::Failed)
}

/// A recovery.
fn seam(trace: &str, root: &str, recorded: &Recorded) -> Option<Value> {
    let Event::RunRecovered(recovered) = &recorded.event else { return None };
    let attributes =
        [attribute("goldseam.rule", &recovered.rule), attribute("goldseam.evidence", &recovered.evidence)];
    let id = span_id(trace, &format!("recovered/{}", recorded.seq));
    let name = format!("recovered by {}", recovered.rule);
    Some(span((trace, &id, Some(root)), &name, (recorded.at, recorded.at), &attributes, false))
}
