//! Follower limits per key.

use goldseam_api::Problem;

use crate::meter::{FOLLOWERS, GaugeGuard};
use crate::slots::{Slot, Slots};

/// The followers of every key.
#[derive(Debug)]
pub(crate) struct FollowerSlots(Slots<Option<String>>);

/// The slot of one follower, freed when dropped.
#[derive(Debug)]
pub(crate) struct FollowerSlot {
    _slot: Slot<Option<String>>,
    _gauge: GaugeGuard,
}

impl FollowerSlots {
    pub(crate) fn new(max: usize) -> Self {
        Self(Slots::new(max))
    }

    /// Takes a slot of this key if one is free.
    pub(crate) fn take(&self, key: Option<String>) -> Result<FollowerSlot, Problem> {
        let max = self.0.max();
        let slot = self.0.take(key).ok_or_else(|| {
            Problem::new(429, format!("this key already follows {max} streams, the maximum"))
                .code("GS0607")
                .hint("close a stream first")
                .limit(max as u64)
        })?;
        Ok(FollowerSlot { _slot: slot, _gauge: GaugeGuard::increment(FOLLOWERS) })
    }
}
