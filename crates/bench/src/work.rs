//! The workflows that are measured.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use goldseam::prelude::*;
use goldseam::{Builder, Config};

use crate::Fallible;

/// When the first step of the latest run began.
pub(crate) type Mark = Arc<Mutex<Option<Instant>>>;

/// An engine with the workflow `steps`, which makes as many empty steps as its input says.
pub(crate) async fn engine(url: &str, mark: Mark) -> Fallible<Engine> {
    engine_with(url, mark, Config::default()).await
}

/// The same, configured.
pub(crate) async fn engine_with(url: &str, mark: Mark, config: Config) -> Fallible<Engine> {
    engine_on(Engine::open(url).await?, mark, config).await
}

/// The same on a store that is open.
pub(crate) async fn engine_on(open: Builder, mark: Mark, config: Config) -> Fallible<Engine> {
    let steps = move |ctx: Context, count: u32| {
        let mark = Arc::clone(&mark);
        async move {
            for number in 0..count {
                let mark = &mark;
                ctx.step("step", || async move {
                    if number == 0 {
                        *mark.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                            Some(Instant::now());
                    }
                    Ok::<_, Error>(())
                })
                .await?;
            }
            Ok::<_, Error>(())
        }
    };
    let nap =
        |ctx: Context, seconds: u64| async move { ctx.sleep("nap", Duration::from_secs(seconds)).await };
    let open = open.config(Config { slots: 4_000, ..config });
    Ok(open.workflow("steps", steps).workflow("nap", nap).start().await?)
}

/// Ends an engine that nobody else uses any more.
pub(crate) async fn leave(engine: Arc<Engine>) {
    if let Some(engine) = Arc::into_inner(engine) {
        engine.shutdown().await;
    }
}

/// When the first step of the latest run began, once.
pub(crate) fn take(mark: &Mark) -> Option<Instant> {
    mark.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
}

/// Seconds since the first step of the latest run began.
pub(crate) fn since(mark: &Mark) -> f64 {
    let mark = mark.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    mark.map_or(f64::NAN, |began| began.elapsed().as_secs_f64())
}
