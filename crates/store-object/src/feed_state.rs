//! What this process knows of the feed, and when it may look again.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
#[cfg(feature = "testing")]
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::RunId;

use crate::clock::MonotonicTime;
use crate::feed_log::{FeedEnds, FeedPage};
use crate::url::RequestCost;

/// Pause between two lists, for each request that a list takes.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// The same where requests cost nothing.
const LIST_FREE_EVERY: Duration = Duration::from_millis(20);
/// Pause between two pages with appends of this process only.
const PAGE_EVERY: Duration = Duration::from_millis(250);
/// Longest pause between two lists that find nothing, as a multiple of the shortest.
const QUIET_MAX: u32 = 5;
/// Most pages that are remembered.
const REMEMBERED_MAX: usize = 128;
/// How long after the last read of the feed appends of this process are noted.
const FOLLOWED: Duration = Duration::from_secs(600);

/// The feed as this process knows it.
#[derive(Debug, Default)]
pub(crate) struct FeedState {
    /// Held while the feed is extended.
    pub(crate) extending: tokio::sync::Mutex<Extender>,
    /// The last page that this process knows; 0 before the first read.
    pub(crate) known_end: AtomicU64,
    pub(crate) pages: Mutex<RecentPages>,
    pub(crate) own: Mutex<OwnAppends>,
}

/// What a process needs to extend the feed.
#[derive(Debug, Default)]
pub(crate) struct Extender {
    /// None before the first read.
    pub(crate) ends: Option<FeedEnds>,
    /// The page of the latest checkpoint.
    pub(crate) checkpoint: u64,
    pub(crate) listed_at: Option<MonotonicTime>,
    /// Number of requests of the last list.
    pub(crate) list_requests: u32,
    /// Number of lists since the last one that found something.
    pub(crate) quiet_lists: u32,
    pub(crate) paged_at: Option<MonotonicTime>,
}

/// The latest pages that were read or written.
#[derive(Debug, Default)]
pub(crate) struct RecentPages(pub(crate) BTreeMap<u64, Arc<FeedPage>>);

/// Appends of this process that may not be in the feed.
#[derive(Debug, Default)]
pub(crate) struct OwnAppends {
    pub(crate) read_at: Option<MonotonicTime>,
    pub(crate) last_batches: HashMap<RunId, u64>,
}

impl FeedState {
    pub(crate) fn own(&self) -> MutexGuard<'_, OwnAppends> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pages(&self) -> MutexGuard<'_, RecentPages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an append of this process, if this process reads the feed.
    pub(crate) fn note_append(&self, run: &RunId, batch: u64) {
        let mut own = self.own();
        match own.read_at {
            Some(at) if at.elapsed() < FOLLOWED => {
                let last = own.last_batches.entry(run.clone()).or_default();
                *last = (*last).max(batch);
            }
            Some(_) => *own = OwnAppends::default(),
            None => {}
        }
    }

    pub(crate) fn remember(&self, number: u64, page: Arc<FeedPage>) {
        let mut recent = self.pages();
        let RecentPages(pages) = &mut *recent;
        pages.insert(number, page);
        while pages.len() > REMEMBERED_MAX {
            pages.pop_first();
        }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.pages().0.clear();
        self.known_end.store(0, Ordering::SeqCst);
        if let Ok(mut extender) = self.extending.try_lock() {
            *extender = Extender::default();
        }
    }
}

impl Extender {
    /// Whether enough time has passed since the last list for what it cost.
    pub(crate) fn is_list_due(&self, requests: RequestCost) -> bool {
        let each = match requests {
            RequestCost::Free => LIST_FREE_EVERY,
            RequestCost::Paid => LIST_EVERY,
        };
        let factor = self.list_requests.max(1).saturating_mul(self.quiet_lists.clamp(1, QUIET_MAX));
        self.listed_at.is_none_or(|at| at.elapsed() >= each.saturating_mul(factor))
    }

    pub(crate) fn is_page_due(&self, requests: RequestCost) -> bool {
        requests == RequestCost::Free || self.paged_at.is_none_or(|at| at.elapsed() >= PAGE_EVERY)
    }
}
