//! Settings from outside the program: which row a name belongs to, which of two values holds, and what is wrong.

use std::collections::BTreeMap;
use std::fmt;

use goldseam_core::argument::meant;

use super::table::{ENGINE_SETTINGS, EngineSetting};
use super::value::SettingValue;
use super::{ENV_PREFIX, SettingName, SettingSpec};
use crate::ledger::config::Config;

/// Longest part of a refused text in an error.
const SHOWN_MAX: usize = 80;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingFlaw {
    /// It is not of this type.
    NotA(&'static str),
    /// A unit is missing; with the value as seconds.
    NoUnit(String),
    /// It is outside this range.
    OutOfRange(String),
    /// One entry of a list is wrong.
    Entry {
        /// The entry.
        entry: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for SettingFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotA(what) => write!(f, "expected {what}"),
            Self::NoUnit(seconds) => write!(f, "the unit is missing; write {seconds} for seconds"),
            Self::OutOfRange(range) => write!(f, "it must be {range}"),
            Self::Entry { entry, why } => write!(f, "in {entry:?}: {why}"),
        }
    }
}

/// Why a setting is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No setting has this name.
    #[error("unknown setting {name}{meant}")]
    Unknown {
        /// The name.
        name: String,
        /// Similar names, or an empty text.
        meant: String,
    },
    /// The value is not one of this setting.
    #[error("invalid value {text:?} of {name}: {flaw}")]
    Invalid {
        /// The name under which it was given.
        name: String,
        /// The value, shortened.
        text: String,
        /// What is wrong.
        flaw: SettingFlaw,
    },
    /// Two names of one setting have different values.
    #[error("{} is {:?}, but {} is {:?}, and both set {setting}", .one.0, .one.1, .other.0, .other.1)]
    Disagree {
        /// The setting.
        setting: &'static str,
        /// A name and its value.
        one: (String, String),
        /// The other name and its value.
        other: (String, String),
    },
}

impl SettingError {
    /// The refusal of a value under a name.
    pub fn invalid(name: impl Into<String>, text: &str, flaw: SettingFlaw) -> Self {
        Self::Invalid { name: name.into(), text: text.chars().take(SHOWN_MAX).collect(), flaw }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "GS0320",
            Self::Invalid { flaw: SettingFlaw::OutOfRange(_), .. } => "GS0322",
            Self::Invalid { .. } => "GS0321",
            Self::Disagree { .. } => "GS0323",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "docs/guides/configuring.md lists every setting with its names",
            Self::Invalid { .. } => "docs/guides/configuring.md lists the type and range of every setting",
            Self::Disagree { .. } => "remove one of the two",
        }
    }
}

/// Refuses an unknown name, with similar ones.
pub fn unknown_name<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> SettingError {
    let name: String = name.chars().take(SHOWN_MAX).collect();
    SettingError::Unknown { meant: meant(&name, known), name }
}

/// Every environment variable of these settings.
pub fn env_names<'a>(specs: impl IntoIterator<Item = &'a SettingSpec>) -> Vec<String> {
    let names = |spec: &SettingSpec| {
        let aliases = spec.aliases.iter().map(|alias| alias.env().into_owned());
        std::iter::once(spec.env()).chain(aliases).collect::<Vec<_>>()
    };
    let mut names: Vec<String> = specs.into_iter().flat_map(names).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Settings of an engine from an environment, each with the name of its variable.
#[derive(Debug, Clone, Default)]
pub struct GivenSettings(Vec<GivenSetting>);

#[derive(Debug, Clone)]
struct GivenSetting {
    setting: &'static EngineSetting,
    value: SettingValue,
    from: String,
}

impl GivenSettings {
    /// Reads the environment of this process.
    pub fn of_process() -> Result<Self, SettingError> {
        let is_ours = |name: &str| name.starts_with(ENV_PREFIX) || name.starts_with("WORKFLOW_");
        let vars = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self::of(vars.filter(|(name, _)| is_ours(name)).map(|(name, value)| {
            (name, value.into_string().unwrap_or_else(|bytes| bytes.to_string_lossy().into_owned()))
        }))
    }

    /// Reads environment variables. A variable with an empty value counts as unset. A variable of a section of these
    /// settings, or with nearly the name of one, that names none is refused.
    pub fn of(vars: impl IntoIterator<Item = (String, String)>) -> Result<Self, SettingError> {
        let mut given: BTreeMap<usize, GivenSetting> = BTreeMap::new();
        for (env, text) in vars.into_iter().filter(|(_, text)| !text.trim().is_empty()) {
            let mut is_known = false;
            for (at, setting) in ENGINE_SETTINGS.iter().enumerate() {
                let Some(unit) = setting.spec.unit_under(SettingName::Env(&env)) else { continue };
                is_known = true;
                let parsed = setting.spec.parse(&text, unit);
                let value = parsed.map_err(|flaw| SettingError::invalid(env.clone(), &text, flaw))?;
                let new = GivenSetting { setting, value, from: env.clone() };
                if let Some(old) = given.insert(at, new.clone())
                    && old.value != new.value
                {
                    return Err(old.disagrees_with(&new));
                }
            }
            if !is_known {
                refuse_similar(&env)?;
            }
        }
        Ok(Self(given.into_values().collect()))
    }

    /// Sets every given value.
    pub fn apply(&self, config: &mut Config) {
        self.0.iter().for_each(|given| given.setting.set(config, &given.value));
    }

    /// Sets every given value whose field still has its default: a field that the program changed keeps its value.
    pub fn apply_to_defaults(&self, config: &mut Config) {
        for GivenSetting { setting, value, .. } in &self.0 {
            if setting.get(config) == setting.default_value() {
                setting.set(config, value);
            }
        }
    }

    /// Logs which variables hold, and which the program overrides.
    pub(crate) fn log(&self, config: &Config) {
        for GivenSetting { setting, value, from } in &self.0 {
            let name = setting.spec.name;
            let is_used = setting.get(config) == *value;
            let what = if is_used { "uses" } else { "overrides" };
            tracing::info!(setting = name, %value, from, "the engine {what} a setting of the environment");
        }
    }
}

impl GivenSetting {
    fn disagrees_with(&self, other: &Self) -> SettingError {
        let named = |given: &Self| (given.from.clone(), given.setting.spec.kind.text(&given.value));
        SettingError::Disagree { setting: self.setting.spec.name, one: named(self), other: named(other) }
    }
}

/// Whether a cluster creates such variables for a service: `GOLDSEAM_ENGINE_SERVICE_HOST`, `GOLDSEAM_PORT_7733_TCP`.
pub fn is_of_cluster(env: &str) -> bool {
    env.contains("_SERVICE_HOST")
        || env.contains("_SERVICE_PORT")
        || env.contains("_PORT_")
        || env.ends_with("_PORT")
}

/// Refuses a variable that looks like one of these settings. Other programs may have variables with this prefix.
fn refuse_similar(env: &str) -> Result<(), SettingError> {
    let specs = || ENGINE_SETTINGS.iter().map(|setting| &setting.spec);
    let Some(rest) = env.strip_prefix(ENV_PREFIX).filter(|_| !is_of_cluster(env)) else { return Ok(()) };
    let in_section = specs().any(|spec| {
        let section = spec.section().to_uppercase();
        rest.strip_prefix(section.as_str()).is_some_and(|rest| rest.starts_with('_'))
    });
    let known = env_names(specs());
    let known = || known.iter().map(String::as_str);
    match in_section || !meant(env, known()).is_empty() {
        true => Err(unknown_name(env, known())),
        false => Ok(()),
    }
}
