//! The retention walk that all nodes of a store share: one lock with a reserved name, changed by compare-and-set.
//!
//! Invariant: a node begins a pass only after it has taken the walk for a while, so nodes do not read the same slice.
//! Safety does not depend on it: two nodes that prune the same run do it once.

use std::time::Duration;

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::lock::Lock;
use goldseam_core::{Millis, RunId, Seq, Summary};
use goldseam_store::{Expect, LockFilter, Store, StoreError, Written};
use serde::{Deserialize, Serialize};

const NAME: IdLiteral<kind::Lock> = IdLiteral::new("goldseam.retention");
/// For how long a node takes the walk. If the node dies, others wait for this time.
const LEASE: Duration = Duration::from_secs(600);
/// Passes that may fail at one place before the walk leaves it out.
const FAILURES_MAX: u32 = 3;
/// Tombstones of a prune that began long before the first walk are left to a prune by hand.
const FIRST_CHECK: Duration = Duration::from_secs(7 * 86_400);
/// Clocks of two nodes differ less.
const CLOCK_ERROR: Duration = Duration::from_secs(3_600);

/// The progress of the walk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct RetentionWalk {
    /// The cursor of the next slice; none: a round begins.
    #[serde(default)]
    pub(super) after: Option<String>,
    /// When the next pass may begin.
    #[serde(default)]
    next_at: Millis,
    /// Number of passes that failed at this place.
    #[serde(default)]
    failures: u32,
    /// When this round began.
    #[serde(default)]
    began_at: Millis,
    /// Earlier rounds have looked at tombstones that were written before this time.
    #[serde(default)]
    checked_to: Millis,
}

impl RetentionWalk {
    /// Returns whether a pass may begin. A time that no pass sets, because a clock was wrong, does not count.
    fn is_due(&self, now: Millis) -> bool {
        now >= self.next_at || self.next_at > now + LEASE
    }

    /// Returns the walk as it is during a pass.
    fn begun(&self, now: Millis) -> Self {
        let begun = Self { next_at: now + LEASE, ..self.clone() };
        match (&self.after, self.began_at) {
            (Some(_), _) => begun,
            (None, Millis(0)) => Self { began_at: now, checked_to: now - FIRST_CHECK, ..begun },
            (None, last) => Self { began_at: now, checked_to: last - CLOCK_ERROR, ..begun },
        }
    }

    /// Returns the walk after a pass that succeeded.
    pub(super) fn advanced(&self, after: Option<String>, next_at: Millis) -> Self {
        Self { after, next_at, failures: 0, ..self.clone() }
    }

    /// Returns the walk after a pass that failed: it stays, unless the pass failed too often at this place.
    pub(super) fn failed(&self, after: Option<String>, next_at: Millis) -> Self {
        let failures = self.failures + 1;
        match failures < FAILURES_MAX {
            true => Self { next_at, failures, ..self.clone() },
            false => self.advanced(after, next_at),
        }
    }

    /// Returns the position of a tombstone whose log may be left: no earlier round has looked at it.
    pub(super) fn unchecked(&self, row: &Summary) -> Option<(RunId, Seq)> {
        let pruned = row.pruned.as_ref()?;
        let is_new = pruned.at >= self.checked_to && pruned.at < self.began_at;
        is_new.then(|| (row.run.clone(), row.base))
    }
}

/// The walk while this node has it.
#[derive(Debug)]
pub(super) struct TakenWalk {
    pub(super) walk: RetentionWalk,
    lock: Lock,
}

impl TakenWalk {
    /// Takes the walk; none if another node has it, or if the next pass is not due.
    pub(super) async fn take(store: &dyn Store, now: Millis) -> Result<Option<Self>, StoreError> {
        let filter = LockFilter { name: Some(NAME.id()), limit: 1, ..LockFilter::default() };
        let lock = store.locks(filter).await?.into_iter().next();
        let text = lock.as_ref().and_then(|lock| lock.holder.as_deref());
        // An unreadable walk begins again.
        let walk: RetentionWalk = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        if !walk.is_due(now) {
            return Ok(None);
        }
        let walk = walk.begun(now);
        let taken = write(store, &walk, lock.as_ref(), now).await?;
        Ok(taken.map(|lock| Self { walk, lock }))
    }

    /// Writes the walk after a pass, unless another node has taken it meanwhile.
    pub(super) async fn leave(
        self,
        store: &dyn Store,
        next: &RetentionWalk,
        now: Millis,
    ) -> Result<(), StoreError> {
        write(store, next, Some(&self.lock), now).await.map(|_| ())
    }
}

/// Replaces the lock that keeps the walk, unless another node has changed it; then returns none.
async fn write(
    store: &dyn Store,
    walk: &RetentionWalk,
    lock: Option<&Lock>,
    now: Millis,
) -> Result<Option<Lock>, StoreError> {
    let expect = lock.map_or(Expect::Absent, |lock| Expect::Version(lock.version));
    let next = Lock {
        name: NAME.id(),
        holder: serde_json::to_string(walk).ok(),
        fence: lock.map_or(0, |lock| lock.fence) + 1,
        // No rule releases it: the walk itself says how long a node has it.
        expires_at: Millis::NEVER,
        acquired_at: now,
        node: None,
        version: lock.map_or(0, |lock| lock.version) + 1,
        audit: Vec::new(),
    };
    let written = store.put_lock(next.clone(), expect).await?;
    Ok(matches!(written, Written::Done).then_some(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(10_000_000_000);

    #[test]
    fn walk_stays_after_a_failure_and_moves_on_after_three() {
        let walk = RetentionWalk { after: Some("a".to_owned()), ..RetentionWalk::default() };
        let next = || Some("b".to_owned());
        let twice = walk.failed(next(), NOW).failed(next(), NOW);
        assert_eq!((twice.after.as_deref(), twice.failures), (Some("a"), 2));
        assert_eq!(twice.failed(next(), NOW), walk.advanced(next(), NOW));
    }

    #[test]
    fn walk_from_the_future_is_due() {
        let at = |next_at| RetentionWalk { next_at, ..RetentionWalk::default() };
        assert!(at(NOW).is_due(NOW) && !at(NOW + LEASE).is_due(NOW));
        assert!(at(NOW + LEASE + LEASE).is_due(NOW) && at(Millis::NEVER).is_due(NOW));
        assert!(!RetentionWalk::default().begun(NOW).is_due(NOW + Duration::from_secs(1)));
    }

    #[test]
    fn a_round_checks_tombstones_since_the_round_before() {
        let first = RetentionWalk::default().begun(NOW);
        assert_eq!((first.began_at, first.checked_to), (NOW, NOW - FIRST_CHECK));
        let middle = first.advanced(Some("a".to_owned()), NOW).begun(NOW + LEASE);
        assert_eq!((middle.began_at, middle.checked_to), (first.began_at, first.checked_to));
        let second = middle.advanced(None, NOW).begun(NOW + LEASE);
        assert_eq!((second.began_at, second.checked_to), (NOW + LEASE, NOW - CLOCK_ERROR));
    }
}
