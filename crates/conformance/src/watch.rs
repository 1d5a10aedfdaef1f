//! Waiting for a change, and the store's clock.

use std::time::Duration;

use goldseam_core::Millis;

use super::Fixture;
use super::make::{append, task};

/// The longest that a case waits for an expected change.
const PATIENCE: Duration = Duration::from_secs(20);

async fn soon<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, answer).await.unwrap()
}

/// A watcher that has seen nothing gets a mark at once, and never 0.
pub async fn zero_returns_at_once(fixture: &Fixture) {
    for _ in 0..2 {
        assert_ne!(soon(fixture.store.changed(0)).await.unwrap(), 0);
    }
}

/// A watcher that waits is woken by an append.
pub async fn an_append_wakes_the_watcher(fixture: &Fixture) {
    let mark = soon(fixture.store.changed(0)).await.unwrap();
    let store = fixture.shared();
    let waiting = tokio::spawn(async move { store.changed(mark).await.unwrap() });
    tokio::task::yield_now().await;
    fixture.append(append("r", 0, &["a"])).await;
    assert_ne!(soon(waiting).await.unwrap(), mark);
}

/// A watcher that waits is woken by a new task.
pub async fn a_task_wakes_the_watcher(fixture: &Fixture) {
    let mark = soon(fixture.store.changed(0)).await.unwrap();
    let store = fixture.shared();
    let waiting = tokio::spawn(async move { store.changed(mark).await.unwrap() });
    tokio::task::yield_now().await;
    fixture.submit(task("t")).await;
    assert_ne!(soon(waiting).await.unwrap(), mark);
}

/// A change between two calls is not lost.
pub async fn a_change_before_the_wait_is_not_missed(fixture: &Fixture) {
    let mut mark = soon(fixture.store.changed(0)).await.unwrap();
    for n in 0..5 {
        fixture.append(append("r", n, &["a"])).await;
        let next = soon(fixture.store.changed(mark)).await.unwrap();
        assert_ne!(next, mark);
        mark = next;
    }
}

/// The store's clock may stop but never goes back.
pub async fn the_clock_never_goes_back(fixture: &Fixture) {
    let mut last = Millis(0);
    for n in 0..6 {
        match n {
            2 => fixture.clock.advance(Duration::from_secs(1)),
            4 => fixture.clock.set(Millis(1)),
            _ => {}
        }
        let now = fixture.store.now().await.unwrap();
        assert!(now >= last);
        last = now;
    }
}

/// With a manual clock, the store returns exactly that time.
pub async fn the_clock_follows_the_fixture(fixture: &Fixture) {
    if !fixture.capabilities.manual_clock {
        return;
    }
    assert_eq!(fixture.store.now().await.unwrap(), fixture.clock.now());
    fixture.clock.advance(Duration::from_millis(1_234));
    assert_eq!(fixture.store.now().await.unwrap(), fixture.clock.now());
}
