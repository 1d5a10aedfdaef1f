//! Wakes waiters when the database may have changed: at once after own commits, by polling after others'.
//!
//! Invariant: while there are waiters, exactly one of them polls for commits of other processes. It polls often after
//! each write notice, then with a growing pause, so an idle database costs next to nothing.

use std::path::Path;
use std::time::Duration;

use goldseam_store::StoreError;
use tokio::sync::{Mutex, watch};

use crate::notice::Notices;
use crate::writer::Writer;

/// Interval between two polls on a system without write notices.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Pause after the poll that a notice causes: the commit becomes readable about now.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Longest pause, in case a notice is lost.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The mark of the latest change that this process knows of.
#[derive(Debug)]
pub(crate) struct Watch {
    mark: watch::Sender<u64>,
    baton: Mutex<()>,
    notices: Option<Notices>,
}

impl Watch {
    /// The watch of a database that was just opened.
    pub(crate) fn of(path: &Path) -> Self {
        Self { mark: watch::Sender::new(1), baton: Mutex::new(()), notices: Notices::of(path) }
    }

    /// Something changed.
    pub(crate) fn bump(&self) {
        self.mark.send_modify(|mark| *mark += 1);
    }

    /// Waits until the mark is not `seen`.
    pub(crate) async fn changed(&self, seen: u64, writer: &Writer) -> Result<u64, StoreError> {
        let mut marks = self.mark.subscribe();
        let told = async {
            match marks.wait_for(|mark| *mark != seen).await {
                Ok(mark) => *mark,
                Err(_) => unreachable!("the sender lives as long as the watch"),
            }
        };
        tokio::select! {
            biased;
            mark = told => Ok(mark),
            error = self.look(writer) => Err(error),
        }
    }

    /// Looks for others' commits for as long as this waiter waits; returns only if it cannot look.
    async fn look(&self, writer: &Writer) -> StoreError {
        let _baton = self.baton.lock().await;
        let mut pace = Polling::default();
        loop {
            match writer.peek().await {
                Ok(()) | Err(StoreError::Busy { .. }) => {}
                Err(error) => return error,
            }
            let Some(notices) = &self.notices else {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            };
            let noticed = tokio::time::timeout(pace.pause, notices.next()).await.is_ok();
            pace.advance(noticed);
        }
    }
}

/// When the polling waiter polls next.
#[derive(Debug)]
struct Polling {
    /// Until the next poll, unless a notice comes first.
    pause: Duration,
}

impl Default for Polling {
    fn default() -> Self {
        Self { pause: PAUSE_MIN }
    }
}

impl Polling {
    /// Sets the pause after the next poll. It grows even if notices follow one another, so a busy database is not
    /// polled without a pause.
    fn advance(&mut self, noticed: bool) {
        self.pause = match noticed && self.pause >= LOOK_EVERY {
            true => PAUSE_MIN,
            false => (self.pause * 4).min(PAUSE_MAX),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls within a minute, with a notice at this interval.
    fn polls_in_a_minute(notice_every: Duration) -> u32 {
        let (mut pace, mut now, mut polls) = (Polling::default(), Duration::ZERO, 0);
        let mut notice = notice_every;
        while now < Duration::from_secs(60) {
            let noticed = notice <= now + pace.pause;
            now = if noticed { notice.max(now) } else { now + pace.pause };
            notice = if noticed { now + notice_every } else { notice };
            pace.advance(noticed);
            polls += 1;
        }
        polls
    }

    #[test]
    fn an_idle_database_is_polled_once_a_second() {
        assert!((60..=65).contains(&polls_in_a_minute(Duration::MAX)));
    }

    #[test]
    fn polls_soon_and_then_more_rarely_after_a_notice() {
        let mut pace = Polling { pause: PAUSE_MAX };
        pace.advance(true);
        let mut after = Vec::new();
        for _ in 0..4 {
            after.push(pace.pause.as_millis());
            pace.advance(false);
        }
        assert_eq!(after, [2, 8, 32, 128]);
    }

    #[test]
    fn polls_stay_rare_under_load() {
        let polls = polls_in_a_minute(Duration::from_millis(5));
        assert!(polls < 60 * 250, "{polls}");
        let beats = polls_in_a_minute(Duration::from_secs(2));
        assert!(beats < 60 * 5, "{beats}");
    }
}
