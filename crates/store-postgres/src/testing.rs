//! A store in a schema of its own, and harm to it, for tests of other crates. Feature `testing`.
//!
//! Invariant: the harm is done by a plain connection of its own; the store itself can damage nothing.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::{RunId, Seq, TaskId};
use goldseam_store::conformance::{Capabilities, Damage, Fixture};
use goldseam_store::{Clock, ManualClock};
use tokio_postgres::types::{ToSql, Type};

use crate::append::sql_int;
use crate::link::{Role, Target};
use crate::url::{self, Options};
use crate::PostgresStore;

/// Of one run, or of all if there is none to name.
const LOSE_ROWS: &str = "UPDATE goldseam.runs SET workflow = NULL, status = NULL, owner = NULL, parent = NULL, \
    cause = NULL, created_at = NULL, recovered_at = NULL, as_of = 0, task = NULL, summary = NULL \
    WHERE $1::text IS NULL OR id = $1";
const LOSE_TAGS: &str = "DELETE FROM goldseam.run_tags \
    WHERE $1::text IS NULL OR rid = (SELECT rid FROM goldseam.runs WHERE id = $1)";
const LOSE_ADVANCE_TASKS: &str = "DELETE FROM goldseam.tasks WHERE kind >= 'advance:' AND kind < 'advance;'";
const LOSE_TASK: &str = "DELETE FROM goldseam.tasks WHERE id = $1";
const LOSE_EVENT: &str = "DELETE FROM goldseam.events \
    WHERE rid = (SELECT rid FROM goldseam.runs WHERE id = $1) AND seq = $2";
const CORRUPT: &str = "UPDATE goldseam.events SET body = $3 \
    WHERE rid = (SELECT rid FROM goldseam.runs WHERE id = $1) AND seq = $2";

/// A store in a new schema of the shared server, with a clock to move. The schema is dropped with the fixture.
pub async fn fixture() -> Fixture {
    let clock = ManualClock::default();
    on(&shared_url(), Some(clock.clock()), clock).await
}

/// The same by the database's clock.
pub async fn fixture_on_real_clock() -> Fixture {
    let capabilities = Capabilities { manual_clock: false, ..Capabilities::default() };
    on(&shared_url(), None, ManualClock::default()).await.with(capabilities)
}
