//! The cost of a step in a long history, compared with a short one.
//!
//! A run with a long history and short runs take turns, so that a noisy machine disturbs both equally.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use goldseam::prelude::*;
use tokio::sync::Notify;

use crate::Fallible;
use crate::report::{Measurement, median};
use crate::target::Target;

const LONG: usize = 10_000;
const ROUNDS: usize = 60;
const STEPS: usize = 10;

type StepTimes = Arc<Mutex<Vec<Instant>>>;

async fn steps(ctx: &Context, count: usize, times: &StepTimes) -> goldseam::Result<()> {
    for _ in 0..count {
        ctx.step("step", || async move {
            times.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Returns the microseconds between the steps since the last call.
fn gaps(times: &StepTimes) -> Vec<f64> {
    let taken = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    taken.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e6).collect()
}

pub(crate) async fn measure(target: &Target) -> Fallible<Vec<Measurement>> {
    let times = StepTimes::default();
    let long_times = Arc::clone(&times);
    let short_times = Arc::clone(&times);
    let ready = Arc::new(Notify::new());
    let done = Arc::clone(&ready);
    let long = move |ctx: Context, (): ()| {
        let times = Arc::clone(&long_times);
        let done = Arc::clone(&done);
        async move {
            steps(&ctx, LONG, &times).await?;
            done.notify_one();
            for _ in 0..ROUNDS {
                let (): () = ctx.signal("go").await?;
                steps(&ctx, STEPS, &times).await?;
                done.notify_one();
            }
            Ok::<_, Error>(())
        }
    };
    let short = move |ctx: Context, (): ()| {
        let times = Arc::clone(&short_times);
        async move { steps(&ctx, STEPS, &times).await }
    };
    let config = goldseam::Config { linger: Duration::from_secs(60), ..goldseam::Config::default() };
    let open = Engine::open(&target.url).await?.config(config);
    let engine = open.workflow("long", long).workflow("short", short).start().await?;
    let run = engine.start("long", &format!("long-{}", std::process::id()), &()).await?;
    ready.notified().await;
    gaps(&times);
    let mut in_long = Vec::new();
    let mut in_short = Vec::new();
    for round in 0..ROUNDS {
        run.signal("go", &()).await?;
        ready.notified().await;
        in_long.extend(gaps(&times));
        engine
            .start("short", &format!("short-{}-{round}", std::process::id()), &())
            .await?
            .result::<()>()
            .await?;
        in_short.extend(gaps(&times));
    }
    engine.shutdown().await;
    let long = median(in_long);
    let short = median(in_short);
    Ok(vec![Measurement {
        measure: "length",
        store: target.label(),
        value: long,
        unit: "us/step",
        baseline: Some(short),
        ratio: Some(long / short),
        more: vec![],
    }])
}
