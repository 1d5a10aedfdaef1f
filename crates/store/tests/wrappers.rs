//! The wrappers keep the contract of what they wrap, as long as nothing is meant to go wrong.

use std::sync::Arc;

use goldseam_store::conformance::Fixture;
use goldseam_store::faulty::Plan;
use goldseam_store::{FaultyStore, ManualClock, MemoryStore, TracedStore};

async fn fresh() -> Fixture {
    let clock = ManualClock::default();
    let memory = Arc::new(MemoryStore::new(clock.clock()));
    let traced = Arc::new(TracedStore::new(memory.clone()).measured_by(Arc::new(|| 0)));
    Fixture::new(Arc::new(FaultyStore::new(traced, Plan::pass())), clock).damaged_by(memory)
}

goldseam_store::conformance!(fresh);
