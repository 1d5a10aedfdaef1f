//! Tests of your own workflows: a crash before and after every event, lost and repeated signals, time that skips.
//!
//! A [`Tester`] runs a workflow on real engines, a store in memory and virtual time. [`Tester::once`] runs it without
//! faults: a sleep of days takes no time at all. [`Tester::every_crash`] runs it again and again, each time with a crash
//! at another place, and another node goes on. [`Tester::seeded`] draws crashes, lost replies, delays, clocks that
//! disagree, and signals that come early, late or twice, from a seed.
//!
//! ```
//! use goldseam::prelude::*;
//! use goldseam::testing::{Tester, World};
//!
//! async fn order(ctx: Context, cents: u64, world: World) -> goldseam::Result<String> {
//!     ctx.step_with("charge", |attempt| {
//!         // In place of the payment service, which goes by keys.
//!         world.did("charge", attempt.idempotency_key());
//!         async { Ok::<_, Error>(()) }
//!     })
//!     .await?;
//!     ctx.sleep("cool_off", days(14)).await?;
//!     let to: String = ctx.signal("address").await?;
//!     Ok(format!("{cents} cents, to {to}"))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tester = Tester::new(|engine, world| {
//!     engine.workflow("order", move |ctx, cents| order(ctx, cents, world.clone()))
//! })
//! .run("order", &4200)
//! .signal("address", &"Kyoto");
//!
//! let report = tester.every_crash()?;
//! assert_eq!(report.outcome::<String>()?, "4200 cents, to Kyoto");
//! // Cut off between the charge and its record, the step began again, under the same key: it counts once.
//! assert_eq!((report.effects("charge").times, report.effects("charge").counts), (2, 1));
//!
//! tester.seeded(0..20)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is checked in every case
//!
//! - The run ends, and in the same way as without faults, or in one that [`Tester::allow`] allows.
//! - It is deterministic: no replay asks for something else than the log has.
//! - Every effect that steps tell the [`World`] counts as often as without faults. A request that passes on the
//!   idempotency key may be repeated; one without a key may not.
//! - No step begins again once its completion is recorded.
//! - Whatever [`Tester::check`] adds.
//!
//! A [`Failed`] says what is wrong, in which case, how to repeat it alone, and what happened until then.
//!
//! # What holds for time
//!
//! Nothing waits: whenever everybody waits, the clock moves on to the next thing that is due. Steps may use `tokio::time`.
//! A step that does real I/O looks like one that does nothing, and time runs on while it waits, so its timeouts may pass
//! early; do such I/O inside `tokio::task::spawn_blocking`, where time stands still, or have a stand-in in the [`World`].
//! Code that asks another clock than [`Context::now`](crate::Context::now) sees real time.

mod case;
mod failed;
mod people;
mod report;
mod stage;
mod tester;
mod world;

pub use case::Case;
pub use failed::{Failed, Flaw};
pub use report::{Mail, Most, Report};
pub use tester::Tester;
pub use world::{Effect, World};
