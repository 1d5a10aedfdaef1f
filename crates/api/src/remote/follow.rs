//! Following a run over HTTP: each event once, in order, however often the connection breaks.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use goldseam::{RunId, Seq};
use reqwest::header::ACCEPT;
use reqwest::{Method, Response};

use super::http::{Ask, Lost, Remote, problem, run_path};
use super::sse::Parser;
use crate::api::{Answer, Following};
use crate::doc::event::News;
use crate::doc::run::{Ending, WaitQuery};
use crate::problem::Problem;

/// A server says something at least this often; if it does not, the connection is taken for broken.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Connections in a row that bring nothing before it is given up.
const EMPTY_MAX: u32 = 8;
/// The pause before the next one; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it doubles.
const DOUBLINGS_MAX: u32 = 6;
/// The name under which a stream tells why it ends.
const PROBLEM: &str = "problem";

impl Remote {
    pub(super) async fn follow_run(&self, run: &RunId, after: Seq) -> Answer<Following> {
        let mut tail = Tail {
            remote: self.clone(),
            run: run.clone(),
            after,
            open: None,
            parser: Parser::default(),
            news: VecDeque::new(),
            empty: 0,
        };
        // Whether there is such a run is told at once.
        tail.open = tail.connect().await?;
        let next = |tail: Option<Tail>| async move {
            let mut tail = tail?;
            match tail.next().await {
                Ok(news) => news.map(|news| (Ok(news), Some(tail))),
                Err(problem) => Some((Err(problem), None)),
            }
        };
        Ok(unfold(Some(tail), next).boxed())
    }
}

/// Somebody who follows one run.
struct Tail {
    remote: Remote,
    run: RunId,
    /// The last event that was told.
    after: Seq,
    open: Option<Response>,
    parser: Parser,
    news: VecDeque<News>,
    /// Connections in a row that brought nothing.
    empty: u32,
}

impl Tail {
    /// The next piece of news; none once the run is over and all of it was told.
    async fn next(&mut self) -> Answer<Option<News>> {
        loop {
            while let Some(news) = self.news.pop_front() {
                match news.seq() {
                    // Told before the connection broke.
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

    /// Reads on, from a new connection if there is none. Whether the connection still stands.
    async fn read(&mut self) -> Answer<bool> {
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
                // A store that is busy will be there again.
                return if matches!(problem.status, 503 | 504) { self.broken().await } else { Err(problem) };
            }
            let Ok(news) = News::parse(&frame.name, &frame.data) else { return self.broken().await };
            self.news.push_back(news);
            self.empty = 0;
        }
        self.open = Some(response);
        Ok(true)
    }

    /// The connection is gone, or worth nothing. What it brought so far stands.
    async fn broken(&mut self) -> Answer<bool> {
        self.parser = Parser::default();
        self.empty += 1;
        if self.empty > EMPTY_MAX {
            let words = format!("the stream of run {} breaks again and again", self.run);
            return Err(Problem::new(503, words).hint(format!("goldseam history {} has all of it", self.run)));
        }
        if self.empty > 1 {
            tokio::time::sleep(PAUSE * (1 << (self.empty - 1).min(DOUBLINGS_MAX))).await;
        }
        Ok(false)
    }

    /// A stream that ends says nothing by that: the log does.
    async fn is_over(&self) -> Answer<bool> {
        if !self.news.is_empty() {
            return Ok(false);
        }
        let ask = Ask::get(run_path(&self.run, "result"), &WaitQuery::default())?;
        let ending: Ending = self.remote.ask(ask).await?;
        Ok(ending.status.is_terminal() && ending.event <= self.after)
    }

    /// A new stream; none if there is nothing more to come.
    async fn connect(&self) -> Answer<Option<Response>> {
        let mut tries = 0;
        loop {
            let lost = match self.connect_once().await {
                Ok(response) => return Ok(response),
                Err(lost) => lost,
            };
            tries += 1;
            match lost {
                Lost::Harmless(_) | Lost::Maybe(_) if tries < EMPTY_MAX => {
                    tokio::time::sleep(PAUSE * (1 << tries.min(DOUBLINGS_MAX))).await;
                }
                lost => return Err(lost.into()),
            }
        }
    }

    async fn connect_once(&self) -> Result<Option<Response>, Lost> {
        let request = self.remote.request(Method::GET, &run_path(&self.run, "events"));
        let request = request.header(ACCEPT, "text/event-stream").header("Last-Event-ID", self.after.0);
        let sent = tokio::time::timeout(SILENCE_MAX, request.send()).await;
        let silent = |_| Lost::Maybe(Problem::new(504, "the server does not answer"));
        let response = sent.map_err(silent)?.map_err(|error| self.remote.lost(&error))?;
        match response.status().as_u16() {
            200 => Ok(Some(response)),
            204 => Ok(None),
            503 => Err(Lost::Maybe(problem(503, &self.remote.text(response).await?))),
            status => Err(Lost::Told(problem(status, &self.remote.text(response).await?))),
        }
    }
}
