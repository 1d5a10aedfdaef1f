use std::path::Path;

use super::*;

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("server.toml");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

fn origin_of(settings: &Settings, name: &str) -> (String, String) {
    let shown = settings.shown().into_iter().find(|shown| shown.name == name).unwrap();
    (shown.value, shown.origin)
}

#[test]
fn flags_override_environment_and_environment_overrides_file() {
    let (_dir, path) = file("listen = \"127.0.0.1:1\"\nbody_bytes_max = 7\nconnections_max = 9\n");
    let env = |name: &str| {
        let value = match name {
            "GOLDSEAM_LISTEN" => "127.0.0.1:2",
            "GOLDSEAM_BODY_BYTES_MAX" => "8",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let flags = BTreeMap::from([("listen", "127.0.0.1:3".to_owned())]);
    let settings = Settings::gather(&flags, env, Some(&path)).unwrap();
    let config = settings.config().unwrap();
    assert_eq!(config.listen, "127.0.0.1:3");
    assert_eq!((config.body_bytes_max, config.connections_max), (8, 9));
    assert_eq!(origin_of(&settings, "listen").1, "command line");
    assert_eq!(origin_of(&settings, "body_bytes_max").1, "environment GOLDSEAM_BODY_BYTES_MAX");
    assert_eq!(origin_of(&settings, "connections_max").1, format!("file {}:3", path.display()));
    assert_eq!(origin_of(&settings, "drain_seconds").1, "default");
}

#[test]
fn healing_settings_reach_the_engine() {
    let (_dir, path) = file("version_grace_seconds = 7\nforeign_states = true\n");
    let settings = |path: Option<&Path>| Settings::gather(&BTreeMap::new(), |_| None, path).unwrap();
    let engine = settings(Some(&path)).config().unwrap().engine("default");
    assert_eq!(
        (engine.recovery.version_grace, engine.foreign),
        (Duration::from_secs(7), Some(Default::default()))
    );
    let (_dir, empty) = file("");
    let engine = settings(Some(&empty)).config().unwrap().engine("default");
    assert_eq!((engine.recovery.version_grace, engine.foreign), (Duration::from_secs(300), None));
}

#[test]
fn reads_namespaces_from_a_table_and_hides_passwords() {
    let (_dir, path) = file(
        "store = \"postgres://ada:secret-1@db/a\"\n[namespaces]\nshop = \"postgres://ada:secret-2@db/b\"\n",
    );
    let settings = Settings::gather(&BTreeMap::new(), |_| None, Some(&path)).unwrap();
    assert_eq!(settings.config().unwrap().namespaces["shop"], "postgres://ada:secret-2@db/b");
    let shown = format!("{:?} {:?}", settings.shown(), settings.config().unwrap());
    assert!(!shown.contains("secret-"), "{shown}");
}

#[test]
fn neither_output_nor_errors_contain_secrets() {
    let flags = BTreeMap::from([("otlp", "http://ada:hush@collector:4318".to_owned())]);
    let shown = format!("{:?}", Settings::of_flags(&flags).shown());
    assert!(shown.contains("collector:4318") && !shown.contains("hush"), "{shown}");
    for text in [
        "listen = \"127.0.0.1:1\"\nstore = \"postgres://ada:hush@db/a\" x",
        "store = postgres://ada:hush@db/a",
        "store = { url = [\"postgres://ada:hush@db/a\"] }",
        "namespaces = \"postgres://ada:hush@db/a\"",
    ] {
        let (_dir, path) = file(text);
        let gathered = Settings::gather(&BTreeMap::new(), |_| None, Some(&path));
        let problem = gathered.and_then(|settings| settings.config()).unwrap_err();
        assert!(!format!("{problem:?}").contains("hush"), "{text}: {problem:?}");
    }
    let (_dir, path) = file("listen = \"127.0.0.1:1\"\nx\n");
    let problem = Settings::gather(&BTreeMap::new(), |_| None, Some(&path)).unwrap_err();
    assert!(problem.detail.contains("line 2"), "{problem}");
}

#[test]
fn shows_names_but_not_values_of_secrets_from_env() {
    let env = |name: &str| (name == "BANK_KEY").then(|| "open-sesame".to_owned());
    let of = |names: &str| {
        let flags = BTreeMap::from([("secrets_from_env", names.to_owned())]);
        let settings = Settings::gather(&flags, env, None).unwrap();
        let shown = origin_of(&settings, "secrets_from_env");
        assert_eq!(shown, (names.to_owned(), "command line".to_owned()));
        settings.config().unwrap().redactor(env)
    };
    assert_eq!(of("BANK_KEY").unwrap().text("is open-sesame"), "is [secret]");
    let problem = of("BANK_KEY, BNAK_KEY").unwrap_err();
    assert!(problem.detail.contains("BNAK_KEY") && problem.detail.contains("not set"), "{problem}");
    assert_eq!(problem.code.as_deref(), Some("GS0610"));
    assert!(problem.hint.is_some() && !format!("{problem:?}").contains("open-sesame"));
}

#[test]
fn redact_keys_replaces_or_extends_the_usual_names() {
    let has = |keys: Option<&str>, name: &str| {
        let flags = keys.map(|keys| ("redact_keys", keys.to_owned())).into_iter().collect();
        let config = Settings::of_flags(&flags).config().unwrap();
        config.redactor(|_| None).unwrap().is_secret_name(name)
    };
    assert!(has(None, "db_password") && !has(None, "iban"));
    assert!(has(Some("iban"), "iban") && !has(Some("iban"), "db_password"));
    assert!(has(Some("usual, iban"), "iban") && has(Some("usual, iban"), "db_password"));
    assert!(!has(Some("none"), "db_password") && !has(Some(""), "db_password"));
    let guide = include_str!("../../../../docs/guides/serving-a-store.md").replace('\n', " ");
    for name in USUAL.split(',') {
        assert!(guide.contains(&format!("`{}`", name.trim())), "the guide lists {name}");
    }
}

#[test]
fn each_namespace_has_its_own_archive() {
    let archive_of = |archive: &str, namespace: &str| {
        let flags = BTreeMap::from([("archive", archive.to_owned())]);
        let settings = Settings::gather(&flags, |_| None, None).unwrap();
        assert!(!format!("{:?}", settings.shown()).contains("hush"));
        settings.config().unwrap().archive_of(namespace)
    };
    let of = |archive: &str, namespace: &str| archive_of(archive, namespace).unwrap();
    assert_eq!(archive_of("", "shop"), None);
    assert_eq!((of("/a/", "default"), of("/a/", "shop")), ("/a/".to_owned(), "/a/shop".to_owned()));
    assert_eq!(of("what?", "shop"), "what?/shop");
    assert_eq!(of("s3://bucket", "shop"), "s3://bucket/shop");
    let keys = "?access_key_id=a&secret_access_key=hush";
    assert_eq!(of(&format!("s3://bucket/a{keys}"), "shop"), format!("s3://bucket/a/shop{keys}"));
}

#[test]
fn invalid_settings_are_reported_with_their_source() {
    let problem_in = |text: &str| {
        let (_dir, path) = file(text);
        let gathered = Settings::gather(&BTreeMap::new(), |_| None, Some(&path));
        gathered.and_then(|settings| settings.config()).unwrap_err()
    };
    for (text, code, words) in [
        ("lisen = \"x\"", "GS0320", "server.toml:1: unknown setting lisen (did you mean listen?)"),
        ("[healing]\n\nswep = \"5s\"", "GS0320", "server.toml:3: unknown setting healing.swep (did you mean"),
        ("[heeling]\nsweep = \"5s\"", "GS0320", "server.toml:1: unknown setting heeling"),
        ("body_bytes_max = \"many\"", "GS0321", "invalid value \"many\" of body_bytes_max (file"),
        ("[healing]\nsweep = 30", "GS0321", "server.toml:2): the unit is missing; write 30s"),
        ("requests_per_second = 0", "GS0322", "at least 1"),
        ("[engine]\nslots = 0", "GS0322", "at least 1"),
        (
            "version_grace_seconds = 7\n[recovery]\nversion_grace = \"8s\"",
            "GS0323",
            "both set recovery.version_grace",
        ),
        ("[healing]\nbeat = \"8s\"", "GS0120", "`silence_max`"),
        ("tls_cert = \"x\"", "GS0610", "must be set together"),
        ("listen = 2026-11-16", "GS0610", "listen cannot have the type"),
        ("[namespaces]\ndefault = \"sqlite:x\"", "GS0610", "namespace default is the main store"),
        ("[namespaces]\n\"a/b\" = \"sqlite:x\"", "GS0610", "invalid namespace name"),
        ("recovery = 7", "GS0320", "unknown setting recovery"),
        ("x", "GS0610", "server.toml"),
    ] {
        let problem = problem_in(text);
        assert!(problem.detail.contains(words), "{text}: {}", problem.detail);
        assert_eq!((problem.code.as_deref(), problem.hint.is_some()), (Some(code), true), "{text}");
    }
}

#[test]
fn engine_settings_come_from_file_environment_and_flags() {
    let text = "[healing]\nsilence_max = \"20s\"\nsweep = \"off\"\n[recovery]\nattempts_max = 4\n\
        [recovery.workflows.\"a.b\"]\npark = false\nstale_after = \"2m\"\n[limits]\ntags_max = 4\n";
    let (_dir, path) = file(text);
    let env = |name: &str| match name {
        "GOLDSEAM_HEALING_SILENCE_MAX" => Some("25s".to_owned()),
        "WORKFLOW_HEARTBEAT_CHECK_BATCH" => Some("7".to_owned()),
        _ => None,
    };
    let flags = BTreeMap::from([("healing.silence", "30s".to_owned())]);
    let settings = Settings::gather(&flags, env, Some(&path)).unwrap();
    let engine = settings.config().unwrap().engine("default");
    assert_eq!((engine.silence_max, engine.sweep), (Duration::from_secs(30), None));
    assert_eq!((engine.monitor_batch, engine.limits.tags_max), (7, 4));
    let workflow = goldseam::unstable::core::WorkflowName::new("a.b").unwrap();
    let recovery = engine.recovery_for(&workflow);
    assert_eq!((recovery.attempts_max, recovery.park), (4, false));
    assert_eq!(recovery.stale_after, Duration::from_secs(120));
    let shown = settings.shown().into_iter().find(|shown| shown.name == "healing.silence_max").unwrap();
    let overrides = [
        "25s (environment GOLDSEAM_HEALING_SILENCE_MAX)".to_owned(),
        format!("20s (file {}:2)", path.display()),
    ];
    assert_eq!((shown.value.as_str(), shown.origin.as_str()), ("30s", "command line"));
    assert_eq!((shown.overrides, shown.default.as_str()), (overrides.to_vec(), "10s"));
}

#[test]
fn defaults_of_rows_are_the_defaults_of_engines() {
    let config = Settings::of_flags(&BTreeMap::new()).config().unwrap();
    assert_eq!(format!("{:?}", config.engine), format!("{:?}", goldseam::Config::default()));
    for shown in Settings::of_flags(&BTreeMap::new()).shown() {
        assert_eq!(shown.value, shown.default, "{}", shown.name);
    }
}

#[test]
fn unknown_variables_of_the_environment_are_refused() {
    let refused = |name: &str| Settings::refuse_unknown_env([name.to_owned()]).err();
    for name in ["GOLDSEAM_LISTN", "GOLDSEAM_HEALING_PACE", "GOLDSEAM_SWEEPER_INTERVALL"] {
        let problem = refused(name).unwrap();
        assert_eq!(problem.code.as_deref(), Some("GS0320"), "{problem}");
    }
    for name in ["GOLDSEAM_LISTEN", "GOLDSEAM_KEY", "GOLDSEAM_PORT_7733_TCP", "PATH", "WORKFLOW_CONCURRENCY"]
    {
        assert_eq!(refused(name), None, "{name}");
    }
}

#[test]
fn the_guide_lists_every_setting() {
    let begin = "<!-- settings: generated -->\n";
    let end = "<!-- settings: end -->";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/configuring.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let (before, rest) = guide.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let made = format!("{before}{begin}{}\n{end}{after}", settings_table());
    if std::env::var_os("GOLDSEAM_WRITE").is_some() {
        std::fs::write(path, &made).unwrap();
    } else {
        assert!(guide == made, "run this test with GOLDSEAM_WRITE=1 and review the diff of {path}");
    }
}

#[test]
fn limits_that_allow_nothing_are_refused() {
    let refused = |name: &'static str, value: &str| {
        let flags = BTreeMap::from([(name, value.to_owned())]);
        let problem = Settings::gather(&flags, |_| None, None).unwrap().config().unwrap_err();
        assert!(problem.detail.contains(name), "{problem}");
    };
    for name in ["connections_per_address", "waits_max", "workers_per_key", "requests_at_once"] {
        refused(name, "0");
    }
    // One key may use half of it, and one body must fit into that half.
    refused("bodies_bytes_max", "4194303");
}

#[test]
fn parses_proxies_and_forwarding_header_or_refuses_them() {
    let config = |name: &'static str, value: &str| {
        Settings::of_flags(&BTreeMap::from([(name, value.to_owned())])).config()
    };
    let proxies = config("trusted_proxies", "10.0.0.0/8, 2001:db8::7").unwrap().proxies;
    assert_eq!(proxies.trusted.len(), 2);
    assert!(proxies.trust("10.1.2.3".parse().unwrap()) && !proxies.trust("11.1.2.3".parse().unwrap()));
    for (name, bad) in [("trusted_proxies", "10.0.0.0/33"), ("forwarding_header", "via")] {
        let problem = config(name, bad).unwrap_err();
        assert_eq!(problem.code.as_deref(), Some("GS0610"));
        assert!(problem.detail.contains(name) && problem.hint.is_some(), "{problem:?}");
    }
}

#[test]
fn reads_retention_policies_from_tables_and_text() {
    let of = |text: &str| {
        let (_dir, path) = file(&format!("archive = \"/a\"\n{text}"));
        let settings = Settings::gather(&BTreeMap::new(), |_| None, Some(&path)).unwrap();
        (origin_of(&settings, "retention").0, settings.config().unwrap().retention)
    };
    let expected = "completed=7d,failed=90d,a.b:cancelled=forever,order:completed=12h";
    let tables = "[retention]\ncompleted = \"7d\"\nfailed = \"90d\"\n[retention.workflows.order]\n\
        completed = \"12h\"\n[retention.workflows.\"a.b\"]\ncancelled = \"forever\"\n";
    let (shown, policies) = of(tables);
    assert_eq!(shown, expected);
    assert_eq!(policies.to_string(), expected);
    assert_eq!(of(&format!("retention = \"{expected}\"")).1, policies);
    let (shown, policies) = of("");
    assert!(shown.is_empty() && policies.is_empty());
}

#[test]
fn invalid_retention_policies_are_refused() {
    let problem_in = |text: &str| {
        let (_dir, path) = file(text);
        let gathered = Settings::gather(&BTreeMap::new(), |_| None, Some(&path));
        gathered.and_then(|settings| settings.config()).unwrap_err()
    };
    for (text, code, words) in [
        ("[retention]\ncompleted = \"7d\"", "GS0152", "archive is not"),
        ("archive = \"/a\"\n[retention]\ndone = \"7d\"", "GS0151", "\"done\" is not completed"),
        ("archive = \"/a\"\n[retention]\ncompleted = \"5m\"", "GS0151", "less than an hour"),
        ("archive = \"/a\"\n[retention]\ncompleted = \"7 days\"", "GS0151", "the unit"),
        (
            "archive = \"/a\"\n[retention]\ncompleted = 7",
            "GS0610",
            "retention.completed cannot have the type",
        ),
        ("archive = \"/a\"\nretention = 7", "GS0610", "retention cannot have the type integer"),
        ("archive = \"/a\"\n[retention.order]\ncompleted = \"7d\"", "GS0610", "[retention.workflows.NAME]"),
        ("archive = \"/a\"\n[retention.workflows]\norder = \"7d\"", "GS0610", "retention.workflows.order"),
        ("archive = \"/a\"\n[retention.workflows.\"a/b\"]\nfailed = \"7d\"", "GS0151", "workflow id"),
        ("archive = \"/a\"\n[retention]\ncompleted = \"7d,failed=1h\"", "GS0610", "invalid entry"),
        ("archive = \"/a\"\n[retention]\nworkflows = \"7d\"", "GS0151", "\"workflows\" is not"),
    ] {
        let problem = problem_in(text);
        assert!(problem.detail.contains(words), "{text}: {}", problem.detail);
        assert_eq!((problem.code.as_deref(), problem.hint.is_some()), (Some(code), true), "{text}");
    }
}
