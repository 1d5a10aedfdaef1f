//! Settings from the environment of the process.

use super::{Builder, ConfigChanges};
use crate::ledger::config::Config;
use crate::ledger::settings::GivenSettings;

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

    /// Does not read settings from the environment.
    pub fn without_environment(mut self) -> Self {
        self.environment = None;
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
