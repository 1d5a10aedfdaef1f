//! The limits of request fields in the OpenAPI description. Each comes from the constant that the handlers enforce.
//!
//! A value that the server clamps, such as a worker's lease, has no limit here.

use goldseam::Limits;
use goldseam::unstable::core::id::ID_BYTES_MAX;
use goldseam::unstable::core::path::PATH_BYTES_MAX;
use goldseam::unstable::core::search::LENGTH_MAX;
use goldseam::unstable::engine::remote::{APPEND_ID_BYTES_MAX, DOINGS_MAX, NAMES_MAX, WANTED_MAX};
use goldseam_api::credentials::keys::{NAME_CHARS_MAX, QUEUES_MAX};
use goldseam_api::credentials::passes::VALID_MAX;
use goldseam_api::doc::heal::STATS_MAX;
use goldseam_api::doc::retention::PRUNE_MAX;
use goldseam_api::doc::{PAGE_MAX, WAIT_MS_MAX};
use serde_json::{Value, json};

use super::retention::PLAN_MAX;

/// A schema, one of its fields, and the field's limits.
type Bound = (&'static str, &'static str, Value);

fn id() -> Value {
    json!({ "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$" })
}

/// A non-empty name or key.
fn name() -> Value {
    json!({ "minLength": 1, "maxLength": Limits::default().text_bytes_max })
}

/// A text that may be empty, such as a reason.
fn text() -> Value {
    json!({ "maxLength": Limits::default().text_bytes_max })
}

fn from_1() -> Value {
    json!({ "minimum": 1 })
}

fn up_to(max: u64) -> Value {
    json!({ "maximum": max })
}

/// The limits of body fields.
fn body_limits() -> Vec<Bound> {
    let tags = json!({ "maxProperties": Limits::default().tags_max, "propertyNames": { "type": "string",
        "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$" },
        "additionalProperties": { "type": "string", "maxLength": Limits::default().text_bytes_max } });
    let valid_ms = u64::try_from(VALID_MAX.as_millis()).unwrap_or(u64::MAX);
    let mut bounds = vec![
        ("NewRun", "workflow", id()),
        ("NewRun", "id", id()),
        ("NewRun", "queue", id()),
        ("NewRun", "version", from_1()),
        ("NewRun", "tags", tags),
        ("NewSignal", "name", id()),
        ("NewSignal", "id", text()),
        ("NewRequest", "id", text()),
        ("NewRequest", "wait_ms", up_to(WAIT_MS_MAX)),
        ("NewAnswer", "id", text()),
        ("NewJump", "to", json!({ "minLength": 1, "maxLength": PATH_BYTES_MAX })),
        ("NewMigration", "to_version", from_1()),
        ("NewTask", "kind", name()),
        ("NewTask", "queue", id()),
        ("NewTask", "id", id()),
        ("NewTask", "key", name()),
        ("NewTask", "lane", id()),
        ("NewTask", "attempts_max", from_1()),
        ("NewClaim", "owner", name()),
        ("NewClaim", "queue", id()),
        ("NewClaim", "kind", name()),
        ("NewClaim", "limit", json!({ "minimum": 1, "maximum": PAGE_MAX })),
        ("NewClaim", "wait_ms", up_to(WAIT_MS_MAX)),
        ("NewHold", "holder", name()),
        ("NewHold", "ttl_ms", from_1()),
        ("Extension", "holder", name()),
        ("Extension", "ttl_ms", from_1()),
        ("NewKey", "name", json!({ "minLength": 1, "maxLength": NAME_CHARS_MAX })),
        ("NewKey", "scopes", json!({ "minItems": 1 })),
        ("NewKey", "queues", json!({ "minItems": 1, "maxItems": QUEUES_MAX })),
        ("NewPass", "valid_for_ms", up_to(valid_ms)),
        ("NewOperation", "where", json!({ "minLength": 1, "maxLength": LENGTH_MAX })),
        ("NewOperation", "signal", id()),
        ("NewOperation", "canary_timeout_ms", from_1()),
        ("NewPrune", "workflow", id()),
        ("NewPrune", "limit", up_to(PRUNE_MAX)),
        ("RegisterWorker", "workflows", json!({ "minItems": 1, "maxItems": NAMES_MAX })),
        ("RegisterWorker", "queues", json!({ "maxItems": NAMES_MAX })),
        ("RegisterWorker", "slots", from_1()),
        ("WorkerAppend", "id", json!({ "minLength": 1, "maxLength": APPEND_ID_BYTES_MAX })),
        ("WorkerAppend", "doings", json!({ "minItems": 1, "maxItems": DOINGS_MAX })),
    ];
    let changes =
        ["Reason", "NewJump", "NewMigration", "NewPrune", "NewRecovery", "NewRetry", "NewWithdrawal"];
    bounds.extend(changes.map(|change| (change, "reason", text())));
    bounds
}

/// Adds the limits to the schemas of bodies.
pub(super) fn add_to_bodies(schemas: &mut Value) {
    for (schema, field, bounds) in body_limits() {
        add(&mut schemas[schema]["properties"][field], bounds);
    }
    let wanted = json!({ "maxItems": WANTED_MAX });
    for form in schemas["WorkerDoing"]["oneOf"].as_array_mut().into_iter().flatten() {
        for field in ["signals", "children"] {
            if form["properties"]["wait"].is_object() {
                add(&mut form["properties"]["wait"]["properties"][field], wanted.clone());
            }
        }
    }
}

/// Adds the limits to a path or query parameter.
pub(super) fn add_to_parameter(path: &str, parameter: &mut Value) {
    let location = parameter["in"].as_str();
    let name = parameter["name"].as_str().unwrap_or_default();
    let bounds = match (location, name) {
        (Some("path"), "run" | "task" | "lock" | "worker" | "key" | "name") => id(),
        (Some("path"), "question") => json!({ "minLength": 1, "maxLength": PATH_BYTES_MAX }),
        (Some("path"), "code") => json!({ "pattern": "^[A-Z]+[0-9]+$", "maxLength": 16 }),
        (Some("query"), "id") => text(),
        (Some("query"), "wait_ms") => up_to(WAIT_MS_MAX),
        (Some("query"), "limit") if path == "/v1/prune" => up_to(PLAN_MAX),
        (Some("query"), "limit") => json!({ "minimum": 1, "maximum": PAGE_MAX }),
        (Some("query"), "interval_ms") => from_1(),
        (Some("query"), "latest") => json!({ "minimum": 1, "maximum": STATS_MAX }),
        (Some("query"), "workflow" | "parent" | "queue") => id(),
        _ => return,
    };
    add(&mut parameter["schema"], bounds);
}

fn add(schema: &mut Value, bounds: Value) {
    if let (Some(schema), Value::Object(bounds)) = (schema.as_object_mut(), bounds) {
        schema.extend(bounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_published() {
        let schemas = &crate::openapi()["components"]["schemas"];
        for (schema, field, bounds) in body_limits() {
            let published = &schemas[schema]["properties"][field];
            for (name, bound) in bounds.as_object().unwrap() {
                assert_eq!(published[name], *bound, "{schema}.{field}: {name}");
            }
        }
        let wait = &schemas["WorkerDoingWait"]["properties"]["wait"]["properties"];
        assert_eq!(
            (&wait["signals"]["maxItems"], &wait["children"]["maxItems"]),
            (&1000.into(), &1000.into())
        );
    }
}
