//! Following a run: whoever follows one that nobody moves is told so, and why (rule F1).
//!
//! Invariant: the log is what is followed, never memory. A follower sees the same whoever executes the run.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::planted::{self, Bug};
use goldseam_core::recovery::Owner;
use goldseam_core::{Recorded, RunId, Seq};
use tokio::sync::{Semaphore, watch};

use crate::client::Client;
use crate::heal::Found;
use crate::ledger::error::EngineError;
use crate::ledger::page::Most;

/// How long a run is silent before a follower looks whether it is stalled, and between two quick looks.
const QUIET: Duration = Duration::from_secs(2);
/// Longest pause between two examinations of a run that was well so far.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// Events that are read at a time.
const PAGE: u32 = 500;
/// Bytes that a follower in turn holds in memory: there may be thousands of followers.
const KEPT_BYTES: usize = 16 * 1024;
/// Events in its first read: their size is not known before.
const FIRST: u32 = 8;

/// What a follower is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// What happened.
    Events(Vec<Recorded>),
    /// Nothing happens although it should. Told once; the next events say that it moves again.
    Stalled(Found),
}

/// Somebody who follows one run.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    run: RunId,
    after: Seq,
    mark: u64,
    /// Whoever looks for many; none: this one looks itself.
    wake: Option<watch::Receiver<Arc<[Recorded]>>>,
    /// Permits to read; none: this follower reads at once.
    turns: Option<Arc<Semaphore>>,
    /// Bounds of its next read.
    most: Most,
    /// Everything that there was has been told: only something new is worth a look.
    has_all: bool,
    /// [`QUIET`], or longer if the store wants it so.
    quiet: Duration,
    /// When something was last heard.
    heard: Duration,
    glance_at: Duration,
    examine_at: Duration,
    told: bool,
}

impl Client {
    /// Follows a run from `after` on, and tells when it is stalled.
    pub fn follower(&self, run: RunId, after: Seq) -> Follower {
        let after = if planted::is(Bug::FollowSkips) && after > Seq::ZERO { after.next() } else { after };
        let heard = self.ledger().clock.elapsed();
        let quiet = QUIET.max(self.store().pace().watch);
        let (glance_at, examine_at) = (heard + quiet, heard + quiet);
        Follower {
            client: self.clone(),
            run,
            after,
            mark: 0,
            wake: None,
            turns: None,
            most: Most::events(PAGE),
            has_all: false,
            quiet,
            heard,
            glance_at,
            examine_at,
            told: false,
        }
    }
}

impl Follower {
    /// The same follower, woken whenever this changes instead of asking the store itself: one look at the store then
    /// does for many followers. What it is handed may be the latest events of the run, or nothing: it reads what
    /// does not go on where it is.
    #[must_use]
    pub fn woken_by(mut self, wake: watch::Receiver<Arc<[Recorded]>>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// The same follower, which reads only with one of these permits, and little at a time. Use it for many followers
    /// of one process: thousands that begin at the start of a long log then do not starve other work.
    #[must_use]
    pub fn in_turn(mut self, turns: Arc<Semaphore>) -> Self {
        self.turns = Some(turns);
        self.most = Most { events: FIRST, bytes: KEPT_BYTES };
        self
    }

    /// Whether the run was stalled when it was last heard of.
    pub fn is_stalled(&self) -> bool {
        self.told
    }

    /// The next events, or that there are none because the run is stalled. A stalled run is told once.
    pub async fn next(&mut self) -> Result<Followed, EngineError> {
        loop {
            let handed = self.handed();
            let events = match handed {
                Some(events) => events,
                None if self.has_all => Vec::new(),
                None => self.read().await?,
            };
            if let Some(last) = events.last() {
                self.after = last.seq;
                self.hear();
                return Ok(Followed::Events(events));
            }
            if let Some(found) = self.stalled().await? {
                self.told = true;
                return Ok(Followed::Stalled(found));
            }
            self.wait().await?;
        }
    }

    /// Reads the next events, once there is a permit.
    async fn read(&mut self) -> Result<Vec<Recorded>, EngineError> {
        let _turn = match &self.turns {
            Some(turns) => turns.acquire().await.ok(),
            None => None,
        };
        let (events, is_cut) = self.client.events_after(&self.run, self.after, self.most).await?;
        if self.turns.is_some() {
            let read = u32::try_from(events.len()).unwrap_or(PAGE);
            self.most.events = match is_cut {
                true => read.clamp(1, PAGE),
                false if read == self.most.events => (read * 2).min(PAGE),
                false => self.most.events,
            };
        }
        Ok(events)
    }

    /// What whoever looks for many has found, if it goes on where this one is.
    fn handed(&mut self) -> Option<Vec<Recorded>> {
        let page = Arc::clone(&self.wake.as_mut()?.borrow_and_update());
        let goes_on = page.first().is_some_and(|first| first.seq <= self.after.next());
        let new: Vec<Recorded> = match goes_on {
            true => page.iter().filter(|recorded| recorded.seq > self.after).cloned().collect(),
            false => Vec::new(),
        };
        self.has_all = goes_on && (self.has_all || !new.is_empty());
        (!new.is_empty()).then_some(new)
    }

    /// Waits until there may be something new. Whoever is woken still looks by itself now and then.
    async fn wait(&mut self) -> Result<(), EngineError> {
        self.has_all = false;
        if let Some(wake) = &mut self.wake {
            let woken = tokio::time::timeout(self.quiet, wake.changed()).await;
            if !matches!(woken, Ok(Err(_))) {
                return Ok(());
            }
            self.wake = None;
        }
        self.mark = self.client.wait_for_change(self.mark).await?;
        Ok(())
    }

    fn hear(&mut self) {
        self.heard = self.client.ledger().clock.elapsed();
        (self.glance_at, self.examine_at) = (self.heard + self.quiet, self.heard + self.quiet);
        self.told = false;
    }

    /// A glance at the owner every other moment; the whole log is read less and less often.
    async fn stalled(&mut self) -> Result<Option<Found>, EngineError> {
        let now = self.client.ledger().clock.elapsed();
        if self.told || now < self.glance_at {
            return Ok(None);
        }
        self.glance_at = now + self.quiet;
        let healer = self.client.healer();
        let liveness = healer.liveness().await?;
        let row = self.client.store().head(&self.run).await?.and_then(|head| head.row);
        let owner =
            row.map_or(Owner::None, |row| liveness.owner(row.summary.owner.as_ref(), row.summary.claimed_at));
        if now < self.examine_at && !matches!(owner, Owner::Lost { .. }) {
            return Ok(None);
        }
        self.examine_at = now + now.saturating_sub(self.heard).min(LOOK_MAX);
        let examined = healer.examine(&self.run, &liveness).await?;
        Ok(examined.found.into_iter().find(|found| found.at <= self.after))
    }
}
