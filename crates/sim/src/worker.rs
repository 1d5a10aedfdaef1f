//! Somebody who does remote steps: claims their tasks, tells the book, and brings a result after a while.
//!
//! It remembers nothing but its name: what it has is read from the queue, so a lost reply costs no task. Some
//! tasks it never ends, as if it had died with them.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Failure, Millis, QueueName};
use goldseam_engine::Client;
use goldseam_engine::queue::Want;

use crate::book::{Ack, Book, Mark};
use crate::crowd::payload;
use crate::dice::fold;

/// The queue of all remote steps.
pub const QUEUE: &str = "elsewhere";
const NAME: &str = "worker";
/// The worker's number in the book.
const NODE: usize = 50;

/// Whether some tasks are never ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// Every task is ended, and at once.
    Careful,
    /// They take a while, and some are forgotten until somebody notices the silence.
    Forgetful,
}

/// A worker.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Where what it does is written down.
    pub book: Arc<Book>,
    /// How reliable it is.
    pub care: Care,
}

fn queue() -> QueueName {
    QueueName::new(QUEUE).unwrap_or_else(|_| unreachable!("a literal that is an id"))
}

impl Worker {
    /// Works for ever.
    pub async fn keep_working(self, client: Client) {
        loop {
            self.turn(&client).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    /// Claims what is there, and ends what was claimed long enough ago.
    pub async fn turn(&self, client: &Client) {
        let queue = client.queue();
        let want = Want { owner: NAME.to_owned(), queue: self::queue(), kind: None, limit: 4 };
        for task in queue.claim(want).await.unwrap_or_default() {
            if let (Some(run), Some(step)) = (&task.run, &task.step) {
                let (attempt, key) = (step.attempt, step.key.clone());
                let mark = Mark { attempt, key, node: NODE, life: NODE };
                self.book.saw(run, step.path.as_str(), mark);
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
            let (path, attempt) = (step.path.clone(), step.attempt);
            self.book.told(Ack::Brought(run.clone(), path, attempt, task.fence));
        }
    }
}
