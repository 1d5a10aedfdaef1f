//! Settings of single workflows as text: `order:attempts_max=5`.

use goldseam_core::WorkflowName;

use super::given::SettingFlaw;
use super::table::{ENGINE_SETTINGS, EngineSetting};
use super::value::SettingValue;
use crate::ledger::config::Config;
use crate::ledger::step_defaults::{Silence, StepDefaults};

/// A section whose fields can be set for single workflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowSection {
    /// The recovery of runs.
    Recovery,
    /// What holds for steps that state nothing.
    Steps,
}

/// One parsed entry.
pub(super) struct WorkflowEntry {
    workflow: WorkflowName,
    field: &'static EngineSetting,
    value: SettingValue,
}

impl WorkflowSection {
    fn name(self) -> &'static str {
        match self {
            Self::Recovery => "recovery",
            Self::Steps => "steps",
        }
    }

    /// The rows of the section that are fields of one workflow.
    fn fields(self) -> impl Iterator<Item = &'static EngineSetting> {
        ENGINE_SETTINGS
            .iter()
            .filter(move |row| row.spec.section() == self.name() && row.field() != "workflows")
    }

    /// Parses `WORKFLOW:FIELD=VALUE`.
    pub(super) fn parse(self, entry: &str) -> Result<WorkflowEntry, SettingFlaw> {
        let wrong = |why: String| SettingFlaw::Entry { entry: entry.to_owned(), why };
        let shape = || wrong("write WORKFLOW:FIELD=VALUE, as in order:attempts_max=5".to_owned());
        let (left, text) = entry.split_once('=').ok_or_else(shape)?;
        let (workflow, field) = left.rsplit_once(':').ok_or_else(shape)?;
        let workflow = WorkflowName::new(workflow.trim()).map_err(|error| wrong(error.to_string()))?;
        let name = field.trim();
        let field = self.fields().find(|row| row.field() == name).ok_or_else(|| {
            let known: Vec<&str> = self.fields().map(EngineSetting::field).collect();
            wrong(format!("{name:?} is not one of {}", known.join(", ")))
        })?;
        let value = field.spec.kind.parse(text).map_err(|flaw| wrong(flaw.to_string()))?;
        Ok(WorkflowEntry { workflow, field, value })
    }

    /// Returns a configuration whose general fields are those of one workflow.
    fn of(self, config: &Config, workflow: &WorkflowName) -> Config {
        match self {
            Self::Recovery => Config { recovery: config.recovery_for(workflow).clone(), ..Config::default() },
            Self::Steps => Config {
                retry: config.retry_for(workflow).clone(),
                heartbeat_timeout: config.heartbeat_timeout_for(workflow),
                ..Config::default()
            },
        }
    }

    /// Applies the entries to a configuration; the other fields are the general ones.
    pub(super) fn apply(self, config: &mut Config, entries: &[String]) {
        for WorkflowEntry { workflow, field, value } in
            entries.iter().filter_map(|entry| self.parse(entry).ok())
        {
            let mut one = self.of(config, &workflow);
            field.set(&mut one, &value);
            match self {
                Self::Recovery => _ = config.recovery_of.insert(workflow, one.recovery),
                Self::Steps => {
                    let heartbeat_timeout =
                        one.heartbeat_timeout.map_or(Silence::Unlimited, Silence::Limited);
                    let steps = StepDefaults { retry: Some(one.retry), heartbeat_timeout };
                    config.steps_of.insert(workflow, steps);
                }
            }
        }
    }

    /// Returns the entries that lead from the general fields to those of single workflows.
    pub(super) fn entries(self, config: &Config) -> Vec<String> {
        let workflows: Vec<&WorkflowName> = match self {
            Self::Recovery => config.recovery_of.keys().collect(),
            Self::Steps => config.steps_of.keys().collect(),
        };
        let entries = |workflow: &WorkflowName| {
            let own = self.of(config, workflow);
            let differs = |row: &&EngineSetting| row.get(&own) != row.get(config);
            let entry = |row: &EngineSetting| {
                format!("{workflow}:{}={}", row.field(), row.spec.kind.text(&row.get(&own)))
            };
            self.fields().filter(differs).map(entry).collect::<Vec<_>>()
        };
        workflows.into_iter().flat_map(entries).collect()
    }
}
