//! Looking after users' claims and locks, beside what the keeper does for runs.

use super::Node;
use crate::heal::claims::Claims;
use crate::ledger::error::EngineError;

/// Rounds without a claim or lock after which rounds become rarer.
const IDLE_MIN: u32 = 10;
/// How much rarer.
const IDLE_FACTOR: u32 = 3;

impl Node {
    /// Heals stale claims and locks, for as long as the node lives.
    pub(super) async fn keep_claims(&self) {
        let mut idle: u32 = 0;
        while !self.is_closed() {
            let factor = if idle >= IDLE_MIN { IDLE_FACTOR } else { 1 };
            self.rest(self.config.claim_watch * factor).await;
            match self.look_over(&self.claims).await {
                Ok(true) => idle = idle.saturating_add(1),
                Ok(false) => idle = 0,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "looking over claims and locks failed");
                }
            }
        }
    }

    async fn look_over(&self, claims: &Claims) -> Result<bool, EngineError> {
        claims.tick_unless_idle(self.ledger.store.now().await?).await
    }
}
