//! Log lines of workflow functions that are silent in replays.

/// Used by the macros.
#[doc(hidden)]
pub mod __private {
    pub use tracing;
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log {
    ($level:ident, $ctx:expr, $($line:tt)+) => {{
        use $crate::__private::tracing::{Level, level_filters::LevelFilter};
        if LevelFilter::current() >= Level::$level && !($ctx).is_replaying() {
            $crate::__private::tracing::event!(Level::$level, $($line)+);
        }
    }};
}

/// Logs at level error from a workflow function, unless this is a replay. See [`info!`](crate::info).
#[macro_export]
macro_rules! error {
    ($ctx:expr, $($line:tt)+) => { $crate::__log!(ERROR, $ctx, $($line)+) };
}

/// Logs at level warn from a workflow function, unless this is a replay. See [`info!`](crate::info).
#[macro_export]
macro_rules! warn {
    ($ctx:expr, $($line:tt)+) => { $crate::__log!(WARN, $ctx, $($line)+) };
}

/// Logs at level info from a workflow function, unless this is a replay.
///
/// The first argument is the [`Context`](crate::Context) of the arm, the rest is as in `tracing::info!`. The line is
/// an event of the crate `tracing`, with the module of the caller as target, in the spans of the run. If
/// [`Context::is_replaying`](crate::Context::is_replaying) is true, nothing is evaluated.
///
/// A line is written once while the run executes without a crash, also if the run leaves memory and comes back. After
/// a crash, lines that follow the last recorded operation are written again.
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn order(ctx: Context, item: String) -> goldseam::Result<u32> {
///     goldseam::info!(ctx, item, "ordered");
///     let price = ctx.step("price", || async { Ok(7_u32) }).await?;
///     goldseam::info!(ctx, price, "the price of {item} is known");
///     ctx.sleep("a-moment", Duration::from_millis(1)).await?;
///     Ok(price)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
/// # assert_eq!(engine.start(order, "o-1", &"tea".to_owned()).await?.result().await?, 7);
/// # Ok(()) }
/// ```
#[macro_export]
macro_rules! info {
    ($ctx:expr, $($line:tt)+) => { $crate::__log!(INFO, $ctx, $($line)+) };
}

/// Logs at level debug from a workflow function, unless this is a replay. See [`info!`](crate::info).
#[macro_export]
macro_rules! debug {
    ($ctx:expr, $($line:tt)+) => { $crate::__log!(DEBUG, $ctx, $($line)+) };
}

/// Logs at level trace from a workflow function, unless this is a replay. See [`info!`](crate::info).
#[macro_export]
macro_rules! trace {
    ($ctx:expr, $($line:tt)+) => { $crate::__log!(TRACE, $ctx, $($line)+) };
}
