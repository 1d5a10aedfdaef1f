//! Settings from the environment of the process, and work that it asks for.

use std::fmt;
use std::pin::Pin;

use super::{Builder, ConfigChanges, Engine};
use crate::client::Client;
use crate::ledger::config::Config;
use crate::ledger::error::EngineError;
use crate::ledger::settings::GivenSettings;

/// Work beside an engine that the environment of its process asks for, such as a retention policy.
pub trait EnvironmentWork: Send + Sync {
    /// Gets everything ready before the engine starts. If this fails, the engine does not start.
    fn prepare(&mut self) -> Result<(), EngineError>;

    /// Returns the work. It ends at any of its awaits when the engine shuts down or is dropped.
    fn work(self: Box<Self>, client: Client) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>>;
}

pub(super) struct EnvironmentWorkBox(Box<dyn EnvironmentWork>);

impl EnvironmentWorkBox {
    /// Gets the work ready, or returns the error with which the engine does not start.
    pub(super) fn prepared(
        work: Option<Result<Self, EngineError>>,
    ) -> Result<Option<Box<dyn EnvironmentWork>>, EngineError> {
        let Some(Self(mut work)) = work.transpose()? else { return Ok(None) };
        work.prepare()?;
        Ok(Some(work))
    }
}

impl Engine {
    /// Begins the work that the environment asks for.
    pub(super) fn with_environment(self, work: Option<Box<dyn EnvironmentWork>>) -> Self {
        if let Some(work) = work.and_then(|work| work.work(self.client.clone())) {
            self.attach(work);
        }
        self
    }
}

impl fmt::Debug for EnvironmentWorkBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvironmentWork")
    }
}

impl Builder {
    /// Reads settings from the environment of this process: `GOLDSEAM_ENGINE_SLOTS=200`, `GOLDSEAM_HEALING_SWEEP=10s`
    /// and others, which `docs/guides/configuring.md` lists. `Engine::open` and `Engine::on` call it.
    ///
    /// The program wins over the environment: [`Builder::slots`], [`Builder::recovery`] and
    /// [`Builder::foreign_states`] always, [`Builder::config`] and [`Builder::limits`] with each field that differs
    /// from its default. If a variable is unknown or invalid, [`Builder::start`] fails, and nothing starts.
    pub fn environment(mut self) -> Self {
        self.environment = Some(GivenSettings::of_process());
        self
    }

    /// Adds work that the environment asks for. If it is an error, [`Builder::start`] fails, and nothing starts.
    #[doc(hidden)]
    pub fn environment_work(mut self, work: Result<Option<Box<dyn EnvironmentWork>>, EngineError>) -> Self {
        self.environment_work = work.transpose().map(|work| work.map(EnvironmentWorkBox));
        self
    }

    /// Ignores the environment.
    pub fn without_environment(mut self) -> Self {
        self.environment = None;
        self.environment_work = None;
        self
    }

    /// The configuration with the settings that were made one by one.
    pub(super) fn configured(&self) -> Config {
        let mut config = self.config.clone();
        let ConfigChanges { slots, limits, recovery_of, steps_of, foreign } = &self.changes;
        if let Some(limits) = limits {
            config.limits = limits.clone();
        }
        if let Some(Ok(given)) = &self.environment {
            given.apply_to_defaults(&mut config);
        }
        config.slots = slots.unwrap_or(config.slots);
        config.recovery_of.extend(recovery_of.clone());
        config.steps_of.extend(steps_of.clone());
        config.foreign = foreign.clone().or(config.foreign);
        config
    }
}
