//! The description as it is published: what the tools that read it ask for, beyond what the routes say themselves.
//!
//! Generated clients take their names from here, so a name that is published does not change.

use axum::http::Method;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::bounds;

/// The scope that an operation needs. Tools allow no scopes beside a key in `security`.
const SCOPE: &str = "x-scope";

/// What each tag is about.
const TAGS: &[(&str, &str)] = &[
    ("healing", "What is stalled, why, and what was mended."),
    ("keys", "Who may do what."),
    ("locks", "Named locks with a fence."),
    ("nodes", "Processes that execute workflows, and what they have."),
    ("passes", "Links and callbacks that answer one question."),
    ("questions", "What runs ask people."),
    ("retention", "Old runs, archived and removed."),
    ("runs", "Runs: start, look, steer."),
    ("server", "The server itself."),
    ("streams", "Events as they are written."),
    ("tasks", "Queues and their tasks."),
    ("workers", "Workflows that are executed elsewhere."),
];

/// The name of each operation in generated clients.
const NAMES: &[(&str, &str)] = &[
    ("GET /healthz", "check_health"),
    ("GET /readyz", "check_readiness"),
    ("GET /metrics", "read_metrics"),
    ("GET /v1/openapi.json", "read_description"),
    ("GET /v1/codes/{code}", "read_code"),
    ("POST /v1/callbacks/{ticket}", "call_back"),
    ("GET /v1/changes", "await_changes"),
    ("GET /v1/nodes", "list_nodes"),
    ("GET /v1/workflows", "list_workflows"),
    ("GET /v1/events", "follow_everything"),
    ("GET /v1/runs/{run}/events", "follow_run"),
    ("POST /v1/executions/append", "append_to_execution"),
    ("POST /v1/executions/events", "read_execution"),
    ("POST /v1/workers", "register_worker"),
    ("DELETE /v1/workers/{worker}", "remove_worker"),
    ("POST /v1/workers/{worker}/claim", "claim_executions"),
    ("POST /v1/workers/{worker}/heartbeat", "heartbeat_worker"),
    ("GET /v1/keys", "list_keys"),
    ("POST /v1/keys", "create_key"),
    ("POST /v1/keys/{key}/revoke", "revoke_key"),
    ("GET /v1/locks", "list_locks"),
    ("GET /v1/locks/stale", "list_stale_locks"),
    ("GET /v1/locks/{lock}", "get_lock"),
    ("POST /v1/locks/{lock}/acquire", "acquire_lock"),
    ("POST /v1/locks/{lock}/extend", "extend_lock"),
    ("POST /v1/locks/{lock}/release", "release_lock"),
    ("GET /v1/pass", "show_pass"),
    ("POST /v1/pass", "spend_pass"),
    ("POST /v1/passes/rotate", "rotate_passes"),
    ("POST /v1/runs/{run}/passes", "create_pass"),
    ("GET /v1/prune", "plan_prune"),
    ("POST /v1/prune", "prune"),
    ("GET /v1/questions", "list_questions"),
    ("GET /v1/runs/{run}/questions", "list_run_questions"),
    ("GET /v1/runs/{run}/questions/{question}", "get_question"),
    ("POST /v1/runs/{run}/questions/{question}/answer", "answer_question"),
    ("GET /v1/queues", "list_queues"),
    ("POST /v1/doctor", "run_doctor"),
    ("POST /v1/sweep", "sweep"),
    ("GET /v1/recoveries", "list_recoveries"),
    ("GET /v1/recoveries/stats", "read_recovery_stats"),
    ("GET /v1/runs", "list_runs"),
    ("POST /v1/runs", "start_run"),
    ("GET /v1/runs/{run}", "get_run"),
    ("GET /v1/runs/{run}/branches", "list_branches"),
    ("GET /v1/runs/{run}/diff", "compare_branches"),
    ("GET /v1/runs/{run}/history", "read_history"),
    ("GET /v1/runs/{run}/result", "await_result"),
    ("GET /v1/runs/{run}/why", "explain_run"),
    ("POST /v1/runs/{run}/cancel", "cancel_run"),
    ("POST /v1/runs/{run}/jump", "jump_run"),
    ("POST /v1/runs/{run}/migrate", "migrate_run"),
    ("POST /v1/runs/{run}/note", "note_run"),
    ("POST /v1/runs/{run}/pause", "pause_run"),
    ("POST /v1/runs/{run}/recover", "recover_run"),
    ("POST /v1/runs/{run}/requeue", "requeue_run"),
    ("POST /v1/runs/{run}/reset", "reset_run"),
    ("POST /v1/runs/{run}/resume", "resume_run"),
    ("POST /v1/runs/{run}/retry", "retry_run"),
    ("POST /v1/runs/{run}/signal", "signal_run"),
    ("POST /v1/runs/{run}/terminate", "terminate_run"),
    ("POST /v1/runs/{run}/undo-recovery", "undo_recovery"),
    ("POST /v1/runs/{run}/withdraw", "withdraw_request"),
    ("GET /v1/tasks", "list_tasks"),
    ("POST /v1/tasks", "submit_task"),
    ("POST /v1/tasks/claim", "claim_tasks"),
    ("POST /v1/tasks/reclaim", "reclaim_tasks"),
    ("GET /v1/tasks/{task}", "get_task"),
    ("POST /v1/tasks/{task}/cancel", "cancel_task"),
    ("POST /v1/tasks/{task}/complete", "complete_task"),
    ("POST /v1/tasks/{task}/fail", "fail_task"),
    ("POST /v1/tasks/{task}/heartbeat", "heartbeat_task"),
    ("POST /v1/tasks/{task}/release", "release_task"),
];

/// The name of an operation; none: as its function is called.
fn name(method: &Method, path: &str) -> Option<&'static str> {
    let wanted = format!("{method} {path}");
    NAMES.iter().find(|(operation, _)| *operation == wanted).map(|(_, name)| *name)
}

/// The document that `/v1/openapi.json` has.
pub(super) fn publish(described: &OpenApi) -> Value {
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["info"]["license"] = json!({ "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" });
    document["info"]["contact"] = json!({ "name": "Goldseam" });
    document["servers"] = json!([{ "url": "/", "description": "This server." }]);
    let tag = |(name, description): &(&str, &str)| json!({ "name": name, "description": description });
    document["tags"] = TAGS.iter().map(tag).collect();
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            if let Ok(method) = Method::from_bytes(method.to_uppercase().as_bytes()) {
                describe(operation, &method, path);
            }
        }
    }
    share(&mut document);
    bounds::add_to_bodies(&mut document["components"]["schemas"]);
    name_variants(&mut document["components"]["schemas"]);
    document
}

fn describe(operation: &mut Value, method: &Method, path: &str) {
    if let Some(name) = name(method, path) {
        operation["operationId"] = json!(name);
    }
    let mut text = [&operation["summary"], &operation["description"]]
        .iter()
        .filter_map(|text| text.as_str())
        .collect::<Vec<_>>()
        .join("\n\n");
    let needs = operation.get_mut("security").and_then(|all| all.get_mut(0)).and_then(Value::as_object_mut);
    match needs {
        Some(needs) => {
            let scope = needs.get_mut("key").and_then(Value::as_array_mut).and_then(Vec::pop);
            if let Some(scope) = scope.as_ref().and_then(Value::as_str) {
                text.push_str(&format!("\n\nNeeds a key with scope `{scope}`."));
                operation[SCOPE] = json!(scope);
            }
        }
        None => operation["security"] = json!([]),
    }
    operation["description"] = json!(text);
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = json!(meaning(status));
        }
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        bounds::add_to_parameter(path, parameter);
    }
    let bodies = operation.get_mut("requestBody").and_then(|body| body["content"].as_object_mut());
    for content in bodies.into_iter().flat_map(Map::values_mut) {
        without_null(&mut content["schema"]);
    }
}

/// A body may be left out, but `null` is none.
fn without_null(schema: &mut Value) {
    let forms = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    if let Some(form) = forms.and_then(|forms| forms.iter_mut().find(|form| form["type"] != "null")) {
        *schema = form.take();
    }
}

/// What a status says where its route does not say more.
fn meaning(status: &str) -> &'static str {
    match status {
        "200" => "It was done, or this is what was asked for.",
        "204" => "It was done, and there is nothing to say.",
        "400" => "The request makes no sense.",
        "401" => "There is no valid key or pass.",
        "403" => "The key, the pass or the page may not do this.",
        "404" => "There is no such thing.",
        "409" => "It cannot be done now, or the key or id came with something else before.",
        "410" => "It is gone.",
        "413" => "It is too large.",
        "422" => "It does not fit.",
        "429" => "Too many.",
        "500" => "Internal server error.",
        "501" => "This server does not do it.",
        "503" => "The store does not answer now.",
        "507" => "The store is full.",
        _ => "See the problem.",
    }
}

/// Puts a reference in the place of each schema that is written out and stands among the components, too.
fn share(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let has_fields =
        |schema: &Value| schema["properties"].as_object().is_some_and(|fields| !fields.is_empty());
    let known: Map<String, Value> = schemas.into_iter().filter(|(_, schema)| has_fields(schema)).collect();
    refer(&mut document["paths"], &known);
    for schema in document["components"]["schemas"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for part in schema.as_object_mut().into_iter().flat_map(Map::values_mut) {
            refer(part, &known);
        }
    }
}

fn refer(value: &mut Value, known: &Map<String, Value>) {
    if let Some((name, _)) = known.iter().find(|(_, schema)| *schema == value) {
        *value = json!({ "$ref": format!("#/components/schemas/{name}") });
        return;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| refer(field, known)),
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, known)),
        _ => {}
    }
}

/// Gives each form of a schema with several forms a name of its own: generated clients name it by that.
fn name_variants(schemas: &mut Value) {
    let Some(schemas) = schemas.as_object_mut() else { return };
    let mut named = Map::new();
    for (name, schema) in schemas.iter_mut() {
        let forms = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for form in forms.into_iter().flatten() {
            if let Some(word) = word_of(form) {
                let name = format!("{name}{}", camel_case(&word));
                let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
                named.insert(name, std::mem::replace(form, reference));
            }
        }
    }
    schemas.extend(named);
}

/// The word that tells this form from the others: the one value of a field, or the one field.
fn word_of(form: &Value) -> Option<String> {
    let fields = form["properties"].as_object()?;
    let one_value = fields.values().find_map(|field| match field["enum"].as_array()?.as_slice() {
        [word] => word.as_str(),
        _ => None,
    });
    let one_field = || match fields.keys().collect::<Vec<_>>().as_slice() {
        [field] => Some(field.as_str()),
        _ => None,
    };
    one_value.or_else(one_field).map(str::to_owned)
}

fn camel_case(word: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    };
    word.split(|letter: char| !letter.is_ascii_alphanumeric()).map(part).collect()
}
