//! The conformance suite behind a pooler that gives every transaction another session.

use goldseam_store_postgres::testing::fixture_behind_pooler;

goldseam_conformance::conformance!(fixture_behind_pooler);
