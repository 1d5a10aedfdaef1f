//! Settings of a client.

use std::sync::Arc;

use goldseam_core::Limits;
use goldseam_core::redact::Redactor;

use super::Client;
use crate::heal::claims::Claims;
use crate::ledger::config::{ClaimRules, Config};
use crate::ledger::meter::Meter;
use crate::ledger::secrets::Secrets;

impl Client {
    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.ledger.limits = Arc::new(limits);
        self
    }

    /// Replaces limits, the rules for claims, and the settings of healing by this client: recovery, silences and
    /// walks. Runs that a node has claimed keep the recovery that their logs record.
    ///
    /// ```
    /// use goldseam::{Client, Config, Recovery};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let recovery = Recovery { attempts_max: 5, ..Recovery::default() };
    /// let config = Config { recovery, ..Config::default() };
    /// let client = Client::new(goldseam::open_store(&url).await?).with_config(config);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_config(mut self, config: Config) -> Self {
        self = self.with_limits(config.limits.clone()).with_claim_rules(config.claim_rules());
        self.config = Arc::new(config);
        self
    }

    /// The settings of healing by this client.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Replaces the rules for the healing of claims.
    #[must_use]
    pub fn with_claim_rules(mut self, rules: ClaimRules) -> Self {
        self.claims = Claims::new(self.ledger.clone(), rules);
        self
    }

    /// Labels all metrics with a namespace, for a process with several stores.
    #[must_use]
    pub fn counted_as(mut self, namespace: impl Into<String>) -> Self {
        self.ledger.meter = Meter::of(Some(namespace.into()));
        self
    }

    /// Redacts every text that this client writes.
    #[must_use]
    pub fn hiding(mut self, redactor: Redactor) -> Self {
        self.ledger.secrets = Arc::new(Secrets::of(redactor));
        self
    }

    pub(crate) fn with_secrets(mut self, secrets: Arc<Secrets>) -> Self {
        self.ledger.secrets = secrets;
        self
    }

    /// The redactor of this client. That of an engine knows the values of all its secrets; use it for output of your
    /// own code.
    pub fn redactor(&self) -> &Redactor {
        self.ledger.secrets.redactor()
    }
}
