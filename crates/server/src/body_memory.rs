//! The memory that bodies of requests take: bounded for all of them together, and for each key to half of that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use goldseam_api::Problem;

/// How much all bodies take now.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    most: u64,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: u64,
    by_key: HashMap<String, u64>,
}

/// What one request takes of it; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct BodyShare {
    key: String,
    bytes: u64,
    bodies: Arc<BodyMemory>,
}

impl BodyMemory {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// The share of a request of this key, empty so far.
    pub(crate) fn share(self: &Arc<Self>, key: String) -> BodyShare {
        BodyShare { key, bytes: 0, bodies: Arc::clone(self) }
    }
}

impl BodyShare {
    /// Takes more, if there is room.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Problem> {
        let BodyMemory { most, taken } = &*self.bodies;
        let of_key = most / 2;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all.saturating_add(bytes) > *most {
            return Err(no_room(503, "this server takes in", *most));
        }
        let own = taken.by_key.entry(self.key.clone()).or_default();
        if own.saturating_add(bytes) > of_key {
            return Err(no_room(429, "this key sends", of_key));
        }
        *own += bytes;
        taken.all += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        let mut taken = self.bodies.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= self.bytes;
        if let Some(own) = taken.by_key.get_mut(&self.key) {
            *own -= self.bytes;
            if *own == 0 {
                taken.by_key.remove(&self.key);
            }
        }
    }
}

fn no_room(status: u16, who: &str, most: u64) -> Problem {
    Problem::new(status, format!("{who} {most} bytes of bodies at once already, as much as may be"))
        .code("GS0605")
        .hint("send it again in a second, or send less at once")
        .limit(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_a_bound_of_which_a_key_has_half() {
        let bodies = BodyMemory::new(100);
        let share = |key: &str| bodies.share(key.to_owned());
        let (mut a, mut b, mut c) = (share("a"), share("b"), share("c"));
        a.grow(50).unwrap();
        let refused = share("a").grow(1).unwrap_err();
        assert_eq!((refused.status, refused.limit), (429, Some(50)), "the other requests of the key count");
        b.grow(50).unwrap();
        let refused = c.grow(1).unwrap_err();
        assert_eq!((refused.status, refused.limit), (503, Some(100)));
        drop(a);
        c.grow(1).unwrap();
        drop((b, c));
        let taken = bodies.taken.lock().unwrap();
        assert_eq!((taken.all, taken.by_key.len()), (0, 0), "all of it is given back");
    }
}
