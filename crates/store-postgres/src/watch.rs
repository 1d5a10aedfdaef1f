//! Wakes waiters when the database may have changed: at once after own commits, by notification after those of others.
//!
//! A process with a node receives notifications on its liveness session. A client has no such session, so it polls.

use std::time::Duration;

use goldseam_store::ChangeMark;

/// Interval between two polls of a client.
const POLL_EVERY: Duration = Duration::from_millis(50);

/// Waits until the mark is not `seen`. Without notifications, returns after one poll interval.
pub(crate) async fn changed(mark: &ChangeMark, seen: u64, is_notified: bool) -> u64 {
    if is_notified {
        return mark.differs(seen).await;
    }
    match tokio::time::timeout(POLL_EVERY, mark.differs(seen)).await {
        Ok(mark) => mark,
        Err(_) => {
            mark.bump();
            mark.current()
        }
    }
}
