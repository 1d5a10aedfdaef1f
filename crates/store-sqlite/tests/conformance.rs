//! The contract, on a file of its own for every case.

use goldseam_store_sqlite::testing::fixture;

goldseam_store::conformance!(fixture);
