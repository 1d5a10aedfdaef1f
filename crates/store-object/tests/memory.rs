//! The conformance suite in memory: the same code and conditions as over a network.

use goldseam_conformance::Fixture;

async fn fresh() -> Fixture {
    goldseam_store_object::testing::fixture().await
}

goldseam_conformance::conformance!(fresh);
