//! Named locks: held by one holder, with a fence and an expiry by the store's clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::audit::{Audit, AuditHeal, mark_heal, note};
use crate::id::LockName;
use crate::time::Millis;

/// How long a lock is held unless the caller sets a TTL.
pub const TTL_DEFAULT: Duration = Duration::from_secs(300);

/// A named lock: at most one holder at a time, with a fence and an expiry.
///
/// The lock expires by the store's clock. Every acquisition increases the fence, so a system that the holder writes
/// to can refuse a previous holder. The record stays when the lock is released, so that fences never repeat. Each
/// method is a pure change; the store writes the result by compare-and-set on `version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Lock {
    /// Name of the lock.
    pub name: LockName,
    /// The holder; none while the lock is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Increases with every acquisition.
    pub fence: u64,
    /// When the hold expires.
    pub expires_at: Millis,
    /// When the present hold began.
    pub acquired_at: Millis,
    /// The node of the holder, if an engine holds it. The death of the node frees the lock early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Increases with every change; compare-and-set compares it.
    pub version: u64,
    /// Recent changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<Audit>,
}

/// The reason why a lock was not acquired or extended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockRefusal {
    /// Another holder has the lock. Try again after it is released or has expired.
    #[error("lock {name} is held by {holder} until {}", expires_at.0)]
    Held {
        /// The lock.
        name: LockName,
        /// The present holder.
        holder: String,
        /// When the hold expires at the latest.
        expires_at: Millis,
    },
    /// The hold has ended. Acquire the lock again.
    #[error("the hold on lock {name} with fence {fence} has ended")]
    Lost {
        /// The lock.
        name: LockName,
        /// The fence that was named.
        fence: u64,
    },
}

impl Lock {
    /// Acquires a lock that is free, expired or new.
    pub fn acquired(now_held: Option<Self>, ask: Ask<'_>, now: Millis) -> Result<Self, LockRefusal> {
        let mut lock = now_held.unwrap_or_else(|| Self {
            name: ask.name.clone(),
            holder: None,
            fence: 0,
            expires_at: Millis(0),
            acquired_at: Millis(0),
            node: None,
            version: 0,
            audit: Vec::new(),
        });
        match &lock.holder {
            Some(holder) if !lock.is_stale(now) => {
                return Err(LockRefusal::Held {
                    name: lock.name,
                    holder: holder.clone(),
                    expires_at: lock.expires_at,
                });
            }
            Some(holder) => {
                let what = format!("expired, held by {holder} until {}", lock.expires_at.0);
                note(&mut lock.audit, now, what);
            }
            None => {}
        }
        lock.holder = Some(ask.holder.to_owned());
        lock.node = ask.node.map(str::to_owned);
        lock.fence += 1;
        lock.acquired_at = now;
        lock.expires_at = now + ask.ttl;
        lock.version += 1;
        Ok(lock)
    }

    /// Releases the hold. Returns `None` if it had already ended: releasing twice is not an error.
    pub fn released(mut self, holder: &str, fence: u64) -> Option<Self> {
        if self.holder.as_deref() != Some(holder) || self.fence != fence {
            return None;
        }
        self.holder = None;
        self.node = None;
        self.version += 1;
        Some(self)
    }

    /// Releases the hold at the request of a person, and records who it was.
    pub fn released_by(self, holder: &str, fence: u64, who: Option<&str>, now: Millis) -> Option<Self> {
        let mut free = self.released(holder, fence)?;
        note(&mut free.audit, now, format!("released, held by {holder}: by {}", who.unwrap_or("hand")));
        Some(free)
    }

    /// Extends the hold to `ttl` from now. A hold that has ended is never revived.
    pub fn extended(mut self, holder: &str, fence: u64, until: Until) -> Result<Self, LockRefusal> {
        let lost = LockRefusal::Lost { name: self.name.clone(), fence };
        if self.holder.as_deref() != Some(holder) || self.fence != fence || self.is_stale(until.now) {
            return Err(lost);
        }
        self.expires_at = until.now + until.ttl;
        self.version += 1;
        Ok(self)
    }

    /// Records the id of the command that acquired the lock, so that a repeat of the command is recognised.
    #[must_use]
    pub fn taken_by(mut self, id: &str) -> Self {
        note(&mut self.audit, self.acquired_at, taken_by(id));
        self
    }

    /// Returns whether the command with this id acquired the present hold.
    pub fn was_taken_by(&self, id: &str) -> bool {
        let is_it = |entry: &Audit| entry.at == self.acquired_at && entry.what == taken_by(id);
        self.holder.is_some() && self.audit.iter().any(is_it)
    }

    /// Records the credential that acquired the lock.
    #[must_use]
    pub fn taken_with(mut self, credential: &str) -> Self {
        note(&mut self.audit, self.acquired_at, format!("{TAKEN_WITH}{credential}"));
        self
    }

    /// Returns the credential that acquired the present hold, if one was recorded.
    pub fn credential(&self) -> Option<&str> {
        self.holder.as_ref()?;
        let present = self.audit.iter().filter(|entry| entry.at == self.acquired_at);
        present.filter_map(|entry| entry.what.strip_prefix(TAKEN_WITH)).next_back()
    }

    /// Returns whether the lock is held past its expiry. A lock expires *at* its expiry, not before.
    pub fn is_stale(&self, now: Millis) -> bool {
        self.holder.is_some() && self.expires_at <= now
    }

    /// Returns whether a holder has the lock now.
    pub fn is_held(&self, now: Millis) -> bool {
        self.holder.is_some() && !self.is_stale(now)
    }

    /// Frees a stale lock and records why.
    #[must_use]
    pub fn cleaned(mut self, why: &str, now: Millis) -> Self {
        let Some(holder) = self.holder.take() else { return self };
        self.node = None;
        self.fence += 1;
        self.version += 1;
        note(&mut self.audit, now, format!("cleaned, held by {holder}: {why}"));
        self
    }

    /// Marks the latest change as a heal, if it made a version after `before`.
    #[must_use]
    pub fn healed(mut self, before: u64, heal: AuditHeal) -> Self {
        if self.version > before {
            mark_heal(&mut self.audit, AuditHeal { version: self.version, attempt: 1, ..heal });
        }
        self
    }
}

/// A request for a lock.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// The requested holder.
    pub holder: &'a str,
    /// The node that asks, if an engine does.
    pub node: Option<&'a str>,
    /// How long to hold it.
    pub ttl: Duration,
}

/// How the audit names the credential that acquired a lock.
const TAKEN_WITH: &str = "taken with key ";

/// Returns how the audit names the command that acquired a lock.
fn taken_by(id: &str) -> String {
    format!("taken by {id}")
}

/// A span from now.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    /// Now, by the store's clock.
    pub now: Millis,
    /// Length of the span.
    pub ttl: Duration,
}

#[cfg(test)]
mod tests;
