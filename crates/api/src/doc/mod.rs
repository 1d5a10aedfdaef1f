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
}

/// A whole list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Items<T> {
    /// All of them.
    pub items: Vec<T>,
}

impl<T> From<Vec<T>> for Items<T> {
    fn from(items: Vec<T>) -> Self {
        Self { items }
    }
}
