//! Published values and answers to requests: operations without an event if the log has what they would record.

use super::Batch;
use crate::decide::Stamped;
use crate::event::{Event, RequestAnswered, ValuePublished};
use crate::hash::Hash;

impl Batch<'_> {
    /// Publishes a value, unless it is the latest one under its name.
    pub(super) fn publish(&mut self, published: &ValuePublished) {
        let latest = self.latest(published).or_else(|| {
            let at = self.state.summary.published.get(&published.name)?;
            Some(at.hash)
        });
        if latest != Some(published.value.hash()) {
            self.push(Event::ValuePublished(published.clone()));
        }
    }

    /// Returns the hash of the value that this append publishes under the same name.
    fn latest(&self, published: &ValuePublished) -> Option<Hash> {
        let earlier = self.events.iter().rev().find_map(|Stamped { event, .. }| match event {
            Event::ValuePublished(earlier) if earlier.name == published.name => Some(earlier),
            _ => None,
        });
        earlier.map(|earlier| earlier.value.hash())
    }

    /// Answers a request, unless an answer is in the log: a branch that was left may have given it.
    pub(super) fn answer(&mut self, answered: &RequestAnswered) {
        let is_same = |stamped: &Stamped| matches!(&stamped.event, Event::RequestAnswered(earlier) if earlier.request == answered.request);
        if !self.state.answered.contains(&answered.request) && !self.events.iter().any(is_same) {
            self.push(Event::RequestAnswered(answered.clone()));
        }
    }
}
