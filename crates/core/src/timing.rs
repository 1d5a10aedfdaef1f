//! When a new run begins and by when it must have ended, as its starter says it.

use std::time::Duration;

use crate::moment::{LATEST, iso};
use crate::time::Millis;

/// A time, or a span from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// This time.
    At(Millis),
    /// After this span.
    After(Duration),
}

/// When a new run begins and by when it must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StartTiming {
    /// When it begins; none: at once.
    pub begin: Option<When>,
    /// When it times out; none: never. A span counts from the begin.
    pub end: Option<When>,
}

/// The times of a new run, as its log records them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunTimes {
    /// When it begins, if that is later than now.
    pub start_at: Option<Millis>,
    /// When it times out.
    pub deadline: Option<Millis>,
}

/// The reason why a timing is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The run would time out before it begins.
    #[error("the timeout of a run must be greater than zero")]
    NoTime,
    /// The time cannot be written.
    #[error("{what} is later than {}", iso(Millis(LATEST)))]
    TooLate {
        /// The option that names the time.
        what: &'static str,
    },
}

impl StartTiming {
    /// Returns whether the starter left everything open.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Resolves spans against the store's time. A begin that has passed means at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use goldseam_core as goldseam;
    /// use goldseam::Millis;
    /// use goldseam::timing::{StartTiming, When};
    ///
    /// let minute = When::After(Duration::from_secs(60));
    /// let times = StartTiming { begin: Some(minute), end: Some(minute) }.resolve(Millis(1_000)).unwrap();
    /// assert_eq!((times.start_at, times.deadline), (Some(Millis(61_000)), Some(Millis(121_000))));
    /// ```
    pub fn resolve(self, now: Millis) -> Result<RunTimes, TimingError> {
        let check =
            |what, at: Millis| if at.0 > LATEST { Err(TimingError::TooLate { what }) } else { Ok(at) };
        let begin = match self.begin {
            None => now,
            Some(When::At(at)) => check("the start", at)?,
            Some(When::After(span)) => check("the start", now + span)?,
        };
        let deadline = match self.end {
            None => None,
            Some(When::After(span)) if span.as_millis() == 0 => return Err(TimingError::NoTime),
            Some(When::After(span)) => Some(check("the deadline", begin.max(now) + span)?),
            Some(When::At(at)) => Some(check("the deadline", at)?),
        };
        Ok(RunTimes { start_at: Some(begin).filter(|begin| *begin > now), deadline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Millis = Millis(10_000);

    fn resolve(begin: Option<When>, end: Option<When>) -> Result<RunTimes, TimingError> {
        StartTiming { begin, end }.resolve(NOW)
    }

    #[test]
    fn a_timeout_counts_from_the_begin() {
        let after = Some(When::After(SECOND));
        assert_eq!(resolve(None, after).unwrap().deadline, Some(Millis(11_000)));
        let late = resolve(Some(When::At(Millis(60_000))), after).unwrap();
        assert_eq!((late.start_at, late.deadline), (Some(Millis(60_000)), Some(Millis(61_000))));
        assert_eq!(resolve(Some(When::At(Millis(5))), after).unwrap().deadline, Some(Millis(11_000)));
    }

    #[test]
    fn a_begin_that_has_passed_means_at_once() {
        for begin in [When::At(Millis(10_000)), When::At(Millis(-5)), When::After(Duration::ZERO)] {
            assert_eq!(resolve(Some(begin), None).unwrap(), RunTimes::default());
        }
        assert!(
            StartTiming::default().is_open()
                && !StartTiming { begin: None, end: Some(When::At(NOW)) }.is_open()
        );
    }

    #[test]
    fn no_time_at_all_and_too_much_time_are_refused() {
        for span in [Duration::ZERO, Duration::from_micros(999)] {
            assert_eq!(resolve(None, Some(When::After(span))), Err(TimingError::NoTime));
        }
        let what = "the deadline";
        for end in [When::After(Duration::MAX), When::At(Millis::NEVER)] {
            assert_eq!(resolve(None, Some(end)), Err(TimingError::TooLate { what }));
            assert_eq!(resolve(Some(end), None), Err(TimingError::TooLate { what: "the start" }));
        }
        assert_eq!(resolve(None, Some(When::At(Millis(LATEST)))).unwrap().deadline, Some(Millis(LATEST)));
    }
}
