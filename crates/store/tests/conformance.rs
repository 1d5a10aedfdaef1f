//! The memory store keeps the contract.

use goldseam_store::conformance::Fixture;

async fn fresh() -> Fixture {
    Fixture::memory()
}

goldseam_store::conformance!(fresh);
