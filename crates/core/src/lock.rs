//! Named locks: held by one holder, with a fence and an expiry by the store's clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::LockName;
use crate::planted::{self, Bug};
use crate::task::{Audit, note};
use crate::time::Millis;

/// How long a lock is held when nobody says otherwise.
pub const TTL_DEFAULT: Duration = Duration::from_secs(300);

/// One named lock. The record stays when it is released, so that fences never repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Lock {
    /// Its name.
    pub name: LockName,
    /// Who holds it; none while it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Grows with every acquisition.
    pub fence: u64,
    /// When the hold ends by itself.
    pub expires_at: Millis,
    /// When the present hold began.
    pub acquired_at: Millis,
    /// The node that holds it, where an engine does; its death frees the lock early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Grows with every change; the compare in compare-and-set.
    pub version: u64,
    /// What happened to it lately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audit: Vec<Audit>,
}

/// Why a lock was not acquired or extended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockRefusal {
    /// Try again once it has expired or was released.
    #[error("lock {name} is held by {holder} until {}", expires_at.0)]
    Held {
        /// The lock.
        name: LockName,
        /// Who has it.
        holder: String,
        /// Until when at the most.
        expires_at: Millis,
    },
    /// The hold is over; acquire it anew.
    #[error("lock {name} is no longer yours: fence {fence} is over")]
    Lost {
        /// The lock.
        name: LockName,
        /// The fence that was named.
        fence: u64,
    },
}

impl Lock {
    /// Takes a lock that is free, expired or was never there.
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
        lock.fence = if planted::is(Bug::SameFence) { 1 } else { lock.fence + 1 };
        lock.acquired_at = now;
        lock.expires_at = now + ask.ttl;
        lock.version += 1;
        Ok(lock)
    }

    /// Lets go. `None` if the hold was over already: releasing twice is no error.
    pub fn released(mut self, holder: &str, fence: u64) -> Option<Self> {
        let mine = self.fence == fence || planted::is(Bug::ReleaseByName);
        if self.holder.as_deref() != Some(holder) || !mine {
            return None;
        }
        self.holder = None;
        self.node = None;
        self.version += 1;
        Some(self)
    }

    /// Holds on for `ttl` from now; a hold that is over is never revived.
    pub fn extended(mut self, holder: &str, fence: u64, until: Until) -> Result<Self, LockRefusal> {
        let lost = LockRefusal::Lost { name: self.name.clone(), fence };
        if self.holder.as_deref() != Some(holder) || self.fence != fence || self.is_stale(until.now) {
            return Err(lost);
        }
        self.expires_at = until.now + until.ttl;
        self.version += 1;
        Ok(self)
    }

    /// The same hold, with an audit entry by which a repeat of the command that took it is recognised.
    #[must_use]
    pub fn taken_by(mut self, id: &str) -> Self {
        note(&mut self.audit, self.acquired_at, taken_by(id));
        self
    }

    /// Whether the present hold was taken by the command with this id.
    pub fn was_taken_by(&self, id: &str) -> bool {
        let is_it = |entry: &Audit| entry.at == self.acquired_at && entry.what == taken_by(id);
        self.holder.is_some() && self.audit.iter().any(is_it)
    }

    /// The same hold, with an audit entry that names the credential that it was taken with.
    #[must_use]
    pub fn taken_with(mut self, credential: &str) -> Self {
        note(&mut self.audit, self.acquired_at, format!("{TAKEN_WITH}{credential}"));
        self
    }

    /// The credential that the present hold was taken with, if one was named.
    pub fn credential(&self) -> Option<&str> {
        self.holder.as_ref()?;
        let present = self.audit.iter().filter(|entry| entry.at == self.acquired_at);
        present.filter_map(|entry| entry.what.strip_prefix(TAKEN_WITH)).next_back()
    }

    /// Whether it is held past its expiry. A lock expires *at* its expiry, not before.
    pub fn is_stale(&self, now: Millis) -> bool {
        self.holder.is_some() && self.expires_at <= now
    }

    /// Whether somebody holds it now.
    pub fn is_held(&self, now: Millis) -> bool {
        self.holder.is_some() && !self.is_stale(now)
    }

    /// Frees a stale lock, leaving an audit entry.
    #[must_use]
    pub fn cleaned(mut self, why: &str, now: Millis) -> Self {
        let Some(holder) = self.holder.take() else { return self };
        self.node = None;
        self.fence += 1;
        self.version += 1;
        note(&mut self.audit, now, format!("cleaned, held by {holder}: {why}"));
        self
    }
}

/// Who wants a lock, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// Who.
    pub holder: &'a str,
    /// The node that asks, if an engine does.
    pub node: Option<&'a str>,
    /// How long.
    pub ttl: Duration,
}

/// How the audit names the credential that a lock was taken with.
const TAKEN_WITH: &str = "taken with key ";

/// How the audit names the command that took a lock.
fn taken_by(id: &str) -> String {
    format!("taken by {id}")
}

/// A span from now.
#[derive(Debug, Clone, Copy)]
pub struct Until {
    /// Now, by the store's clock.
    pub now: Millis,
    /// How long.
    pub ttl: Duration,
}

#[cfg(test)]
mod tests;
