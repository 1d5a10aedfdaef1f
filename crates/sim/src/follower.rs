//! Followers of runs: they reconnect at random and continue after the last event that they received.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{RunId, Seq};
use goldseam_engine::Client;
use goldseam_engine::client::follow::Followed;

use crate::journal::{Ack, Journal};
use crate::random::Random;

/// A follower of a run.
#[derive(Debug)]
pub struct RunFollower {
    /// The number of the follower.
    pub number: usize,
    /// Its client.
    pub client: Client,
    /// The record of received events.
    pub journal: Arc<Journal>,
    /// Decides when to reconnect.
    pub random: Random,
}

impl RunFollower {
    /// Follows `run` until the task is aborted, over any number of connections.
    pub async fn keep_reading(mut self, run: RunId) {
        let mut after = Seq::ZERO;
        loop {
            let mut follower = self.client.follower(run.clone(), after);
            while !self.random.percent(15) {
                match follower.next().await {
                    Ok(Followed::Events(events)) => {
                        let seqs: Vec<Seq> = events.iter().map(|recorded| recorded.seq).collect();
                        after = seqs.last().copied().unwrap_or(after);
                        self.journal.acknowledged(Ack::Followed(self.number, run.clone(), seqs));
                    }
                    Ok(Followed::Stalled(_)) => {}
                    Err(_) => break,
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
