//! Times and positions.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A time: milliseconds since the Unix epoch, by the clock of its writer.
///
/// Times of different machines are never compared to decide ownership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// A time that never comes.
    pub const NEVER: Self = Self(i64::MAX);

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

impl From<SystemTime> for Millis {
    /// Cuts off what is below a millisecond.
    fn from(time: SystemTime) -> Self {
        let ms = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self(time.duration_since(UNIX_EPOCH).map_or_else(|before| -ms(before.duration()), ms))
    }
}

impl From<Millis> for SystemTime {
    /// A time that this platform cannot represent becomes the epoch.
    fn from(time: Millis) -> Self {
        let span = Duration::from_millis(time.0.unsigned_abs());
        let time = if time.0 < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
        time.unwrap_or(UNIX_EPOCH)
    }
}

impl Add<Duration> for Millis {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Millis {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// A position in a run's log. The first event has position 1; 0 is before all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The position before the first event.
    pub const ZERO: Self = Self(0);

    /// Returns the next position.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the previous position; before the first one it is zero.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Millis::NEVER + Duration::from_secs(1), Millis::NEVER);
        assert_eq!(Millis(5) + Duration::MAX, Millis::NEVER);
        assert_eq!(Millis(5).since(Millis(9)), Duration::ZERO);
        assert_eq!(Seq::ZERO.before(), Seq::ZERO);
    }

    #[test]
    fn times_and_positions_add_and_subtract() {
        let early = Millis(1_000);
        let late = Millis(3_500);
        let span = Duration::from_millis(2_500);
        assert_eq!((late.since(early), early + span, late - span), (span, late, early));
        assert_eq!((Seq(7).next(), Seq(7).before()), (Seq(8), Seq(6)));
    }

    #[test]
    fn a_time_converts_to_the_standard_time_and_back() {
        for time in [Millis(0), Millis(1_234), Millis(-1_234), Millis::NEVER] {
            assert_eq!(Millis::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn a_position_is_written_as_its_number() {
        assert_eq!(format!("{:>3}", Seq(7)), "  7");
    }
}
