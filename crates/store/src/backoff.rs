//! Pauses between attempts.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Pauses that double up to a maximum. Each is varied at random, so that callers that failed together do not retry
/// together.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates a backoff whose first pause is `first`, and whose longest is `max`, before variation.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, next: first }
    }

    /// Returns the next pause: from half of its nominal length to one and a half times that.
    pub fn next_pause(&mut self) -> Duration {
        jittered(self.next_nominal())
    }

    /// Like [`next_pause`](Self::next_pause), varied by a random number of the caller.
    pub fn next_pause_by(&mut self, random: u64) -> Duration {
        varied(self.next_nominal(), random)
    }

    /// Returns the next pause without variation.
    pub fn next_nominal(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.max);
        pause
    }

    /// Begins again with the first pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Varies a pause at random: from half of its length to one and a half times that.
pub fn jittered(pause: Duration) -> Duration {
    varied(pause, RandomState::new().build_hasher().finish())
}

fn varied(pause: Duration, random: u64) -> Duration {
    pause / 2 + pause * u32::try_from(random % 1024).unwrap_or_default() / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn pauses_double_up_to_the_maximum_and_begin_again() {
        let mut backoff = Backoff::new(millis(40), millis(100));
        for nominal in [40, 80, 100, 100] {
            let pause = backoff.next_pause();
            assert!((millis(nominal) / 2..millis(nominal) * 3 / 2).contains(&pause), "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.next_pause() < millis(60));
    }
}
