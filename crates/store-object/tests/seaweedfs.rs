//! The contract of a store, over HTTP on SeaweedFS, a real server that keeps conditions.

use goldseam_store::conformance::Fixture;

async fn fresh() -> Fixture {
    goldseam_store_object::testing::fixture_on_seaweedfs().await
}

goldseam_store::conformance!(fresh);
