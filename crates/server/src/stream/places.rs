//! Seats of followers: so many for each key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use goldseam_api::Problem;

use crate::extract::In;
use crate::meter::{Counted, FOLLOWERS};

/// How many followers each key has.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// One follower's seat; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    who: String,
    taken: Arc<Mutex<HashMap<String, usize>>>,
    _counted: Counted,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Arc::default() }
    }

    /// A seat for a follower, if its key has one left.
    pub(crate) fn take(&self, place: &In) -> Result<Seat, Problem> {
        let who = place.principal.key.clone().unwrap_or_default();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(who.clone()).or_default();
        if *count >= self.most {
            return Err(Problem::new(429, format!("this key follows {} streams already", self.most))
                .code("GS0607")
                .hint("close one first")
                .limit(self.most as u64));
        }
        *count += 1;
        Ok(Seat { who, taken: Arc::clone(&self.taken), _counted: Counted::begin(FOLLOWERS) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.who);
            }
        }
    }
}
