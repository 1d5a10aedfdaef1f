//! The line to the server: one thread of the process does all its input and output, and every answer is listened to.
//!
//! Invariant: a runtime of the caller that is blocked does not hold up requests of another one.

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

use crate::clock::{Moment, StoreClock};
use crate::fault::{self, Answer, NoKeys};
use crate::request_counter::Tallies;

/// How long the slowest round trip is remembered, twice over.
const REMEMBERED: Duration = Duration::from_secs(30);

/// The runtime that does all requests of the process, made for the first of them.
fn runtime() -> io::Result<Handle> {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Does something after a while, if the process lives for so long.
pub(crate) fn later(span: Duration, work: impl Future<Output = ()> + Send + 'static) {
    match runtime() {
        Ok(runtime) => drop(runtime.spawn(async move {
            tokio::time::sleep(span).await;
            work.await;
        })),
        Err(error) => tracing::warn!(%error, "failed to start the HTTP thread; deferred work is dropped"),
    }
}

/// What answers tell besides what was asked.
#[derive(Debug)]
pub(crate) struct Heard {
    clock: Arc<StoreClock>,
    tallies: Arc<Tallies>,
    trips: Mutex<Trips>,
    server: OnceLock<String>,
}

impl Heard {
    pub(crate) fn new(clock: Arc<StoreClock>, tallies: Arc<Tallies>) -> Self {
        Self { clock, tallies, trips: Mutex::new(Trips::default()), server: OnceLock::new() }
    }

    /// How long a request takes: the longest of the last half to whole minute, or else the usual one.
    pub(crate) fn round_trip(&self) -> Duration {
        self.trips.lock().unwrap_or_else(PoisonError::into_inner).estimate()
    }

    /// What the server calls itself.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.get().map(String::as_str)
    }

    fn answered(&self, answer: &HttpResponse, sent: Moment) {
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        if let Some(second) = header("date").and_then(second) {
            self.clock.heard(second, sent);
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

/// How long requests took.
#[derive(Debug, Default)]
struct Trips {
    usual: Option<Duration>,
    /// The longest of the current span, and when that began.
    longest: Option<(Duration, Moment)>,
    /// The longest of the span before it.
    before: Duration,
}

impl Trips {
    fn took(&mut self, trip: Duration) {
        self.usual = Some(self.usual.map_or(trip, |usual| (usual * 7 + trip) / 8));
        self.turn();
        match &mut self.longest {
            Some((longest, _)) => *longest = trip.max(*longest),
            None => self.longest = Some((trip, Moment::now())),
        }
    }

    /// Forgets what was too long ago.
    fn turn(&mut self) {
        if let Some((longest, since)) = self.longest
            && since.elapsed() > REMEMBERED
        {
            self.before = if since.elapsed() > REMEMBERED * 2 { Duration::ZERO } else { longest };
            self.longest = None;
        }
    }

    fn estimate(&mut self) -> Duration {
        self.turn();
        let longest = self.longest.map_or(Duration::ZERO, |(longest, _)| longest).max(self.before);
        longest.max(self.usual.unwrap_or_default())
    }
}

/// Makes lines.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) heard: Arc<Heard>,
    /// A machine that refuses to hand out keys the newer way is asked the older way.
    pub(crate) older_way: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: io::Error| object_store::Error::Generic { store: "S3", source: error.into() };
        let inner = ReqwestConnector::default().connect(options)?;
        let line = Line { inner, heard: Arc::clone(&self.heard), older_way: self.older_way };
        Ok(HttpClient::new(SpawnService::new(line, runtime().map_err(failed)?)))
    }
}

/// A line that listens.
#[derive(Debug, Clone)]
struct Line {
    inner: HttpClient,
    heard: Arc<Heard>,
    older_way: bool,
}

#[async_trait]
impl HttpService for Line {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !is_signed(&request) {
            return self.keys(request).await;
        }
        if request.uri().query().is_some_and(|query| query.contains("continuation-token=")) {
            self.heard.tallies.list("the next page");
        }
        let sent = Moment::now();
        let answer = self.inner.execute(request).await;
        self.heard.trips.lock().unwrap_or_else(PoisonError::into_inner).took(sent.elapsed());
        let answer = answer.map_err(told_apart)?;
        self.heard.answered(&answer, sent);
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let region = parts.headers.get("x-amz-bucket-region").and_then(|region| region.to_str().ok());
        // The status says enough if the rest is lost.
        let body = body.bytes().await.unwrap_or_default();
        let answer =
            Answer::new(parts.status.as_u16(), region.map(str::to_owned), &String::from_utf8_lossy(&body));
        Err(HttpError::new(HttpErrorKind::Unknown, answer))
    }
}

impl Line {
    /// A request to whoever gives out keys.
    async fn keys(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let failed = |kind, why: String| {
            let message = format!("the environment has no access keys, and {host} provides none: {why}");
            HttpError::new(kind, NoKeys(message))
        };
        let answer = self.inner.execute(request).await;
        let answer = answer.map_err(|error| failed(error.kind(), fault::words(&error)))?;
        match answer.status().as_u16() {
            // Where to ask next is decided by this one.
            403 if self.older_way => Ok(answer),
            _ if answer.status().is_success() => Ok(answer),
            status => Err(failed(HttpErrorKind::Unknown, format!("it responds with {status}"))),
        }
    }
}

/// Requests to the bucket are signed; those for keys are not.
fn is_signed(request: &HttpRequest) -> bool {
    let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    header.is_some_and(|value| value.starts_with("AWS4"))
}

/// A line that was never there carried nothing, even if it is time that ran out.
fn told_apart(error: HttpError) -> HttpError {
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
    use crate::fault::{Failure, Verdict};

    #[test]
    fn the_slowest_of_late_is_what_a_request_takes() {
        let mut trips = Trips::default();
        assert_eq!(trips.estimate(), Duration::ZERO);
        trips.took(Duration::from_millis(900));
        for _ in 0..100 {
            trips.took(Duration::from_millis(10));
        }
        assert_eq!(trips.estimate(), Duration::from_millis(900));
        // Long ago.
        trips.longest = None;
        let usual = trips.estimate();
        assert!((Duration::from_millis(10)..Duration::from_millis(20)).contains(&usual), "{usual:?}");
    }

    /// What becomes of a request if keys are to be had at this address.
    async fn asked_for_keys_at(endpoint: &str) -> Failure {
        let heard = Arc::new(Heard::new(Arc::new(StoreClock::new(None)), Arc::default()));
        let s3 = AmazonS3Builder::new()
            .with_bucket_name("bucket")
            .with_metadata_endpoint(endpoint)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(Connector { heard, older_way: false })
            .build()
            .unwrap();
        Failure::of(&s3.get(&"k".into()).await.unwrap_err())
    }

    #[tokio::test]
    async fn where_nobody_gives_keys_nothing_is_sent() {
        let failure = asked_for_keys_at("http://127.0.0.1:1").await;
        assert_eq!(failure.verdict(), Verdict::Failed { done: Some(false) });
        let expected = "the environment has no access keys, and 127.0.0.1 provides none: ";
        assert!(failure.to_string().starts_with(expected), "{failure}");
    }

    #[tokio::test]
    async fn a_machine_that_refuses_to_give_keys_is_told_as_such() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let refusing = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        };
        let (failure, ()) = tokio::join!(asked_for_keys_at(&endpoint), refusing);
        let expected =
            "the environment has no access keys, and 127.0.0.1 provides none: it responds with 403";
        assert_eq!(failure.to_string(), expected);
    }
}
