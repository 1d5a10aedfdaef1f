//! The store-wide audit: every heal of a task, a lock or a foreign state.
//!
//! A heal is one compare-and-set of a record that has its entry ([`Audit::heal`]). The store copies an entry that names
//! the version being written into its audit, in the same transaction. It judges nothing else about the record.

use std::fmt::Debug;

use async_trait::async_trait;
use goldseam_core::Millis;
use goldseam_core::audit::{Audit, AuditHeal};
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;

use crate::error::StoreError;
use crate::types::Page;

/// The kind of a healed record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditKind {
    /// A lock.
    Lock,
    /// A task, also one that was created to heal a foreign state.
    Task,
}

impl AuditKind {
    /// Returns the word in places.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Task => "task",
        }
    }

    /// Parses the word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Lock, Self::Task].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// An entry of the store-wide audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The kind of the healed record.
    pub kind: AuditKind,
    /// The id of the task, or the name of the lock.
    pub subject: String,
    /// When it happened.
    pub at: Millis,
    /// What happened.
    pub what: String,
    /// The heal.
    pub heal: AuditHeal,
}

impl AuditEntry {
    /// Returns the entry from the audit of a record; none if it is not a heal.
    pub fn new(kind: AuditKind, subject: impl Into<String>, entry: &Audit) -> Option<Self> {
        let Audit { at, what, heal, .. } = entry;
        let heal = heal.as_deref()?.clone();
        Some(Self { kind, subject: subject.into(), at: *at, what: what.clone(), heal })
    }

    /// Returns the entries of the write that made this version of a task.
    pub fn of_task(task: &Task) -> Vec<Self> {
        let new = task.audit.iter().filter(|entry| entry.heal_of(task.version).is_some());
        new.filter_map(|entry| Self::new(AuditKind::Task, task.id.as_str(), entry)).collect()
    }

    /// Returns the entries of the write that made this version of a lock.
    pub fn of_lock(lock: &Lock) -> Vec<Self> {
        let new = lock.audit.iter().filter(|entry| entry.heal_of(lock.version).is_some());
        new.filter_map(|entry| Self::new(AuditKind::Lock, lock.name.as_str(), entry)).collect()
    }

    /// Returns the place in the audit. Places sort the newest first.
    ///
    /// A record has one version only once, so equal places are the same heal.
    pub fn place(&self) -> String {
        let kind = self.kind.as_str();
        let version = self.heal.version;
        let backwards = LAST_MOMENT - self.at.0.clamp(0, LAST_MOMENT);
        format!("{backwards:013}.{}.{kind}.{}.{version:010}", self.heal.rule, self.subject)
    }

    /// Returns the entry in the form that its record has.
    pub fn audit(&self) -> Audit {
        Audit { heal: Some(Box::new(self.heal.clone())), ..Audit::new(self.at, self.what.clone()) }
    }

    /// Returns the entry of a record at its place; none if the place or the entry is not one of the audit.
    pub fn at_place(place: &str, entry: &Audit) -> Option<Self> {
        let named = PlaceParts::of(place)?;
        Self::new(named.kind, named.subject, entry)
    }
}

/// The largest moment that fits into 13 digits: the year 2286.
const LAST_MOMENT: i64 = 9_999_999_999_999;

/// Sorts after every place. A letter, because object stores escape most other characters in keys.
const AFTER_ALL: &str = "z";

/// The parts of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceParts<'a> {
    /// When it happened.
    pub at: Millis,
    /// The rule.
    pub rule: &'a str,
    /// The kind of the record.
    pub kind: AuditKind,
    /// The record.
    pub subject: &'a str,
}

impl<'a> PlaceParts<'a> {
    /// Parses a place.
    pub fn of(place: &'a str) -> Option<Self> {
        let mut parts = place.splitn(4, '.');
        let backwards: i64 = parts.next().filter(|part| part.len() == 13)?.parse().ok()?;
        let rule = parts.next()?;
        let kind = AuditKind::parse(parts.next()?)?;
        let (subject, _) = parts.next()?.rsplit_once('.')?;
        Some(Self { at: Millis(LAST_MOMENT - backwards), rule, kind, subject })
    }
}

/// Returns the bound between places at or after this time, which sort before it, and earlier ones.
pub fn place_bound(at: Millis) -> String {
    match at.0 {
        ..=0 => AFTER_ALL.to_owned(),
        at => format!("{:013}", LAST_MOMENT - at.min(LAST_MOMENT) + 1),
    }
}

/// Selects entries of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Only heals by this rule.
    pub rule: Option<String>,
    /// Only entries at or after this time.
    pub since: Option<Millis>,
    /// The place of the last entry of the previous page.
    pub after: Option<String>,
    /// Most entries.
    pub limit: u32,
}

impl AuditFilter {
    /// Returns the bounds of the selected places, both exclusive.
    pub fn bounds(&self) -> (String, String) {
        let until = self.since.map_or_else(|| AFTER_ALL.to_owned(), place_bound);
        (self.after.clone().unwrap_or_default(), until)
    }

    /// Returns the page of these places, which are one more than the limit if there is another page. An unreadable
    /// entry is left out, as an unreadable record is from any list.
    pub fn page(&self, mut found: Vec<(String, Option<AuditEntry>)>) -> Page<AuditEntry> {
        let limit = self.limit as usize;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(|(place, _)| place.clone());
        Page { items: found.into_iter().filter_map(|(_, entry)| entry).collect(), next, ..Page::default() }
    }
}

/// A store with an audit.
#[async_trait]
pub trait AuditLog: Debug + Send + Sync {
    /// Lists entries, newest first.
    async fn audit_entries(&self, filter: AuditFilter) -> Result<Page<AuditEntry>, StoreError>;

    /// Removes the oldest entries from before this time, at most `limit`. Returns how many were removed.
    async fn trim_audit(&self, before: Millis, limit: u32) -> Result<u64, StoreError>;
}

/// The audit of a store that has none.
#[derive(Debug)]
pub(crate) struct NoAudit;

#[async_trait]
impl AuditLog for NoAudit {
    async fn audit_entries(&self, _: AuditFilter) -> Result<Page<AuditEntry>, StoreError> {
        Ok(Page::default())
    }

    async fn trim_audit(&self, _: Millis, _: u32) -> Result<u64, StoreError> {
        Ok(0)
    }
}
