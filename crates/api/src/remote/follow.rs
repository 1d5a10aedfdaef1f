//! Following a run over HTTP: each event once, in order, across broken connections.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use goldseam::{RunId, Seq};
use reqwest::header::ACCEPT;
use reqwest::{Method, Response};

use super::http::{HttpRequest, RemoteApi, SendError, problem, run_path};
use super::sse::Parser;
use crate::api::{ApiResult, Following};
use crate::doc::event::NewsDoc;
use crate::doc::run::{EndingDoc, WaitQuery};
use crate::problem::Problem;

/// A server sends something at least this often; a silent connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Consecutive connections without an event before the follower gives up.
const EMPTY_MAX: u32 = 8;
/// The first pause before a new connection; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// How often the pause doubles.
const DOUBLINGS_MAX: u32 = 6;
/// The name of the stream event that carries a problem.
const PROBLEM: &str = "problem";

impl RemoteApi {
    pub(super) async fn stream(&self, run: &RunId, after: Seq) -> ApiResult<Following> {
        let mut tail = RemoteTail {
            remote: self.clone(),
            run: run.clone(),
            after,
            open: None,
            parser: Parser::default(),
            news: VecDeque::new(),
            empty: 0,
        };
        // Connect now, so that a missing run is an error of this call.
        tail.open = tail.connect().await?;
        let next = |tail: Option<RemoteTail>| async move {
            let mut tail = tail?;
            match tail.next().await {
                Ok(news) => news.map(|news| (Ok(news), Some(tail))),
                Err(problem) => Some((Err(problem), None)),
            }
        };
        Ok(unfold(Some(tail), next).boxed())
    }
}

/// A follower of one run.
struct RemoteTail {
    remote: RemoteApi,
    run: RunId,
    /// The last event that the follower received.
    after: Seq,
    open: Option<Response>,
    parser: Parser,
    news: VecDeque<NewsDoc>,
    /// Consecutive connections without an event.
    empty: u32,
}

impl RemoteTail {
    /// Returns the next item, or `None` once the run is over and the follower has the whole log.
    async fn next(&mut self) -> ApiResult<Option<NewsDoc>> {
        loop {
            while let Some(news) = self.news.pop_front() {
                match news.seq() {
                    // Received before the connection broke.
                    Some(seq) if seq <= self.after => continue,
                    Some(seq) => self.after = seq,
                    None => {}
                }
                return Ok(Some(news));
            }
            if !self.read().await? && self.is_over().await? {
                return Ok(None);
            }
        }
    }

    /// Reads the next chunk, connecting first if necessary. Returns whether the connection is still open.
    async fn read(&mut self) -> ApiResult<bool> {
        let open = match self.open.take() {
            Some(response) => Some(response),
            None => self.connect().await?,
        };
        let Some(mut response) = open else { return self.broken().await };
        let Ok(Ok(Some(chunk))) = tokio::time::timeout(SILENCE_MAX, response.chunk()).await else {
            return self.broken().await;
        };
        let Ok(frames) = self.parser.feed(&chunk) else { return self.broken().await };
        for frame in frames {
            if frame.name == PROBLEM {
                let problem = problem(500, &frame.data);
                // A busy store becomes available again.
                return if matches!(problem.status, 503 | 504) { self.broken().await } else { Err(problem) };
            }
            let Ok(news) = NewsDoc::parse(&frame.name, &frame.data) else { return self.broken().await };
            self.news.push_back(news);
            self.empty = 0;
        }
        self.open = Some(response);
        Ok(true)
    }

    /// Drops the connection and keeps the events that it delivered.
    async fn broken(&mut self) -> ApiResult<bool> {
        self.parser = Parser::default();
        self.empty += 1;
        if self.empty > EMPTY_MAX {
            let detail = format!("the event stream of run {} keeps breaking", self.run);
            let hint = format!("goldseam history {} shows the whole log", self.run);
            return Err(Problem::new(503, detail).hint(hint));
        }
        if self.empty > 1 {
            tokio::time::sleep(PAUSE * (1 << (self.empty - 1).min(DOUBLINGS_MAX))).await;
        }
        Ok(false)
    }

    /// The end of a stream does not mean the end of the run, so this asks for the result.
    async fn is_over(&self) -> ApiResult<bool> {
        if !self.news.is_empty() {
            return Ok(false);
        }
        let request = HttpRequest::get(run_path(&self.run, "result"), &WaitQuery::default())?;
        let ending: EndingDoc = self.remote.send(request).await?;
        Ok(ending.status.is_terminal() && ending.event <= self.after)
    }

    /// Opens a new stream, or returns `None` if the run has ended.
    async fn connect(&self) -> ApiResult<Option<Response>> {
        let mut tries = 0;
        loop {
            let error = match self.connect_once().await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            tries += 1;
            match error {
                SendError::NotSent(_) | SendError::Unknown(_) if tries < EMPTY_MAX => {
                    tokio::time::sleep(PAUSE * (1 << tries.min(DOUBLINGS_MAX))).await;
                }
                error => return Err(error.into()),
            }
        }
    }

    async fn connect_once(&self) -> Result<Option<Response>, SendError> {
        let request = self.remote.request(Method::GET, &run_path(&self.run, "events"));
        let request = request.header(ACCEPT, "text/event-stream").header("Last-Event-ID", self.after.0);
        let sent = tokio::time::timeout(SILENCE_MAX, request.send()).await;
        let silent = |_| SendError::Unknown(Problem::new(504, "the server did not respond in time"));
        let response = sent.map_err(silent)?.map_err(|error| self.remote.send_error(&error))?;
        match response.status().as_u16() {
            200 => Ok(Some(response)),
            204 => Ok(None),
            503 => Err(SendError::Unknown(problem(503, &self.remote.text(response).await?))),
            status => Err(SendError::Refused(problem(status, &self.remote.text(response).await?))),
        }
    }
}
