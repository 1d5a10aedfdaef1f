//! The conformance suite, with a new file for every case.

use goldseam_store_sqlite::testing::fixture;

goldseam_conformance::conformance!(fixture);
