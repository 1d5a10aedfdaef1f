//! How times spread: median, tail and worst case.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Ranks of some times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Spread {
    /// The longest.
    pub max: i64,
    /// Half are below.
    pub p50: i64,
    /// All but one in a hundred are below.
    pub p99: i64,
}

impl Spread {
    /// The ranks of `times`; all zero if there are none.
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
    fn a_spread_is_by_rank() {
        assert_eq!(Spread::of((1..=100).collect()), Spread { p50: 50, p99: 99, max: 100 });
        assert_eq!(Spread::of(vec![7]), Spread { p50: 7, p99: 7, max: 7 });
        assert_eq!(Spread::of(vec![]), Spread::default());
    }
}
