//! Moments and positions.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment: milliseconds since the Unix epoch, as the clock of whoever wrote it saw it.
///
/// Never compared across machines to decide who owns something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// A moment that never comes.
    pub const NEVER: Self = Self(i64::MAX);

    /// Time since `earlier`, zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
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

/// A position in a run's log. The first event stands at 1; 0 is "before everything".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Before the first event.
    pub const ZERO: Self = Self(0);

    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The position before this one; the one before the first is zero.
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
    fn moments_and_positions_go_forth_and_back() {
        let (early, late) = (Millis(1_000), Millis(3_500));
        let span = Duration::from_millis(2_500);
        assert_eq!((late.since(early), early + span, late - span), (span, late, early));
        assert_eq!((Seq(7).next(), Seq(7).before()), (Seq(8), Seq(6)));
    }

    #[test]
    fn a_position_is_written_as_its_number() {
        assert_eq!(format!("{:>3}", Seq(7)), "  7");
    }
}
