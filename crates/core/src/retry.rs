//! Retries: plain arithmetic, the same in live execution and in replay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Class, Failure};
use crate::hash::Hash;

/// How often and how soon a step is retried.
///
/// ```
/// # use std::time::Duration;
/// # use goldseam_core as goldseam;
/// use goldseam::{Failure, Retry};
///
/// let retry = Retry::exponential()
///     .attempts_max(4)
///     .initial(Duration::from_secs(10))
///     .pause_max(Duration::from_secs(30))
///     .jitter(0.0);
/// let busy = Failure::retryable("the bank is busy");
/// let pauses: Vec<_> = (1..=4).map(|attempt| retry.pause(attempt, &busy, "charge")).collect();
/// let seconds = |count| Some(Duration::from_secs(count));
/// assert_eq!(pauses, [seconds(10), seconds(20), seconds(30), None]);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Most attempts, including the first.
    pub attempts_max: u32,
    /// Pause before the second attempt.
    pub initial: Duration,
    /// Factor from one pause to the next.
    pub factor: f64,
    /// Longest pause.
    pub pause_max: Duration,
    /// Random share of each pause, from 0 to 1.
    pub jitter: f64,
}

impl Default for Retry {
    fn default() -> Self {
        Self::never()
    }
}

impl Retry {
    /// Returns a policy with one attempt only.
    ///
    /// ```
    /// # use goldseam_core as goldseam;
    /// use goldseam::{Failure, Retry};
    ///
    /// assert_eq!(Retry::never().pause(1, &Failure::retryable("busy"), "charge"), None);
    /// assert_eq!(Retry::default(), Retry::never());
    /// ```
    pub fn never() -> Self {
        Self { attempts_max: 1, ..Self::exponential() }
    }

    /// Returns a policy of ten attempts with pauses that double from a second to a minute, a fifth of each random.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use goldseam_core as goldseam;
    /// use goldseam::{Failure, Retry};
    ///
    /// let pause = Retry::exponential().jitter(0.0).pause(3, &Failure::retryable("busy"), "charge");
    /// assert_eq!(pause, Some(Duration::from_secs(4)));
    /// ```
    pub fn exponential() -> Self {
        Self {
            attempts_max: 10,
            initial: Duration::from_secs(1),
            factor: 2.0,
            pause_max: Duration::from_secs(60),
            jitter: 0.2,
        }
    }

    /// Returns a policy with the same pause before every attempt.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use goldseam_core as goldseam;
    /// use goldseam::{Failure, Retry};
    ///
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(Retry::fixed(minute).pause(9, &Failure::retryable("busy"), "charge"), Some(minute));
    /// ```
    pub fn fixed(pause: Duration) -> Self {
        Self { initial: pause, factor: 1.0, pause_max: pause, jitter: 0.0, ..Self::exponential() }
    }

    /// Sets the number of attempts, including the first; at least one is made.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// Sets the pause before the second attempt.
    #[must_use]
    pub fn initial(mut self, pause: Duration) -> Self {
        self.initial = pause;
        self
    }

    /// Sets the longest pause.
    #[must_use]
    pub fn pause_max(mut self, pause: Duration) -> Self {
        self.pause_max = pause;
        self
    }

    /// Sets the random share of each pause, from 0 to 1.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// Returns the pause after attempt number `attempt` (from 1) failed, or `None` if that was the last.
    ///
    /// The same `seed` always gives the same jitter.
    ///
    /// ```
    /// # use goldseam_core as goldseam;
    /// use goldseam::{Failure, Retry};
    ///
    /// let retry = Retry::exponential();
    /// assert_eq!(retry.pause(1, &Failure::terminal("card declined"), "charge"), None);
    /// let busy = Failure::retryable("busy");
    /// assert_eq!(retry.pause(1, &busy, "charge"), retry.pause(1, &busy, "charge"));
    /// ```
    pub fn pause(&self, attempt: u32, failure: &Failure, seed: &str) -> Option<Duration> {
        if failure.class == Class::Terminal || attempt >= self.attempts_max {
            return None;
        }
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let longest = self.pause_max.as_secs_f64();
        let factor = if self.factor.is_finite() { self.factor.max(0.0) } else { 1.0 };
        // Zero times infinity is NaN, which `min` would turn into the longest pause.
        let grown =
            if self.initial.is_zero() { 0.0 } else { self.initial.as_secs_f64() * factor.powi(exponent) };
        let full = grown.min(longest);
        let share = self.jitter.clamp(0.0, 1.0);
        let drawn = Hash::of_parts(&[seed, &attempt.to_string()]).leading() as f64 / u64::MAX as f64;
        let seconds = full * (1.0 - share * drawn);
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(self.pause_max).min(self.pause_max))
    }
}

/// A [`Retry`] in integers, as a log stores it: the same bytes are always the same policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RetryPolicy))]
pub struct Policy {
    /// Most attempts, including the first.
    pub attempts_max: u32,
    /// Pause before the second attempt.
    pub initial_ms: u64,
    /// Factor from one pause to the next, in thousandths.
    pub factor_permille: u32,
    /// Longest pause.
    pub pause_max_ms: u64,
    /// Random share of each pause, in thousandths.
    pub jitter_permille: u32,
}

impl From<&Retry> for Policy {
    fn from(retry: &Retry) -> Self {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            attempts_max: retry.attempts_max,
            initial_ms: ms(retry.initial),
            factor_permille: permille(if retry.factor.is_finite() { retry.factor } else { 1.0 }),
            pause_max_ms: ms(retry.pause_max),
            jitter_permille: permille(retry.jitter.clamp(0.0, 1.0)),
        }
    }
}

/// Returns thousandths, rounded; NaN and negative numbers become 0.
fn permille(value: f64) -> u32 {
    (value * 1000.0).round() as u32
}

impl From<Policy> for Retry {
    fn from(policy: Policy) -> Self {
        Self {
            attempts_max: policy.attempts_max,
            initial: Duration::from_millis(policy.initial_ms),
            factor: f64::from(policy.factor_permille) / 1000.0,
            pause_max: Duration::from_millis(policy.pause_max_ms),
            jitter: f64::from(policy.jitter_permille) / 1000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retry = Retry::exponential().jitter(0.0).attempts_max(20);
        let failure = Failure::retryable("x");
        let seconds: Vec<u64> = (1..9).map(|n| retry.pause(n, &failure, "s").unwrap().as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn the_first_pause_is_the_initial_one() {
        let retry = Retry { initial: Duration::from_secs(3), ..Retry::exponential() }.jitter(0.0);
        let failure = Failure::retryable("x");
        assert_eq!(retry.pause(1, &failure, "s"), Some(Duration::from_secs(3)));
        assert_eq!(retry.pause(2, &failure, "s"), Some(Duration::from_secs(6)));
    }

    #[test]
    fn terminal_failures_and_used_up_attempts_end_it() {
        let retry = Retry::exponential().attempts_max(3);
        assert!(retry.pause(1, &Failure::terminal("x"), "s").is_none());
        assert!(retry.pause(2, &Failure::retryable("x"), "s").is_some());
        assert!(retry.pause(3, &Failure::retryable("x"), "s").is_none());
        assert!(Retry::never().pause(1, &Failure::retryable("x"), "s").is_none());
    }

    #[test]
    fn jitter_shortens_within_its_share_and_repeats_by_seed() {
        let retry = Retry::exponential().jitter(0.5).attempts_max(u32::MAX);
        let failure = Failure::retryable("x");
        for n in 1..200 {
            let pause = retry.pause(n, &failure, "seed").unwrap();
            assert_eq!(Some(pause), retry.pause(n, &failure, "seed"));
            assert!(
                pause <= Duration::from_secs(60) && pause >= Duration::from_millis(500),
                "{n}: {pause:?}"
            );
        }
    }

    #[test]
    fn jitter_is_spread_over_its_whole_share() {
        let retry = Retry::fixed(Duration::from_secs(10)).jitter(0.5);
        let failure = Failure::retryable("x");
        let drawn = |seed: u32| retry.pause(1, &failure, &seed.to_string()).unwrap().as_secs_f64();
        let pauses: Vec<f64> = (0..50).map(drawn).collect();
        assert!(pauses.iter().all(|pause| (5.0..=10.0).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause < 6.0) && pauses.iter().any(|pause| *pause > 9.0));
        assert_ne!(retry.pause(1, &failure, "s"), retry.pause(2, &failure, "s"), "each attempt draws again");
    }

    #[test]
    fn builder_methods_set_the_policy() {
        let initial = Duration::from_secs(3);
        let pause_max = Duration::from_secs(5);
        let said = Retry::exponential().attempts_max(4).initial(initial).pause_max(pause_max).jitter(0.25);
        assert_eq!(said, Retry { attempts_max: 4, initial, factor: 2.0, pause_max, jitter: 0.25 });
        let fixed = Policy {
            attempts_max: 10,
            initial_ms: 90_000,
            factor_permille: 1_000,
            pause_max_ms: 90_000,
            jitter_permille: 0,
        };
        assert_eq!(Policy::from(&Retry::fixed(Duration::from_secs(90))), fixed);
        assert_eq!(Policy::from(&said).jitter_permille, 250);
    }

    #[test]
    fn integer_policies_round_trip() {
        for retry in [Retry::never(), Retry::exponential(), Retry::fixed(Duration::from_millis(150))] {
            assert_eq!(Retry::from(Policy::from(&retry)), retry);
        }
    }

    #[test]
    fn absurd_policies_do_not_panic() {
        for factor in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            let retry = Retry { factor, jitter: f64::NAN, ..Retry::exponential() };
            let _ = Retry::from(Policy::from(&retry)).pause(3, &Failure::retryable("x"), "");
            let _ = retry.pause(u32::MAX - 1, &Failure::retryable("x"), "");
            let _ =
                Retry { attempts_max: u32::MAX, ..retry }.pause(u32::MAX - 1, &Failure::retryable("x"), "");
        }
    }
}
