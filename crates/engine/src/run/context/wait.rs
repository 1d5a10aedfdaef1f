//! Waits: signals, timers, and the first of several.
//!
//! A wait begins with the append of `wait.started`. A signal that arrives first makes the append conflict, and is
//! then read, so no signal is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::{BoxFuture, select};
use goldseam_core::event::{InputRequested, WaitStarted};
use goldseam_core::form::Form;
use goldseam_core::state::{Found, Mail, OpKind, WaitOp, request_signal, requested_name};
use goldseam_core::{Failure, Millis, Owned, Payload, RunId, SignalName};

use super::{ChildHandle, Context, FromPayload, IncomingRequest, Name};
use crate::ledger::clock::sleep_until;
use crate::ledger::meter::WaitKind;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::{Mode, Slow, Spot};

pub(super) async fn sleep(ctx: &Context, spot: Spot, due: impl FnOnce(Millis) -> Millis) -> Result<()> {
    let due = match ctx.recorded(&spot, None).await {
        Some(OpKind::Wait(WaitOp { wanted: Some(wanted), .. })) => wanted.due.unwrap_or_default(),
        Some(_) => return ctx.mismatch(&spot).await,
        None => {
            ctx.live.gate().await?;
            let due = due(ctx.live.now());
            let _waiting = ctx.live.waiting(WaitKind::Timer, pace(ctx, Some(due), true));
            let path = spot.path.clone();
            let ord = spot.ord;
            let ticket = ctx.live.queue(Owned::Sleep { path, ord, due });
            ctx.live.durable(ticket).await;
            due
        }
    };
    resolved(ctx, &spot, WaitKind::Timer, WaitLimit { due: Some(due), only_slow: true }).await.map(|_| ())
}

/// Whether a wait may leave memory at once: only waits for people and distant times may.
fn pace(ctx: &Context, due: Option<Millis>, only_slow: bool) -> Slow {
    let near = due.is_some_and(|due| due <= ctx.live.now() + ctx.live.config.linger);
    if only_slow && !near { Slow::Yes } else { Slow::No }
}

/// Opens a wait unless the log has it, and returns what resolved it. `wanted` is called only if the wait is opened.
pub(super) async fn wait(
    ctx: &Context,
    spot: &Spot,
    wanted: impl FnOnce(Millis) -> (WaitStarted, Option<InputRequested>),
) -> Result<Found> {
    let (kind, due, slow) = match ctx.recorded(spot, None).await {
        Some(OpKind::Wait(WaitOp { found: Some(found), .. })) => return Ok(found),
        Some(OpKind::Wait(WaitOp { wanted: Some(wanted), .. })) => {
            (WaitKind::of(&wanted), wanted.due, is_slow(&wanted))
        }
        Some(
            OpKind::Step(_) | OpKind::Progress | OpKind::Attributes | OpKind::Published | OpKind::Answered,
        ) => return ctx.mismatch(spot).await,
        Some(OpKind::Wait(_)) | None => {
            ctx.live.gate().await?;
            let (wanted, ask) = wanted(ctx.live.now());
            let kind = WaitKind::of(&wanted);
            let due = wanted.due;
            let slow = is_slow(&wanted);
            let _waiting = ctx.live.waiting(kind, pace(ctx, due, slow));
            let ticket = ctx.live.queue(Owned::Wait { wanted, ask });
            ctx.live.durable(ticket).await;
            (kind, due, slow)
        }
    };
    resolved(ctx, spot, kind, WaitLimit { due, only_slow: slow }).await
}

fn is_slow(wanted: &WaitStarted) -> bool {
    wanted.signals.is_empty() && wanted.children.is_empty()
}

/// The current state of a wait.
struct WaitState {
    found: Option<Found>,
    is_resolvable: bool,
    cancelled: bool,
    due: Option<Millis>,
    revision: u64,
}

fn see(ctx: &Context, spot: &Spot, due: Option<Millis>) -> Option<WaitState> {
    let mut inner = ctx.live.lock();
    let revision = inner.revision();
    let Ok(Some(op)) = inner.look(spot, None) else { return None };
    let OpKind::Wait(wait) = op.kind.clone() else { return None };
    let live = inner.mode == Mode::Run;
    let state = &inner.state;
    let mail = wait.wanted.as_ref().and_then(|wanted| state.mail_for(wanted, &BTreeSet::new()));
    let due = due.filter(|_| live);
    let is_resolvable = live && mail.is_some() || due.is_some_and(|due| due <= ctx.live.now());
    let cancelled = state.summary.cancel.is_some() && inner.mode.heeds_cancel();
    Some(WaitState { found: wait.found, is_resolvable, cancelled, due, revision })
}

/// When a wait ends by itself.
#[derive(Debug, Clone, Copy)]
struct WaitLimit {
    due: Option<Millis>,
    only_slow: bool,
}

/// Returns once the log has what resolved the wait at `spot`.
async fn resolved(ctx: &Context, spot: &Spot, kind: WaitKind, limit: WaitLimit) -> Result<Found> {
    let WaitLimit { due, only_slow } = limit;
    let live = &ctx.live;
    let _waiting = live.waiting(kind, pace(ctx, due, only_slow));
    loop {
        let Some(WaitState { found, is_resolvable, cancelled, due, revision }) = see(ctx, spot, due) else {
            return ctx.mismatch(spot).await;
        };
        if let Some(found) = found {
            return Ok(found);
        }
        if cancelled {
            return Err(Error::cancelled());
        }
        if is_resolvable {
            let ticket = live.queue(Owned::Check(spot.path.clone()));
            live.durable(ticket).await;
            continue;
        }
        let changed = std::pin::pin!(live.changed(revision));
        match due {
            None => {
                changed.await;
            }
            Some(due) => {
                let timer = std::pin::pin!(sleep_until(&live.ledger.clock, due));
                select(changed, timer).await;
            }
        }
    }
}

/// Returns once `due` has come, the time of a retry. The run may leave memory meanwhile.
pub(super) async fn until(ctx: &Context, due: Millis) -> Result<()> {
    let live = &ctx.live;
    let _waiting = live.waiting(WaitKind::Retry, pace(ctx, Some(due), true));
    loop {
        let (cancelled, revision) = {
            let inner = live.lock();
            (inner.state.summary.cancel.is_some() && inner.mode.heeds_cancel(), inner.revision())
        };
        if cancelled {
            return Err(Error::cancelled());
        }
        if due <= live.now() {
            return Ok(());
        }
        let changed = std::pin::pin!(live.changed(revision));
        let timer = std::pin::pin!(sleep_until(&live.ledger.clock, due));
        select(changed, timer).await;
    }
}

impl Context {
    /// Waits for a signal. A signal that arrived earlier counts; each is delivered once, in order. Its content must
    /// fit `T`. [`RunHandle::signal`](crate::RunHandle::signal) sends one.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn deliver(ctx: Context, _: ()) -> goldseam::Result<String> {
    ///     ctx.signal("address").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("deliver", deliver).start().await?;
    /// let run = engine.start(deliver, "d-1", &()).await?;
    /// run.signal("address", "Kyoto").await?;
    /// assert_eq!(run.result().await?, "Kyoto");
    /// # Ok(()) }
    /// ```
    pub fn signal<T: FromPayload>(&self, name: &str) -> Signal<'_, T> {
        Signal {
            ctx: self,
            name: SignalName::new(name),
            schema: None,
            timeout: None,
            spot: self.spot(name),
            value: PhantomData,
        }
    }

    /// Waits for the first of several events: signals, ends of children, an answer, a timeout.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn approve(ctx: Context, _: ()) -> goldseam::Result<String> {
    ///     let first = ctx.select("decision").signal("approved").signal("refused").timeout(days(7)).await?;
    ///     Ok(match first {
    ///         Selected::Signal { name, .. } => name.as_str().to_owned(),
    ///         _ => "expired".to_owned(),
    ///     })
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("approve", approve).start().await?;
    /// let run = engine.start(approve, "a-1", &()).await?;
    /// run.signal("refused", "too expensive").await?;
    /// assert_eq!(run.result().await?, "refused");
    /// # Ok(()) }
    /// ```
    pub fn select(&self, name: impl Into<Name>) -> Select<'_> {
        let spot = self.spot(name);
        let signals = vec![];
        let schemas = BTreeMap::new();
        let children = vec![];
        Select { ctx: self, spot, signals, schemas, children, ask: None, timeout: None, flaw: None }
    }
}

/// A wait for one signal; see [`Context::signal`].
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn confirm(ctx: Context, wait: Duration) -> goldseam::Result<u32> {
///     let schema = serde_json::json!({ "type": "integer", "minimum": 1 });
///     match ctx.signal("count").schema(schema).timeout(wait).await {
///         Err(error) if error.is_timeout() => Ok(0),
///         count => count,
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("confirm", confirm).start().await?;
/// # assert_eq!(engine.start(confirm, "c-1", &Duration::from_millis(5)).await?.result().await?, 0);
/// # Ok(()) }
/// ```
#[must_use = "nothing is waited for until it is awaited: add `.await?`"]
pub struct Signal<'a, T> {
    ctx: &'a Context,
    name: Result<SignalName, goldseam_core::IdError>,
    schema: Option<serde_json::Value>,
    timeout: Option<Duration>,
    spot: Result<Spot>,
    value: PhantomData<fn() -> T>,
}

impl<T> Signal<'_, T> {
    /// Sets the JSON Schema that the content must satisfy. Default: derived from `T`.
    ///
    /// A signal that does not satisfy it is refused while the run waits. One that arrived earlier stays unread, and
    /// the wait takes the next one that fits.
    pub fn schema(mut self, schema: serde_json::Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Sets a timeout, after which the wait fails with an error for which [`Error::is_timeout`] holds.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timeout = Some(span);
        self
    }
}

impl<'a, T: FromPayload + 'a> IntoFuture for Signal<'a, T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { ctx, name, schema, timeout, spot, value: _ } = self;
        Box::pin(async move {
            let spot = spot?;
            let name = name?;
            let wanted = |now: Millis| {
                let schema = schema.or_else(|| crate::run::shapes::of::<T>().schema());
                let wanted = WaitStarted {
                    path: spot.path.clone(),
                    ord: spot.ord,
                    schemas: schema.map(|schema| (name.clone(), schema)).into_iter().collect(),
                    signals: vec![name],
                    inputs: vec![],
                    children: vec![],
                    due: timeout.map(|span| now + span),
                };
                (wanted, None)
            };
            match wait(ctx, &spot, wanted).await? {
                Found::Mail(Mail::Signal { payload, .. }) => {
                    Ok(ctx.read_logged(&format!("the signal for {}", spot.path), &payload).await)
                }
                Found::Mail(_) => ctx.mismatch(&spot).await,
                Found::Timer => Err(Error::timeout(&spot.path)),
            }
        })
    }
}

/// A wait for the first of several events; see [`Context::select`].
///
/// ```
/// use goldseam::prelude::*;
/// use goldseam::Form;
///
/// async fn ship(ctx: Context, wait: Duration) -> goldseam::Result<String> {
///     let packed = ctx.child::<()>("pack", "pack", &()).start().await?;
///     let count = serde_json::json!({ "type": "integer" });
///     let wanted = ctx.select("news").child(&packed).signal_with("counted", count).ask("Ship now?", Form::Text);
///     Ok(match wanted.timeout(wait).await? {
///         Selected::Child { result, .. } => format!("packed: {}", result.is_ok()),
///         Selected::Signal { payload, .. } => format!("counted {}", payload.read::<u32>()?),
///         Selected::Answer(answer) => answer.read()?,
///         _ => "too late".to_owned(),
///     })
/// }
/// # async fn pack(_: Context, _: ()) -> goldseam::Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("ship", ship).workflow("pack", pack).start().await?;
/// # assert_eq!(engine.start(ship, "s-1", &secs(60)).await?.result().await?, "packed: true");
/// # Ok(()) }
/// ```
#[must_use = "nothing is waited for until it is awaited: add `.await?`"]
pub struct Select<'a> {
    ctx: &'a Context,
    spot: Result<Spot>,
    signals: Vec<SignalName>,
    schemas: BTreeMap<SignalName, serde_json::Value>,
    children: Vec<RunId>,
    ask: Option<(String, Form)>,
    timeout: Option<Duration>,
    flaw: Option<Error>,
}

/// The event that came first.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub enum Selected {
    /// A signal.
    Signal {
        /// Its name.
        name: SignalName,
        /// Its content.
        payload: Payload,
    },
    /// A request, which the code answers or refuses.
    Request(IncomingRequest<Payload>),
    /// An answer.
    Answer(Payload),
    /// A child ended.
    Child {
        /// The child.
        run: RunId,
        /// Its result.
        result: Result<Payload, Failure>,
    },
    /// Nothing happened in time.
    Timeout,
}

impl Select<'_> {
    /// Waits also for this signal.
    pub fn signal(mut self, name: &str) -> Self {
        match SignalName::new(name) {
            Ok(name) => self.signals.push(name),
            Err(error) => self.flaw = Some(error.into()),
        }
        self
    }

    /// Waits also for this signal, if its content satisfies this JSON Schema.
    pub fn signal_with(mut self, name: &str, schema: serde_json::Value) -> Self {
        match SignalName::new(name) {
            Ok(name) => {
                self.schemas.insert(name.clone(), schema);
                self.signals.push(name);
            }
            Err(error) => self.flaw = Some(error.into()),
        }
        self
    }

    /// Waits also for a request with this name.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn counter(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ///     let mut count = 0;
    ///     loop {
    ///         match ctx.select("next").request("add").signal("stop").await? {
    ///             Selected::Request(request) => {
    ///                 count += request.read::<u32>()?;
    ///                 request.answer(&count).await?;
    ///             }
    ///             _ => return Ok(count),
    ///         }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("counter", counter).start().await?;
    /// let run = engine.start(counter, "c-1", &()).await?;
    /// assert_eq!(run.request::<_, u32>("add", &2).await?, 2);
    /// run.signal("stop", &()).await?;
    /// assert_eq!(run.result().await?, 2);
    /// # Ok(()) }
    /// ```
    pub fn request(mut self, name: &str) -> Self {
        match request_signal(name) {
            Ok(name) => self.signals.push(name),
            Err(error) => self.flaw = Some(error.into()),
        }
        self
    }

    /// Waits also for the end of this child.
    pub fn child(mut self, child: &ChildHandle) -> Self {
        self.children.push(child.run_id().clone());
        self
    }

    /// Also asks a person. The question has the name of the wait.
    pub fn ask(mut self, prompt: impl Into<String>, form: Form) -> Self {
        self.ask = Some((prompt.into(), form));
        self
    }

    /// Sets a timeout.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timeout = Some(span);
        self
    }
}

impl<'a> IntoFuture for Select<'a> {
    type Output = Result<Selected>;
    type IntoFuture = BoxFuture<'a, Result<Selected>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { ctx, spot, signals, schemas, children, ask, timeout, flaw } = self;
        Box::pin(async move {
            if let Some(flaw) = flaw {
                return Err(flaw);
            }
            let spot = spot?;
            let wanted = |now: Millis| {
                let path = spot.path.clone();
                let ord = spot.ord;
                let due = timeout.map(|span| now + span);
                let inputs = ask.iter().map(|_| path.clone()).collect();
                let wanted = WaitStarted { path, ord, signals, schemas, inputs, children, due };
                let ask = ask.map(|(prompt, form)| InputRequested {
                    path: spot.path.clone(),
                    ord: spot.ord,
                    prompt: prompt.chars().take(ctx.live.ledger.limits.text_bytes_max).collect(),
                    form,
                });
                (wanted, ask)
            };
            match wait(ctx, &spot, wanted).await? {
                Found::Mail(Mail::Signal { name, id, payload }) => Ok(match requested_name(&name) {
                    Some(name) => Selected::Request(IncomingRequest::selected(ctx, name, id, payload)),
                    None => Selected::Signal { name, payload },
                }),
                Found::Mail(Mail::Child { run, result }) => Ok(Selected::Child { run, result }),
                Found::Mail(Mail::Answer { answer, .. }) => Ok(Selected::Answer(answer)),
                Found::Timer => Ok(Selected::Timeout),
            }
        })
    }
}
