//! Settings from all sources: flags override the environment, which overrides the file, which overrides the defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use goldseam::shown_url;
use goldseam::unstable::core::argument::meant;
use goldseam::unstable::engine::settings::{
    AliasUnit, ENGINE_SETTINGS, SettingError, SettingName, SettingSpec, SettingValue, env_names,
    is_of_cluster, unknown_name,
};
use goldseam_api::Problem;
use serde::Serialize;

use super::fields::all_settings;
use super::file::{self, FileSetting};
use super::{FILE_DEFAULT, hidden};

/// Variables that are not settings.
const OTHER_VARIABLES: [&str; 6] = [
    "GOLDSEAM_SERVER",
    "GOLDSEAM_KEY",
    "GOLDSEAM_KEY_FILE",
    "GOLDSEAM_LOG",
    "GOLDSEAM_LOG_FORMAT",
    "GOLDSEAM_WRITE",
];

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A configuration file, and the line.
    File(PathBuf, usize),
    /// An environment variable.
    Env(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "file {}:{line}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// A setting as `goldseam config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its name.
    pub name: &'static str,
    /// Its value without passwords.
    pub value: String,
    /// Its source.
    pub origin: String,
    /// Its help text.
    pub help: &'static str,
    /// Its default value.
    pub default: String,
    /// Its environment variables, the plain one first.
    pub env: Vec<String>,
    /// Its type and range.
    pub allowed: String,
    /// Values of weaker sources that this value overrides, with their sources, the strongest first.
    pub overrides: Vec<String>,
}

/// The value of a setting and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeldSetting {
    pub(super) text: String,
    pub(super) value: SettingValue,
    pub(super) origin: Origin,
    /// Texts of weaker sources.
    overrides: Vec<(String, Origin)>,
    /// Why the value is refused.
    flaw: Option<SettingError>,
}

/// A text of one source, with the name that it was given under.
struct GivenValue {
    name: String,
    text: String,
    unit: AliasUnit,
    origin: Origin,
}

/// All settings, each with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, HeldSetting>);

impl Settings {
    /// Merges the sources: defaults, then the file, then the environment, then flags. Fails if a named file is missing
    /// or has an unknown setting.
    pub fn gather(
        flags: &BTreeMap<&'static str, String>,
        env: impl Fn(&str) -> Option<String>,
        file: Option<&Path>,
    ) -> Result<Self, Problem> {
        let named = file.unwrap_or(Path::new(FILE_DEFAULT));
        let from_file = match file.is_some() || named.exists() {
            true => file::read(named)?,
            false => BTreeMap::new(),
        };
        let held = |spec: &'static SettingSpec| {
            let layers = [of_flags(spec, flags), of_env(spec, &env), of_file(spec, &from_file, named)];
            (spec.name, HeldSetting::of(spec, layers))
        };
        Ok(Self(all_settings().map(held).collect()))
    }

    /// Returns the settings given by flags alone, without a file and without the environment.
    pub fn of_flags(flags: &BTreeMap<&'static str, String>) -> Self {
        let held = |spec: &'static SettingSpec| (spec.name, HeldSetting::of(spec, [of_flags(spec, flags)]));
        Self(all_settings().map(held).collect())
    }

    /// Returns the name of a setting for `--set`: its own or an older one.
    pub fn name_of(name: &str) -> Result<&'static str, SettingError> {
        let names = || {
            let of = |spec: &'static SettingSpec| {
                std::iter::once(spec.name).chain(spec.aliases.iter().filter_map(|alias| alias.name))
            };
            all_settings().flat_map(of)
        };
        names().find(|known| *known == name).ok_or_else(|| unknown_name(name, names()))
    }

    /// Refuses environment variables that look like settings but are unknown.
    pub fn refuse_unknown_env(vars: impl IntoIterator<Item = String>) -> Result<(), Problem> {
        let known = env_names(all_settings());
        let sections: Vec<String> = all_settings()
            .filter(|spec| !spec.section().is_empty())
            .map(|spec| format!("GOLDSEAM_{}_", spec.section().to_uppercase()))
            .collect();
        for name in vars {
            let is_other = !name.starts_with("GOLDSEAM_")
                || OTHER_VARIABLES.contains(&name.as_str())
                || is_of_cluster(&name);
            if is_other || known.contains(&name) {
                continue;
            }
            let names = || known.iter().map(String::as_str);
            let in_section = sections.iter().any(|section| name.starts_with(section.as_str()));
            if in_section || !meant(&name, names()).is_empty() {
                return Err(problem(&unknown_name(&name, names())));
            }
        }
        Ok(())
    }

    pub(super) fn held(&self, name: &str) -> Option<&HeldSetting> {
        self.0.get(name)
    }

    /// Refuses the first value that is not one of its setting.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let flaws = all_settings().filter_map(|spec| self.0.get(spec.name)?.flaw.as_ref());
        flaws.into_iter().next().map_or(Ok(()), |error| Err(problem(error)))
    }

    /// Returns every setting without its passwords.
    pub fn shown(&self) -> Vec<Shown> {
        let shown = |spec: &'static SettingSpec| {
            let held = self.0.get(spec.name)?;
            let kind = spec.kind.name();
            let range = spec.kind.range();
            let over = |(text, origin): &(String, Origin)| format!("{} ({origin})", printable(spec, text));
            Some(Shown {
                name: spec.name,
                value: printable(spec, &held.text),
                origin: held.origin.to_string(),
                help: spec.help,
                default: default_text(spec),
                env: env_of(spec),
                allowed: if range.is_empty() { kind.to_owned() } else { format!("{kind}: {range}") },
                overrides: held.overrides.iter().map(over).collect(),
            })
        };
        all_settings().filter_map(shown).collect()
    }
}

impl HeldSetting {
    /// Takes the first layer that names the setting.
    fn of(spec: &'static SettingSpec, layers: impl IntoIterator<Item = Vec<GivenValue>>) -> Self {
        let mut held: Option<Self> = None;
        for candidates in layers {
            for candidate in candidates {
                match &mut held {
                    None => held = Some(Self::take(spec, candidate)),
                    Some(held) => held.weigh(spec, candidate),
                }
            }
        }
        held.unwrap_or_else(|| {
            let name = spec.name.to_owned();
            let text = default_text(spec);
            Self::take(spec, GivenValue { name, text, unit: AliasUnit::Same, origin: Origin::Default })
        })
    }

    fn take(spec: &SettingSpec, candidate: GivenValue) -> Self {
        let GivenValue { name, text, unit, origin } = candidate;
        let (value, flaw) = match spec.parse(&text, unit) {
            Ok(value) => (value, None),
            Err(flaw) => {
                let error = SettingError::invalid(format!("{name} ({origin})"), &text, flaw);
                (SettingValue::Unset, Some(error))
            }
        };
        // A value under an older name is shown as it would be under its own.
        let text = match unit {
            AliasUnit::Same => text,
            _ if flaw.is_some() => text,
            _ => spec.kind.text(&value),
        };
        Self { text, value, origin, overrides: Vec::new(), flaw }
    }

    /// Keeps a value of a weaker source for display; refuses another value of the same source.
    fn weigh(&mut self, spec: &'static SettingSpec, candidate: GivenValue) {
        let other = Self::take(spec, candidate);
        let is_same_source = std::mem::discriminant(&self.origin) == std::mem::discriminant(&other.origin);
        if is_same_source && self.value != other.value && self.flaw.is_none() {
            let named = |held: &Self| (held.origin.to_string(), printable(spec, &held.text));
            let one = named(self);
            let other = named(&other);
            self.flaw = Some(SettingError::Disagree { setting: spec.name, one, other });
        } else if !is_same_source {
            self.overrides.push((other.text, other.origin));
        }
    }
}

fn of_flags(spec: &SettingSpec, flags: &BTreeMap<&'static str, String>) -> Vec<GivenValue> {
    let candidate = |(name, text): (&&'static str, &String)| {
        let unit = spec.unit_under(SettingName::Field(name))?;
        Some(GivenValue { name: (*name).to_owned(), text: text.clone(), unit, origin: Origin::Flag })
    };
    flags.iter().filter_map(candidate).collect()
}

fn of_env(spec: &SettingSpec, env: &impl Fn(&str) -> Option<String>) -> Vec<GivenValue> {
    let candidate = |name: String| {
        let text = env(&name).filter(|text| !text.is_empty())?;
        let unit = spec.unit_under(SettingName::Env(&name))?;
        Some(GivenValue { text, unit, origin: Origin::Env(name.clone()), name })
    };
    env_of(spec).into_iter().filter_map(candidate).collect()
}

fn of_file(spec: &SettingSpec, file: &BTreeMap<String, FileSetting>, path: &Path) -> Vec<GivenValue> {
    let candidate = |(name, setting): (&String, &FileSetting)| {
        let unit = spec.unit_under(SettingName::Field(name))?;
        let origin = Origin::File(path.to_owned(), setting.line);
        Some(GivenValue { name: name.clone(), text: setting.text.clone(), unit, origin })
    };
    file.iter().filter_map(candidate).collect()
}

/// The environment variables of a setting, the plain one first.
pub(super) fn env_of(spec: &SettingSpec) -> Vec<String> {
    let aliases = spec.aliases.iter().map(|alias| alias.env().into_owned());
    std::iter::once(spec.env()).chain(aliases).collect()
}

/// The default value as text.
pub(super) fn default_text(spec: &SettingSpec) -> String {
    if let Some(text) = spec.default {
        return text.to_owned();
    }
    let row = ENGINE_SETTINGS.iter().find(|row| row.spec.name == spec.name);
    row.map(|row| spec.kind.text(&row.default_value())).unwrap_or_default()
}

/// Removes passwords.
fn printable(spec: &SettingSpec, text: &str) -> String {
    match spec.name {
        "store" | "archive" | "otlp" => shown_url(text),
        "namespaces" => hidden(text),
        _ => text.to_owned(),
    }
}

/// The problem of a refused setting.
pub(super) fn problem(error: &SettingError) -> Problem {
    let hint = match error {
        SettingError::Disagree { .. } => error.hint(),
        _ => "goldseam config show --origin lists every setting, its names, type and range",
    };
    Problem::bad_request(error.to_string()).code(error.code()).hint(hint)
}
