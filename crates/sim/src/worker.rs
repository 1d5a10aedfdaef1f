//! A worker for remote steps: claims their tasks, records the effect, and reports a result after a while.
//!
//! It keeps no state: it reads its claims from the queue, so a lost reply loses no task. It abandons some tasks, as a
//! worker that dies does.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Failure, Millis, QueueName};
use goldseam_engine::Client;
use goldseam_engine::queue::Want;

use crate::clients::payload;
use crate::journal::{Ack, EffectSource, Journal};
use crate::random::fold;
use crate::workflows::QUEUE;

const NAME: &str = "worker";
/// The worker's number in the journal.
const NODE: usize = 50;

/// Whether the worker abandons tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// It ends every task at once.
    Careful,
    /// It ends tasks after a while, and abandons some of them.
    Forgetful,
}

/// A worker for remote steps.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The record of its effects.
    pub journal: Arc<Journal>,
    /// Whether it abandons tasks.
    pub care: Care,
}

fn queue() -> QueueName {
    const ELSEWHERE: IdLiteral<kind::Queue> = IdLiteral::new(QUEUE);
    ELSEWHERE.id()
}

impl Worker {
    /// Works until the task is aborted.
    pub async fn keep_working(self, client: Client) {
        loop {
            self.turn(&client).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    /// Claims ready tasks, and ends those that were claimed long enough ago.
    pub async fn turn(&self, client: &Client) {
        let queue = client.queue();
        let want = Want { owner: NAME.to_owned(), queue: self::queue(), kind: None, limit: 4 };
        for task in queue.claim(want).await.unwrap_or_default() {
            if let (Some(run), Some(step)) = (&task.run, &task.step) {
                let attempt = step.attempt;
                let key = step.key.clone();
                let source = EffectSource { attempt, key, node: NODE, life: NODE };
                self.journal.effect(run, step.path.as_str(), source);
            }
        }
        let Ok(now) = client.store().now().await else { return };
        let claimed = queue.list(Some(&self::queue()), Some(TaskState::Claimed), None, 100).await;
        for task in claimed.unwrap_or_default() {
            if task.owner.as_deref() == Some(NAME) {
                self.end(client, &task, now).await;
            }
        }
    }

    async fn end(&self, client: &Client, task: &Task, now: Millis) {
        let drawn = fold(&format!("{} {}", task.id, task.fence));
        let (takes, forgotten) = match self.care {
            Care::Careful => (Duration::ZERO, false),
            Care::Forgetful => (Duration::from_millis(drawn / 8 % 600), drawn.is_multiple_of(8)),
        };
        if forgotten || task.started_at.is_some_and(|at| now.since(at) < takes) {
            return;
        }
        let queue = client.queue();
        let brought = match drawn / 5_000 % 4 {
            0 => queue.fail(&task.id, task.fence, Failure::retryable("out of luck")).await,
            _ => {
                let value = payload(&serde_json::json!(drawn % 1_000));
                queue.complete(&task.id, task.fence, value).await
            }
        };
        if let (Ok(_), Some(run), Some(step)) = (brought, &task.run, &task.step) {
            let path = step.path.clone();
            let attempt = step.attempt;
            self.journal.acknowledged(Ack::Brought(run.clone(), path, attempt, task.fence));
        }
    }
}
