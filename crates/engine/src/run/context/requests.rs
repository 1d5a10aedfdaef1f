//! Requests: messages from outside that the code of a run answers.

use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use goldseam_core::event::{RequestAnswered, WaitStarted};
use goldseam_core::state::{Found, Mail, OpKind, request_signal};
use goldseam_core::{Millis, Owned, Payload, SignalName};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Context, wait};
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::Spot;

impl Context {
    /// Receives requests with this name, one after another. Each is delivered once, in order; its sender waits for
    /// the answer.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn basket(ctx: Context, lines: u32) -> goldseam::Result<u32> {
    ///     let mut total = 0;
    ///     for _ in 0..lines {
    ///         let request = ctx.requests::<u32>("add_line").next().await?;
    ///         match total + request.value() {
    ///             sum if sum > 100 => request.refuse("the basket is full").await?,
    ///             sum => {
    ///                 total = sum;
    ///                 request.answer(&total).await?;
    ///             }
    ///         }
    ///     }
    ///     Ok(total)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("basket", basket).start().await?;
    /// let run = engine.start(basket, "b-1", &3).await?;
    /// assert_eq!(run.request::<_, u32>("add_line", &40).await?, 40);
    /// assert_eq!(run.request::<_, u32>("add_line", &70).await.unwrap_err().code(), "GS0170");
    /// assert_eq!(run.request::<_, u32>("add_line", &50).await?, 90);
    /// assert_eq!(run.result().await?, 90);
    /// # Ok(()) }
    /// ```
    pub fn requests<T: DeserializeOwned>(&self, name: &str) -> Requests<'_, T> {
        Requests { ctx: self, name: name.to_owned(), schema: None, timeout: None, value: PhantomData }
    }
}

/// The requests with one name; see [`Context::requests`].
#[must_use = "nothing is received until `next` is awaited"]
pub struct Requests<'a, T> {
    ctx: &'a Context,
    name: String,
    schema: Option<serde_json::Value>,
    timeout: Option<Duration>,
    value: PhantomData<fn() -> T>,
}

impl<'a, T: DeserializeOwned + 'a> Requests<'a, T> {
    /// Sets the JSON Schema that the content must satisfy. Default: derived from `T`. A request that does not satisfy
    /// it is refused while the run waits.
    pub fn schema(mut self, schema: serde_json::Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets a timeout for [`Requests::next`], after which it fails with an error for which [`Error::is_timeout`]
    /// holds.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timeout = Some(span);
        self
    }

    /// Waits for the next request. A request whose content does not fit `T` is refused, and the wait goes on.
    pub fn next(&self) -> BoxFuture<'a, Result<IncomingRequest<T>>> {
        let ctx = self.ctx;
        let name = self.name.clone();
        let schema = self.schema.clone();
        let timeout = self.timeout;
        let mut spot = Some(ctx.spot(name.as_str()));
        Box::pin(async move {
            let signal = request_signal(&name)?;
            let schema = schema.or_else(|| crate::run::shapes::of::<T>().schema());
            loop {
                let spot = spot.take().unwrap_or_else(|| ctx.spot(name.as_str()))?;
                let found = receive(ctx, &spot, &signal, schema.as_ref(), timeout).await?;
                let request =
                    IncomingRequest { ctx: ctx.clone(), id: found.0, name: name.clone(), value: () };
                let misfit = match found.1.read() {
                    Ok(value) => return Ok(request.with(value)),
                    Err(error) => format!("the content does not fit: {error}"),
                };
                request.refuse(misfit).await?;
            }
        })
    }
}

/// Waits for the next signal that brings a request, and returns its id and content.
async fn receive(
    ctx: &Context,
    spot: &Spot,
    signal: &SignalName,
    schema: Option<&serde_json::Value>,
    timeout: Option<Duration>,
) -> Result<(String, Payload)> {
    let wanted = |now: Millis| {
        let wanted = WaitStarted {
            path: spot.path.clone(),
            ord: spot.ord,
            schemas: schema.map(|schema| (signal.clone(), schema.clone())).into_iter().collect(),
            signals: vec![signal.clone()],
            inputs: vec![],
            children: vec![],
            due: timeout.map(|span| now + span),
        };
        (wanted, None)
    };
    match wait::wait(ctx, spot, wanted).await? {
        Found::Mail(Mail::Signal { id, payload, .. }) => Ok((id, payload)),
        Found::Mail(_) => ctx.mismatch(spot).await,
        Found::Timer => Err(Error::timeout(&spot.path)),
    }
}

/// A request that the run received. Answer it, or refuse it; a request that is dropped stays open until the run ends.
#[derive(Debug, Clone)]
pub struct IncomingRequest<T> {
    ctx: Context,
    id: String,
    name: String,
    value: T,
}

impl<T: PartialEq> PartialEq for IncomingRequest<T> {
    fn eq(&self, other: &Self) -> bool {
        (&self.id, &self.name, &self.value) == (&other.id, &other.name, &other.value)
    }
}

impl<T> IncomingRequest<T> {
    fn with<U>(self, value: U) -> IncomingRequest<U> {
        let Self { ctx, id, name, .. } = self;
        IncomingRequest { ctx, id, name, value }
    }

    /// The content of the request.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The id of the request. The same id is the same request.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The name of the request.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Answers the request. The answer is durable before the next effect of the run begins. If a branch that was left
    /// has answered the same request, that answer stays.
    pub async fn answer(self, answer: &(impl Serialize + ?Sized)) -> Result<()> {
        let answer = Payload::of(answer, &self.ctx.live.ledger.limits)?;
        self.end(Some(answer), None).await
    }

    /// Refuses the request, for a reason that its sender gets.
    pub async fn refuse(self, reason: impl Into<String>) -> Result<()> {
        let reason: String = reason.into();
        let reason = self.ctx.live.ledger.secrets.redactor().text(&reason);
        let reason = reason.chars().take(self.ctx.live.ledger.limits.text_bytes_max).collect();
        self.end(None, Some(reason)).await
    }

    async fn end(self, answer: Option<Payload>, refused: Option<String>) -> Result<()> {
        let Self { ctx, id: request, name, .. } = self;
        let spot = ctx.spot(("answer", &name))?;
        if !ctx.is_new(&spot, &OpKind::Answered).await {
            return Ok(());
        }
        ctx.live.gate().await?;
        let path = spot.path;
        let ord = spot.ord;
        ctx.live.queue(Owned::AnswerRequest(RequestAnswered { path, ord, request, answer, refused }));
        Ok(())
    }
}

impl IncomingRequest<Payload> {
    pub(super) fn selected(ctx: &Context, name: &str, id: String, value: Payload) -> Self {
        Self { ctx: ctx.clone(), id, name: name.to_owned(), value }
    }

    /// Reads the content as a type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(self.value.read()?)
    }
}
