//! People who follow runs: their connection breaks now and then, and they go on after the last event they saw.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{RunId, Seq};
use goldseam_engine::Client;
use goldseam_engine::healer::follow::Followed;

use crate::book::{Ack, Book};
use crate::dice::Dice;

/// Somebody who follows a run.
#[derive(Debug)]
pub struct Reader {
    /// Their number.
    pub number: usize,
    /// Their client.
    pub client: Client,
    /// Where what they were shown is written down.
    pub book: Arc<Book>,
    /// Decides when they connect anew.
    pub dice: Dice,
}

impl Reader {
    /// Follows `run` for ever, over any number of connections.
    pub async fn keep_reading(mut self, run: RunId) {
        let mut after = Seq::ZERO;
        loop {
            let mut follower = self.client.follower(run.clone(), after);
            while !self.dice.percent(15) {
                match follower.next().await {
                    Ok(Followed::Events(events)) => {
                        let seqs: Vec<Seq> = events.iter().map(|recorded| recorded.seq).collect();
                        after = seqs.last().copied().unwrap_or(after);
                        self.book.told(Ack::Followed(self.number, run.clone(), seqs));
                    }
                    Ok(Followed::Stalled(_)) => {}
                    Err(_) => break,
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
