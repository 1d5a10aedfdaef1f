//! A crash test finds two bugs that only a crash shows, and passes the fixed workflow.
//!
//! `cargo run -p goldseam --example crash_tested`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::sync::atomic::{AtomicU64, Ordering};

use goldseam::prelude::*;
use goldseam::testing::{Failed, Report, Tester, World};

/// Invents a new key for each charge: after a crash before the record, the customer pays twice.
async fn careless(ctx: Context, cents: u64, world: World) -> goldseam::Result<u64> {
    let charge = || {
        let made_up = world.thing::<AtomicU64>().fetch_add(1, Ordering::Relaxed);
        world.did("charge", &made_up.to_string());
        async move { Ok(cents) }
    };
    ctx.step("charge", charge).await
}

/// Reads outside state without a step: a replay may see another value than the first call.
async fn moody(ctx: Context, cents: u64, world: World) -> goldseam::Result<u64> {
    let first_customer = world.thing::<AtomicU64>().fetch_add(1, Ordering::Relaxed) == 0;
    if first_customer {
        ctx.step("welcome", || async { Ok(()) }).await?;
    }
    ctx.step("charge", || async move { Ok(cents) }).await
}

/// Passes on the stable idempotency key, and reads outside state only in a step.
async fn fixed(ctx: Context, cents: u64, world: World) -> goldseam::Result<u64> {
    let count = || {
        let customers = world.thing::<AtomicU64>().fetch_add(1, Ordering::Relaxed);
        async move { Ok(customers) }
    };
    if ctx.step("count", count).await? == 0 {
        ctx.step("welcome", || async { Ok(()) }).await?;
    }
    ctx.sleep("cool_off", days(14)).await?;
    let charge = |attempt: Attempt| {
        world.did("charge", attempt.idempotency_key());
        async move { Ok(cents) }
    };
    ctx.step_with("charge", charge).await
}

fn tester(workflow: &'static str) -> Tester {
    let setup = move |engine: goldseam::Builder, world: World| match workflow {
        "careless" => engine.workflow(workflow, move |ctx, cents| careless(ctx, cents, world.clone())),
        "moody" => engine.workflow(workflow, move |ctx, cents| moody(ctx, cents, world.clone())),
        _ => engine.workflow(workflow, move |ctx, cents| fixed(ctx, cents, world.clone())),
    };
    Tester::new(setup).run(workflow, &4200_u64)
}

fn describe(workflow: &str, searched: Result<Report, Failed>) -> String {
    match searched {
        Ok(report) => format!("{workflow}: {} cases, {} crashes", report.cases(), report.crashes()),
        Err(failed) => failed.to_string(),
    }
}

/// Tests all three workflows and returns what the tester found in each.
pub(crate) fn run() -> goldseam::Result<Vec<String>> {
    let fixed = tester("fixed");
    fixed.seeded(0..20)?;
    let searched = [("careless", tester("careless").every_crash()), ("moody", tester("moody").every_crash())];
    let mut found: Vec<String> =
        searched.into_iter().map(|(name, searched)| describe(name, searched)).collect();
    found.push(describe("fixed", fixed.every_crash()));
    Ok(found)
}

fn main() -> goldseam::Result<()> {
    for found in run()? {
        println!("{found}\n");
    }
    Ok(())
}
