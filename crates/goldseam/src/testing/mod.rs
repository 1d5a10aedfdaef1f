//! Unit tests for your workflows: crashes at every point, lost and repeated signals, virtual time.
//!
//! A [`Tester`] runs a workflow on real engines, with a store in memory and virtual time:
//!
//! - [`Tester::once`] runs it without faults. A sleep of days takes no real time.
//! - [`Tester::every_crash`] runs it once per crash point: before and after each append of the first node. Another node
//!   then continues the run.
//! - [`Tester::seeded`] runs it once per seed. The seed determines crashes, lost replies, delays, clock differences,
//!   and signals that arrive early, late or twice.
//!
//! ```
//! use goldseam::prelude::*;
//! use goldseam::testing::{Tester, World};
//!
//! /// Replaces a payment service that deduplicates by key.
//! async fn charge(world: &World, attempt: Attempt) -> goldseam::Result<()> {
//!     world.did("charge", attempt.idempotency_key());
//!     Ok(())
//! }
//!
//! async fn order(ctx: Context, cents: u64, world: World) -> goldseam::Result<String> {
//!     ctx.step_with("charge", |attempt| charge(&world, attempt)).await?;
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
//! // After a crash between the charge and its record, the step ran again with the same key: it counts once.
//! assert_eq!((report.effects("charge").times, report.effects("charge").counts), (2, 1));
//!
//! tester.seeded(0..20)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Checks
//!
//! In every case the tester checks that:
//!
//! - the run ends with the same outcome as without faults, or with one that [`Tester::allow`] accepts;
//! - the workflow is deterministic: each replay requests the operations that the log holds;
//! - every effect recorded in the [`World`] counts as often as without faults: a request with an idempotency key may be
//!   repeated, a request without one may not;
//! - no step begins after its completion was recorded;
//! - your own [`Tester::check`] passes.
//!
//! A [`Failed`] names the flaw and the case, shows how to repeat that case alone, and prints what happened.
//!
//! # Time
//!
//! Time is virtual: when all tasks wait, the clock moves to the next due time. Steps may use `tokio::time`. While a
//! step does real I/O, virtual time runs on, so its timeouts may fire early. Do such I/O in
//! `tokio::task::spawn_blocking`, which stops virtual time, or replace the service by a fake in the [`World`]. Code
//! that reads another clock than [`Context::now`](crate::Context::now) sees real time.

mod actors;
mod case;
mod case_run;
mod failed;
mod report;
mod tester;
mod world;

pub use case::Case;
pub use failed::{Failed, Flaw};
pub use report::{Mail, Most, Report};
pub use tester::Tester;
pub use world::{Effect, World};
