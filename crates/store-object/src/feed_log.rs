//! The objects of the feed: a log of the whole bucket, whose entries say which batches of which runs come next.
//!
//! Numbers are dense and each object is created only if it does not exist, as in the log of a run. So all readers see
//! one order, however many of them extend it at the same time.

use std::collections::HashMap;

use bytes::Bytes;
use goldseam_core::{RunId, Seq};
use goldseam_store::StoreError;
use goldseam_store::feed::unknown_place;
use serde::{Deserialize, Serialize};

use crate::fault::damaged;

/// Most batches in one range, so that a reader finds its place with few requests.
const RANGE_MAX: u64 = 32;
/// Most ranges in one object.
pub(crate) const RANGES_MAX: usize = 1_000;

/// Batches of a log, by number: the first and the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchRange(pub(crate) RunId, pub(crate) u64, pub(crate) u64);

/// One object of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FeedPage {
    /// Makes the object unlike any other.
    pub(crate) write: String,
    pub(crate) ranges: Vec<BatchRange>,
}

impl FeedPage {
    pub(crate) fn encode(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    pub(crate) fn decode(key: &str, object: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(object).map_err(|error| damaged(key, error))
    }
}

/// How far the logs of all runs are in the feed: the last batch of each.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct FeedEnds {
    /// The number of the last page that is counted.
    pub(crate) page: u64,
    ends: HashMap<RunId, u64>,
}

impl FeedEnds {
    /// Counts the next page.
    pub(crate) fn add(&mut self, page: &FeedPage) {
        self.page += 1;
        for BatchRange(run, _, last) in &page.ranges {
            let end = self.ends.entry(run.clone()).or_default();
            *end = (*end).max(*last);
        }
    }

    pub(crate) fn runs(&self) -> usize {
        self.ends.len()
    }

    /// The ranges that bring the feed to these last batches.
    pub(crate) fn missing(&self, last_batches: &HashMap<RunId, u64>) -> Vec<BatchRange> {
        let mut grown: Vec<(&RunId, u64, u64)> = last_batches
            .iter()
            .map(|(run, last)| (run, self.ends.get(run).copied().unwrap_or(0) + 1, *last))
            .filter(|(_, first, last)| first <= last)
            .collect();
        grown.sort_unstable();
        let mut ranges = Vec::new();
        for (run, mut first, last) in grown {
            while first <= last {
                let end = last.min(first + RANGE_MAX - 1);
                ranges.push(BatchRange(run.clone(), first, end));
                first = end + 1;
            }
        }
        ranges
    }
}

/// A place in the feed: a page, a range in it, and the position of an event in the log of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketFeedPlace {
    pub(crate) page: u64,
    pub(crate) range: usize,
    pub(crate) seq: Seq,
}

impl BucketFeedPlace {
    /// Before the first event.
    pub(crate) const START: Self = Self { page: 1, range: 0, seq: Seq::ZERO };

    /// After all events of a page.
    pub(crate) fn end_of(page: u64, ranges: usize) -> Self {
        Self { page, range: ranges.saturating_sub(1), seq: Seq(i64::MAX.unsigned_abs()) }
    }

    pub(crate) fn parse(place: Option<&str>) -> Result<Self, StoreError> {
        let Some(text) = place else { return Ok(Self::START) };
        let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
        match (parts.next().flatten(), parts.next().flatten(), parts.next().flatten(), parts.next()) {
            (Some(page), Some(range), Some(seq), None) if page > 0 => {
                let range = usize::try_from(range).map_err(|_| unknown_place(text))?;
                Ok(Self { page, range, seq: Seq(seq) })
            }
            _ => Err(unknown_place(text)),
        }
    }

    pub(crate) fn text(self) -> String {
        format!("{}.{}.{}", self.page, self.range, self.seq.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> RunId {
        RunId::new(name).unwrap()
    }

    #[test]
    fn missing_ranges_continue_where_the_feed_ends() {
        let mut ends = FeedEnds::default();
        let last = |batches: &[(&str, u64)]| batches.iter().map(|(name, last)| (run(name), *last)).collect();
        let ranges = ends.missing(&last(&[("b", 2), ("a", 70)]));
        let expected = [("a", 1, 32), ("a", 33, 64), ("a", 65, 70), ("b", 1, 2)];
        assert_eq!(ranges, expected.map(|(name, first, end)| BatchRange(run(name), first, end)));
        ends.add(&FeedPage { write: String::new(), ranges });
        assert_eq!((ends.page, ends.runs()), (1, 2));
        assert_eq!(ends.missing(&last(&[("b", 2), ("a", 70)])), []);
        assert_eq!(ends.missing(&last(&[("b", 1), ("a", 71)])), [BatchRange(run("a"), 71, 71)]);
    }

    #[test]
    fn places_survive_their_text_and_others_are_refused() {
        let place = BucketFeedPlace { page: 7, range: 3, seq: Seq(12) };
        assert_eq!(BucketFeedPlace::parse(Some(&place.text())).unwrap(), place);
        assert_eq!(BucketFeedPlace::parse(None).unwrap(), BucketFeedPlace::START);
        for text in ["", "1", "1.2", "1.2.3.4", "0.0.0", "-1.0.0", "x.1.1", "99999999999999999999.0.0"] {
            assert!(BucketFeedPlace::parse(Some(text)).is_err(), "{text}");
        }
    }
}
