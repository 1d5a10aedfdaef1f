//! Runs each example on SQLite and Postgres, twice on each store: the second time its runs already exist.

use goldseam_store_postgres::testing::Schema;

use crate::support::Scratch;

#[path = "../../../../examples/agent_loop.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod agent_loop;
#[path = "../../../../examples/crash_tested.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod crash_tested;
#[path = "../../../../examples/errors.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod errors;
#[path = "../../../../examples/fan_out.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod fan_out;
#[path = "../../../../examples/fleet.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod fleet;
#[path = "../../../../examples/hello.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod hello;
#[path = "../../../../examples/human_approval.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod human_approval;
#[path = "../../../../examples/long_sleep.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod long_sleep;
#[path = "../../../../examples/metrics.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod metrics;
#[path = "../../../../examples/order_saga.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod order_saga;
#[path = "../../../../examples/remote_step.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod remote_step;
#[path = "../../../../examples/signals.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod signals;
#[path = "../../../../examples/tour.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod tour;
#[path = "../../../../examples/versions.rs"]
#[expect(dead_code, reason = "the tests do not call `main`")]
mod versions;

/// A SQLite and a Postgres store.
struct Stores(Scratch, Schema);

impl Stores {
    fn new() -> Self {
        Self(Scratch::new(), Schema::fresh())
    }

    /// Returns the URL of each store, twice.
    fn urls(&self) -> [String; 4] {
        [self.0.url(), self.0.url(), self.1.url(), self.1.url()]
    }
}

#[test]
fn example_crash_tested_finds_two_bugs() {
    let reports = crash_tested::run().unwrap();
    let [careless, moody, fixed] = reports.as_slice() else { panic!("{reports:?}") };
    assert!(careless.contains("effect charge counts twice, without faults once"), "{careless}");
    assert!(moody.contains("the workflow is not deterministic"), "{moody}");
    assert!(fixed.starts_with("fixed: "), "{fixed}");
}

#[tokio::test]
async fn example_fleet_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(fleet::run(&url).await.unwrap(), "a parcel for order-7, labelled");
    }
}

#[tokio::test]
async fn example_hello_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(hello::run(&url).await.unwrap(), "Hello, Ada!");
    }
}

#[tokio::test]
async fn example_order_saga_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(
            order_saga::run(&url).await.unwrap(),
            "label for hold on a lamp; order-2: step charge failed: card declined, 2 steps undone"
        );
    }
}

#[tokio::test]
async fn example_human_approval_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(human_approval::run(&url).await.unwrap(), "perhaps refused: true; paid 250");
    }
}

#[tokio::test]
async fn example_fan_out_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(fan_out::run(&url).await.unwrap(), "cat@2x emu@2x dog@2x");
    }
}

#[tokio::test]
async fn example_long_sleep_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(long_sleep::run(&url).await.unwrap(), "to ada: your trial ends");
    }
}

#[tokio::test]
async fn example_agent_loop_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(agent_loop::run(&url).await.unwrap(), "find the way: looked around, go left");
    }
}

#[tokio::test]
async fn example_remote_step_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(remote_step::run(&url).await.unwrap(), "cat.png@200");
    }
}

#[tokio::test]
async fn example_errors_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(
            errors::run(&url).await.unwrap(),
            "paid 12; cannot read the bill: step read failed: \"twelve\" is not an amount: \
             invalid digit found in string"
        );
    }
}

#[tokio::test]
async fn example_signals_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(signals::run(&url).await.unwrap(), "Kyoto: for Ada, paid 12; Oslo: no note, expired");
    }
}

#[tokio::test]
async fn example_versions_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(
            versions::run(&url).await.unwrap(),
            "bill for tea; milk checked, bill for milk; cake is free in version 2"
        );
    }
}

#[tokio::test]
async fn example_tour_runs_and_runs_again() {
    let stores = Stores::new();
    for url in stores.urls() {
        assert_eq!(
            tour::run(&url).await.unwrap(),
            "order-1: 12300 cents, parcel with lamp and parcel with bulb, label \"2 items for Ada to Kyoto\"; \
             order-2: step charge failed: card declined, 1 undone; orders of Ada: 1"
        );
    }
}

#[tokio::test]
async fn example_metrics_shows_zeros_then_counts_and_buckets() {
    let scratch = Scratch::new();
    let exporter = metrics::install().unwrap();
    let (before, after) = metrics::run(&scratch.url(), &exporter).await.unwrap();
    for line in [
        "goldseam_runs_started_total{workflow=\"checkout\"} 0",
        "goldseam_runs_ended_total{workflow=\"checkout\",outcome=\"failed\"} 0",
        "goldseam_recovery_failed_total{rule=\"W1\"} 0",
        "goldseam_recovery_stale_seconds_bucket{rule=\"O2\",le=\"300\"} 0",
    ] {
        assert!(before.lines().any(|found| found == line), "{line} is not in {before}");
    }
    for line in [
        "goldseam_runs_ended_total{workflow=\"checkout\",outcome=\"completed\"} 1",
        "goldseam_step_attempts_total{workflow=\"checkout\",step=\"charge\",outcome=\"completed\"} 1",
        "goldseam_step_seconds_bucket{workflow=\"checkout\",step=\"charge\",le=\"86400\"} 1",
        "goldseam_step_seconds_count{workflow=\"checkout\",step=\"charge\"} 1",
    ] {
        assert!(after.lines().any(|found| found == line), "{line} is not in {after}");
    }
}
