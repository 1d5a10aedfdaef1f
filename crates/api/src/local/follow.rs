//! Following a run: its log first, then new events, until the run ends.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use goldseam::client::follow::{Followed, Follower};
use goldseam::unstable::core::Recorded;
use goldseam::unstable::engine::heal::Found;
use goldseam::{Client, RunId, Seq};
use tokio::sync::{Semaphore, watch};

use super::LocalApi;
use crate::api::{ApiResult, Following};
use crate::doc::event::{EventDoc, MOVING, MovingNewsDoc, NewsDoc, STALLED, StalledNewsDoc};
use crate::next_step::with_commands;
use crate::problem::Problem;
use crate::timestamp::Timestamp;

impl LocalApi {
    /// Follows a run as one of many followers: a shared watch wakes the follower ([`Follower::woken_by`]), and a permit
    /// limits concurrent reads ([`Follower::in_turn`]).
    pub async fn follow_shared(
        &self,
        run: &RunId,
        after: Seq,
        wake: watch::Receiver<Arc<[Recorded]>>,
        reads: Arc<Semaphore>,
    ) -> ApiResult<Following> {
        let follower = self.client.follower(run.clone(), after).woken_by(wake).in_turn(reads);
        self.stream(follower, run, after).await
    }

    pub(super) async fn stream(&self, follower: Follower, run: &RunId, after: Seq) -> ApiResult<Following> {
        self.client.get(run).await?;
        let tail = LocalTail {
            client: self.client.clone(),
            run: run.clone(),
            follower,
            after,
            news: VecDeque::new(),
            may_be_over: true,
        };
        let next = |tail: Option<LocalTail>| async move {
            let mut tail = tail?;
            match tail.next().await {
                Ok(news) => news.map(|news| (Ok(news), Some(tail))),
                Err(problem) => Some((Err(problem), None)),
            }
        };
        Ok(unfold(Some(tail), next).boxed())
    }
}

/// The next item of a stream.
enum QueuedItem {
    News(NewsDoc),
    /// Converted when it is sent, because a follower that does not read must not hold many documents.
    Event(Box<Recorded>),
}

/// A follower of one run.
struct LocalTail {
    client: Client,
    run: RunId,
    follower: Follower,
    after: Seq,
    news: VecDeque<QueuedItem>,
    /// True at first, and after an event that may have ended the run.
    may_be_over: bool,
}

impl LocalTail {
    /// Returns the next item, or `None` once the run is over and the follower has the whole log.
    async fn next(&mut self) -> Result<Option<NewsDoc>, Problem> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(Some(match news {
                    QueuedItem::News(news) => news,
                    QueuedItem::Event(event) => NewsDoc::Event(Box::new(EventDoc::from(&*event))),
                }));
            }
            if self.may_be_over && self.is_over().await? {
                return Ok(None);
            }
            let was_stalled = self.follower.is_stalled();
            match self.follower.next().await? {
                Followed::Stalled(found) => self.news.push_back(QueuedItem::News(self.stalled(found))),
                Followed::Events(events) => {
                    self.after = events.last().map_or(self.after, |last| last.seq);
                    self.may_be_over = events.iter().any(|recorded| recorded.event.may_be_last());
                    if was_stalled {
                        let moving = NewsDoc::Moving(MovingNewsDoc {
                            at: self.now(),
                            run: self.run.clone(),
                            kind: MOVING.to_owned(),
                        });
                        self.news.push_back(QueuedItem::News(moving));
                    }
                    self.news.extend(events.into_iter().map(|event| QueuedItem::Event(Box::new(event))));
                }
            }
        }
    }

    /// Whether the run is over and the follower has the whole log. A retry or a jump may have reopened an ended run.
    async fn is_over(&self) -> Result<bool, Problem> {
        let summary = self.client.get(&self.run).await?;
        Ok(summary.status.is_terminal() && summary.as_of <= self.after)
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.client.ledger().clock.now())
    }

    fn stalled(&self, Found { run, at, diagnosis }: Found) -> NewsDoc {
        NewsDoc::Stalled(StalledNewsDoc {
            after: at,
            at: self.now(),
            evidence: diagnosis.evidence,
            remedy: with_commands(&diagnosis.remedy.describe()),
            rule: diagnosis.rule,
            rule_name: Some(super::healing::name(diagnosis.rule)),
            run,
            kind: STALLED.to_owned(),
        })
    }
}
