//! The one home of time.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::Millis;

/// What time it is, for an engine.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The moment that events carry.
    fn now(&self) -> Millis;

    /// Time since some fixed point; never goes back, and counts while the machine is suspended.
    fn elapsed(&self) -> Duration;
}

/// The machine's own clocks.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let spec = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Millis(spec.tv_sec * 1000 + spec.tv_nsec / 1_000_000)
    }

    fn elapsed(&self) -> Duration {
        let spec = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(spec.tv_sec.unsigned_abs(), u32::try_from(spec.tv_nsec).unwrap_or(0))
    }
}

/// Returns once `due` has come by `clock`.
pub async fn sleep_until(clock: &Arc<dyn Clock>, due: Millis) {
    loop {
        let left = due.since(clock.now());
        if left.is_zero() {
            return;
        }
        // In pieces, so that a wall clock that is set forward is noticed.
        pause(left.min(Duration::from_secs(60))).await;
    }
}

/// Lets `span` pass. The only sleep of the engine: in simulation it is virtual.
pub async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
