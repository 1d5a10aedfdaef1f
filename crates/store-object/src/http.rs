//! HTTP: one thread of the process sends all requests, and every response is observed.
//!
//! Invariant: a blocked runtime of one caller does not delay requests of another.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector, SpawnService,
};
use tokio::runtime::{Builder, Handle};

use crate::clock::{BucketClock, MonotonicTime};
use crate::fault::{self, ErrorResponse, NoKeys};
use crate::request_counter::RequestCounter;

/// Length of one of the two windows in which the longest round trip is remembered.
const WINDOW: Duration = Duration::from_secs(30);

/// The runtime of all requests of the process, started for the first of them.
fn runtime() -> io::Result<Handle> {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _only_starter = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = RUNTIME.get() {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("goldseam-object-io".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(RUNTIME.get_or_init(|| handle).clone())
}

/// Runs `work` after a delay, unless the process ends before.
pub(crate) fn later(span: Duration, work: impl Future<Output = ()> + Send + 'static) {
    match runtime() {
        Ok(runtime) => drop(runtime.spawn(async move {
            tokio::time::sleep(span).await;
            work.await;
        })),
        Err(error) => tracing::warn!(%error, "failed to start the HTTP thread; deferred work is dropped"),
    }
}

/// Learns the time, the latency and the name of a server from its responses.
#[derive(Debug)]
pub(crate) struct ResponseObserver {
    clock: Arc<BucketClock>,
    counter: Arc<RequestCounter>,
    round_trips: Mutex<RoundTrips>,
    server: OnceLock<String>,
}

impl ResponseObserver {
    pub(crate) fn new(clock: Arc<BucketClock>, counter: Arc<RequestCounter>) -> Self {
        Self { clock, counter, round_trips: Mutex::new(RoundTrips::default()), server: OnceLock::new() }
    }

    /// How long a request takes: the longest round trip of the last half to whole minute, else the average.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trips.lock().unwrap_or_else(PoisonError::into_inner).estimate()
    }

    /// The `Server` header of the first response.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.get().map(String::as_str)
    }

    fn observe(&self, response: &HttpResponse, sent: MonotonicTime) {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        if let Some(second) = header("date").and_then(second) {
            self.clock.observe(second, sent);
        }
        if let Some(server) = header("server") {
            self.server.get_or_init(|| server.chars().filter(|c| !c.is_control()).take(80).collect());
        }
    }
}

/// The second that a `Date` header names.
fn second(date: &str) -> Option<i64> {
    let at = httpdate::parse_http_date(date).ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// The durations of requests.
#[derive(Debug, Default)]
struct RoundTrips {
    average: Option<Duration>,
    /// The longest of the current window, and when the window began.
    longest: Option<(Duration, MonotonicTime)>,
    /// The longest of the previous window.
    before: Duration,
}

impl RoundTrips {
    fn record(&mut self, trip: Duration) {
        self.average = Some(self.average.map_or(trip, |average| (average * 7 + trip) / 8));
        self.rotate();
        match &mut self.longest {
            Some((longest, _)) => *longest = trip.max(*longest),
            None => self.longest = Some((trip, MonotonicTime::now())),
        }
    }

    /// Begins a new window if the current one is over.
    fn rotate(&mut self) {
        if let Some((longest, since)) = self.longest
            && since.elapsed() > WINDOW
        {
            self.before = if since.elapsed() > WINDOW * 2 { Duration::ZERO } else { longest };
            self.longest = None;
        }
    }

    fn estimate(&mut self) -> Duration {
        self.rotate();
        let longest = self.longest.map_or(Duration::ZERO, |(longest, _)| longest).max(self.before);
        longest.max(self.average.unwrap_or_default())
    }
}

/// Creates observed HTTP clients.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) observer: Arc<ResponseObserver>,
    /// Whether a machine that refuses IMDSv2 is asked for keys by IMDSv1.
    pub(crate) imds_v1_fallback: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: io::Error| object_store::Error::Generic { store: "S3", source: error.into() };
        let inner = ReqwestConnector::default().connect(options)?;
        let client = ObservedClient {
            inner,
            observer: Arc::clone(&self.observer),
            imds_v1_fallback: self.imds_v1_fallback,
        };
        Ok(HttpClient::new(SpawnService::new(client, runtime().map_err(failed)?)))
    }
}

/// An HTTP client whose responses are observed.
#[derive(Debug, Clone)]
struct ObservedClient {
    inner: HttpClient,
    observer: Arc<ResponseObserver>,
    imds_v1_fallback: bool,
}

#[async_trait]
impl HttpService for ObservedClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !is_signed(&request) {
            return self.request_keys(request).await;
        }
        if request.uri().query().is_some_and(|query| query.contains("continuation-token=")) {
            self.observer.counter.list("the next page");
        }
        let sent = MonotonicTime::now();
        let response = self.inner.execute(request).await;
        self.observer.round_trips.lock().unwrap_or_else(PoisonError::into_inner).record(sent.elapsed());
        let response = response.map_err(mark_connect_error)?;
        self.observer.observe(&response, sent);
        if response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let region = parts.headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
        // The status is enough if the body is lost.
        let body = body.bytes().await.unwrap_or_default();
        let error = ErrorResponse::new(
            parts.status.as_u16(),
            region.map(str::to_owned),
            &String::from_utf8_lossy(&body),
        );
        Err(HttpError::new(HttpErrorKind::Unknown, error))
    }
}

impl ObservedClient {
    /// Sends a request for access keys to the environment's provider.
    async fn request_keys(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let failed = |kind, why: String| {
            let message = format!("the environment has no access keys, and {host} provides none: {why}");
            HttpError::new(kind, NoKeys(message))
        };
        let answer = self.inner.execute(request).await;
        let answer = answer.map_err(|error| failed(error.kind(), fault::message(&error)))?;
        match answer.status().as_u16() {
            // The caller falls back to IMDSv1 on this status.
            403 if self.imds_v1_fallback => Ok(answer),
            _ if answer.status().is_success() => Ok(answer),
            status => Err(failed(HttpErrorKind::Unknown, format!("it responds with {status}"))),
        }
    }
}

/// Whether a request goes to the bucket: requests for keys are not signed.
fn is_signed(request: &HttpRequest) -> bool {
    let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    header.is_some_and(|value| value.starts_with("AWS4"))
}

/// Turns a failure to connect into a connect error, even if it is a timeout: nothing was sent.
fn mark_connect_error(error: HttpError) -> HttpError {
    let source = std::error::Error::source(&error);
    let connecting =
        source.and_then(|cause| cause.downcast_ref::<reqwest::Error>()).is_some_and(|e| e.is_connect());
    if connecting { HttpError::new(HttpErrorKind::Connect, error) } else { error }
}

#[cfg(test)]
mod tests {
    use object_store::aws::AmazonS3Builder;
    use object_store::{ObjectStoreExt, RetryConfig};

    use super::*;
    use crate::fault::{RequestFailure, RequestVerdict};

    #[test]
    fn the_estimate_is_the_longest_recent_round_trip() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.estimate(), Duration::ZERO);
        trips.record(Duration::from_millis(900));
        for _ in 0..100 {
            trips.record(Duration::from_millis(10));
        }
        assert_eq!(trips.estimate(), Duration::from_millis(900));
        // The window is over.
        trips.longest = None;
        let average = trips.estimate();
        assert!((Duration::from_millis(10)..Duration::from_millis(20)).contains(&average), "{average:?}");
    }

    /// The failure of a request whose keys come from this address.
    async fn failure_with_keys_from(endpoint: &str) -> RequestFailure {
        let observer = Arc::new(ResponseObserver::new(Arc::new(BucketClock::new(None)), Arc::default()));
        let s3 = AmazonS3Builder::new()
            .with_bucket_name("bucket")
            .with_metadata_endpoint(endpoint)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(Connector { observer, imds_v1_fallback: false })
            .build()
            .unwrap();
        RequestFailure::of(&s3.get(&"k".into()).await.unwrap_err())
    }

    #[tokio::test]
    async fn sends_no_request_without_keys() {
        let failure = failure_with_keys_from("http://127.0.0.1:1").await;
        assert_eq!(failure.verdict(), RequestVerdict::Failed { done: Some(false) });
        let expected = "the environment has no access keys, and 127.0.0.1 provides none: ";
        assert!(failure.to_string().starts_with(expected), "{failure}");
    }

    #[tokio::test]
    async fn reports_a_machine_that_refuses_to_provide_keys() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let refusing = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        };
        let (failure, ()) = tokio::join!(failure_with_keys_from(&endpoint), refusing);
        let expected =
            "the environment has no access keys, and 127.0.0.1 provides none: it responds with 403";
        assert_eq!(failure.to_string(), expected);
    }
}
