//! What a row knows about published values and answered requests: where they are in the log.

use serde::{Deserialize, Serialize};

use super::Summary;
use crate::event::ValuePublished;
use crate::hash::Hash;
use crate::time::Seq;

/// Number of answers whose position is kept, so that a requester that comes back finds its answer without the log.
const ANSWERED_MAX: usize = 32;

/// Where the latest value of a published name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PublishedAt {
    /// Position of the event with the value.
    pub seq: Seq,
    /// Hash of the value, so that the same value is not published again.
    pub hash: Hash,
}

/// Where the answer to a request is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AnsweredAt {
    /// Id of the request.
    pub request: String,
    /// Position of the event with the answer.
    pub seq: Seq,
}

impl Summary {
    pub(crate) fn publish(&mut self, published: &ValuePublished, seq: Seq) {
        let at = PublishedAt { seq, hash: published.value.hash() };
        self.published.insert(published.name.clone(), at);
    }

    pub(crate) fn answer(&mut self, request: &str, seq: Seq) {
        self.answered.push(AnsweredAt { request: request.to_owned(), seq });
        if self.answered.len() > ANSWERED_MAX {
            self.answered.remove(0);
        }
    }
}
