//! The memory limit of request bodies: one limit for all, of which one key may use half.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use goldseam_api::Problem;

/// The memory used by all request bodies.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    max: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    all: u64,
    by_key: HashMap<String, u64>,
}

/// The memory of one request body, freed when dropped.
#[derive(Debug)]
pub(crate) struct BodyShare {
    key: String,
    bytes: u64,
    memory: Arc<BodyMemory>,
}

impl BodyMemory {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { max, used: Mutex::default() })
    }

    /// Returns an empty share for a request of this key.
    pub(crate) fn share(self: &Arc<Self>, key: String) -> BodyShare {
        BodyShare { key, bytes: 0, memory: Arc::clone(self) }
    }
}

impl BodyShare {
    /// Reserves more memory if the limits allow it.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Problem> {
        let BodyMemory { max, used } = &*self.memory;
        let key_max = max / 2;
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.all.saturating_add(bytes) > *max {
            return Err(over_limit(503, "this server", *max));
        }
        let own = used.by_key.entry(self.key.clone()).or_default();
        if own.saturating_add(bytes) > key_max {
            return Err(over_limit(429, "this key", key_max));
        }
        *own += bytes;
        used.all += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        let mut used = self.memory.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.all -= self.bytes;
        if let Some(own) = used.by_key.get_mut(&self.key) {
            *own -= self.bytes;
            if *own == 0 {
                used.by_key.remove(&self.key);
            }
        }
    }
}

fn over_limit(status: u16, who: &str, max: u64) -> Problem {
    Problem::new(status, format!("the request bodies of {who} exceed {max} bytes together"))
        .code("GS0605")
        .hint("retry in a second, or send less at the same time")
        .limit(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_a_limit_and_a_key_may_use_half() {
        let bodies = BodyMemory::new(100);
        let share = |key: &str| bodies.share(key.to_owned());
        let mut a = share("a");
        let mut b = share("b");
        let mut c = share("c");
        a.grow(50).unwrap();
        let refused = share("a").grow(1).unwrap_err();
        assert_eq!((refused.status, refused.limit), (429, Some(50)), "the other requests of the key count");
        b.grow(50).unwrap();
        let refused = c.grow(1).unwrap_err();
        assert_eq!((refused.status, refused.limit), (503, Some(100)));
        drop(a);
        c.grow(1).unwrap();
        drop((b, c));
        let used = bodies.used.lock().unwrap();
        assert_eq!((used.all, used.by_key.len()), (0, 0), "all memory is free");
    }
}
