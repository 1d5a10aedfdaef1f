//! The memory store keeps the contract.

use std::sync::Arc;

use goldseam_store::conformance::Fixture;
use goldseam_store::{ManualClock, MemoryStore};

async fn fresh() -> Fixture {
    let clock = ManualClock::default();
    Fixture::new(Arc::new(MemoryStore::new(clock.clock())), clock)
}

goldseam_store::conformance!(fresh);
