//! An operator who acts on many runs at once, over a faulty connection, while nodes crash.

use std::time::Duration;

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::operation::{SignalSpec, Spec, Verb};
use goldseam_core::{RunId, SignalName};
use goldseam_engine::Client;

use crate::clients::payload;
use crate::random::Random;

/// Number of operations in a seed.
const OPERATIONS: u64 = 4;
/// Attempts to begin an operation.
const ATTEMPTS: u32 = 8;

/// An operator.
#[derive(Debug)]
pub struct BulkOperator {
    /// The client of the engine's interface.
    pub client: Client,
    /// Its choices.
    pub random: Random,
}

/// Returns whether an operator acts on many runs in this seed.
pub fn is_bulk(seed: u64) -> bool {
    seed % 4 == 1
}

/// Returns an operation that sends the signal `go` to the runs of a condition.
pub fn signalling(condition: &str) -> Spec {
    const GO: IdLiteral<kind::Signal> = IdLiteral::new("go");
    let name: SignalName = GO.id();
    let signal = Some(SignalSpec { name, payload: payload(&serde_json::json!(1)) });
    Spec { verb: Verb::Signal, signal, ..retrying(condition) }
}

fn retrying(condition: &str) -> Spec {
    Spec {
        verb: Verb::Retry,
        condition: condition.to_owned(),
        rate: None,
        canary: None,
        canary_timeout_ms: None,
        signal: None,
        reason: "simulated".to_owned(),
        by: None,
    }
}

impl BulkOperator {
    /// Begins operations at random times. Two of them may act on the same runs at once.
    pub async fn keep_operating(mut self) {
        for number in 0..OPERATIONS {
            tokio::time::sleep(Duration::from_millis(500 + self.random.below(9_000))).await;
            let Ok(id) = RunId::new(format!("op{number}")) else { return };
            let spec = self.draw();
            for _ in 0..ATTEMPTS {
                if self.client.begin_operation(&id, spec.clone()).await.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
    }

    fn draw(&mut self) -> Spec {
        let mut spec = match self.random.below(6) {
            0 | 1 => retrying("status in (failed, parked)"),
            2 => Spec { verb: Verb::Resume, ..retrying("status in (paused, parked)") },
            3 => Spec { verb: Verb::Pause, ..retrying("status = waiting") },
            4 => Spec { verb: Verb::Recover, ..retrying("not status in (completed, failed, cancelled)") },
            _ => signalling("status = waiting"),
        };
        if self.random.percent(50) {
            spec.rate =
                ["2/s", "20/s", "10/m"][usize::try_from(self.random.below(3)).unwrap_or(0)].parse().ok();
        }
        if spec.verb.takes_canary() && self.random.percent(50) {
            spec.canary = "1,50%,all".parse().ok();
            spec.canary_timeout_ms = Some(1_000 + self.random.below(10_000));
        }
        spec
    }
}
