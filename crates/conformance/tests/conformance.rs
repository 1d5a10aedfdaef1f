//! The memory store passes the conformance suite.

use goldseam_conformance::Fixture;

async fn fresh() -> Fixture {
    Fixture::memory()
}

goldseam_conformance::conformance!(fresh);
