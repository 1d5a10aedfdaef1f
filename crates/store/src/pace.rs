//! The pace of a store: how often it may be asked.

use std::time::Duration;

/// The minimum interval between two calls of each kind; zero: no limit.
///
/// It is constant while the store is open. A store can only slow an engine down: the engine uses the larger of this
/// and its own configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorePace {
    /// Between two beats of a node.
    pub beat: Duration,
    /// Minimum silence after which a node counts as lost; several beats.
    pub silence_max: Duration,
    /// Between two reads of all nodes.
    pub watch: Duration,
    /// Between two examinations of all claims and locks.
    pub claim_watch: Duration,
    /// Between two searches for silent remote steps.
    pub monitor: Duration,
    /// Between two sweeps, and between two comparisons of runs with a node's memory.
    pub sweep: Duration,
    /// Between two comparisons of tasks with a node's memory.
    pub reconcile: Duration,
    /// Between two polls of a queue in which nothing is due.
    pub poll: Duration,
    /// Between two polls of a client that waits for a run.
    pub wait: Duration,
    /// Between two reads that are caused by writes of this or another process.
    pub look_every: Duration,
}

/// Number of beats that a node may miss before it counts as lost.
const BEATS: u32 = 5;
/// The longest round trip that leases grow with. Half of the longest silence is then still less than the shortest
/// one: however differently two nodes measure, neither believes itself alive when the other takes over.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(2);

impl StorePace {
    /// Returns the pace for a store where every call is a request that costs money and takes `round_trip`.
    ///
    /// An idle node then makes fewer than two requests per second, if the store lists a kind only once while nothing
    /// changes, and if waiting for a change and polling the queue share their requests:
    ///
    /// | what | requests | every | per second |
    /// |---|---|---|---|
    /// | queue and changes | 1 | 1 s | 1.00 |
    /// | beat | 1 | 3 s | 0.33 |
    /// | nodes | 1 | 6 s | 0.17 |
    /// | claims and locks | nodes, 2 of locks, 3 of tasks | 60 s | 0.10 |
    /// | tasks against memory | tasks, nodes | 60 s | 0.03 |
    /// | silent steps | nodes, tasks | 60 s | 0.03 |
    /// | sweep, runs against memory | nodes, lost rows, foreign states, 2 of runs | 300 s | 0.02 |
    /// | all | | | 1.68 |
    ///
    /// A run that waits costs nothing between two sweeps.
    ///
    /// Leases grow with the round trip, so that a slow connection alone makes no node silent.
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
        let silence = |round_trip| StorePace::remote(round_trip).silence_max;
        assert_eq!(silence(Duration::ZERO), Duration::from_secs(15));
        assert_eq!(silence(Duration::from_millis(100)), Duration::from_millis(15_500));
        assert!(silence(Duration::from_secs(3600)) / 2 < silence(Duration::ZERO));
    }

    #[test]
    fn an_idle_node_makes_fewer_than_two_requests_per_second() {
        let StorePace { beat, watch, claim_watch, monitor, sweep, reconcile, poll, .. } =
            StorePace::remote(Duration::ZERO);
        let table =
            [(1, poll), (1, beat), (1, watch), (6, claim_watch), (2, reconcile), (2, monitor), (5, sweep)];
        let requests: f64 =
            table.iter().map(|(requests, every)| f64::from(*requests) / every.as_secs_f64()).sum();
        assert!((1.67..1.69).contains(&requests), "{requests} per second, the table differs");
        assert_eq!((watch, sweep), (Duration::from_secs(6), Duration::from_secs(300)));
    }

    #[test]
    fn two_beats_fit_into_half_of_the_silence() {
        for millis in [0, 10, 100, 1_000, 2_000] {
            let round_trip = Duration::from_millis(millis);
            let pace = StorePace::remote(round_trip);
            assert!((pace.beat + round_trip) * 2 <= pace.silence_max / 2, "{millis} ms");
        }
    }
}
