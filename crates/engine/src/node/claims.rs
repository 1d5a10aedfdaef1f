//! Heals claims of users' tasks and locks. Takeover does the same for runs.

use super::Node;
use crate::heal::claims::Claims;
use crate::ledger::error::EngineError;

/// Passes without a claim or lock after which passes become rarer.
const IDLE_MIN: u32 = 10;
/// Factor of the pause between passes on an idle store.
const IDLE_FACTOR: u32 = 3;

impl Node {
    /// Heals stale claims and locks while the node lives.
    pub(super) async fn keep_claims(&self) {
        let mut idle: u32 = 0;
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
        }
    }

    async fn heal_claims(&self, claims: &Claims) -> Result<bool, EngineError> {
        claims.tick_unless_idle(self.ledger.store.now().await?).await
    }
}
