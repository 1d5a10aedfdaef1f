//! `docs/protocol.md` lists every doing, event, limit and refusal of the code.

use std::collections::{BTreeMap, BTreeSet};

use goldseam::EngineError;
use goldseam::unstable::core::PayloadError;
use goldseam::unstable::core::decide::{Refusal, TooLong};
use goldseam::unstable::core::task::TaskRefusal;
use goldseam::unstable::engine::remote::RemoteRefusal;
use goldseam_api::Problem;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/protocol.md");
const OPENAPI: &str = include_str!("../../../../docs/openapi.json");
const EVENTS: &str = include_str!("../../../core/src/event.rs");
const EVENT_DATA: &str = include_str!("../../../core/src/event/data.rs");

/// Field names, each with whether it is optional.
type Fields = BTreeSet<(String, bool)>;

/// Returns the cells of the table with this head.
fn table(head: &str) -> Vec<Vec<String>> {
    let (_, rest) = PAGE.split_once(head).unwrap_or_else(|| panic!("no table {head}"));
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Returns the code words of a cell.
fn code_words(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).collect()
}

fn fields(words: &[&str]) -> Fields {
    words.iter().map(|word| (word.trim_end_matches('?').to_owned(), word.ends_with('?'))).collect()
}

#[test]
fn protocol_page_lists_every_doing_with_its_fields() {
    let openapi: Value = serde_json::from_str(OPENAPI).unwrap();
    let schemas = &openapi["components"]["schemas"];
    let mut known: BTreeMap<String, Fields> = BTreeMap::new();
    for variant in schemas["WorkerDoing"]["oneOf"].as_array().unwrap() {
        let name = variant["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        let (doing, inside) = schemas[name]["properties"].as_object().unwrap().iter().next().unwrap();
        let required: Vec<&str> =
            inside["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let own = inside["properties"].as_object().into_iter().flatten().map(|(field, _)| field);
        known.insert(
            doing.clone(),
            own.map(|field| (field.clone(), !required.contains(&field.as_str()))).collect(),
        );
    }
    let reply: BTreeMap<String, Fields> = table("| doing | fields (`?` may be left out) | when |")
        .iter()
        .map(|row| {
            let words = code_words(&row[1]);
            // The values of a field follow it in brackets.
            let brackets = row[1].split('(').nth(1).and_then(|rest| rest.split(')').next());
            let values = brackets.map(code_words).unwrap_or_default();
            let mut own =
                fields(&words.into_iter().filter(|word| !values.contains(word)).collect::<Vec<_>>());
            if row[0] == "`sleep`" {
                // Exactly one of its two times is required.
                own = own
                    .into_iter()
                    .map(|(field, may)| (field.clone(), may || field != "path" && field != "ord"))
                    .collect();
            }
            (row[0].trim_matches('`').to_owned(), own)
        })
        .collect();
    assert_eq!(reply, known);
}

/// Returns the fields that a piece of source declares.
fn declared(source: &str) -> Fields {
    let mut found = Fields::new();
    let mut may = false;
    for line in source.lines().map(str::trim) {
        may |= line.starts_with("#[serde(") && line.contains("default");
        let name = line.trim_start_matches("pub ").split_once(": ").map(|(name, _)| name);
        let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if let Some(name) = name.filter(is_name) {
            found.insert((name.to_owned(), std::mem::take(&mut may)));
        }
    }
    found
}

#[test]
fn protocol_page_lists_every_event_with_its_fields() {
    let variants = EVENTS.split("pub enum Event {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut known: BTreeMap<String, Fields> = BTreeMap::new();
    for piece in variants.split("#[serde(rename = \"").skip(1) {
        let (name, variant) = piece.split_once("\")]").unwrap();
        let inside = match variant.trim().split_once('(') {
            Some((word, rest)) if word.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                let kind = rest.split(')').next().unwrap().trim_start_matches("Box<").trim_end_matches('>');
                let body = EVENT_DATA.split(&format!("pub struct {kind} {{")).nth(1);
                body.unwrap_or_else(|| panic!("{kind}")).split("\n}").next().unwrap()
            }
            _ => variant.split("\n    }").next().unwrap(),
        };
        known.insert(name.to_owned(), declared(inside));
    }
    assert!(known.len() > 30, "{known:?}");
    let rows = table("| event | fields (`?` may be absent) | what it says |");
    let reply: BTreeMap<String, Fields> =
        rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), fields(&code_words(&row[1])))).collect();
    assert_eq!(reply, known);
}

#[test]
fn protocol_page_lists_every_limit() {
    let engine = |file: &str| std::fs::read_to_string(format!("../engine/src/remote/{file}")).unwrap();
    let rows = table("| what | limit | beyond it |");
    for (file, constant, limit) in [
        ("append.rs", "const APPEND_ID_BYTES_MAX: usize = 128;", "1 to 128 bytes"),
        ("validate.rs", "const DOINGS_MAX: usize = 1_000;", "1 to 1,000"),
        ("validate.rs", "const WANTED_MAX: usize = 1_000;", "1,000"),
        ("mod.rs", "const LEASE_MIN: Duration = Duration::from_millis(100);", "100 to 600,000 ms"),
        ("mod.rs", "const LEASE_MAX: Duration = Duration::from_secs(600);", "100 to 600,000 ms"),
        ("mod.rs", "const NAMES_MAX: usize = 10_000;", "10,000"),
        ("mod.rs", "const CLAIM_MAX: usize = 100;", "100"),
        ("mod.rs", "workers_max: 256,", "128 per key (`workers_per_key`), 256 per namespace"),
        ("mod.rs", "workers_per_key: 128,", "128 per key (`workers_per_key`), 256 per namespace"),
        ("pages.rs", "const EVENTS_MAX: usize = 1_000;", "1,000, about 4 MiB"),
        ("pages.rs", "const BYTES_MAX: usize = 4 * 1024 * 1024;", "1,000, about 4 MiB"),
    ] {
        assert!(engine(file).contains(constant), "{file} has no {constant}: change the page, too");
        assert!(rows.iter().any(|row| row[1] == limit), "the page has no limit {limit}");
    }
    let limits = goldseam::Limits::default();
    let limit = |what: &str| rows.iter().find(|row| row[0] == what).map(|row| row[1].clone()).unwrap();
    assert_eq!((limits.payload_bytes_max, limits.payload_depth_max), (256 * 1024, 64));
    assert_eq!(limit("a payload"), "256 KiB (`payload_bytes_max`), 64 levels");
    assert_eq!(
        (limits.text_bytes_max, limit("messages, prompts, reasons").as_str()),
        (4_096, "4,096 characters")
    );
    assert_eq!((limits.history_events_max, limits.history_bytes_max), (50_000, 50 * 1024 * 1024));
    assert_eq!(limit("a history"), "50,000 events, 50 MiB (`history_bytes_max`)");
}

/// Returns the statuses of a row, each with its codes.
fn answers(cell: &str) -> BTreeMap<u16, BTreeSet<String>> {
    let one = |part: &str| {
        let (status, _) = part.trim().split_once(' ').unwrap_or((part.trim(), ""));
        (status.parse().unwrap(), code_words(part).into_iter().map(str::to_owned).collect())
    };
    cell.split(", ").map(one).collect()
}

#[test]
fn protocol_page_lists_the_refusals_of_every_call() {
    let openapi: Value = serde_json::from_str(OPENAPI).unwrap();
    let rows = table("| call | refusals |");
    let of = |call: &str| {
        let row = rows.iter().find(|row| row[0].trim_matches('`') == call);
        answers(&row.unwrap_or_else(|| panic!("no row for {call}"))[1])
    };
    let every: BTreeSet<u16> = of("every call").into_keys().collect();
    let with_body: BTreeSet<u16> = of("every call with a body").into_keys().collect();
    let mut calls = 0;
    for (path, item) in openapi["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let workers = operation["x-scope"] == "worker";
            if !workers || path.starts_with("/v1/locks") {
                continue;
            }
            calls += 1;
            let call = format!("{} {path}", method.to_uppercase());
            let own: BTreeSet<u16> = of(&call).into_keys().collect();
            let mut reply: BTreeSet<u16> = own.union(&every).copied().collect();
            if !operation["requestBody"].is_null() {
                reply.extend(&with_body);
            }
            let statuses = operation["responses"].as_object().unwrap().keys();
            let mut known: BTreeSet<u16> = statuses.map(|status| status.parse().unwrap()).collect();
            known.retain(|status| *status >= 400 && (*status != 409 || own.contains(status)));
            assert_eq!(reply, known, "{call}");
        }
    }
    assert!(calls >= 11, "{calls}");
}

/// Returns every refusal of the engine to a worker.
fn engine_refusals() -> Vec<EngineError> {
    let run: goldseam::RunId = "r".parse().unwrap();
    let task: goldseam::unstable::core::TaskId = "t".parse().unwrap();
    let words = || "x".to_owned();
    let remote = [
        RemoteRefusal::NoSuchWorker(words()),
        RemoteRefusal::NoSuchToken,
        RemoteRefusal::Malformed(words()),
        RemoteRefusal::IdReused { id: words(), run: run.clone() },
        RemoteRefusal::NotNow("x"),
        RemoteRefusal::TooManyWorkers { whose: "x", limit: 1 },
        RemoteRefusal::Forbidden(words()),
    ];
    for refusal in &remote {
        // Add a new variant to the list above.
        match refusal {
            RemoteRefusal::NoSuchWorker(_)
            | RemoteRefusal::NoSuchToken
            | RemoteRefusal::Malformed(_)
            | RemoteRefusal::IdReused { .. }
            | RemoteRefusal::NotNow(_)
            | RemoteRefusal::TooManyWorkers { .. }
            | RemoteRefusal::Forbidden(_) => {}
        }
    }
    let step = || goldseam::Path::new("s").unwrap();
    let refused = [
        Refusal::Fenced,
        Refusal::HistoryTooLong(TooLong { what: "events", has: 2, max: 1 }),
        Refusal::BeingUndone,
        Refusal::InvalidForm { reason: words() },
        Refusal::LateResult { step: step(), attempt: 1, why: "x" },
        Refusal::OtherResult { step: step(), attempt: 1 },
        Refusal::NoSuchRun,
    ];
    let tasks = [
        TaskRefusal::Fenced { task: task.clone(), fence: 1, state: "ready" },
        TaskRefusal::Over { task: task.clone(), state: "ready" },
        TaskRefusal::OtherResult { task, state: "ready" },
    ];
    let mut all: Vec<EngineError> = remote.into_iter().map(EngineError::Remote).collect();
    all.extend(refused.into_iter().map(|refusal| EngineError::Refused { run: run.clone(), refusal }));
    all.extend(tasks.into_iter().map(EngineError::Task));
    all.extend([
        EngineError::NoSuchTask(words()),
        EngineError::Payload(PayloadError::TooLarge { bytes: 2, max: 1 }),
        EngineError::Payload(PayloadError::HugeNumber(words())),
    ]);
    all
}

#[test]
fn protocol_page_lists_every_refusal_with_its_status() {
    let calls = table("| call | refusals |");
    let mut named: BTreeSet<(u16, String)> = BTreeSet::new();
    for row in &calls {
        for (status, codes) in answers(&row[1]) {
            named.extend(codes.into_iter().map(|code| (status, code)));
        }
    }
    for error in engine_refusals() {
        let problem = Problem::from(error);
        let refusal = (problem.status, problem.code.clone().unwrap_or_default().into_string());
        assert!(named.contains(&refusal), "no call answers {refusal:?}: {problem}");
    }
    let meanings = table("| code | HTTP | what a worker does |");
    let explained: BTreeSet<&str> =
        meanings.iter().flat_map(|row| code_words(&row[0])).map(|code| code.trim_end_matches(',')).collect();
    for (status, code) in &named {
        assert!(explained.contains(code.as_str()), "what does a worker do about {status} {code}?");
        assert!(goldseam_api::codes::page(code).is_some(), "{code} has no page");
    }
}
