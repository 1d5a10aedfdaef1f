//! Wakes waiters when the database may have changed: at once after own commits, by polling after others'.
//!
//! Invariant: while there are waiters, exactly one of them polls for commits of other processes. It polls often after
//! each write notice, then with a growing pause, so an idle database costs next to nothing.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use goldseam_store::{ChangeMark, StoreError};
use tokio::sync::Mutex;

use crate::notice::Notices;

/// Interval between two polls on a system without write notices.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// Pause after the poll that a notice causes: the commit becomes readable about now.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// The same if the notice is about an own commit.
const PAUSE_OWN: Duration = Duration::from_millis(32);
/// By how much pauses grow.
const GROWTH: u32 = 4;
/// Longest pause, in case a notice is lost.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The latest change that this process knows of, and which waiter looks for others.
#[derive(Debug)]
pub(crate) struct FileWatch {
    mark: ChangeMark,
    /// Held by the waiter that polls.
    polling: Mutex<()>,
    notices: Option<Notices>,
    own_commits: AtomicU64,
}

impl FileWatch {
    /// Creates the watch of a database that was just opened.
    pub(crate) fn of(path: &Path) -> Self {
        Self {
            mark: ChangeMark::default(),
            polling: Mutex::new(()),
            notices: Notices::of(path),
            own_commits: AtomicU64::new(0),
        }
    }

    /// Records a commit of this process, and wakes waiters if it concerns them.
    pub(crate) fn committed(&self, concerns_waiters: bool) {
        self.own_commits.fetch_add(1, Ordering::Relaxed);
        if concerns_waiters {
            self.bump();
        }
    }

    /// Wakes waiters.
    pub(crate) fn bump(&self) {
        self.mark.bump();
    }

    /// Waits until the mark is not `seen`. Calls `peek` to check for commits of other processes; `peek` bumps this
    /// watch if there are any.
    pub(crate) async fn changed<F, Fut>(&self, seen: u64, peek: F) -> Result<u64, StoreError>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<(), StoreError>>,
    {
        tokio::select! {
            biased;
            mark = self.mark.differs(seen) => Ok(mark),
            error = self.poll(peek) => Err(error),
        }
    }

    /// Polls for commits of other processes. Returns only if a poll fails.
    async fn poll<F, Fut>(&self, peek: F) -> StoreError
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<(), StoreError>>,
    {
        let _only_poller = self.polling.lock().await;
        let mut pauses = Polling::default();
        loop {
            match peek().await {
                Ok(()) | Err(StoreError::Busy { .. }) => {}
                Err(error) => return error,
            }
            let Some(notices) = &self.notices else {
                tokio::time::sleep(POLL_EVERY).await;
                continue;
            };
            let noticed = tokio::time::timeout(pauses.pause, notices.next()).await.is_ok();
            pauses.advance(noticed, self.own_commits.load(Ordering::Relaxed));
        }
    }
}

/// When the polling waiter polls next.
#[derive(Debug)]
struct Polling {
    /// Until the next poll, unless a notice comes first.
    pause: Duration,
    /// By how much the pause grows.
    growth: u32,
    /// Own commits so far.
    own_commits: u64,
}

impl Default for Polling {
    fn default() -> Self {
        Self { pause: PAUSE_MIN, growth: GROWTH, own_commits: 0 }
    }
}

impl Polling {
    /// Sets the pause after the next poll. It grows even if notices follow one another, so a busy database is not
    /// polled without a pause. A notice after an own commit is most likely about that commit: one more poll will do.
    fn advance(&mut self, noticed: bool, own_commits: u64) {
        let is_own = std::mem::replace(&mut self.own_commits, own_commits) != own_commits;
        (self.pause, self.growth) = match noticed && self.pause >= POLL_EVERY {
            true if is_own => (PAUSE_OWN, u32::MAX),
            true => (PAUSE_MIN, GROWTH),
            false => (self.pause.saturating_mul(self.growth).min(PAUSE_MAX), self.growth),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Polls within a minute, with a notice at this interval, each about an own commit or about one of another process.
    fn polls_in_a_minute(notice_every: Duration, own: bool) -> u32 {
        let mut pace = Polling::default();
        let mut now = Duration::ZERO;
        let mut polls = 0;
        let mut commits = 0;
        let mut notice = notice_every;
        while now < MINUTE {
            let noticed = notice <= now + pace.pause;
            now = if noticed { notice.max(now) } else { now + pace.pause };
            notice = if noticed { now + notice_every } else { notice };
            commits += u64::from(noticed && own);
            pace.advance(noticed, commits);
            polls += 1;
        }
        polls
    }

    #[test]
    fn polls_an_idle_database_every_five_seconds() {
        assert!((12..=20).contains(&polls_in_a_minute(Duration::MAX, false)));
    }

    #[test]
    fn polls_soon_and_then_more_rarely_after_a_notice() {
        let pauses = |own_commits: u64| {
            let mut pace = Polling { pause: PAUSE_MAX, ..Polling::default() };
            pace.advance(true, own_commits);
            [(); 4].map(|()| {
                let pause = pace.pause.as_millis();
                pace.advance(false, own_commits);
                pause
            })
        };
        assert_eq!(pauses(0), [2, 8, 32, 128]);
        assert_eq!(pauses(1), [32, 5_000, 5_000, 5_000], "an own commit");
    }

    #[test]
    fn polls_stay_rare_under_load() {
        for own in [false, true] {
            let polls = polls_in_a_minute(Duration::from_millis(10), own);
            assert!(polls <= 60 * 250, "{polls}");
        }
        let polls = polls_in_a_minute(Duration::from_secs(2), true);
        assert!(polls <= 60 * 3, "a beat every two seconds: {polls}");
    }
}
