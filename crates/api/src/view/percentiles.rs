//! Percentiles of durations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Percentiles of durations, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Spread)]
pub struct Percentiles {
    /// The maximum.
    pub max: i64,
    /// The median.
    pub p50: i64,
    /// The 99th percentile.
    pub p99: i64,
}

impl Percentiles {
    /// Computes the percentiles of `times`; all are zero if `times` is empty.
    pub fn of(mut times: Vec<i64>) -> Self {
        times.sort_unstable();
        let rank = |share: usize| {
            let at = (times.len() * share).div_ceil(100).saturating_sub(1);
            times.get(at).copied().unwrap_or(0)
        };
        Self { p50: rank(50), p99: rank(99), max: rank(100) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        assert_eq!(Percentiles::of((1..=100).collect()), Percentiles { p50: 50, p99: 99, max: 100 });
        assert_eq!(Percentiles::of(vec![7]), Percentiles { p50: 7, p99: 7, max: 7 });
        assert_eq!(Percentiles::of(vec![]), Percentiles::default());
    }
}
