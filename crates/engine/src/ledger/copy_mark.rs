//! The mark of a store that takes part in a copy: one lock with a reserved name, changed by compare-and-set.
//!
//! Invariant: the two stores of a copy are never open at the same time. The copier closes the source before it brings
//! the first run to the destination, and opens the destination after the source's mark names the destination. A node
//! beats before it reads the mark, and a copier writes the mark before it reads the nodes, so one sees the other.

use std::fmt;

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::lock::Lock;
use goldseam_core::task::note;
use goldseam_core::{Hint, LockName, Millis, NextStep};
use goldseam_store::{Closed, LockFilter, Store, StoreError};
use serde::Serialize;

use crate::ledger::retry::{self, Retries};

/// The code of every refusal of a closed store.
pub const CLOSED: &str = "GS0404";
/// The name of the lock.
const NAME: IdLiteral<kind::Lock> = IdLiteral::new("goldseam.copy");

/// The role of a store in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Its runs are being copied to the other store.
    CopyingTo,
    /// Its runs were copied and continue in the other store.
    MovedTo,
    /// It is being filled from the other store.
    FillingFrom,
    /// It is being filled from the other store, and already had runs.
    MergingFrom,
    /// It was filled and is in use.
    FilledFrom,
    /// It is a backup of the other store.
    BackupOf,
}

impl Role {
    const ALL: [Self; 6] = [
        Self::CopyingTo,
        Self::MovedTo,
        Self::FillingFrom,
        Self::MergingFrom,
        Self::FilledFrom,
        Self::BackupOf,
    ];

    /// The name in the lock and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CopyingTo => "copying-to",
            Self::MovedTo => "moved-to",
            Self::FillingFrom => "filling-from",
            Self::MergingFrom => "merging-from",
            Self::FilledFrom => "filled-from",
            Self::BackupOf => "backup-of",
        }
    }

    /// Whether the store may be changed.
    pub fn is_open(self) -> bool {
        self == Self::FilledFrom
    }

    /// Whether the copy into it is under way.
    pub fn is_filling(self) -> bool {
        matches!(self, Self::FillingFrom | Self::MergingFrom)
    }
}

/// The record in which a store says which copy it takes part in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// The role of the store.
    pub role: Role,
    /// The other store, for display.
    pub other: String,
    /// The id of the copy, the same in both stores.
    pub copy: String,
    /// When the role began, by this store's clock.
    pub since: Millis,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.as_str().replace('-', " "), self.other)
    }
}

impl Mark {
    fn holder_text(&self) -> String {
        format!("{} {} #{}", self.role.as_str(), self.other, self.copy)
    }

    /// Decodes a lock; none if the lock is free or another program holds it.
    fn of(lock: &Lock) -> Option<Self> {
        let (word, rest) = lock.holder.as_deref()?.split_once(' ')?;
        let (other, copy) = rest.rsplit_once(" #")?;
        let role = Role::ALL.into_iter().find(|role| role.as_str() == word)?;
        Some(Self { role, other: other.to_owned(), copy: copy.to_owned(), since: lock.acquired_at })
    }

    /// Why the store may not be changed; none if it may.
    pub fn closed(&self) -> Option<Closed> {
        let other = &self.other;
        let (what, hint) = match self.role {
            Role::FilledFrom => return None,
            Role::MovedTo => (
                format!("this store was copied to {other}, where its runs continue"),
                Hint::from("use that store, or reopen this one with ").step(NextStep::StoreReopen),
            ),
            Role::CopyingTo => (
                format!("this store is being copied to {other}"),
                Hint::from("let ")
                    .step(NextStep::StoreMove)
                    .text(" finish, or abandon the copy with ")
                    .step(NextStep::StoreReopen),
            ),
            Role::FillingFrom | Role::MergingFrom => (
                format!("this store is being filled from {other} and is incomplete"),
                Hint::from("run the same ")
                    .step(NextStep::StoreMove)
                    .text(" or restore again; it resumes where it stopped"),
            ),
            Role::BackupOf => (
                format!("this file is a backup of {other}"),
                Hint::from("restore it to a store of its own: ").step(NextStep::StoreRestore),
            ),
        };
        Some(Closed { code: CLOSED, what, hint })
    }
}

/// The mark of a store, with the lock that contains it.
#[derive(Debug, Clone, Default)]
pub struct Marked {
    pub mark: Option<Mark>,
    pub lock: Option<Lock>,
}

impl Marked {
    pub async fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let filter = LockFilter { name: Some(name()), limit: 1, ..LockFilter::default() };
        let lock = retry::read(Retries::standard(), || store.locks(filter.clone())).await?.into_iter().next();
        Ok(Self { mark: lock.as_ref().and_then(Mark::of), lock })
    }

    /// The lock with another mark, or without a mark.
    pub fn next(&self, mark: Option<&Mark>, now: Millis) -> Lock {
        let mut lock = self.lock.clone().unwrap_or_else(|| Lock {
            name: name(),
            holder: None,
            fence: 0,
            expires_at: Millis::NEVER,
            acquired_at: now,
            node: None,
            version: 0,
            audit: Vec::new(),
        });
        lock.holder = mark.map(Mark::holder_text);
        lock.acquired_at = mark.map_or(now, |mark| mark.since);
        lock.expires_at = Millis::NEVER;
        lock.node = None;
        lock.fence += 1;
        lock.version += 1;
        note(&mut lock.audit, now, mark.map_or_else(|| "reopened".to_owned(), Mark::holder_text));
        lock
    }
}

pub fn name() -> LockName {
    NAME.id()
}

/// The store's copy mark, if it has one.
pub async fn mark_of(store: &dyn Store) -> Result<Option<Mark>, StoreError> {
    Ok(Marked::of(store).await?.mark)
}

/// Why the store may not be changed, if a copy closed it.
pub async fn closed_by_copy(store: &dyn Store) -> Result<Option<Closed>, StoreError> {
    Ok(mark_of(store).await?.and_then(|mark| mark.closed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_round_trips_through_a_lock_that_never_expires() {
        for role in Role::ALL {
            let other = "postgres://app@db/orders?a #b".to_owned();
            let copy = "00ff".to_owned();
            let mark = Mark { role, other, copy, since: Millis(7) };
            let lock = Marked::default().next(Some(&mark), Millis(9));
            assert_eq!(Mark::of(&lock).as_ref(), Some(&mark));
            assert!(lock.is_held(Millis(i64::MAX - 1)) && lock.node.is_none());
            assert_eq!(mark.closed().is_none(), role.is_open());
        }
    }

    #[test]
    fn reopening_removes_the_mark_and_keeps_it_in_the_audit() {
        let mark =
            Mark { role: Role::MovedTo, other: "there".to_owned(), copy: "1".to_owned(), since: Millis(1) };
        let lock = Marked::default().next(Some(&mark), Millis(1));
        let open = Marked { mark: Some(mark), lock: Some(lock.clone()) }.next(None, Millis(2));
        assert_eq!((Mark::of(&open), open.fence), (None, lock.fence + 1));
        let audit: Vec<&str> = open.audit.iter().map(|entry| entry.what.as_str()).collect();
        assert_eq!(audit, ["moved-to there #1", "reopened"]);
    }

    #[test]
    fn lock_with_another_holder_is_not_a_mark() {
        let mut lock = Marked::default().next(None, Millis(1));
        lock.holder = Some("ana".to_owned());
        assert_eq!(Mark::of(&lock), None);
    }
}
