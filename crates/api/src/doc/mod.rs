//! The documents that travel: what `--json` prints, what a server answers and what it is asked.
//!
//! Fields are added, never renamed. What is asked for is refused if it holds a field that nobody knows.

pub mod change;
pub mod ending;
pub mod event;
pub mod heal;
pub mod key;
pub mod lock;
pub mod node;
pub mod pass;
pub mod retention;
pub mod run;
pub mod task;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Most items of a page.
pub const PAGE_MAX: u32 = 500;
/// Longest wait for something to happen.
pub const WAIT_MS_MAX: u64 = 60_000;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// What was asked for.
    pub items: Vec<T>,
    /// Where the next page begins: pass it as `after`. None after the last one.
    pub next: Option<String>,
    /// Records within this page that cannot be read; they are not among the items. Left out if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableItem>,
}

impl<T> Page<T> {
    /// A page in which everything can be read.
    pub fn new(items: Vec<T>, next: Option<String>) -> Self {
        Self { items, next, unreadable: Vec::new() }
    }
}

/// A record that cannot be read: damaged, or written by a later release. A run's own row is rebuilt from its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UnreadableItem {
    /// Its name: in a list of runs, the run.
    pub id: String,
    /// Why it cannot be read.
    pub reason: String,
    /// Always `unreadable`.
    pub status: String,
}

impl UnreadableItem {
    /// The status of what cannot be read.
    pub const STATUS: &'static str = "unreadable";

    /// A record that cannot be read.
    pub fn new(id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { id: id.into(), reason: reason.into(), status: Self::STATUS.to_owned() }
    }
}

/// A place in a log where something is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// The position.
    pub seq: goldseam::Seq,
    /// What is wrong there.
    pub reason: String,
    /// Nothing is wrong: a newer release has written it, and this one cannot read it.
    pub newer: bool,
}

impl From<&goldseam::core::Corrupt> for Damage {
    fn from(corrupt: &goldseam::core::Corrupt) -> Self {
        Self { seq: corrupt.seq, reason: corrupt.detail.clone(), newer: corrupt.is_newer }
    }
}

/// A whole list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Items<T> {
    /// All of them.
    pub items: Vec<T>,
    /// Where the log that they come from is damaged. Left out if it is whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
}

impl<T> From<Vec<T>> for Items<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, damage: Vec::new() }
    }
}
