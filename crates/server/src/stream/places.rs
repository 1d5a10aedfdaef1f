//! Seats of followers: each key has a limit.

use goldseam_api::Problem;

use crate::counts::{Counts, Place};
use crate::extract::In;
use crate::meter::{Counted, FOLLOWERS};

/// How many followers each key has.
#[derive(Debug)]
pub(crate) struct Places(Counts<Option<String>>);

/// One follower's seat; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    _place: Place<Option<String>>,
    _counted: Counted,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self(Counts::new(most))
    }

    /// A seat for a follower, if its key has one left.
    pub(crate) fn take(&self, place: &In) -> Result<Seat, Problem> {
        let most = self.0.most();
        let seat = self.0.take(place.principal.key.clone()).ok_or_else(|| {
            Problem::new(429, format!("this key follows {most} streams already"))
                .code("GS0607")
                .hint("close one first")
                .limit(most as u64)
        })?;
        Ok(Seat { _place: seat, _counted: Counted::begin(FOLLOWERS) })
    }
}
