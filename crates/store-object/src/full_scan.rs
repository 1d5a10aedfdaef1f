//! Full scans of `workflow/`: they find what no marker and no row names, such as logs without rows and states of
//! other systems.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::RunId;
use goldseam_store::StoreError;

use crate::bucket::{BucketPrefix, ObjectTag};
use crate::clock::MonotonicTime;
use crate::keys::{self, Part};

/// A scan of at most this number of pages is repeated for every caller.
pub(crate) const CHEAP_PAGES_MAX: usize = 20;
/// A sweep asks for rows right after it asked for runs without rows: within this time an unchanged row is not read
/// again.
const RECENT: Duration = Duration::from_secs(10);
/// Keys on a page.
const PAGE: usize = 1_000;
/// A larger scan is repeated at most once in this time per page: a scan of a million runs takes thousands of requests,
/// and what it looks for happens only if objects are removed.
const PAGE_EVERY: Duration = Duration::from_secs(5);
/// Most invalid run names that a scan keeps.
const INVALID_NAMES_MAX: usize = 100;
/// Most foreign states that are remembered as settled; further ones are read with every sweep.
const SETTLED_MAX: usize = 1_000_000;

/// The last scan, and the foreign states that need no further look.
#[derive(Debug, Default)]
pub(crate) struct FullScans {
    last: Mutex<Option<Arc<Scan>>>,
    /// Versions of settled foreign states.
    settled: Mutex<HashMap<RunId, String>>,
}

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scan {
    at: MonotonicTime,
    pub(crate) pages: usize,
    /// Runs with a log and without a state.
    pub(crate) rowless: BTreeSet<RunId>,
    /// States without a log.
    foreign: BTreeSet<RunId>,
    /// Names of states that are not valid run ids; at most [`INVALID_NAMES_MAX`].
    pub(crate) invalid_names: Vec<String>,
    /// The tag of each state; only of foreign states if the scan is not cheap.
    states: HashMap<RunId, ObjectTag>,
}

impl FullScans {
    fn last(&self) -> MutexGuard<'_, Option<Arc<Scan>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settled(&self) -> MutexGuard<'_, HashMap<RunId, String>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that this version of a foreign state needs no further look.
    pub(crate) fn settle(&self, run: &RunId, version: &str) {
        let mut settled = self.settled();
        if settled.len() < SETTLED_MAX {
            settled.insert(run.clone(), version.to_owned());
        }
    }

    /// Whether a recent scan found the state of a run with this tag.
    pub(crate) fn saw_recently(&self, run: &RunId, tag: &ObjectTag) -> bool {
        self.last()
            .as_ref()
            .filter(|scan| scan.at.elapsed() < RECENT)
            .is_some_and(|scan| scan.states.get(run).is_some_and(|seen| seen.is(tag)))
    }

    /// The last scan, if it was expensive and is not yet due again.
    fn last_if_expensive(&self) -> Option<Arc<Scan>> {
        let last = self.last();
        let scan = last.as_ref().filter(|scan| scan.pages > CHEAP_PAGES_MAX)?;
        let age_max = PAGE_EVERY.saturating_mul(u32::try_from(scan.pages).unwrap_or(u32::MAX));
        (scan.at.elapsed() < age_max).then(|| Arc::clone(scan))
    }

    /// Scans `workflow/`, or returns the last scan if a new one would cost too much.
    pub(crate) async fn scan(&self, bucket: &BucketPrefix) -> Result<Arc<Scan>, StoreError> {
        if let Some(scan) = self.last_if_expensive() {
            return Ok(scan);
        }
        let at = MonotonicTime::now();
        let listed = bucket.list(keys::WORKFLOWS, None, usize::MAX).await?;
        let pages = listed.len() / PAGE + 1;
        let mut parts: BTreeMap<RunId, (bool, bool)> = BTreeMap::new();
        let mut states = HashMap::new();
        let mut invalid_names = Vec::new();
        for entry in listed {
            let Some((run, part)) = keys::run_part(&entry.key) else {
                let name = keys::invalid_run_name(&entry.key);
                invalid_names.extend(name.filter(|_| invalid_names.len() < INVALID_NAMES_MAX));
                continue;
            };
            if part == Part::State {
                states.insert(run.clone(), entry.tag);
            }
            let (has_log, has_state) = parts.entry(run).or_default();
            match part {
                Part::Batch(_) => *has_log = true,
                Part::State => *has_state = true,
            }
        }
        let runs_with = |wanted: (bool, bool)| {
            parts.iter().filter(|(_, is)| **is == wanted).map(|(run, _)| run.clone()).collect::<BTreeSet<_>>()
        };
        let rowless = runs_with((true, false));
        let foreign = runs_with((false, true));
        if pages > CHEAP_PAGES_MAX {
            states.retain(|run, _| foreign.contains(run));
        }
        let scan = Arc::new(Scan { at, pages, rowless, foreign, invalid_names, states });
        *self.last() = Some(Arc::clone(&scan));
        Ok(scan)
    }

    /// States without a log, without those that are settled and unchanged.
    pub(crate) async fn foreign_ids(&self, bucket: &BucketPrefix) -> Result<BTreeSet<RunId>, StoreError> {
        let scan = self.scan(bucket).await?;
        let mut settled = self.settled();
        settled.retain(|run, _| scan.foreign.contains(run));
        let is_settled = |run: &RunId| {
            let version = settled.get(run).zip(scan.states.get(run));
            version.is_some_and(|(version, tag)| tag.name() == *version)
        };
        Ok(scan.foreign.iter().filter(|run| !is_settled(run)).cloned().collect())
    }
}
