//! The store's clock: the only one that expiries are judged by.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use goldseam_core::Millis;

/// Tells the time; tests step it.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// The clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(system_now)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
fn system_now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
