//! How often a store wants to be asked.

use std::time::Duration;

/// The least time between two questions of each sort; zero: as often as the engine likes.
///
/// It is data, and the same for as long as the store is open. A store may only slow an engine down: whoever asks takes
/// the larger of this and its own configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// Two beats of one node.
    pub beat: Duration,
    /// The least silence for which a node is taken for lost; several beats.
    pub silence_max: Duration,
    /// Two looks at all nodes.
    pub watch: Duration,
    /// Two looks over all claims and locks.
    pub claim_watch: Duration,
    /// Two looks for silent remote steps.
    pub monitor: Duration,
    /// Two sweeps, and two comparisons of runs with what a node has in memory.
    pub sweep: Duration,
    /// Two comparisons of tasks with what a node has in memory.
    pub reconcile: Duration,
    /// Two looks at a queue in which nothing is due.
    pub poll: Duration,
    /// Two looks of a client that waits for a run.
    pub wait: Duration,
    /// Two looks that writes cause, of others or of this process.
    pub look_every: Duration,
}

/// Beats that a node may miss before it is taken for lost.
const BEATS: u32 = 5;
/// The longest round trip that leases grow with. With it, half of the longest silence is still less than the shortest:
/// however differently two nodes measure, neither is sure of itself when the other takes over.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(2);

impl Pace {
    /// For a store where every question is a request that costs money and takes `round_trip`.
    ///
    /// An idle node then makes fewer than two requests per second, if the store asks for a list only once where nothing
    /// has changed, and if waiting for a change and looking at the queue share theirs:
    ///
    /// | what | requests | every | per second |
    /// |---|---|---|---|
    /// | queue and changes | 1 | 1 s | 1.00 |
    /// | beat | 1 | 3 s | 0.33 |
    /// | nodes | 1 | 6 s | 0.17 |
    /// | claims and locks | nodes, 2 of locks, 3 of tasks | 60 s | 0.10 |
    /// | tasks against memory | tasks, nodes | 60 s | 0.03 |
    /// | silent steps | nodes, tasks | 60 s | 0.03 |
    /// | sweep, runs against memory | nodes, lost rows, states of others, 2 of runs | 300 s | 0.02 |
    /// | all | | | 1.68 |
    ///
    /// A run that waits costs nothing between two sweeps.
    ///
    /// Leases grow with the round trip, so that a slow line alone makes nobody silent.
    pub fn remote(round_trip: Duration) -> Self {
        let beat = Duration::from_secs(3);
        let minute = Duration::from_secs(60);
        Self {
            beat,
            silence_max: (beat + round_trip.min(ROUND_TRIP_MAX)) * BEATS,
            watch: beat * 2,
            claim_watch: minute,
            monitor: minute,
            sweep: minute * 5,
            reconcile: minute,
            poll: Duration::from_secs(1),
            wait: Duration::from_millis(500),
            look_every: Duration::from_millis(200),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_longest_silence_is_less_than_the_shortest() {
        let silence = |round_trip| Pace::remote(round_trip).silence_max;
        assert_eq!(silence(Duration::ZERO), Duration::from_secs(15));
        assert_eq!(silence(Duration::from_millis(100)), Duration::from_millis(15_500));
        assert!(silence(Duration::from_secs(3600)) / 2 < silence(Duration::ZERO));
    }

    #[test]
    fn an_idle_node_makes_fewer_than_two_requests_per_second() {
        let Pace { beat, watch, claim_watch, monitor, sweep, reconcile, poll, .. } =
            Pace::remote(Duration::ZERO);
        let table =
            [(1, poll), (1, beat), (1, watch), (6, claim_watch), (2, reconcile), (2, monitor), (5, sweep)];
        let requests: f64 =
            table.iter().map(|(requests, every)| f64::from(*requests) / every.as_secs_f64()).sum();
        assert!((1.67..1.69).contains(&requests), "{requests} per second, not as the table says");
        assert_eq!((watch, sweep), (Duration::from_secs(6), Duration::from_secs(300)));
    }

    #[test]
    fn two_beats_fit_into_half_of_the_silence_however_slow_the_line() {
        for millis in [0, 10, 100, 1_000, 2_000] {
            let round_trip = Duration::from_millis(millis);
            let pace = Pace::remote(round_trip);
            assert!((pace.beat + round_trip) * 2 <= pace.silence_max / 2, "{millis} ms");
        }
    }
}
