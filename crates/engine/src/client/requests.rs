//! Requests to runs, and their answers.

use std::time::Duration;

use goldseam_core::decide::Refusal;
use goldseam_core::state::request_signal;
use goldseam_core::{Command, Event, Payload, Recorded, RunId, Seq, SignalName, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Client, PAGE, RunHandle};
use crate::ledger::dialogue::RequestError;
use crate::ledger::error::{EngineError, refused};
use crate::ledger::page::Most;

/// How long [`RunHandle::request`] waits for the answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The workflow answered.
    Answered(Payload),
    /// The workflow refused it, for this reason.
    Refused(String),
    /// The run ended without an answer.
    Unanswered(Status),
    /// The run has it, and has not answered yet.
    Pending,
}

/// A request that a run has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// Id of the request.
    pub id: String,
    /// Position of the request in the log.
    pub seq: Seq,
    /// What became of it.
    pub reply: Reply,
}

impl Requested {
    /// The answer, or why the request has no answer.
    pub fn answer(self, run: &RunId, name: &str) -> Result<Payload, RequestError> {
        let run = run.clone();
        let name = name.to_owned();
        let id = self.id;
        match self.reply {
            Reply::Answered(answer) => Ok(answer),
            Reply::Refused(reason) => Err(RequestError::Refused { run, name, reason }),
            Reply::Unanswered(status) => Err(RequestError::Unanswered { run, name, id, status }),
            Reply::Pending => Err(RequestError::Pending { run, name, id }),
        }
    }
}

/// Options of a request.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// Identifies a repeated request, which gets the same answer; default: random.
    pub id: Option<String>,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self { id: None, timeout: REQUEST_TIMEOUT }
    }
}

/// Which request to return to.
#[derive(Debug, Clone, Default)]
pub struct ReplyOptions {
    /// Id of the request.
    pub id: String,
    /// Position of the request in the log; without it, the log is searched.
    pub seq: Option<Seq>,
    /// How long to wait for the answer.
    pub timeout: Duration,
}

impl Client {
    /// Sends a request to a run and waits for its answer. The request is durable once the run has it: with the same
    /// id, a caller can come back for the answer at any time.
    ///
    /// ```
    /// use goldseam::client::{Reply, ReplyOptions, RequestOptions};
    /// use goldseam::{Limits, Payload, prelude::*};
    ///
    /// async fn echo(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     let request = ctx.requests::<String>("echo").next().await?;
    ///     let text = request.value().clone();
    ///     request.answer(&text).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("echo", echo).start().await?;
    /// let (client, run) = (engine.client(), engine.start(echo, "e-1", &()).await?);
    /// let hello = Payload::of("hello", &Limits::default())?;
    /// let options = RequestOptions { id: Some("echo-7".to_owned()), ..RequestOptions::default() };
    /// let first = client.request(run.id(), "echo", hello.clone(), options.clone()).await?;
    /// assert_eq!(first.reply, Reply::Answered(hello.clone()));
    /// // The same id is the same request, also after the end of the run.
    /// run.result().await?;
    /// assert_eq!(client.request(run.id(), "echo", hello, options).await?, first);
    /// let later = ReplyOptions { id: "echo-7".to_owned(), ..ReplyOptions::default() };
    /// assert_eq!(client.reply(run.id(), "echo", later).await?, first);
    /// # Ok(()) }
    /// ```
    pub async fn request(
        &self,
        run: &RunId,
        name: &str,
        payload: Payload,
        options: RequestOptions,
    ) -> Result<Requested, EngineError> {
        let signal = request_signal(name)?;
        let until = self.ledger.clock.elapsed().saturating_add(options.timeout);
        let fresh = options.id.is_none();
        let id = self.command_id(options.id);
        let command =
            Command::Signal { name: signal.clone(), id: id.clone(), fresh, payload: payload.clone() };
        let committed = self.carry_out(run, &command).await?;
        let seq = match committed.records.first() {
            Some(recorded) => recorded.seq,
            None => match self.find_request(run, &signal, &id, Seq::ZERO).await? {
                Some((seq, sent)) if sent == payload => seq,
                _ => return Err(RequestError::OtherUse { run: run.clone(), id }.into()),
            },
        };
        let reply = self.await_reply(run, &id, seq, until).await?;
        Ok(Requested { id, seq, reply })
    }

    /// Returns to a request that was sent earlier, and waits for its answer.
    pub async fn reply(
        &self,
        run: &RunId,
        name: &str,
        options: ReplyOptions,
    ) -> Result<Requested, EngineError> {
        let ReplyOptions { id, seq, timeout } = options;
        let signal = request_signal(name)?;
        let until = self.ledger.clock.elapsed().saturating_add(timeout);
        let summary = self.get(run).await?;
        if let Some(pruned) = &summary.pruned {
            return Err(refused(run, Refusal::Archived { archive: pruned.archive.clone() }));
        }
        let after = seq.map_or(Seq::ZERO, Seq::before);
        let Some((seq, _)) = self.find_request(run, &signal, &id, after).await? else {
            let run = run.clone();
            let name = name.to_owned();
            return Err(RequestError::NoSuchRequest { run, name, id }.into());
        };
        let answered = summary.answered.iter().find(|answered| answered.request == id);
        let after = answered.map_or(seq, |answered| answered.seq.before());
        let reply = self.await_reply(run, &id, after, until).await?;
        Ok(Requested { id, seq, reply })
    }

    /// The position and the content of a request in the log after `after`.
    async fn find_request(
        &self,
        run: &RunId,
        signal: &SignalName,
        id: &str,
        mut after: Seq,
    ) -> Result<Option<(Seq, Payload)>, EngineError> {
        loop {
            let (events, _) = self.events_after(run, after, Most::events(PAGE)).await?;
            let Some(last) = events.last() else { return Ok(None) };
            after = last.seq;
            for Recorded { seq, event, .. } in events {
                match event {
                    Event::SignalReceived { name, id: of, payload } if of == id && name == *signal => {
                        return Ok(Some((seq, payload)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Reads the log after `after` until it has the answer, the run has ended, or the time is up.
    async fn await_reply(
        &self,
        run: &RunId,
        id: &str,
        mut after: Seq,
        until: Duration,
    ) -> Result<Reply, EngineError> {
        let mut mark = 0;
        let mut may_be_over = true;
        loop {
            let (events, _) = self.events_after(run, after, Most::events(PAGE)).await?;
            if let Some(reply) = events.iter().find_map(|recorded| reply_in(recorded, id)) {
                return Ok(reply);
            }
            if let Some(last) = events.last() {
                after = last.seq;
                may_be_over |= events.iter().any(|recorded| recorded.event.may_be_last());
                continue;
            }
            if may_be_over {
                may_be_over = false;
                let summary = self.get(run).await?;
                if summary.as_of > after {
                    may_be_over = summary.status.is_terminal();
                    continue;
                }
                if summary.status.is_terminal() {
                    return Ok(Reply::Unanswered(summary.status));
                }
            }
            let left = until.saturating_sub(self.ledger.clock.elapsed());
            if left.is_zero() {
                return Ok(Reply::Pending);
            }
            mark = match tokio::time::timeout(left, self.wait_for_change(mark)).await {
                Ok(next) => next?,
                Err(_) => mark,
            };
        }
    }
}

fn reply_in(recorded: &Recorded, id: &str) -> Option<Reply> {
    let Event::RequestAnswered(answered) = &recorded.event else { return None };
    if answered.request != id {
        return None;
    }
    Some(match &answered.answer {
        Some(answer) => Reply::Answered(answer.clone()),
        None => Reply::Refused(answered.refused.clone().unwrap_or_default()),
    })
}

impl<O> RunHandle<O> {
    /// Sends a request to the run and waits up to [`REQUEST_TIMEOUT`] for the answer; see
    /// [`Context::requests`](crate::Context::requests).
    ///
    /// Fails with GS0169 if the run has not answered in time (it still has the request), with GS0170 if the workflow
    /// refuses, and with GS0171 if the run ends without an answer.
    pub async fn request<I, T>(&self, name: &str, data: &I) -> Result<T, EngineError>
    where
        I: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        self.request_with(name, data, RequestOptions::default()).await
    }

    /// Like [`RunHandle::request`], with an id that makes repetitions harmless, or another timeout.
    ///
    /// ```
    /// use goldseam::client::RequestOptions;
    /// use goldseam::prelude::*;
    ///
    /// async fn deaf(ctx: Context, _: ()) -> goldseam::Result<()> { ctx.signal("stop").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("deaf", deaf).start().await?;
    /// let run = engine.start(deaf, "d-1", &()).await?;
    /// let options = RequestOptions { id: Some("r-1".to_owned()), timeout: Duration::ZERO };
    /// let asked = run.request_with::<_, u32>("count", &(), options.clone()).await;
    /// assert_eq!(asked.unwrap_err().code(), "GS0169");
    /// run.signal("stop", &()).await?;
    /// run.result().await?;
    /// let asked = run.request_with::<_, u32>("count", &(), options).await;
    /// assert_eq!(asked.unwrap_err().code(), "GS0171");
    /// # Ok(()) }
    /// ```
    pub async fn request_with<I, T>(
        &self,
        name: &str,
        data: &I,
        options: RequestOptions,
    ) -> Result<T, EngineError>
    where
        I: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        let data = Payload::of(data, &self.client.ledger.limits)?;
        let requested = self.client.request(&self.run, name, data, options).await?;
        let answer = requested.answer(&self.run, name)?;
        answer.read().map_err(|source| EngineError::NotThatType { what: "the answer", source })
    }
}
