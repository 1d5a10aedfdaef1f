//! Heals claims of users' tasks and locks, and trims the audit of these heals. Takeover heals runs.

use std::time::Duration;

use super::Node;
use crate::heal::claims::Claims;
use crate::ledger::error::EngineError;

/// Passes without a claim or lock after which passes become rarer.
const IDLE_MIN: u32 = 10;
/// Factor of the pause between passes on an idle store.
const IDLE_FACTOR: u32 = 3;

/// Pause before the first trim of the audit.
const FIRST_TRIM_AFTER: Duration = Duration::from_secs(600);
/// Pause between two trims: on object storage each is one LIST.
const TRIM_EVERY: Duration = Duration::from_secs(6 * 3_600);
/// Maximum number of entries removed at a time.
const TRIM_MAX: u32 = 500;

impl Node {
    /// Heals stale claims and locks while the node lives.
    pub(super) async fn keep_claims(&self) {
        let mut idle: u32 = 0;
        let mut trim_at = self.ledger.clock.elapsed() + FIRST_TRIM_AFTER;
        while !self.is_closed() {
            let factor = if idle >= IDLE_MIN { IDLE_FACTOR } else { 1 };
            self.rest(self.config.claim_watch * factor).await;
            match self.heal_claims(&self.claims).await {
                Ok(true) => idle = idle.saturating_add(1),
                Ok(false) => idle = 0,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "failed to heal claims and locks");
                }
            }
            if self.ledger.clock.elapsed() >= trim_at {
                let has_more = self.trim_audit().await;
                trim_at = self.ledger.clock.elapsed() + if has_more { FIRST_TRIM_AFTER } else { TRIM_EVERY };
            }
        }
    }

    /// Removes old entries of the audit. Returns whether there may be more.
    pub(super) async fn trim_audit(&self) -> bool {
        let (Some(span), Some(audit)) = (self.config.audit_retention, self.ledger.store.audit()) else {
            return false;
        };
        let trim = async { audit.trim_audit(self.ledger.store.now().await? - span, TRIM_MAX).await };
        match trim.await {
            Ok(removed) => {
                if removed > 0 {
                    tracing::info!(node = %self.id, removed, "trimmed audit");
                }
                removed >= u64::from(TRIM_MAX)
            }
            Err(error) => {
                tracing::warn!(node = %self.id, %error, "failed to trim audit");
                false
            }
        }
    }

    async fn heal_claims(&self, claims: &Claims) -> Result<bool, EngineError> {
        claims.tick_unless_idle(self.ledger.store.now().await?).await
    }
}
