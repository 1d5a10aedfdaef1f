//! Following a run: its log first, then what comes, until the run is over.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use goldseam::core::Recorded;
use goldseam::healer::Found;
use goldseam::healer::follow::{Followed, Follower};
use goldseam::{Client, RunId, Seq};
use tokio::sync::{Semaphore, watch};

use super::Local;
use crate::api::{Answer, Following};
use crate::doc::event::{EventDoc, MOVING, MovingNews, News, STALLED, StalledNews};
use crate::moment::Moment;
use crate::problem::Problem;

impl Local {
    pub(super) async fn follow_run(&self, run: &RunId, after: Seq) -> Answer<Following> {
        self.followed(self.client.follower(run.clone(), after), run, after).await
    }

    /// The same for one of many followers: woken by a shared watch ([`Follower::woken_by`]), and reading with a permit
    /// ([`Follower::in_turn`]).
    pub async fn follow_among(
        &self,
        run: &RunId,
        after: Seq,
        (wake, turns): (watch::Receiver<Arc<[Recorded]>>, Arc<Semaphore>),
    ) -> Answer<Following> {
        let follower = self.client.follower(run.clone(), after).woken_by(wake).in_turn(turns);
        self.followed(follower, run, after).await
    }

    async fn followed(&self, follower: Follower, run: &RunId, after: Seq) -> Answer<Following> {
        self.client.get(run).await?;
        let (client, run) = (self.client.clone(), run.clone());
        let tail = Tail { client, run, follower, after, news: VecDeque::new(), may_be_over: true };
        let next = |tail: Option<Tail>| async move {
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
enum Pending {
    News(News),
    /// Converted when it is sent: a follower that does not read must not hold many documents.
    Event(Box<Recorded>),
}

/// Somebody who follows one run.
struct Tail {
    client: Client,
    run: RunId,
    follower: Follower,
    after: Seq,
    news: VecDeque<Pending>,
    /// Nothing is known yet, or what was told last may have ended it.
    may_be_over: bool,
}

impl Tail {
    /// The next piece of news; none once the run is over and all of it was told.
    async fn next(&mut self) -> Result<Option<News>, Problem> {
        loop {
            if let Some(news) = self.news.pop_front() {
                return Ok(Some(match news {
                    Pending::News(news) => news,
                    Pending::Event(event) => News::Event(Box::new(EventDoc::from(&*event))),
                }));
            }
            if self.may_be_over && self.is_over().await? {
                return Ok(None);
            }
            let was_stalled = self.follower.is_stalled();
            match self.follower.next().await? {
                Followed::Stalled(found) => self.news.push_back(Pending::News(self.stalled(found))),
                Followed::Events(events) => {
                    self.after = events.last().map_or(self.after, |last| last.seq);
                    self.may_be_over = events.iter().any(|recorded| recorded.event.may_be_last());
                    if was_stalled {
                        let (at, run) = (self.now(), self.run.clone());
                        let moving = News::Moving(MovingNews { at, run, kind: MOVING.to_owned() });
                        self.news.push_back(Pending::News(moving));
                    }
                    self.news.extend(events.into_iter().map(|event| Pending::Event(Box::new(event))));
                }
            }
        }
    }

    /// Whether the run is over and all of it was told. One that was over may have been tried again.
    async fn is_over(&self) -> Result<bool, Problem> {
        let summary = self.client.get(&self.run).await?;
        Ok(summary.status.is_terminal() && summary.as_of <= self.after)
    }

    fn now(&self) -> Moment {
        Moment(self.client.ledger().clock.now())
    }

    fn stalled(&self, Found { run, at, diagnosis }: Found) -> News {
        News::Stalled(StalledNews {
            after: at,
            at: self.now(),
            evidence: diagnosis.evidence,
            remedy: diagnosis.remedy.describe(),
            rule: diagnosis.rule,
            run,
            kind: STALLED.to_owned(),
        })
    }
}
