//! The conformance suite over HTTP on SeaweedFS, a real server that enforces conditional writes.

use goldseam_conformance::Fixture;

async fn fresh() -> Fixture {
    goldseam_store_object::testing::fixture_on_seaweedfs().await
}

goldseam_conformance::conformance!(fresh);
