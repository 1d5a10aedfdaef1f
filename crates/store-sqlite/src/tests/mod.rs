//! Tests of this store only; the conformance suite tests the contract of all stores.

mod claims;
mod files;
mod group;
#[cfg(unix)]
mod permissions;
mod processes;
mod readers;
mod schema;
#[cfg(target_os = "linux")]
mod sync;

use std::path::Path;
use std::time::Duration;

use goldseam_core::task::{NewTask, Task};
use goldseam_core::{Millis, Payload, QueueName, RunId, Seq, TaskId};
use goldseam_store::{Append, StoreError};

use crate::{SqliteOptions, SqliteStore};

/// Timeout of every wait in tests.
const TIMEOUT: Duration = Duration::from_secs(20);

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::default()).unwrap()
}

fn run_id(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

fn append(run: &str, after: u64, bodies: &[&str]) -> Append {
    Append {
        run: run_id(run),
        after: Seq(after),
        bodies: bodies.iter().map(|body| (*body).to_owned()).collect(),
        row: None,
        tasks: Vec::new(),
    }
}

fn task(id: &str, run_at: Millis) -> Task {
    NewTask {
        id: TaskId::new(id).unwrap(),
        kind: "mail".to_owned(),
        queue: QueueName::new("default").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at,
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    }
    .into_task(Millis(1))
}

fn code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Refused { code, hint, .. } if !hint.is_empty() => code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
