//! The contract, in a schema of its own for every case.

use goldseam_store_postgres::testing::fixture;

goldseam_store::conformance!(fixture);
