//! One question, one answer: asked again if it was lost, and only if that is harmless.

use std::fmt;
use std::time::Duration;

use goldseam::RunId;
use goldseam::engine::{Entropy, OsEntropy};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response, redirect};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::Answer;
use crate::caller::Caller;
use crate::problem::Problem;

/// What a segment of an address may hold as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long an answer may take that nobody waits for on purpose.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How often something is asked.
const TRIES: u32 = 5;
/// The pause before it is asked again; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most of an answer that is shown if it cannot be understood.
const SHOWN_CHARS: usize = 200;

/// No question about anything in particular.
pub(super) const NO_QUERY: &[(&str, &str)] = &[];

/// Nothing to say but that it is wanted.
pub(super) const NO_BODY: &Nothing = &Nothing {};

/// A document with nothing in it.
#[derive(Serialize)]
pub(super) struct Nothing {}

/// A server, reached over HTTP. Cheap to clone.
#[derive(Clone)]
pub struct Remote {
    http: reqwest::Client,
    base: String,
    key: Option<HeaderValue>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is nobody's business.
        f.debug_struct("Remote").field("base", &self.base).finish_non_exhaustive()
    }
}

/// A segment of an address.
pub(super) fn segment(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// The address of something about a run.
pub(super) fn run_path(run: &RunId, verb: &str) -> String {
    format!("/v1/runs/{}/{verb}", segment(run.as_str()))
}

/// One question.
#[derive(Debug)]
pub(super) struct Ask {
    method: Method,
    path: String,
    body: Option<String>,
    /// Makes a repeat harmless.
    key: Option<String>,
    patience: Duration,
    /// A repeat is no harm at all.
    again: bool,
}

impl Ask {
    pub(super) fn get(path: impl Into<String>, query: &impl Serialize) -> Answer<Self> {
        let mut path = path.into();
        let query = serde_urlencoded::to_string(query).map_err(|error| senseless(&error))?;
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        Ok(Self { method: Method::GET, path, body: None, key: None, patience: ANSWER_MAX, again: true })
    }

    /// The same for an answer that may take longer.
    pub(super) fn waiting(self, wait: Duration) -> Self {
        Self { patience: self.patience + wait, ..self }
    }

    /// The same for something whose repeat is not recognised: it is asked again only if nobody can have heard it.
    pub(super) fn once(self) -> Self {
        Self { again: false, ..self }
    }
}

fn senseless(error: &impl fmt::Display) -> Problem {
    Problem::bad_request(format!("this cannot be asked: {error}"))
}

impl Remote {
    /// A server at an address such as `https://goldseam.example.com:7878`, and the key to ask it with.
    pub fn new(url: &str, key: Option<String>) -> Result<Self, Problem> {
        let wrong = |why: &str| {
            Problem::bad_request(format!("{url:?} is not the address of a server: {why}"))
                .hint("write https://HOST:PORT, or http://127.0.0.1:PORT")
        };
        let parsed = reqwest::Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err(wrong("it begins with neither http:// nor https://"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
            return Err(wrong("a key does not belong into it"));
        }
        let key = key.map(|key| HeaderValue::try_from(format!("Bearer {key}")));
        let mut key = key.transpose().map_err(|_| {
            Problem::bad_request("the key holds characters that no key has").hint("look at its file")
        })?;
        if let Some(key) = &mut key {
            key.set_sensitive(true);
        }
        // A redirect would take the key to somebody else.
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
    ) -> Answer<T> {
        self.ask(Ask::get(path, &query)?).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        path: impl Into<String>,
        body: &impl Serialize,
    ) -> Answer<T> {
        self.ask(self.change(caller, path, body)?).await
    }

    /// A change, under the caller's key or under one of its own.
    pub(super) fn change(
        &self,
        caller: &Caller,
        path: impl Into<String>,
        body: &impl Serialize,
    ) -> Answer<Ask> {
        let random = || format!("{:016x}{:016x}", OsEntropy.next(), OsEntropy.next());
        Ok(Ask {
            method: Method::POST,
            path: path.into(),
            body: Some(serde_json::to_string(body).map_err(|error| senseless(&error))?),
            key: Some(caller.key.clone().unwrap_or_else(random)),
            patience: ANSWER_MAX,
            again: true,
        })
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, ask: Ask) -> Answer<T> {
        let text = self.answered(&ask).await?;
        serde_json::from_str(&text).map_err(|error| {
            let shown = excerpt(&text);
            Problem::new(502, format!("the answer of {} cannot be understood: {error}{shown}", self.base))
                .hint("is it a Goldseam server, of this release?")
        })
    }

    /// The text of an answer.
    async fn answered(&self, ask: &Ask) -> Answer<String> {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let lost = match self.once(ask).await {
                Ok(text) => return Ok(text),
                Err(Lost::Told(problem)) => return Err(problem),
                Err(Lost::Harmless(problem)) if tries < TRIES => problem,
                Err(Lost::Maybe(problem)) if tries < TRIES && ask.again => problem,
                Err(Lost::Harmless(problem) | Lost::Maybe(problem)) => return Err(problem),
            };
            tracing::debug!(%lost, path = ask.path, "asking again");
            tokio::time::sleep(pause).await;
            (tries, pause) = (tries + 1, pause * 2);
        }
    }

    async fn once(&self, ask: &Ask) -> Result<String, Lost> {
        let mut request = self.request(ask.method.clone(), &ask.path).timeout(ask.patience);
        request = request.header(ACCEPT, "application/json");
        if let Some(key) = &ask.key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = &ask.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = request.send().await.map_err(|error| self.lost(&error))?;
        let (status, text) = (response.status().as_u16(), self.text(response).await?);
        match status {
            200..=299 => Ok(text),
            503 => Err(Lost::Maybe(problem(status, &text))),
            _ => Err(Lost::Told(problem(status, &text))),
        }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        }
    }

    /// The whole text of an answer.
    pub(super) async fn text(&self, mut response: Response) -> Result<String, Lost> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.lost(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > ANSWER_BYTES_MAX {
                return Err(Lost::Told(Problem::new(502, format!("the answer of {} has no end", self.base))));
            }
        }
        let wrong = |_| Lost::Told(Problem::new(502, format!("the answer of {} is no text", self.base)));
        String::from_utf8(bytes).map_err(wrong)
    }

    /// What it means that no answer came.
    pub(super) fn lost(&self, error: &reqwest::Error) -> Lost {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            why = cause.to_string();
            source = cause.source();
        }
        // What answers does not speak TLS.
        let plain = self.base.starts_with("https:") && why.contains("InvalidContentType");
        let hint = match plain {
            true => "it does not speak TLS there; is its address http://?",
            false => "is it running, and is --server or GOLDSEAM_SERVER its address?",
        };
        let problem =
            Problem::new(503, format!("the server at {} cannot be reached: {why}", self.base)).hint(hint);
        if error.is_connect() { Lost::Harmless(problem) } else { Lost::Maybe(problem) }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// It was refused.
    Told(Problem),
    /// Nobody heard the question.
    Harmless(Problem),
    /// Nobody knows whether somebody did.
    Maybe(Problem),
}

impl From<Lost> for Problem {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Told(problem) | Lost::Harmless(problem) | Lost::Maybe(problem) => problem,
        }
    }
}

/// What an answer says went wrong.
pub(super) fn problem(status: u16, text: &str) -> Problem {
    serde_json::from_str(text).unwrap_or_else(|_| {
        let shown = excerpt(text);
        Problem::new(502, format!("the server answered {status}, but not as a Goldseam server does{shown}"))
            .hint("is --server or GOLDSEAM_SERVER the address of a Goldseam server, or of a proxy before it?")
    })
}

/// The beginning of an answer that is no document, for an error. A page of HTML says nothing to an operator.
fn excerpt(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    if text.starts_with('<') {
        return ": it sent a page of HTML".to_owned();
    }
    let line: String = text.lines().next().unwrap_or_default().chars().take(SHOWN_CHARS).collect();
    format!(": {line}")
}
