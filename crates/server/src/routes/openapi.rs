//! The published OpenAPI document: completes the handlers' descriptions with the route table and with what code
//! generators need.
//!
//! Generated clients take their names from here, so a published name never changes.

use axum::http::Method;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

use super::{KEY, PASS, SIGNATURE, bounds};
use crate::route_table::{self, Need, Route};

/// The extension that names the scope of an operation. OpenAPI allows no scopes for a bearer key in `security`.
const SCOPE: &str = "x-scope";

/// The description of each tag.
const TAGS: &[(&str, &str)] = &[
    ("healing", "Diagnoses and recoveries."),
    ("keys", "API keys and their scopes."),
    ("locks", "Named locks with a fence."),
    ("nodes", "Processes that execute workflows, and their workflows."),
    ("passes", "Links and callbacks that answer one question or send one signal."),
    ("questions", "Questions of runs to people."),
    ("retention", "Archival and removal of old runs."),
    ("operations", "One verb on many runs, and groups of failures."),
    ("runs", "Start, inspect and operate runs."),
    ("server", "Health, metrics and descriptions of the server."),
    ("streams", "Events of logs as they are appended."),
    ("tasks", "Queues and their tasks."),
    ("workers", "Remote workers and their executions."),
];

/// Builds the document that `/v1/openapi.json` serves.
pub(super) fn publish(described: &OpenApi) -> Value {
    let mut document = serde_json::to_value(described).unwrap_or_default();
    document["info"]["license"] = json!({ "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" });
    document["info"]["contact"] = json!({ "name": "Goldseam" });
    document["servers"] = json!([{ "url": "/", "description": "This server." }]);
    let tag = |(name, description): &(&str, &str)| json!({ "name": name, "description": description });
    document["tags"] = TAGS.iter().map(tag).collect();
    for (path, item) in document["paths"].as_object_mut().into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap_or_default();
            if let Some(route) = route_table::find(&method, path) {
                describe(operation, route);
            }
        }
    }
    use_references(&mut document);
    bounds::add_to_bodies(&mut document["components"]["schemas"]);
    name_variants(&mut document["components"]["schemas"]);
    document
}

fn describe(operation: &mut Value, route: &Route) {
    operation["operationId"] = json!(route.operation);
    let mut text = [&operation["summary"], &operation["description"]]
        .iter()
        .filter_map(|text| text.as_str())
        .collect::<Vec<_>>()
        .join("\n\n");
    operation["security"] = match route.need {
        Some(Need::Scope(scope)) => {
            text.push_str(&format!("\n\nNeeds a key with scope `{scope}`."));
            operation[SCOPE] = json!(scope.to_string());
            json!([{ KEY: [] }])
        }
        Some(Need::Key) => {
            text.push_str("\n\nNeeds a key with any scope.");
            json!([{ KEY: [] }])
        }
        Some(Need::Pass) => json!([{ PASS: [] }]),
        Some(Need::Signature) => json!([{ SIGNATURE: [] }]),
        None => json!([]),
    };
    operation["description"] = json!(text);
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = json!(meaning(route, status));
        }
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        bounds::add_to_parameter(route.path, parameter);
    }
    let bodies = operation.get_mut("requestBody").and_then(|body| body["content"].as_object_mut());
    for content in bodies.into_iter().flat_map(Map::values_mut) {
        without_null(&mut content["schema"]);
    }
}

/// Removes `null` from the forms of a body: an optional body may be omitted but not be `null`.
fn without_null(schema: &mut Value) {
    let forms = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    if let Some(form) = forms.and_then(|forms| forms.iter_mut().find(|form| form["type"] != "null")) {
        *schema = form.take();
    }
}

/// Returns the description of a status for routes that do not describe it.
fn meaning(route: &Route, status: &str) -> &'static str {
    match status {
        "200" => "Success.",
        "204" => "Success, without content.",
        "400" => "The request is invalid.",
        "401" => "The key or pass is missing or invalid.",
        "403" => "The key, the pass or the origin does not allow this.",
        "404" => "Not found.",
        "408" => "Timed out reading the body.",
        "409" if route.method == Method::GET => "The log is damaged.",
        "409" => "The state does not allow this, or the id or idempotency key was used for something else.",
        "410" => "The pass was used, or its question was closed.",
        "413" => "The body or a payload is too large.",
        "415" => "The body is not JSON, or it is compressed.",
        "421" => "The server does not accept that host name.",
        "422" => "The payload does not match the expected form.",
        "429" if route.need.is_none() => "Too many connections from one address.",
        "429" => "A rate or concurrency limit was exceeded.",
        "500" => "Internal server error.",
        "501" => "The server or its store does not support this.",
        "503" => "The store does not answer.",
        "507" => "The store is full.",
        _ => "See the problem.",
    }
}

/// Replaces each inline schema that equals a component by a reference.
fn use_references(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    let has_fields =
        |schema: &Value| schema["properties"].as_object().is_some_and(|fields| !fields.is_empty());
    let known: Map<String, Value> = schemas.into_iter().filter(|(_, schema)| has_fields(schema)).collect();
    replace_by_reference(&mut document["paths"], &known);
    for schema in document["components"]["schemas"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for part in schema.as_object_mut().into_iter().flat_map(Map::values_mut) {
            replace_by_reference(part, &known);
        }
    }
}

fn replace_by_reference(value: &mut Value, known: &Map<String, Value>) {
    if let Some((name, _)) = known.iter().find(|(_, schema)| *schema == value) {
        *value = json!({ "$ref": format!("#/components/schemas/{name}") });
        return;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| replace_by_reference(field, known)),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_by_reference(item, known)),
        _ => {}
    }
}

/// Moves each variant of a `oneOf` schema into a named component, because generated clients use its name.
fn name_variants(schemas: &mut Value) {
    let Some(schemas) = schemas.as_object_mut() else { return };
    let mut named = Map::new();
    for (name, schema) in schemas.iter_mut() {
        let forms = schema.get_mut("oneOf").and_then(Value::as_array_mut);
        for form in forms.into_iter().flatten() {
            if let Some(word) = variant_name(form) {
                let name = format!("{name}{}", camel_case(&word));
                let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
                named.insert(name, std::mem::replace(form, reference));
            }
        }
    }
    schemas.extend(named);
}

/// Returns the word that identifies a variant: the only value of an enum field, or the only field.
fn variant_name(form: &Value) -> Option<String> {
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
