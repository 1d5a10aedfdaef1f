//! Looking after users' claims and locks, beside what the keeper does for runs.

use super::Node;
use crate::claims::{Claims, RecoveryStats};
use crate::error::EngineError;

impl Node {
    /// Heals stale claims and locks, for as long as the node lives.
    pub(super) async fn keep_claims(&self) {
        let claims = Claims::new(self.ledger.clone());
        while !self.is_closed() {
            self.rest(self.config.claim_watch).await;
            if let Err(error) = self.look_over(&claims).await {
                tracing::warn!(node = %self.id, %error, "looking over claims and locks failed");
            }
        }
    }

    async fn look_over(&self, claims: &Claims) -> Result<RecoveryStats, EngineError> {
        claims.tick(self.ledger.store.now().await?).await
    }
}
