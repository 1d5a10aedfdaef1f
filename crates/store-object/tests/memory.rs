//! The conformance suite in memory: the same code and conditions as over a network.

use goldseam_store::conformance::Fixture;

async fn fresh() -> Fixture {
    goldseam_store_object::testing::fixture().await
}

goldseam_store::conformance!(fresh);
