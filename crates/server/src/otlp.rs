//! Traces built from the log: a run is a trace, its steps are spans.
//!
//! Invariant: the ids of a trace and its spans depend only on the run, the step, and the trace context that the run was
//! started with. A run therefore has one trace through crashes and recoveries, and sending a span twice changes nothing.
//! The store keeps the position of the last sent event, where a restarted server continues.

mod ids;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use goldseam::unstable::core::branch::Branches;
use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::core::{Event, LockName, Recorded, version};
use goldseam::unstable::store::{Expect, Feed, FeedEvent, LockFilter, Store, StoreError, Written};
use goldseam::{Client, EngineError, Millis, Redactor, RunId, Status};
use goldseam_api::Problem;
use goldseam_api::credentials::keys;
use goldseam_api::view::log;
use goldseam_api::view::timeline::{self, OperationDoc, OperationState};
use serde_json::{Value, json};
use tokio::sync::watch;

use self::ids::SpanIds;

/// The lock that holds the feed position up to which traces were sent.
const NAME: &str = "goldseam.otlp";
/// Events per page.
const PAGE: u32 = 500;
/// Interval between two reads of an idle feed.
const LOOK: Duration = Duration::from_secs(1);
/// Pause after a failure.
const FAILED: Duration = Duration::from_secs(5);
/// Time limit of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The error code of an unknown feed position.
const UNKNOWN_POSITION: &str = "GS0612";

/// The stored progress: the lock and the feed position in it.
struct TraceProgress {
    lock: Option<Lock>,
    position: Option<String>,
}

/// The sender of one namespace's traces.
#[derive(Debug)]
pub(crate) struct Tracer {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) redactor: Arc<Redactor>,
}

/// Builds the HTTP client for the collector.
pub(crate) fn http() -> Result<reqwest::Client, Problem> {
    let built = reqwest::Client::builder().timeout(TIMEOUT).build();
    built.map_err(|error| {
        Problem::new(500, format!("cannot create the HTTP client for traces: {error}")).code("GS0610")
    })
}

impl Tracer {
    /// Sends traces until the server shuts down. Retries failures without delaying anything else.
    pub(crate) async fn run(self, mut leaving: watch::Receiver<bool>) {
        tokio::select! {
            () = self.send_all() => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }

    async fn send_all(&self) {
        loop {
            let pause = match self.send_page().await {
                Ok(true) => continue,
                Ok(false) => LOOK,
                Err(problem) => {
                    tracing::warn!(%problem, namespace = self.namespace, "failed to send traces");
                    FAILED
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Sends the spans that end in the next page of the feed. Returns whether there was a page.
    async fn send_page(&self) -> Result<bool, Problem> {
        let store = Arc::clone(self.client.store());
        let Some(feed) = store.feed() else { return Err(no_feed()) };
        let Some(TraceProgress { lock, position }) = self.progress(&*store, feed).await? else {
            return Ok(false);
        };
        let page = match feed.events_after(position.as_deref(), PAGE).await {
            Err(StoreError::Refused { code: UNKNOWN_POSITION, .. }) => {
                return self.skip_to_latest(&*store, feed, lock).await;
            }
            page => page?,
        };
        let Some(last) = page.last().map(|fed| fed.place.clone()) else { return Ok(false) };
        let mut spans = Vec::new();
        for (run, since) in runs_in(&page) {
            match self.spans(&run, since).await {
                Ok(found) => spans.extend(found),
                Err(error) if is_transient(&error) => return Err(error.into()),
                // A damaged run must not stop the traces of all others.
                Err(error) => {
                    let run = run.as_str();
                    tracing::warn!(%error, run, namespace = self.namespace, "skipped trace of unreadable run");
                }
            }
        }
        if !spans.is_empty() {
            self.post(spans).await?;
        }
        self.save(&*store, lock, &last).await?;
        Ok(true)
    }

    /// Continues at the end of the feed, because the stored position is unknown, as after a restore from a backup.
    async fn skip_to_latest(
        &self,
        store: &dyn Store,
        feed: &dyn Feed,
        lock: Option<Lock>,
    ) -> Result<bool, Problem> {
        let Some(latest) = feed.latest().await? else { return Ok(false) };
        tracing::warn!(
            namespace = self.namespace,
            "stored trace position is unknown to this store; continuing with new events"
        );
        self.save(store, lock, &latest).await?;
        Ok(true)
    }

    /// Reads the stored progress. Returns `None` on the first start and skips the existing events.
    async fn progress(&self, store: &dyn Store, feed: &dyn Feed) -> Result<Option<TraceProgress>, Problem> {
        let filter = LockFilter { name: Some(LockName::new(NAME)?), limit: 1, ..LockFilter::default() };
        let lock = store.locks(filter).await?.into_iter().next();
        let position = lock.as_ref().and_then(|lock| lock.holder.clone());
        if position.is_some() {
            return Ok(Some(TraceProgress { lock, position }));
        }
        let Some(latest) = feed.latest().await? else {
            return Ok(Some(TraceProgress { lock, position: None }));
        };
        self.save(store, lock, &latest).await?;
        Ok(None)
    }

    /// Stores the progress. If another server was faster, it has sent the same spans.
    async fn save(&self, store: &dyn Store, lock: Option<Lock>, position: &str) -> Result<(), Problem> {
        let (expect, mut lock) = match lock {
            Some(lock) => (Expect::Version(lock.version), lock),
            None => (Expect::Absent, keys::empty(LockName::new(NAME)?, store.now().await?)),
        };
        lock.holder = Some(position.to_owned());
        lock.version += 1;
        lock.fence += 1;
        let (Written::Done | Written::Lost(_)) = store.put_lock(lock, expect).await?;
        Ok(())
    }

    /// Returns the spans of a run that ended at or after `since`.
    async fn spans(&self, run: &RunId, since: Millis) -> Result<Vec<Value>, EngineError> {
        let history = self.client.readable(run).await?;
        let summary = self.client.get(run).await?;
        let branches = Branches::of(&history);
        let seen = log::seen_by(&history, &branches, summary.branch);
        let ids = SpanIds::of(&self.namespace, run, &history);
        if !ids.is_sampled() {
            return Ok(Vec::new());
        }
        let ended = timeline::rows(&seen).into_iter().filter(|row| row.ended.is_some_and(|end| end >= since));
        let mut spans: Vec<Value> = ended.map(|row| step_span(&ids, &branches, &row)).collect();
        let recovered = history.iter().filter(|recorded| recorded.at >= since);
        spans.extend(recovered.filter_map(|recorded| recovery_span(&ids, recorded)));
        if let Some(end) = summary.finished_at.filter(|_| summary.status.is_terminal()) {
            let attributes = [
                attribute("goldseam.run", run.as_str()),
                attribute("goldseam.workflow", &version::label(&summary.workflow, summary.version)),
                attribute("goldseam.recoveries", &summary.recoveries.to_string()),
            ];
            spans.push(
                OtlpSpan {
                    ids: &ids,
                    id: &ids.root,
                    parent: ids.starter(),
                    name: summary.workflow.as_str(),
                    start: summary.created_at,
                    end,
                    attributes: &attributes,
                    failed: summary.status != Status::Completed,
                }
                .to_json(),
            );
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
        let failed = |what: String| Problem::new(503, format!("the collector refused the traces: {what}"));
        let answer = request.send().await.map_err(|error| failed(error.without_url().to_string()))?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(failed(answer.status().to_string())),
        }
    }
}

/// Returns whether a later read may succeed.
fn is_transient(error: &EngineError) -> bool {
    match error {
        EngineError::Store(error) => !matches!(error, StoreError::Damaged { .. }),
        EngineError::TimedOut { .. } | EngineError::Contended { .. } => true,
        _ => false,
    }
}

fn no_feed() -> Problem {
    Problem::new(501, "traces need a feed, which this store does not have").code("GS0612")
}

/// Returns the runs of a page, each with the time of its earliest event there.
fn runs_in(page: &[FeedEvent]) -> BTreeMap<RunId, Millis> {
    let mut runs = BTreeMap::new();
    for fed in page {
        if let Ok(recorded) = goldseam::unstable::core::codec::decode(fed.record.seq, &fed.record.body) {
            let first = runs.entry(fed.run.clone()).or_insert(recorded.at);
            *first = recorded.at.min(*first);
        }
    }
    runs
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Converts to nanoseconds, as text because they do not fit into a JSON number.
fn nanos(at: Millis) -> String {
    (i128::from(at.0.max(0)) * 1_000_000).to_string()
}

/// A span in the OTLP data model.
struct OtlpSpan<'a> {
    ids: &'a SpanIds,
    id: &'a str,
    parent: Option<&'a str>,
    name: &'a str,
    start: Millis,
    end: Millis,
    attributes: &'a [Value],
    failed: bool,
}

impl OtlpSpan<'_> {
    fn to_json(&self) -> Value {
        json!({
            "traceId": self.ids.trace,
            "spanId": self.id,
            "traceState": self.ids.state(),
            "parentSpanId": self.parent.unwrap_or_default(),
            "name": self.name,
            "kind": 1,
            "startTimeUnixNano": nanos(self.start),
            "endTimeUnixNano": nanos(self.end.max(self.start)),
            "attributes": self.attributes,
            "status": { "code": if self.failed { 2 } else { 1 } },
        })
    }
}

/// Returns the span of a finished step.
fn step_span(ids: &SpanIds, branches: &Branches, row: &OperationDoc) -> Value {
    let mut attributes = vec![
        attribute("goldseam.step", &row.path),
        attribute("goldseam.kind", row.kind.as_str()),
        attribute("goldseam.attempts", &row.attempts.to_string()),
    ];
    attributes.extend(row.note.as_deref().map(|note| attribute("goldseam.note", note)));
    let id = ids.operation(branches, row);
    let span = OtlpSpan {
        ids,
        id: &id,
        parent: Some(&ids.root),
        name: &row.path,
        start: row.began,
        end: row.ended.unwrap_or(row.began),
        attributes: &attributes,
        failed: row.state == OperationState::Failed,
    };
    span.to_json()
}

/// Returns the span of a recovery.
fn recovery_span(ids: &SpanIds, recorded: &Recorded) -> Option<Value> {
    let Event::RunRecovered(recovered) = &recorded.event else { return None };
    let attributes =
        [attribute("goldseam.rule", &recovered.rule), attribute("goldseam.evidence", &recovered.evidence)];
    let id = ids.recovery(recorded);
    let name = format!("recovered by {}", recovered.rule);
    let span = OtlpSpan {
        ids,
        id: &id,
        parent: Some(&ids.root),
        name: &name,
        start: recorded.at,
        end: recorded.at,
        attributes: &attributes,
        failed: false,
    };
    Some(span.to_json())
}
