//! The feed: all appends to any log, in one order.

use std::fmt::Debug;

use async_trait::async_trait;
use goldseam_core::RunId;

use crate::error::StoreError;
use crate::types::Record;

/// An event in the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEvent {
    /// Its place in the feed; opaque.
    pub place: String,
    /// The run of the event.
    pub run: RunId,
    /// The event.
    pub record: Record,
}

/// Runs whose logs may have grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRuns {
    /// The runs; some of them may not have grown.
    pub runs: Vec<RunId>,
    /// The mark for the next call.
    pub mark: String,
}

/// A store that knows the order of all appends.
#[async_trait]
pub trait Feed: Debug + Send + Sync {
    /// Returns up to `limit` events after `place`, oldest first; none: from the first event.
    ///
    /// Events of one run come in order of position, and an event never appears before a place that was already
    /// returned. An event may appear a moment after its append was acknowledged, while earlier appends are in
    /// progress. A place after the end is refused ([`place_beyond_end`]): the follower would miss all appends until the
    /// feed reaches it.
    async fn events_after(&self, place: Option<&str>, limit: u32) -> Result<Vec<FeedEvent>, StoreError>;

    /// Returns the place after everything that can be read at this moment.
    async fn latest(&self) -> Result<Option<String>, StoreError>;

    /// Returns all runs whose logs may have grown since the mark. Without a mark: no runs, and the present mark.
    async fn changed_runs(&self, mark: Option<&str>) -> Result<ChangedRuns, StoreError>;

    /// Returns whether [`changed_runs`](Self::changed_runs) may be called at every change: it costs no more than a
    /// query. If not, a follower of one run reads its log instead.
    fn finds_changes_cheaply(&self) -> bool {
        true
    }

    /// Returns whether a reader of the feed writes to the store. A closed store then refuses to be followed.
    fn is_written_by_readers(&self) -> bool {
        false
    }
}

/// Returns the error for a place that this store did not return.
pub fn unknown_place(place: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0612",
        what: format!("{:?} is not a place in this store's feed", place.chars().take(40).collect::<String>()),
        hint: "follow from the start, without a place".into(),
    }
}

/// Returns the error for a place after the end of the feed.
pub fn place_beyond_end(place: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0612",
        what: format!("{:?} is after the end of this store's feed", place.chars().take(40).collect::<String>()),
        hint: "it is from another store, or from before a restore of this one: follow from the start, or from now"
            .into(),
    }
}
