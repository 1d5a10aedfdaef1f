//! The context of a workflow function: everything that the function does durably.
//!
//! Replay calls the function from its start, and recorded operations return at once. So a workflow must do the same
//! for the same input and the same results: time, randomness and all outside data come through the context.

mod ask;
mod bounds;
mod changed;
pub(crate) mod child;
mod join;
mod name;
mod publish;
mod remote;
mod requests;
mod signal_run;
mod step;
mod wait;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::attribute::{ATTRIBUTES_MAX, AttributeError};
use goldseam_core::event::AttributesChanged;
use goldseam_core::state::OpKind;
use goldseam_core::{AttributeValue, Attributes, Millis, Owned, Path, Payload, RunId, TagKey, TraceContext};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ledger::error::EngineError;
use crate::ledger::secrets::Secret;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::{LiveRun, Spot};
use crate::run::spans;

pub use ask::Ask;
pub use bounds::{BodyFuture, FromPayload, StepOutput, ToPayload, WorkflowFuture};
pub use child::{Child, ChildHandle, Detached};
pub use join::Join;
pub use name::Name;
pub use remote::Remote;
pub use requests::{IncomingRequest, Requests};
pub use step::{Attempt, Group, Probe, Step};
pub use wait::{Select, Selected, Signal};

/// The handle through which a workflow function does everything durable. Cheap to clone.
///
/// | to | call |
/// |---|---|
/// | do something once | [`step`](Self::step), [`step_with`](Self::step_with), [`remote`](Self::remote) |
/// | do several things | [`join`](Self::join), [`arm`](Self::arm), [`group`](Self::group), [`child`](Self::child) |
/// | wait | [`signal`](Self::signal), [`ask`](Self::ask), [`sleep`](Self::sleep), [`sleep_until`](Self::sleep_until), [`select`](Self::select) |
/// | begin again with an empty history | [`continue_as_new`](Self::continue_as_new) |
/// | change the code of runs in flight | [`changed`](Self::changed), [`version`](Self::version) |
/// | read time, randomness, secrets | [`now`](Self::now), [`random`](Self::random), [`uuid`](Self::uuid), [`secret`](Self::secret) |
/// | show something | [`progress`](Self::progress), [`set_attribute`](Self::set_attribute), [`is_replaying`](Self::is_replaying) |
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn label(ctx: Context, _: ()) -> goldseam::Result<String> {
///     // All of these are the same in every replay.
///     let (seconds, lot, parcel) = (ctx.now().0 / 1000, ctx.random() % 10, ctx.uuid());
///     let region = ctx.tag("region").unwrap_or_default();
///     Ok(format!("{} v{} {region} {seconds} {lot} {parcel}", ctx.run_id(), ctx.version()))
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("label", label).start().await?;
/// # let options = StartOptions::default().tag("region", "eu");
/// # let label = engine.start_with(label, "label-1", &(), options).await?.result().await?;
/// # assert!(label.starts_with("label-1 v1 eu "), "{label}");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Context {
    pub(crate) live: Arc<LiveRun>,
    pub(crate) arm: Path,
}

impl Context {
    pub(crate) fn new(live: Arc<LiveRun>) -> Self {
        Self { live, arm: Path::root() }
    }

    /// The run's id.
    pub fn run_id(&self) -> &RunId {
        &self.live.run
    }

    /// The version of the workflow on which the run executes.
    pub fn version(&self) -> u32 {
        self.live.lock().state.summary.version
    }

    /// The value of a tag that the run was started with.
    pub fn tag(&self, key: &str) -> Option<String> {
        self.live.lock().state.summary.tags.get(key).cloned()
    }

    /// Returns a secret of this engine by name. Call it inside the step that uses the value: inputs and definitions
    /// contain the name, and no event contains the value.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn pay(ctx: Context, amount: u32) -> goldseam::Result<usize> {
    ///     ctx.step("charge", || async {
    ///         let key = ctx.secret("bank")?;
    ///         Ok(charge(amount, key.expose()))
    ///     })
    ///     .await
    /// }
    /// # fn charge(_: u32, key: &str) -> usize { key.len() }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let engine = Engine::open(&url).await?.workflow("pay", pay).secret("bank", "opensesame".into()).start().await?;
    /// # assert_eq!(engine.start(pay, "p-1", &4).await?.result().await?, 10);
    /// # Ok(()) }
    /// ```
    pub fn secret(&self, name: &str) -> Result<Secret> {
        self.live.ledger.secrets.named(name)
    }

    /// Whether the code at this point has executed before, so that a log line here would be a repetition.
    ///
    /// True while the log has an operation of this arm that the code has not requested yet, of its own or in a nested
    /// arm or group, and at places that the code had reached when the run last left memory; otherwise false. Also false in the body of a step and in a
    /// compensation, which only execute live. Always true while a run that is being compensated replays, and in a
    /// preflight. After a crash, the code after the last recorded operation executes again with `false`: nothing
    /// durable shows that it executed.
    ///
    /// Never let operations depend on it: log, count or print only. The macros [`goldseam::info!`] and the like use
    /// it.
    ///
    /// [`goldseam::info!`]: https://docs.rs/goldseam/latest/goldseam/macro.info.html
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn order(ctx: Context, item: String) -> goldseam::Result<()> {
    ///     ctx.step("reserve", || async { Ok(()) }).await?;
    ///     if !ctx.is_replaying() {
    ///         println!("reserved {item}");
    ///     }
    ///     ctx.sleep("a-moment", Duration::from_millis(1)).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// # engine.start(order, "o-1", &"tea".to_owned()).await?.result().await?;
    /// # Ok(()) }
    /// ```
    pub fn is_replaying(&self) -> bool {
        !spans::is_in_operation(&self.live) && self.live.lock().is_replaying(&self.arm)
    }

    /// The trace context to pass to other systems, if the run was started with one
    /// ([`StartOptions::trace`](crate::StartOptions::trace)).
    ///
    /// Inside a step or a compensation its parent is the span of that operation, otherwise the span of the run: the
    /// spans that a server with an OTLP collector exports. A task that the step spawns is outside; ask before.
    ///
    /// ```
    /// use goldseam::{TraceContext, prelude::*};
    ///
    /// async fn pay(ctx: Context, _: ()) -> goldseam::Result<String> {
    ///     ctx.step("charge", || async {
    ///         let trace = ctx.trace_context().ok_or("not traced")?;
    ///         // Send it with the request to the bank, as the header `traceparent`.
    ///         Ok(trace.traceparent().to_owned())
    ///     })
    ///     .await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("pay", pay).start().await?;
    /// let trace = TraceContext::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")?;
    /// let run = engine.start_with(pay, "p-1", &(), StartOptions::default().trace(trace)).await?;
    /// assert!(run.result().await?.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    /// # Ok(()) }
    /// ```
    pub fn trace_context(&self) -> Option<TraceContext> {
        spans::trace_context(&self.live)
    }

    /// The time of the last event that this arm has seen; the same in every replay.
    pub fn now(&self) -> Millis {
        self.live.lock().arm_now(&self.arm)
    }

    /// A random number that is the same in every replay.
    pub fn random(&self) -> u64 {
        self.live.lock().draw(&self.arm).leading()
    }

    /// A random UUID (version 4) that is the same in every replay.
    pub fn uuid(&self) -> String {
        let mut bytes = self.live.lock().draw(&self.arm).0;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = goldseam_core::Hash(bytes).to_string();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Returns a context for one of several concurrent parts. Operations in one arm do not change the paths of
    /// another.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn trip(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ///     let (car, hotel) = (ctx.arm("car")?, ctx.arm("hotel")?);
    ///     // Both arms have a step `book`; whichever is faster, each finds its own result in the log.
    ///     let (car, hotel) = tokio::join!(
    ///         async { car.step("book", || async { Ok(40_u32) }).await },
    ///         async { hotel.step("book", || async { Ok(60_u32) }).await },
    ///     );
    ///     Ok(car? + hotel?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("trip", trip).start().await?;
    /// # assert_eq!(engine.start(trip, "t-1", &()).await?.result().await?, 100);
    /// # Ok(()) }
    /// ```
    pub fn arm(&self, name: impl Into<Name>) -> Result<Self> {
        let spot = self.spot(name)?;
        Ok(Self { live: Arc::clone(&self.live), arm: Path::new(&format!("{}~", spot.path))? })
    }

    /// Sleeps. Survives restarts; a long sleep costs no memory.
    ///
    /// Use it instead of `tokio::time::sleep`, which starts over after a crash; inside a step, either is fine.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn trial(ctx: Context, length: Duration) -> goldseam::Result<String> {
    ///     ctx.sleep("trial", length).await?;
    ///     Ok("the trial has ended".to_owned())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("trial", trial).start().await?;
    /// let run = engine.start(trial, "trial-ada", &Duration::from_millis(10)).await?;
    /// assert_eq!(run.result().await?, "the trial has ended");
    /// # Ok(()) }
    /// ```
    pub async fn sleep(&self, name: impl Into<Name>, span: Duration) -> Result<()> {
        let spot = self.spot(name)?;
        wait::sleep(self, spot, |now| now + span).await
    }

    /// Sleeps until a point in time. Survives restarts.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn remind(ctx: Context, day: Duration) -> goldseam::Result<String> {
    ///     ctx.sleep("a-day", day).await?;
    ///     ctx.progress("a day has passed").await?;
    ///     let next_day = std::time::SystemTime::from(ctx.now()) + day;
    ///     ctx.sleep_until("the-next-day", next_day).await?;
    ///     Ok("two days have passed".to_owned())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("remind", remind).start().await?;
    /// # let run = engine.start(remind, "r-1", &Duration::from_millis(10)).await?;
    /// # assert_eq!(run.result().await?, "two days have passed");
    /// # Ok(()) }
    /// ```
    pub async fn sleep_until(&self, name: impl Into<Name>, due: impl Into<Millis>) -> Result<()> {
        let spot = self.spot(name)?;
        let due = due.into();
        wait::sleep(self, spot, |_| due).await
    }

    /// Records a progress message for people, shown by `goldseam show`. [`Context::set_attribute`] records a value to
    /// search by; [`goldseam::info!`] writes a log line.
    ///
    /// [`goldseam::info!`]: https://docs.rs/goldseam/latest/goldseam/macro.info.html
    pub async fn progress(&self, message: impl Into<String>) -> Result<()> {
        let spot = self.spot("progress")?;
        match self.recorded(&spot, None).await {
            Some(OpKind::Progress) => return Ok(()),
            Some(_) => return self.mismatch(&spot).await,
            None => {}
        }
        self.live.gate().await?;
        let message: String = message.into();
        // Redact before shortening: half a secret would not be found.
        let message = self.live.ledger.secrets.redactor().text(&message);
        let message = message.chars().take(self.live.ledger.limits.text_bytes_max).collect();
        self.live.queue(Owned::Progress { path: spot.path, ord: spot.ord, message });
        Ok(())
    }

    /// Sets an attribute of the run, to search by. Recorded once: a replay does not write it again.
    ///
    /// A jump back to before the call restores the earlier value. Every call is recorded, also one that sets the value
    /// that the attribute has.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn pay(ctx: Context, amount: u32) -> goldseam::Result<()> {
    ///     ctx.set_attribute("amount", amount).await?;
    ///     ctx.step("charge", || async { Ok(()) }).await?;
    ///     ctx.set_attribute("stage", "paid").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("pay", pay).start().await?;
    /// engine.start(pay, "p-1", &120).await?.result().await?;
    /// let paid = engine.client().search(r#"stage = "paid" and amount >= 100"#)?.count().await?;
    /// assert_eq!(paid, 1);
    /// # Ok(()) }
    /// ```
    pub async fn set_attribute(&self, name: impl AsRef<str>, value: impl Into<AttributeValue>) -> Result<()> {
        let set = Attributes::from([(TagKey::new(name)?, value.into())]);
        self.change_attributes(set, BTreeSet::new()).await
    }

    /// Removes an attribute of the run. Recorded once, as [`Context::set_attribute`] is.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.set_attribute("stage", "draft").await?;
    ///     ctx.remove_attribute("stage").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// engine.start(order, "o-1", &()).await?.result().await?;
    /// assert_eq!(engine.client().search(r#"stage = "draft""#)?.count().await?, 0);
    /// # Ok(()) }
    /// ```
    pub async fn remove_attribute(&self, name: impl AsRef<str>) -> Result<()> {
        self.change_attributes(Attributes::new(), BTreeSet::from([TagKey::new(name)?])).await
    }

    async fn change_attributes(&self, set: Attributes, removed: BTreeSet<TagKey>) -> Result<()> {
        let spot = self.spot("attributes")?;
        match self.recorded(&spot, None).await {
            Some(OpKind::Attributes) => return Ok(()),
            Some(_) => return self.mismatch(&spot).await,
            None => {}
        }
        let was_refused = self.live.lock().got_past(&self.arm, &spot);
        let changed = AttributesChanged { path: spot.path, ord: spot.ord, set, removed };
        // Before the gate: a replay for compensations must get past a call that is refused.
        changed.check(&self.live.lock().state.summary.attributes).map_err(EngineError::Attribute)?;
        // The run had too many attributes then, and has fewer now.
        if was_refused {
            return Err(EngineError::Attribute(AttributeError::TooMany(ATTRIBUTES_MAX + 1)).into());
        }
        self.live.gate().await?;
        self.live.queue(Owned::Attributes(changed));
        Ok(())
    }

    /// Continues the run with other input and an empty history. Return its result at once: `return
    /// ctx.continue_as_new(&input);`
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn countdown(ctx: Context, left: u32) -> goldseam::Result<String> {
    ///     if left > 0 {
    ///         ctx.sleep("tick", Duration::from_millis(1)).await?;
    ///         return ctx.continue_as_new(&(left - 1));
    ///     }
    ///     Ok("liftoff".to_owned())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("countdown", countdown).start().await?;
    /// # assert_eq!(engine.start(countdown, "c-1", &3).await?.result().await?, "liftoff");
    /// # Ok(()) }
    /// ```
    pub fn continue_as_new<T>(&self, input: &impl Serialize) -> Result<T> {
        let input = Payload::of(input, &self.live.ledger.limits)?;
        self.live.lock().continue_with = Some(input);
        Err(Error::continue_as_new())
    }

    pub(crate) fn spot(&self, name: impl Into<Name>) -> Result<Spot> {
        let (name, key) = name.into().checked()?;
        Ok(self.live.lock().spot(&self.arm, &name, key.as_ref()))
    }

    /// The recorded operation at `spot`. Never returns if the log has a different one.
    pub(crate) async fn recorded(&self, spot: &Spot, input: Option<goldseam_core::Hash>) -> Option<OpKind> {
        let found = self.live.lock().look(spot, input).map(|op| op.map(|op| op.kind.clone()));
        match found {
            Ok(kind) => kind,
            Err(stop) => self.live.stop_and_hang(stop).await,
        }
    }

    /// Reads a value of the log. Never returns if the code's type does not fit: that is a divergence, not a failure
    /// of the run.
    pub(crate) async fn read_logged<T: DeserializeOwned>(&self, what: &str, value: &Payload) -> T {
        let detail = match value.read() {
            Ok(value) => return value,
            Err(error) => crate::run::shapes::misfit::<T>(what, value, &error),
        };
        self.live.stop_and_hang(crate::run::live_run::Stop::Diverged(detail)).await
    }

    pub(crate) async fn mismatch<T>(&self, spot: &Spot) -> T {
        let path = &spot.path;
        let detail = format!("{path} is one kind of operation in the log and another in the code");
        self.live.stop_and_hang(crate::run::live_run::Stop::Diverged(detail)).await
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("run", &self.live.run).field("arm", &self.arm).finish()
    }
}
