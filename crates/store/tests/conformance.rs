//! The memory store passes the conformance suite.

use goldseam_store::conformance::Fixture;

async fn fresh() -> Fixture {
    Fixture::memory()
}

goldseam_store::conformance!(fresh);
