//! The contract, on a file of its own for every case.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its case")]

use std::sync::Arc;

use goldseam_store::ManualClock;
use goldseam_store::conformance::Fixture;
use goldseam_store_sqlite::{Options, SqliteStore};

async fn fresh() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let options = Options { clock: clock.clock(), ..Options::default() };
    let store = SqliteStore::open(&folder.path().join("gold.db"), options).unwrap();
    Fixture::new(Arc::new(store), clock).keeping(folder)
}

goldseam_store::conformance!(fresh);
