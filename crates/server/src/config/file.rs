//! The configuration file: plain values, tables of sections, and the tables of namespaces, policies and recoveries.

use std::collections::BTreeMap;
use std::path::Path;

use goldseam_api::Problem;
use toml::de::{DeTable, DeValue};

use super::fields::all_settings;
use super::layers::{Settings, problem};
use super::{bad, retention};

/// The table of recoveries of single workflows.
const RECOVERIES: &str = "recovery.workflows";

/// A setting of a file.
#[derive(Debug)]
pub(super) struct FileSetting {
    pub(super) text: String,
    /// Its line, from 1.
    pub(super) line: usize,
}

/// Reads a configuration file.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, FileSetting>, Problem> {
    let wrong = |what: String| bad(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let invalid = |error: toml::de::Error| wrong(toml_error(&text, &error));
    let table: toml::Table = text.parse().map_err(invalid)?;
    let mut lines = BTreeMap::new();
    let spans = DeTable::parse(&text).map_err(invalid)?;
    note_lines(&text, "", spans.get_ref(), &mut lines);
    let mut settings = BTreeMap::new();
    let mut reader = TomlReader { lines: &lines, settings: &mut settings };
    reader.read("", &table).map_err(|error| match error {
        FileError::Unknown(name, line) => match Settings::name_of(&name) {
            Ok(_) => wrong(format!("{name} (line {line}) is a table; write a value")),
            Err(error) => {
                let mut problem = problem(&error);
                problem.detail = format!("{}:{line}: {}", path.display(), problem.detail);
                problem
            }
        },
        FileError::Wrong(what) => wrong(what),
    })?;
    Ok(settings)
}

enum FileError {
    Unknown(String, usize),
    Wrong(String),
}

struct TomlReader<'a> {
    lines: &'a BTreeMap<String, usize>,
    settings: &'a mut BTreeMap<String, FileSetting>,
}

impl TomlReader<'_> {
    fn read(&mut self, prefix: &str, table: &toml::Table) -> Result<(), FileError> {
        for (key, value) in table {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            let line = self.lines.get(&name).copied().unwrap_or(1);
            let is_known = Settings::name_of(&name).is_ok();
            if let toml::Value::Table(inner) = value
                && (!is_known || is_section(&name))
            {
                if !is_section(&name) {
                    return Err(FileError::Unknown(name, line));
                }
                self.read(&name, inner)?;
                continue;
            }
            if !is_known {
                return Err(FileError::Unknown(name, line));
            }
            let text = match name.as_str() {
                "retention" => retention::table_text(value).map_err(FileError::Wrong)?,
                RECOVERIES => recoveries_text(value).map_err(FileError::Wrong)?,
                _ => plain(value).ok_or_else(|| {
                    FileError::Wrong(format!("{name} cannot have the type {}", value.type_str()))
                })?,
            };
            self.settings.insert(name, FileSetting { text, line });
        }
        Ok(())
    }
}

/// Whether settings have this section.
fn is_section(name: &str) -> bool {
    all_settings().any(|spec| spec.section() == name)
}

/// Notes the line of every key.
fn note_lines(text: &str, prefix: &str, table: &DeTable<'_>, lines: &mut BTreeMap<String, usize>) {
    for (key, value) in table.iter() {
        let name = match prefix {
            "" => key.get_ref().to_string(),
            prefix => format!("{prefix}.{}", key.get_ref()),
        };
        let before = text.get(..key.span().start).unwrap_or_default();
        lines.insert(name.clone(), before.matches('\n').count() + 1);
        if let DeValue::Table(inner) = value.get_ref() {
            note_lines(text, &name, inner, lines);
        }
    }
}

/// Returns `[recovery.workflows.NAME]` as the text of the setting; a text stays as it is.
fn recoveries_text(value: &toml::Value) -> Result<String, String> {
    let hint = "write attempts_max = 5 under [recovery.workflows.NAME]";
    let workflows = match value {
        toml::Value::String(text) => return Ok(text.clone()),
        toml::Value::Table(table) => table,
        other => return Err(format!("{RECOVERIES} cannot have the type {}; {hint}", other.type_str())),
    };
    let mut entries = Vec::new();
    for (workflow, fields) in workflows {
        let toml::Value::Table(fields) = fields else {
            return Err(format!(
                "{RECOVERIES}.{workflow} cannot have the type {}; {hint}",
                fields.type_str()
            ));
        };
        for (field, value) in fields {
            let text = plain(value).filter(|text| !text.contains([',', '=']));
            let text =
                text.ok_or_else(|| format!("{RECOVERIES}.{workflow}.{field} is not a plain value; {hint}"))?;
            entries.push(format!("{workflow}:{field}={text}"));
        }
    }
    Ok(entries.join(","))
}

/// Names the line of a TOML error. The parser's message quotes the line, which may contain a password.
fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let end = error.span().map_or(0, |span| span.start);
    let line = text.get(..end).map_or(1, |before| before.matches('\n').count() + 1);
    format!("invalid TOML in line {line}")
}

fn plain(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Array(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()?.join(",")
        }
        toml::Value::Table(table) => {
            let entry = |(name, url): (&String, &toml::Value)| Some(format!("{name}={}", url.as_str()?));
            table.iter().map(entry).collect::<Option<Vec<_>>>()?.join(",")
        }
        toml::Value::Datetime(_) => return None,
    })
}
