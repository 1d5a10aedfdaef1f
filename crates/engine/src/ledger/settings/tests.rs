use std::collections::BTreeSet;

use super::*;
use crate::ledger::error::EngineError;

/// Fields that only a program can set.
const PROGRAM_ONLY: [&str; 3] = ["namespace", "beat_on_thread", "foreign.lookup"];

/// The leaves of a value's debug text, with their paths: `recovery.park: true`.
fn leaves(config: &Config) -> BTreeSet<(String, String)> {
    let mut path: Vec<String> = Vec::new();
    let mut found = BTreeSet::new();
    for line in format!("{config:#?}").lines().map(str::trim) {
        let (name, value) = line.split_once(": ").unwrap_or(("", line));
        match () {
            () if value.ends_with(['{', '(', '[']) => path.push(name.to_owned()),
            () if value.starts_with(['}', ')', ']']) => drop(path.pop()),
            () => {
                let whole = path.iter().map(String::as_str).chain([name]).filter(|part| !part.is_empty());
                found.insert((whole.collect::<Vec<_>>().join("."), value.trim_end_matches(',').to_owned()));
            }
        }
    }
    found
}

/// Another value of a setting than the one in the configuration.
fn other_value(row: &EngineSetting, config: &Config) -> SettingValue {
    match row.get(config) {
        SettingValue::Span(span) => SettingValue::Span(span + Duration::from_secs(86_400)),
        SettingValue::Number(number) => SettingValue::Number(number + 1),
        SettingValue::Flag(flag) => SettingValue::Flag(!flag),
        SettingValue::List(_) if row.field() == "workflows" => {
            SettingValue::List(vec!["order:attempts_max=5".to_owned()])
        }
        SettingValue::List(_) => SettingValue::List(vec!["other".to_owned()]),
        SettingValue::Text(_) => SettingValue::Text("other".to_owned()),
        SettingValue::Unset => match row.spec.kind {
            SettingKind::Count { .. } => SettingValue::Number(7),
            SettingKind::Span { .. } => SettingValue::Span(Duration::from_secs(90)),
            _ => SettingValue::Text("other".to_owned()),
        },
    }
}

#[test]
fn every_field_of_the_configuration_has_a_row() {
    let config = Config { foreign: Some(Default::default()), ..Config::default() };
    let before = leaves(&config);
    let names = |leaves: &BTreeSet<(String, String)>| -> BTreeSet<String> {
        // Entries of a list have no name of their own.
        let field = |name: &str| match name.split('.').next() {
            Some(list @ ("queues" | "recovery_of" | "steps_of")) => list.to_owned(),
            _ => name.to_owned(),
        };
        leaves.iter().map(|(name, _)| field(name)).collect()
    };
    let mut settable = BTreeSet::new();
    for row in ENGINE_SETTINGS {
        let mut changed = config.clone();
        row.set(&mut changed, &other_value(row, &config));
        let after = leaves(&changed);
        let differing: BTreeSet<_> = before.symmetric_difference(&after).cloned().collect();
        assert!(!differing.is_empty(), "{} sets nothing", row.spec.name);
        settable.extend(names(&differing));
    }
    let missing: Vec<String> = names(&before)
        .into_iter()
        .filter(|name| {
            !settable.contains(name) && !settable.iter().any(|set| set.starts_with(&format!("{name}.")))
        })
        .filter(|name| !PROGRAM_ONLY.contains(&name.as_str()))
        .collect();
    assert_eq!(missing, [""; 0], "add a row to ENGINE_SETTINGS for each of these fields of Config");
}

#[test]
fn a_shown_value_parses_to_itself() {
    let config = Config { foreign: Some(Default::default()), ..Config::default() };
    for row in ENGINE_SETTINGS {
        for value in [row.get(&config), other_value(row, &config)] {
            let text = row.spec.kind.text(&value);
            assert_eq!(row.spec.parse(&text, AliasUnit::Same), Ok(value), "{}: {text:?}", row.spec.name);
        }
    }
}

#[test]
fn names_are_distinct_and_made_of_section_and_field() {
    let mut names = BTreeSet::new();
    for row in ENGINE_SETTINGS {
        assert!(!row.spec.section().is_empty(), "{}", row.spec.name);
        assert!(names.insert(row.spec.env()), "{}", row.spec.name);
        assert!(!row.spec.help.ends_with('.') && row.spec.help.len() <= 120, "{}", row.spec.help);
    }
}

fn given(vars: &[(&str, &str)]) -> Result<Config, SettingError> {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut config = Config::default();
    GivenSettings::of(vars)?.apply(&mut config);
    Ok(config)
}

#[test]
fn reads_the_environment() {
    let config = given(&[
        ("GOLDSEAM_HEALING_SILENCE_MAX", "20s"),
        ("GOLDSEAM_HEALING_SWEEP", "off"),
        ("GOLDSEAM_RECOVERY_WORKFLOWS", "order:attempts_max=5, order:park=false"),
        ("GOLDSEAM_LIMITS_PAYLOAD_BYTES_MAX", "1MiB"),
        ("GOLDSEAM_AUDIT_RETENTION_DAYS", "0"),
        ("GOLDSEAM_ENGINE_LINGER", ""),
        ("GOLDSEAM_STORE", "sqlite:x.db"),
        ("GOLDSEAM_SERVICE_HOST", "10.0.0.1"),
        ("GOLDSEAM_ENGINE_SERVICE_HOST", "10.0.0.1"),
        ("GOLDSEAM_ENGINE_PORT_7733_TCP", "tcp://10.0.0.1:7733"),
    ])
    .unwrap();
    assert_eq!((config.silence_max, config.sweep), (Duration::from_secs(20), None));
    assert_eq!((config.audit_retention, config.linger), (None, Config::default().linger));
    let order = &config.recovery_of[&goldseam_core::WorkflowName::new("order").unwrap()];
    assert_eq!((order.attempts_max, order.park), (5, false));
    assert_eq!(config.limits.payload_bytes_max, 1 << 20);
}

#[test]
fn reads_the_names_of_the_runbook() {
    let config = given(&[
        ("WORKFLOW_HEARTBEAT_TIMEOUT_MS", "90000"),
        ("WORKFLOW_HEARTBEAT_CHECK_INTERVAL_MS", "5000"),
        ("WORKFLOW_HEARTBEAT_CHECK_BATCH", "7"),
        ("WORKFLOW_CONCURRENCY", "12"),
        ("WORKFLOW_OF_ANOTHER_PROGRAM", "x"),
    ])
    .unwrap();
    assert_eq!(config.heartbeat_timeout, Some(Duration::from_secs(90)));
    assert_eq!((config.monitor, config.monitor_batch, config.slots), (Duration::from_secs(5), 7, 12));
}

#[test]
fn refuses_unknown_wrong_and_contradicting_settings() {
    for (vars, code, words) in [
        (&[("GOLDSEAM_HEALING_SWEEEP", "5s")][..], "GS0320", "did you mean GOLDSEAM_HEALING_SWEEP?"),
        (&[("GOLDSEAM_HEALNG_SWEEP", "5s")], "GS0320", "did you mean GOLDSEAM_HEALING_SWEEP?"),
        (&[("GOLDSEAM_LIMITS_WEIGHT", "5")], "GS0320", "unknown setting GOLDSEAM_LIMITS_WEIGHT"),
        (&[("GOLDSEAM_HEALING_SWEEP", "30")], "GS0321", "write 30s for seconds"),
        (&[("GOLDSEAM_HEALING_SWEEP", "5 minutes")], "GS0321", "a time with its unit"),
        (&[("GOLDSEAM_ENGINE_SLOTS", "many")], "GS0321", "a whole number"),
        (&[("GOLDSEAM_ENGINE_SLOTS", "0")], "GS0322", "at least 1"),
        (&[("GOLDSEAM_ENGINE_QUEUES", "a b")], "GS0321", "a b"),
        (&[("GOLDSEAM_LIMITS_PAYLOAD_BYTES_MAX", "3MiB")], "GS0322", "1 to 2MiB"),
        (&[("GOLDSEAM_RECOVERY_WORKFLOWS", "order:tries=5")], "GS0321", "attempts_max"),
        (&[("WORKFLOW_HEARTBEAT_TIMEOUT_MS", "60s")], "GS0321", "plain number"),
        (&[("WORKFLOW_CONCURRENCY", "5"), ("GOLDSEAM_ENGINE_SLOTS", "6")], "GS0323", "both set engine.slots"),
    ] {
        let error = given(vars).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(EngineError::from(error).code(), code);
    }
    given(&[("WORKFLOW_CONCURRENCY", "5"), ("GOLDSEAM_ENGINE_SLOTS", "5")]).unwrap();
}

#[test]
fn fields_that_the_program_changed_keep_their_values() {
    let vars = [("GOLDSEAM_ENGINE_SLOTS", "5"), ("GOLDSEAM_ENGINE_POLL", "3s")];
    let given = GivenSettings::of(vars.map(|(name, value)| (name.to_owned(), value.to_owned()))).unwrap();
    let mut config = Config { poll: Duration::from_secs(2), ..Config::default() };
    given.apply_to_defaults(&mut config);
    assert_eq!((config.slots, config.poll), (5, Duration::from_secs(2)));
}
