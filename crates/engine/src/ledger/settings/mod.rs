//! The settings of an engine as data: one row for each, from which files, environments, flags and documents are read
//! and written.
//!
//! Invariant: every field of [`Config`] has a row, except those that only a program can set. A new field is one row in
//! `table`; the test `every_field_of_the_configuration_has_a_row` fails without it.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `value` | types, ranges and texts of values |
//! | `table` | the rows |
//! | `per_workflow` | the texts of `recovery.workflows` and `steps.workflows` |
//! | `given` | values from outside, the errors of wrong ones, and which of two values holds |

mod given;
mod per_workflow;
mod table;
mod value;

use std::borrow::Cow;
use std::time::Duration;

use crate::ledger::config::Config;

pub use given::{GivenSettings, SettingError, SettingFlaw, env_names, is_of_cluster, unknown_name};
pub use per_workflow::WorkflowSection;
pub use table::{ENGINE_SETTINGS, EngineSetting};
pub use value::{SettingKind, SettingValue, span_text};

/// The prefix of every environment variable that is not an alias.
const ENV_PREFIX: &str = "GOLDSEAM_";

/// The description of a setting.
#[derive(Debug)]
pub struct SettingSpec {
    /// Its name in files and for `--set`: `section.field`, or a field without a section.
    pub name: &'static str,
    /// Type and range.
    pub kind: SettingKind,
    /// The default value as text; none for a setting of [`Config`], whose default is that of the field.
    pub default: Option<&'static str>,
    /// Other names.
    pub aliases: &'static [SettingAlias],
    /// The flag of its own on the command line, if it has one.
    pub flag: Option<&'static str>,
    /// Help text.
    pub help: &'static str,
}

/// Another name of a setting. One alias may name several settings: then it sets all of them.
#[derive(Debug)]
pub struct SettingAlias {
    /// The name in files and for `--set`; none: it is an environment variable only.
    pub name: Option<&'static str>,
    /// The environment variable; none: made from the name.
    pub env: Option<&'static str>,
    /// The unit of a plain number under this name.
    pub unit: AliasUnit,
}

/// The unit of a plain number under an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AliasUnit {
    /// The alias is written like the setting itself.
    Same,
    /// The alias is a number of these units.
    Span(Duration),
    /// The alias is a number of these units, and 0 is "off".
    SpanOrOff(Duration),
}

/// A name under which a setting was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingName<'a> {
    /// In a file, or for `--set`.
    Field(&'a str),
    /// An environment variable.
    Env(&'a str),
}

impl SettingAlias {
    /// The environment variable of this alias.
    pub fn env(&self) -> Cow<'static, str> {
        match (self.env, self.name) {
            (Some(env), _) => Cow::Borrowed(env),
            (None, name) => Cow::Owned(env_of(name.unwrap_or_default())),
        }
    }
}

/// The environment variable of a name: `healing.sweep` is `GOLDSEAM_HEALING_SWEEP`.
pub fn env_of(name: &str) -> String {
    format!("{ENV_PREFIX}{}", name.replace('.', "_").to_uppercase())
}

impl SettingSpec {
    /// The environment variable of this setting.
    pub fn env(&self) -> String {
        env_of(self.name)
    }

    /// The section of the name; empty if it has none.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// The unit of a plain number, if the setting has this name; none if it has not.
    pub fn unit_under(&self, name: SettingName<'_>) -> Option<AliasUnit> {
        let is_alias = |alias: &&SettingAlias| match name {
            SettingName::Field(field) => alias.name == Some(field),
            SettingName::Env(env) => alias.env() == env,
        };
        let is_own = match name {
            SettingName::Field(field) => self.name == field,
            SettingName::Env(env) => self.env() == env,
        };
        match is_own {
            true => Some(AliasUnit::Same),
            false => self.aliases.iter().find(is_alias).map(|alias| alias.unit),
        }
    }

    /// Parses a text that was given under one of the names of this setting.
    pub fn parse(&self, text: &str, unit: AliasUnit) -> Result<SettingValue, SettingFlaw> {
        let (span, has_off) = match unit {
            AliasUnit::Same => return self.kind.parse(text),
            AliasUnit::Span(span) => (span, false),
            AliasUnit::SpanOrOff(span) => (span, true),
        };
        let number: u64 = text
            .trim()
            .parse()
            .map_err(|_| SettingFlaw::NotA("a plain number, as the unit is in the name"))?;
        if has_off && number == 0 {
            return Ok(SettingValue::Unset);
        }
        let whole = u32::try_from(number).ok().and_then(|number| span.checked_mul(number));
        self.kind.check(SettingValue::Span(whole.unwrap_or(Duration::MAX)))
    }
}

impl Config {
    /// The defaults with the settings of the process environment: `GOLDSEAM_ENGINE_SLOTS=200` and others, which
    /// `docs/guides/configuring.md` lists.
    ///
    /// [`Builder`](crate::Builder) reads the environment by itself; this is for programs that look at the values.
    ///
    /// ```
    /// let config = goldseam::Config::from_env()?;
    /// assert_eq!(config.slots, 1_000);
    /// # Ok::<(), goldseam::EngineError>(())
    /// ```
    pub fn from_env() -> Result<Self, crate::ledger::error::EngineError> {
        let mut config = Self::default();
        GivenSettings::of_process()?.apply(&mut config);
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
