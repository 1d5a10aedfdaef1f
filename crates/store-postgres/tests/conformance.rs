//! The conformance suite, with a new schema for every case.

use goldseam_store_postgres::testing::fixture;

goldseam_conformance::conformance!(fixture);
