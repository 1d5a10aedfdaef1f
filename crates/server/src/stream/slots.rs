//! Seats of followers: each key has a limit.

use goldseam_api::Problem;

use crate::extract::Access;
use crate::meter::{Counted, FOLLOWERS};
use crate::slots::{Slot, Slots};

/// How many followers each key has.
#[derive(Debug)]
pub(crate) struct FollowerSlots(Slots<Option<String>>);

/// One follower's seat; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct FollowerSlot {
    _place: Slot<Option<String>>,
    _counted: Counted,
}

impl FollowerSlots {
    pub(crate) fn new(most: usize) -> Self {
        Self(Slots::new(most))
    }

    /// A seat for a follower, if its key has one left.
    pub(crate) fn take(&self, access: &Access) -> Result<FollowerSlot, Problem> {
        let most = self.0.most();
        let seat = self.0.take(access.principal.key.clone()).ok_or_else(|| {
            Problem::new(429, format!("this key follows {most} streams already"))
                .code("GS0607")
                .hint("close one first")
                .limit(most as u64)
        })?;
        Ok(FollowerSlot { _place: seat, _counted: Counted::begin(FOLLOWERS) })
    }
}
