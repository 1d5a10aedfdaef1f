//! What a store says about the copy it takes part in: one lock of a reserved name, changed by compare-and-set.
//!
//! Invariant: at no moment are both stores of a copy open. The source is closed before the destination has its
//! first run, and the destination is opened after the source has said where its runs went. A node beats before
//! it looks at the mark, and a copy writes the mark before it looks at the nodes: one of the two sees the other.

use std::fmt;

use goldseam_core::lock::Lock;
use goldseam_core::task::note;
use goldseam_core::{LockName, Millis};
use goldseam_store::{Closed, LockFilter, Store, StoreError};
use serde::Serialize;

use crate::ledger::tries::{self, Tries};

/// The code of whatever a closed store refuses.
pub const CLOSED: &str = "GS0404";
/// The name of the lock.
const NAME: &str = "goldseam.copy";

/// What a store is to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Its runs are being copied to the other store.
    CopyingTo,
    /// They were copied, and go on there.
    MovedTo,
    /// It is being filled from the other store.
    FillingFrom,
    /// The same, and it has runs of its own.
    MergingFrom,
    /// It was filled, and is in use.
    FilledFrom,
}

impl Role {
    const ALL: [Self; 5] =
        [Self::CopyingTo, Self::MovedTo, Self::FillingFrom, Self::MergingFrom, Self::FilledFrom];

    /// The word in the lock and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CopyingTo => "copying-to",
            Self::MovedTo => "moved-to",
            Self::FillingFrom => "filling-from",
            Self::MergingFrom => "merging-from",
            Self::FilledFrom => "filled-from",
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

/// What a store says about the copy it takes part in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// What it is to the copy.
    pub role: Role,
    /// The other store, for people.
    pub other: String,
    /// Names the copy: the same in both stores.
    pub copy: String,
    /// Since when, by this store's clock.
    pub since: Millis,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role.as_str().replace('-', " "), self.other)
    }
}

impl Mark {
    fn words(&self) -> String {
        format!("{} {} #{}", self.role.as_str(), self.other, self.copy)
    }

    /// What a lock says; none if it is free, or somebody else took it.
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
                format!("this store was copied to {other}, where its runs go on"),
                "use that store; `goldseam store reopen` opens this one again".to_owned(),
            ),
            Role::CopyingTo => (
                format!("this store is being copied to {other}"),
                "let `goldseam store copy` finish; `goldseam store reopen` gives the copy up".to_owned(),
            ),
            Role::FillingFrom | Role::MergingFrom => (
                format!("this store is being filled from {other}, and not all of it is here yet"),
                "run the same `goldseam store copy` again: it goes on where it was".to_owned(),
            ),
        };
        Some(Closed { code: CLOSED, what, hint })
    }
}

/// The mark of a store, with the record that it stands in.
#[derive(Debug, Clone, Default)]
pub struct Marked {
    pub mark: Option<Mark>,
    pub lock: Option<Lock>,
}

impl Marked {
    pub async fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let filter = LockFilter { name: Some(name()), limit: 1, ..LockFilter::default() };
        let lock = tries::ask(Tries::five(), || store.locks(filter.clone())).await?.into_iter().next();
        Ok(Self { mark: lock.as_ref().and_then(Mark::of), lock })
    }

    /// The record with another mark, or with none.
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
        lock.holder = mark.map(Mark::words);
        lock.acquired_at = mark.map_or(now, |mark| mark.since);
        lock.expires_at = Millis::NEVER;
        lock.node = None;
        lock.fence += 1;
        lock.version += 1;
        note(&mut lock.audit, now, mark.map_or_else(|| "reopened".to_owned(), Mark::words));
        lock
    }
}

pub fn name() -> LockName {
    LockName::new(NAME).unwrap_or_else(|_| unreachable!("a literal that is an id"))
}

/// What the store says about the copy it takes part in, if it does.
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
    fn a_mark_is_a_lock_that_never_expires_and_says_everything() {
        for role in Role::ALL {
            let (other, copy) = ("postgres://app@db/orders?a #b".to_owned(), "00ff".to_owned());
            let mark = Mark { role, other, copy, since: Millis(7) };
            let lock = Marked::default().next(Some(&mark), Millis(9));
            assert_eq!(Mark::of(&lock).as_ref(), Some(&mark));
            assert!(lock.is_held(Millis(i64::MAX - 1)) && lock.node.is_none());
            assert_eq!(mark.closed().is_none(), role.is_open());
        }
    }

    #[test]
    fn a_reopened_store_has_no_mark_and_remembers_it() {
        let mark =
            Mark { role: Role::MovedTo, other: "there".to_owned(), copy: "1".to_owned(), since: Millis(1) };
        let lock = Marked::default().next(Some(&mark), Millis(1));
        let open = Marked { mark: Some(mark), lock: Some(lock.clone()) }.next(None, Millis(2));
        assert_eq!((Mark::of(&open), open.fence), (None, lock.fence + 1));
        let said: Vec<&str> = open.audit.iter().map(|entry| entry.what.as_str()).collect();
        assert_eq!(said, ["moved-to there #1", "reopened"]);
    }

    #[test]
    fn a_lock_that_somebody_else_took_is_no_mark() {
        let mut lock = Marked::default().next(None, Millis(1));
        lock.holder = Some("ana".to_owned());
        assert_eq!(Mark::of(&lock), None);
    }
}
