//! A walk over everything under `workflow/`: what no marker and no row tells is found by what is there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::RunId;
use goldseam_store::StoreError;

use crate::bucket::Tag;
use crate::clock::Moment;
use crate::keys::{self, Part};
use crate::store::Inner;

/// A walk of so many pages is made whenever somebody asks.
const CHEAP: usize = 20;
/// A sweep asks for rows right after it asked for runs without one: what did not change meanwhile is not read again.
const A_MOMENT: Duration = Duration::from_secs(10);
/// Keys on a page.
const PAGE: usize = 1_000;
/// How often a page is paid for where a walk has more of them: a walk over a million runs takes thousands, and
/// what it looks for happens only if somebody removes objects.
const PAGE_EVERY: Duration = Duration::from_secs(5);

/// Names that no run can have of which a walk tells.
const UNNAMED_MAX: usize = 100;
/// Foreign states that are remembered as settled; more of them are read with every sweep.
const SETTLED_MAX: usize = 1_000_000;

/// What the last walk found.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    last: Mutex<Option<Walk>>,
    /// Versions of foreign states that need no further look.
    settled: Mutex<HashMap<RunId, String>>,
}

#[derive(Debug, Clone)]
struct Walk {
    at: Moment,
    pages: usize,
    /// Runs with a log and without a state.
    rowless: BTreeSet<RunId>,
    /// States without a log.
    foreign: BTreeSet<RunId>,
    /// Names of states that no run can have; some of them.
    unnamed: Vec<String>,
    /// What each state was; of those with a log, unless there are too many to remember.
    states: HashMap<RunId, Tag>,
}

impl Walks {
    fn settled(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, String>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This version of a foreign state needs no further look.
    pub(crate) fn settle(&self, run: &RunId, version: &str) {
        let mut settled = self.settled();
        if settled.len() < SETTLED_MAX {
            settled.insert(run.clone(), version.to_owned());
        }
    }

    /// Whether a state had this content a moment ago.
    pub(crate) fn had(&self, run: &RunId, tag: &Tag) -> bool {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref()
            .filter(|walk| walk.at.elapsed() < A_MOMENT)
            .is_some_and(|walk| walk.states.get(run).is_some_and(|seen| seen.is(tag)))
    }
}

impl Inner {
    async fn walk(&self) -> Result<Walk, StoreError> {
        {
            let last = self.walks.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(walk) = last.as_ref()
                && walk.pages > CHEAP
                && walk.at.elapsed()
                    < PAGE_EVERY.saturating_mul(u32::try_from(walk.pages).unwrap_or(u32::MAX))
            {
                return Ok(walk.clone());
            }
        }
        let at = Moment::now();
        let listed = self.bucket.list(keys::WORKFLOWS, None, usize::MAX).await?;
        let pages = listed.len() / PAGE + 1;
        let mut parts: BTreeMap<RunId, (bool, bool)> = BTreeMap::new();
        let (mut states, mut unnamed) = (HashMap::new(), Vec::new());
        for entry in listed {
            let Some((run, part)) = keys::part(&entry.key) else {
                unnamed.extend(keys::unnamed(&entry.key).filter(|_| unnamed.len() < UNNAMED_MAX));
                continue;
            };
            if part == Part::State {
                states.insert(run.clone(), entry.tag);
            }
            let (log, state) = parts.entry(run).or_default();
            match part {
                Part::Batch(_) => *log = true,
                Part::State => *state = true,
            }
        }
        let these = |wanted: (bool, bool)| {
            parts.iter().filter(|(_, is)| **is == wanted).map(|(run, _)| run.clone()).collect::<BTreeSet<_>>()
        };
        let (rowless, foreign) = (these((true, false)), these((false, true)));
        if pages > CHEAP {
            states.retain(|run, _| foreign.contains(run));
        }
        let walk = Walk { at, pages, rowless, foreign, unnamed, states };
        *self.walks.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(walk.clone());
        Ok(walk)
    }

    /// Runs with a log and without a row, in order of id.
    pub(crate) async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.write_all_late().await?;
        let walk = self.walk().await?;
        let behind = walk.rowless.into_iter().filter(|run| after.is_none_or(|after| run > after));
        let mut rowless = Vec::new();
        for run in behind {
            if rowless.len() >= limit as usize {
                break;
            }
            // The walk may be a while ago.
            if walk.pages <= CHEAP || self.row(&run).await?.is_none() {
                rowless.push(run);
            }
        }
        if after.is_none() {
            self.tidy_active().await?;
        }
        Ok(rowless)
    }

    /// States without a log, in order of id, but for those that are settled and have not changed.
    pub(crate) async fn foreign_ids(&self) -> Result<BTreeSet<RunId>, StoreError> {
        let Walk { mut foreign, states, .. } = self.walk().await?;
        let mut settled = self.walks.settled();
        settled.retain(|run, _| foreign.contains(run));
        let is_settled = |run: &RunId| {
            let version = settled.get(run).zip(states.get(run));
            version.is_some_and(|(version, tag)| tag.name() == *version)
        };
        foreign.retain(|run| !is_settled(run));
        Ok(foreign)
    }

    /// Names of states that no run can have; some of them.
    pub(crate) async fn unnamed_states(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.walk().await?.unnamed)
    }
}
