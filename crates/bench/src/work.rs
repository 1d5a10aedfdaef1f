//! The measured workflows.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use goldseam::prelude::*;
use goldseam::{Builder, Config};

use crate::Fallible;

/// The start of the first step of the latest run.
pub(crate) type FirstStep = Arc<Mutex<Option<Instant>>>;

/// Starts an engine with the workflow `steps`, whose input is the number of empty steps.
pub(crate) async fn engine(url: &str, first_step: FirstStep) -> Fallible<Engine> {
    engine_with(url, first_step, Config::default()).await
}

/// Starts the engine with a configuration.
pub(crate) async fn engine_with(url: &str, first_step: FirstStep, config: Config) -> Fallible<Engine> {
    engine_on(Engine::open(url).await?, first_step, config).await
}

/// Starts the engine on an open store.
pub(crate) async fn engine_on(open: Builder, first_step: FirstStep, config: Config) -> Fallible<Engine> {
    let steps = move |ctx: Context, count: u32| {
        let first_step = Arc::clone(&first_step);
        async move {
            for number in 0..count {
                let first_step = &first_step;
                ctx.step("step", || async move {
                    if number == 0 {
                        *first_step.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                            Some(Instant::now());
                    }
                    Ok(())
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

/// Shuts an engine down, if this is its last reference.
pub(crate) async fn shutdown(engine: Arc<Engine>) {
    if let Some(engine) = Arc::into_inner(engine) {
        engine.shutdown().await;
    }
}

/// Takes the start of the first step of the latest run.
pub(crate) fn take(first_step: &FirstStep) -> Option<Instant> {
    first_step.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
}

/// Returns the seconds since the start of the first step of the latest run.
pub(crate) fn since(first_step: &FirstStep) -> f64 {
    let first_step = first_step.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    first_step.map_or(f64::NAN, |began| began.elapsed().as_secs_f64())
}
