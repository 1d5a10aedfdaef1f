//! The documents: the output of `--json`, and the requests and responses of a server.
//!
//! Fields are added, never renamed. A request with an unknown field is refused.

pub mod activity;
pub mod change;
pub mod dialogue;
pub mod diff;
pub mod ending;
pub mod event;
pub mod heal;
pub mod key;
pub mod lock;
pub mod node;
pub mod operation;
pub mod overview;
pub mod pass;
pub mod retention;
pub mod run;
pub mod task;
pub mod worker;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Maximum number of items in a page.
pub const PAGE_MAX: u32 = 500;
/// Maximum wait of a request, in milliseconds.
pub const WAIT_MS_MAX: u64 = 60_000;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Page)]
pub struct PageDoc<T> {
    /// The items.
    pub items: Vec<T>,
    /// Cursor of the next page: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Unreadable records within this page, which `items` does not contain. Absent if every record is readable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableDoc>,
    /// Why the list may be empty although the condition is valid. Absent in most pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl<T> PageDoc<T> {
    /// Creates a page without unreadable records.
    pub fn new(items: Vec<T>, next: Option<String>) -> Self {
        Self { items, next, unreadable: Vec::new(), note: None }
    }
}

/// An unreadable record: damaged, or written by a later release. The row of a run is rebuilt from its log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = UnreadableItem)]
pub struct UnreadableDoc {
    /// Its name; in a list of runs, the run id.
    pub id: String,
    /// Why it cannot be read.
    pub reason: String,
    /// Always `unreadable`.
    pub status: String,
}

impl UnreadableDoc {
    /// The status of unreadable records.
    pub const STATUS: &'static str = "unreadable";

    /// Creates an unreadable item.
    pub fn new(id: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { id: id.into(), reason: reason.into(), status: Self::STATUS.to_owned() }
    }
}

/// A damaged position of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Damage)]
pub struct DamageDoc {
    /// The position.
    pub seq: goldseam::Seq,
    /// What is wrong.
    pub reason: String,
    /// Whether a newer release wrote the event, which is then intact but unreadable for this release.
    pub newer: bool,
}

impl From<&goldseam::unstable::core::Corrupt> for DamageDoc {
    fn from(corrupt: &goldseam::unstable::core::Corrupt) -> Self {
        Self { seq: corrupt.seq, reason: corrupt.detail.clone(), newer: corrupt.is_newer }
    }
}

/// A complete list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Items)]
pub struct ItemsDoc<T> {
    /// The items.
    pub items: Vec<T>,
    /// Damage of the log that the items come from. Absent if the log is intact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<DamageDoc>,
}

impl<T> From<Vec<T>> for ItemsDoc<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, damage: Vec::new() }
    }
}
