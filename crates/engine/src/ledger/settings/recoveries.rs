//! The recovery of single workflows as text: `order:attempts_max=5`.

use goldseam_core::WorkflowName;

use super::given::SettingFlaw;
use super::table::{ENGINE_SETTINGS, EngineSetting};
use super::value::SettingValue;
use crate::ledger::config::{Config, Recovery};

/// The section whose fields can be set for single workflows.
const SECTION: &str = "recovery.";
/// The rows of [`SECTION`] that are not fields of one recovery.
const WORKFLOWS: &str = "recovery.workflows";

/// One parsed entry.
pub(super) struct RecoveryEntry {
    workflow: WorkflowName,
    field: &'static EngineSetting,
    value: SettingValue,
}

/// Parses `WORKFLOW:FIELD=VALUE`.
pub(super) fn parse(entry: &str) -> Result<RecoveryEntry, SettingFlaw> {
    let wrong = |why: String| SettingFlaw::Entry { entry: entry.to_owned(), why };
    let shape = || wrong("write WORKFLOW:FIELD=VALUE, as in order:attempts_max=5".to_owned());
    let (left, text) = entry.split_once('=').ok_or_else(shape)?;
    let (workflow, field) = left.rsplit_once(':').ok_or_else(shape)?;
    let workflow = WorkflowName::new(workflow.trim()).map_err(|error| wrong(error.to_string()))?;
    let name = field.trim();
    let field = fields().find(|row| row.field() == name).ok_or_else(|| {
        let known: Vec<&str> = fields().map(EngineSetting::field).collect();
        wrong(format!("{name:?} is not one of {}", known.join(", ")))
    })?;
    let value = field.spec.kind.parse(text).map_err(|flaw| wrong(flaw.to_string()))?;
    Ok(RecoveryEntry { workflow, field, value })
}

fn fields() -> impl Iterator<Item = &'static EngineSetting> {
    let is_field = |row: &&EngineSetting| row.spec.name.starts_with(SECTION) && row.spec.name != WORKFLOWS;
    ENGINE_SETTINGS.iter().filter(is_field)
}

/// Applies the entries to a configuration; the other fields are those of its general recovery.
pub(super) fn apply(config: &mut Config, entries: &[String]) {
    for RecoveryEntry { workflow, field, value } in entries.iter().filter_map(|entry| parse(entry).ok()) {
        let recovery = config.recovery_for(&workflow).clone();
        let mut one = Config { recovery, ..Config::default() };
        field.set(&mut one, &value);
        config.recovery_of.insert(workflow, one.recovery);
    }
}

/// The entries that lead from the general recovery to those of single workflows.
pub(super) fn entries(config: &Config) -> Vec<String> {
    let whole = |recovery: &Recovery| Config { recovery: recovery.clone(), ..Config::default() };
    let general = whole(&config.recovery);
    let of = |(workflow, recovery): (&WorkflowName, &Recovery)| {
        let own = whole(recovery);
        let differs = |row: &&EngineSetting| row.get(&own) != row.get(&general);
        let entry = |row: &EngineSetting| {
            format!("{workflow}:{}={}", row.field(), row.spec.kind.text(&row.get(&own)))
        };
        fields().filter(differs).map(entry).collect::<Vec<_>>()
    };
    config.recovery_of.iter().flat_map(of).collect()
}
