//! Every rule, end to end, on the memory store. The other stores are in `crates/goldseam/tests/healing.rs`.

use std::sync::Arc;

use goldseam_conformance::Fixture;
use goldseam_engine::{Clock, SystemClock};

async fn fresh() -> Fixture {
    Fixture::memory_on(Arc::new(|| SystemClock.now()))
}

goldseam_suite::healing!(fresh);
