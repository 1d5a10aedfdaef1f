//! Following a run: a follower learns when the run is stalled, and why (rule F1).
//!
//! Invariant: a follower reads the log, never the memory of a process, so it sees the same events wherever the run
//! executes.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::recovery::Owner;
use goldseam_core::{Recorded, RunId, Seq};
use tokio::sync::{Semaphore, watch};

use crate::client::Client;
use crate::heal::Found;
use crate::ledger::error::EngineError;
use crate::ledger::page::Most;

/// How long a run is silent before a follower checks whether it is stalled, and the interval of quick checks.
const QUIET: Duration = Duration::from_secs(2);
/// Longest pause between two examinations of a silent run.
const EXAMINE_MAX: Duration = Duration::from_secs(60);
/// Events per read of the store.
const PAGE: u32 = 500;
/// Maximum bytes per read of a follower with permits. There may be thousands of followers.
const KEPT_BYTES: usize = 16 * 1024;
/// Events in its first read, before their size is known.
const FIRST: u32 = 8;

/// What a follower reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// New events.
    Events(Vec<Recorded>),
    /// The run is stalled. Reported once; new events show that it moves again.
    Stalled(Found),
}

/// A follower of one run.
#[derive(Debug)]
pub struct Follower {
    client: Client,
    run: RunId,
    after: Seq,
    mark: u64,
    /// Wake-ups from a reader that serves many followers; none: this follower polls the store.
    wake: Option<watch::Receiver<Arc<[Recorded]>>>,
    /// Permits to read; none: this follower reads without limits.
    turns: Option<Arc<Semaphore>>,
    /// Limits of the next read.
    most: Most,
    /// Whether all known events were reported, so only a wake-up requires a read.
    has_all: bool,
    /// [`QUIET`], or longer if the store's pace requires it.
    quiet: Duration,
    /// When the last events arrived.
    last_event: Duration,
    glance_at: Duration,
    examine_at: Duration,
    reported_stall: bool,
}

impl Client {
    /// Follows a run from `after` on, and reports when it is stalled.
    ///
    /// ```
    /// use goldseam::Seq;
    /// use goldseam::healer::follow::Followed;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let mut follower = client.follower(run.id().clone(), Seq::ZERO);
    /// match follower.next().await? {
    ///     Followed::Events(events) => assert_eq!(events[0].event.name(), "run.queued"),
    ///     Followed::Stalled(found) => println!("{}: {}", found.diagnosis.rule, found.diagnosis.evidence),
    /// }
    /// assert!(!follower.is_stalled());
    /// # Ok(()) }
    /// ```
    pub fn follower(&self, run: RunId, after: Seq) -> Follower {
        let last_event = self.ledger().clock.elapsed();
        let quiet = QUIET.max(self.store().pace().watch);
        let glance_at = last_event + quiet;
        let examine_at = last_event + quiet;
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
            last_event,
            glance_at,
            examine_at,
            reported_stall: false,
        }
    }
}

impl Follower {
    /// Wakes the follower by this channel instead of by polling, so one reader serves many followers. The channel may
    /// carry the latest events of the run or nothing; the follower reads events that do not continue at its position.
    #[must_use]
    pub fn woken_by(mut self, wake: watch::Receiver<Arc<[Recorded]>>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Limits reads by these permits and reads little at a time. Use it for many followers in one process: thousands
    /// of them that start at the beginning of a long log then do not starve other work.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use goldseam::Seq;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let (wake, woken) = tokio::sync::watch::channel(Arc::from([]));
    /// let turns = Arc::new(tokio::sync::Semaphore::new(8));
    /// let mut follower = client.follower(run.id().clone(), Seq::ZERO).woken_by(woken).in_turn(turns);
    /// wake.send_replace(client.history(run.id()).await?.into());
    /// follower.next().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn in_turn(mut self, turns: Arc<Semaphore>) -> Self {
        self.turns = Some(turns);
        self.most = Most { events: FIRST, bytes: KEPT_BYTES };
        self
    }

    /// Whether the run was stalled at the last report.
    pub fn is_stalled(&self) -> bool {
        self.reported_stall
    }

    /// Returns the next events, or a stall. A stall is reported once.
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
                self.note_events();
                return Ok(Followed::Events(events));
            }
            if let Some(found) = self.stalled().await? {
                self.reported_stall = true;
                return Ok(Followed::Stalled(found));
            }
            self.wait().await?;
        }
    }

    /// Reads the next events, after acquiring a permit.
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

    /// Events from the shared reader, if they continue at this follower's position.
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

    /// Waits for a change. A woken follower still reads from time to time.
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

    fn note_events(&mut self) {
        self.last_event = self.client.ledger().clock.elapsed();
        self.glance_at = self.last_event + self.quiet;
        self.examine_at = self.last_event + self.quiet;
        self.reported_stall = false;
    }

    /// Checks the owner often, and reads the whole log less and less often.
    async fn stalled(&mut self) -> Result<Option<Found>, EngineError> {
        let now = self.client.ledger().clock.elapsed();
        if self.reported_stall || now < self.glance_at {
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
        self.examine_at = now + now.saturating_sub(self.last_event).min(EXAMINE_MAX);
        let examined = healer.examine(&self.run, &liveness).await?;
        Ok(examined.found.into_iter().find(|found| found.at <= self.after))
    }
}
