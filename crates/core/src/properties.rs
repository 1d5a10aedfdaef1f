//! Properties: arbitrary input never panics, and no sequence of commands breaks an invariant.

mod nonsense;
mod walks;

use std::time::Duration;

use proptest::prelude::*;

use crate::error::{Class, Failure};
use crate::id::RunId;
use crate::retry::Retry;

/// A second implementation of the rule for ids.
fn is_id(text: &str) -> bool {
    let plain = |c: char| matches!(c, 'a'..='z' | 'A'..='Z' | '0'..='9');
    let mut before = '.';
    for (at, c) in text.chars().enumerate() {
        if at >= 128 || !(plain(c) || (at > 0 && "._-".contains(c))) || (before == '.' && c == '.') {
            return false;
        }
        before = c;
    }
    !text.is_empty()
}

fn policy() -> impl Strategy<Value = Retry> {
    let span =
        prop_oneof![Just(Duration::ZERO), Just(Duration::MAX), any::<u64>().prop_map(Duration::from_nanos)];
    (any::<u32>(), span.clone(), any::<f64>(), span, any::<f64>()).prop_map(
        |(attempts_max, initial, factor, pause_max, jitter)| Retry {
            attempts_max,
            initial,
            factor,
            pause_max,
            jitter,
        },
    )
}

proptest! {
    #[test]
    fn ids_are_parsed_like_the_reference(text in prop_oneof!["[a-zA-Z0-9._-]{0,6}", "[a-z.]{120,130}", ".{0,8}"]) {
        prop_assert_eq!(RunId::new(&text).is_ok(), is_id(&text), "{:?}", text);
    }

    #[test]
    fn a_pause_never_exceeds_the_longest_and_ends_with_the_attempts(
        retry in policy(), attempt in any::<u32>(), terminal in any::<bool>(), seed in ".{0,4}",
    ) {
        let class = if terminal { Class::Terminal } else { Class::Retryable };
        let failure = Failure::new(class, "x");
        let pause = retry.pause(attempt, &failure, &seed);
        prop_assert_eq!(pause.is_none(), terminal || attempt >= retry.attempts_max);
        prop_assert!(pause.is_none_or(|pause| pause <= retry.pause_max));
        prop_assert_eq!(pause, retry.pause(attempt, &failure, &seed));
    }

    #[test]
    fn pauses_only_grow_when_nothing_is_random(first in 0u64..5_000, factor in 1.0f64..4.0, most in 0u64..90_000) {
        let most = Duration::from_millis(most);
        let retry = Retry { factor, ..Retry::exponential() }.initial(Duration::from_millis(first)).pause_max(most);
        let retry = retry.jitter(0.0).attempts_max(u32::MAX);
        let pauses: Vec<_> = (1..2_000).step_by(37).filter_map(|n| retry.pause(n, &Failure::retryable("x"), "")).collect();
        prop_assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{:?}", pauses);
    }
}
