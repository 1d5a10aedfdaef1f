//! Whether a step costs more in a long history than in a short one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use goldseam::prelude::*;

use crate::Fallible;
use crate::report::{Report, median};
use crate::work::Place;

const LONG: usize = 10_000;
const WINDOW: usize = 300;

pub(crate) async fn measure(place: &Place) -> Fallible<Vec<Report>> {
    let (mut long, mut short) = (Vec::new(), Vec::new());
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let shared = Arc::clone(&times);
    let walk = move |ctx: Context, count: usize| {
        let times = Arc::clone(&shared);
        async move {
            for _ in 0..count {
                let times = &times;
                ctx.step("step", || async move {
                    times.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                    Ok::<_, Error>(())
                })
                .await?;
            }
            Ok::<_, Error>(())
        }
    };
    let engine = Engine::open(&place.url).await?.workflow("walk", walk).start().await?;
    let run = engine.run("walk", &format!("walk-{}", std::process::id()), &(LONG + WINDOW)).await?;
    run.result::<()>().await?;
    let taken = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    long.extend(taken[LONG..].windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e6));
    for round in 0..WINDOW / 10 {
        let run = engine.run("walk", &format!("short-{}-{round}", std::process::id()), &12usize).await?;
        run.result::<()>().await?;
        let taken = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
        short.extend(taken.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e6));
    }
    engine.shutdown().await;
    let (long, short) = (median(long), median(short));
    Ok(vec![Report {
        measure: "length",
        store: place.label(),
        value: long,
        unit: "us/step",
        baseline: Some(short),
        ratio: Some(long / short),
        more: vec![],
    }])
}
