//! Requests and responses: a request is repeated after a lost response, if a repeat is harmless.

use std::fmt;
use std::time::Duration;

use goldseam::unstable::engine::{Entropy, OsEntropy};
use goldseam::{RunId, TraceContext};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::ApiResult;
use crate::caller::Caller;
use crate::problem::Problem;

/// Characters of a path segment that are not percent-encoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long a response may take, beyond the wait that the request asks for.
const RESPONSE_MAX: Duration = Duration::from_secs(30);
/// Maximum number of attempts.
const TRIES: u32 = 5;
/// The first pause before a repeat; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Characters of an invalid response that an error shows.
const SHOWN_CHARS: usize = 200;

/// An empty query.
pub(super) const NO_QUERY: &[(&str, &str)] = &[];

/// An empty JSON object as a body.
pub(super) const NO_BODY: &EmptyBody = &EmptyBody {};

#[derive(Serialize)]
pub(super) struct EmptyBody {}

/// A server, reached over HTTP. Cheap to clone.
#[derive(Clone)]
pub struct RemoteApi {
    http: reqwest::Client,
    base: String,
    key: Option<HeaderValue>,
}

impl fmt::Debug for RemoteApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leaves the key out.
        f.debug_struct("Remote").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Encodes a path segment.
pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// The path of an operation on a run.
pub(super) fn run_path(run: &RunId, verb: &str) -> String {
    format!("/v1/runs/{}/{verb}", segment(run.as_str()))
}

#[derive(Debug)]
pub(super) struct HttpRequest {
    method: Method,
    path: String,
    body: Option<String>,
    /// The idempotency key, which makes a repeat harmless.
    key: Option<String>,
    /// The place of the caller in a distributed trace.
    trace: Option<TraceContext>,
    timeout: Duration,
    /// Whether the request is repeated if the server may have received it.
    repeatable: bool,
}

impl HttpRequest {
    pub(super) fn get(path: impl Into<String>, query: &impl Serialize) -> ApiResult<Self> {
        let mut path = path.into();
        let query = serde_urlencoded::to_string(query).map_err(|error| cannot_encode(&error))?;
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        Ok(Self { repeatable: true, ..Self::bare(Method::GET, path) })
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self::bare(Method::DELETE, path.into())
    }

    /// A request without a body, a key and a trace, which is not repeated.
    fn bare(method: Method, path: String) -> Self {
        let body = None;
        let key = None;
        let trace = None;
        Self { method, path, body, key, trace, timeout: RESPONSE_MAX, repeatable: false }
    }

    /// Allows the response to take longer.
    pub(super) fn waiting(self, wait: Duration) -> Self {
        Self { timeout: self.timeout + wait, ..self }
    }

    /// Marks a request whose repeat the server does not recognise: it is repeated only if the server cannot have
    /// received it.
    pub(super) fn not_repeatable(self) -> Self {
        Self { repeatable: false, ..self }
    }
}

fn cannot_encode(error: &impl fmt::Display) -> Problem {
    Problem::bad_request(format!("cannot encode the request: {error}"))
}

impl RemoteApi {
    /// Creates a client for a server at a URL such as `https://goldseam.example.com:7878`, with an optional key.
    pub fn new(url: &str, key: Option<String>) -> Result<Self, Problem> {
        let wrong = |why: &str| {
            Problem::bad_request(format!("{url:?} is not the address of a server: {why}"))
                .hint("write https://HOST:PORT, or http://127.0.0.1:PORT")
        };
        let parsed = reqwest::Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(wrong("it must begin with http:// or https://"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
            return Err(wrong("it must not contain a key"));
        }
        let key = key.map(|key| HeaderValue::try_from(format!("Bearer {key}")));
        let mut key = key.transpose().map_err(|_| {
            Problem::bad_request("the key contains invalid characters")
                .hint("pass the key as goldseam key create printed it")
        })?;
        if let Some(key) = &mut key {
            key.set_sensitive(true);
        }
        // Follows no redirects, which would send the key to another server.
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("goldseam/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| wrong(&error.to_string()))?;
        Ok(Self { http, base: parsed.as_str().trim_end_matches('/').to_owned(), key })
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: impl Into<String>,
        query: &(impl Serialize + ?Sized),
    ) -> ApiResult<T> {
        self.send(HttpRequest::get(path, &query)?).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        path: impl Into<String>,
        body: &impl Serialize,
    ) -> ApiResult<T> {
        self.send(self.change(caller, path, body)?).await
    }

    /// Builds a change with the caller's idempotency key, or with a random one.
    pub(super) fn change(
        &self,
        caller: &Caller,
        path: impl Into<String>,
        body: &impl Serialize,
    ) -> ApiResult<HttpRequest> {
        let random = || format!("{:016x}{:016x}", OsEntropy.next(), OsEntropy.next());
        Ok(HttpRequest {
            method: Method::POST,
            path: path.into(),
            body: Some(serde_json::to_string(body).map_err(|error| cannot_encode(&error))?),
            key: Some(caller.key.clone().unwrap_or_else(random)),
            trace: caller.trace.clone(),
            timeout: RESPONSE_MAX,
            repeatable: true,
        })
    }

    /// Sends a request, repeats it if necessary, and decodes the response.
    pub(super) async fn send<T: DeserializeOwned>(&self, request: HttpRequest) -> ApiResult<T> {
        let text = self.send_with_retries(&request).await?;
        serde_json::from_str(&text).map_err(|error| {
            let shown = excerpt(&text);
            Problem::new(502, format!("cannot decode the response of {}: {error}{shown}", self.base))
                .hint("check that it is a Goldseam server of this release")
        })
    }

    async fn send_with_retries(&self, request: &HttpRequest) -> ApiResult<String> {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let problem = match self.send_once(request).await {
                Ok(text) => return Ok(text),
                Err(SendError::Refused(problem)) => return Err(problem),
                Err(SendError::NotSent(problem)) if tries < TRIES => problem,
                Err(SendError::Unknown(problem)) if tries < TRIES && request.repeatable => problem,
                Err(SendError::NotSent(problem) | SendError::Unknown(problem)) => return Err(problem),
            };
            tracing::debug!(%problem, path = request.path, "repeating the request");
            tokio::time::sleep(pause).await;
            tries += 1;
            pause *= 2;
        }
    }

    async fn send_once(&self, request: &HttpRequest) -> Result<String, SendError> {
        let mut builder = self.request(request.method.clone(), &request.path).timeout(request.timeout);
        builder = builder.header(ACCEPT, "application/json");
        if let Some(key) = &request.key {
            builder = builder.header("Idempotency-Key", key);
        }
        if let Some(trace) = &request.trace {
            builder = builder.header("traceparent", trace.traceparent());
            builder = trace
                .tracestate()
                .into_iter()
                .fold(builder, |builder, state| builder.header("tracestate", state));
        }
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = builder.send().await.map_err(|error| self.send_error(&error))?;
        let status = response.status().as_u16();
        let text = self.text(response).await?;
        match status {
            200..=299 => Ok(text),
            503 => Err(SendError::Unknown(problem(status, &text))),
            _ => Err(SendError::Refused(problem(status, &text))),
        }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        }
    }

    /// Reads the whole body of a response.
    pub(super) async fn text(&self, mut response: Response) -> Result<String, SendError> {
        let invalid = |what: &str| {
            let detail = format!("the response of {} {what}", self.base);
            SendError::Refused(Problem::new(502, detail))
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.send_error(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > RESPONSE_BYTES_MAX {
                return Err(invalid("is too large"));
            }
        }
        String::from_utf8(bytes).map_err(|_| invalid("is not UTF-8 text"))
    }

    /// Classifies a failed request.
    pub(super) fn send_error(&self, error: &reqwest::Error) -> SendError {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            why = cause.to_string();
            source = cause.source();
        }
        // The peer does not use TLS.
        let plain = self.base.starts_with("https:") && why.contains("InvalidContentType");
        let hint = match plain {
            true => "the server does not use TLS at this port; use http:// instead of https://",
            false => "check that it is running and that --server or GOLDSEAM_SERVER is its address",
        };
        let problem =
            Problem::new(503, format!("the server at {} cannot be reached: {why}", self.base)).hint(hint);
        if error.is_connect() { SendError::NotSent(problem) } else { SendError::Unknown(problem) }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum SendError {
    /// The server refused the request.
    Refused(Problem),
    /// The server did not receive the request.
    NotSent(Problem),
    /// The server may have carried out the request.
    Unknown(Problem),
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Refused(problem) | SendError::NotSent(problem) | SendError::Unknown(problem) => {
                problem
            }
        }
    }
}

/// Decodes the problem in an error response.
pub(super) fn problem(status: u16, text: &str) -> Problem {
    serde_json::from_str(text).unwrap_or_else(|_| {
        let shown = excerpt(text);
        Problem::new(502, format!("the server answered {status}, but it is not a Goldseam server{shown}"))
            .hint(
                "check that --server or GOLDSEAM_SERVER is the address of a Goldseam server, not of a proxy",
            )
    })
}

/// The beginning of an invalid response, for an error. HTML is left out.
fn excerpt(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    if text.starts_with('<') {
        return " (it sent an HTML page)".to_owned();
    }
    let line: String = text.lines().next().unwrap_or_default().chars().take(SHOWN_CHARS).collect();
    format!(": {line}")
}
