//! The OpenAPI description matches the published file and the responses.

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::test_server::TestServer;

#[test]
fn the_description_is_as_published() {
    let text = serde_json::to_string_pretty(goldseam_server::openapi()).unwrap() + "\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os("GOLDSEAM_WRITE").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    let published = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        text == published,
        "docs/openapi.json is out of date: run this test with GOLDSEAM_WRITE=1 and review the diff"
    );
}

/// Returns the described schema of a response.
fn schema(path: &str, method: &str) -> Validator {
    let openapi = goldseam_server::openapi().clone();
    let content =
        &openapi["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"];
    assert!(content.is_object(), "{method} {path}");
    let mut schema = content.clone();
    schema["components"] = openapi["components"].clone();
    jsonschema::validator_for(&schema).unwrap()
}

#[track_caller]
fn fits(path: &str, method: &str, answer: &Value) {
    let errors: Vec<String> =
        schema(path, method).iter_errors(answer).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{method} {path}: {errors:?}\n{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_their_description() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    let started = server
        .post("/v1/runs", &json!({ "workflow": "greet", "id": "d-1", "input": "Ada", "tags": { "a": "b" } }))
        .await
        .ok();
    fits("/v1/runs", "post", &started);
    server.post("/v1/runs/d-1/signal", &json!({ "name": "go" })).await.ok();
    fits("/v1/runs/{run}/result", "get", &server.get("/v1/runs/d-1/result?wait_ms=20000").await.ok());
    server.start("far", "d-2", json!(1)).await;
    let claimed = server.post("/v1/tasks/claim", &json!({ "owner": "w", "wait_ms": 20000 })).await.ok();
    fits("/v1/tasks/claim", "post", &claimed);
    server.post("/v1/locks/l-1/acquire", &json!({ "holder": "h" })).await.ok();
    for (described, asked) in [
        ("/v1/runs", "/v1/runs"),
        ("/v1/runs/{run}", "/v1/runs/d-1"),
        ("/v1/runs/{run}", "/v1/runs/d-2"),
        ("/v1/runs/{run}/history", "/v1/runs/d-1/history"),
        ("/v1/runs/{run}/why", "/v1/runs/d-2/why"),
        ("/v1/runs/{run}/branches", "/v1/runs/d-1/branches"),
        ("/v1/runs/{run}/questions", "/v1/runs/d-1/questions"),
        ("/v1/questions", "/v1/questions"),
        ("/v1/tasks", "/v1/tasks"),
        ("/v1/queues", "/v1/queues"),
        ("/v1/locks", "/v1/locks"),
        ("/v1/locks/{lock}", "/v1/locks/l-1"),
        ("/v1/locks/stale", "/v1/locks/stale"),
        ("/v1/nodes", "/v1/nodes"),
        ("/v1/workflows", "/v1/workflows"),
        ("/v1/recoveries", "/v1/recoveries"),
        ("/v1/recoveries/stats", "/v1/recoveries/stats"),
        ("/v1/key", "/v1/key"),
        ("/v1/activity", "/v1/activity"),
        ("/v1/doctor", "/v1/doctor"),
        ("/v1/statuses", "/v1/statuses"),
        ("/v1/suggestions", "/v1/suggestions?of=tag"),
        ("/v1/runs/{run}/remedies", "/v1/runs/d-2/remedies"),
        ("/v1/keys", "/v1/keys"),
        ("/v1/prune", "/v1/prune?completed_before_ms=0"),
    ] {
        fits(described, "get", &server.get(asked).await.ok());
    }
    fits("/v1/doctor", "post", &server.post("/v1/doctor", &json!({})).await.ok());
    fits("/v1/sweep", "post", &server.post("/v1/sweep", &json!({})).await.ok());
    engine.shutdown().await;
}

#[test]
fn every_operation_has_a_unique_name_and_descriptions() {
    let openapi = goldseam_server::openapi();
    let mut names = std::collections::BTreeMap::new();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}");
            let name = operation["operationId"].as_str().unwrap();
            // Handler names such as `list` and `get` are too short for clients.
            assert!(name.contains('_') || ["prune", "sweep"].contains(&name), "{what} is called {name}");
            assert_eq!(names.insert(name.to_owned(), what.clone()), None, "{what}: {name}");
            assert!(operation["security"].is_array() && operation["description"].is_string(), "{what}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert_ne!(response["description"].as_str().unwrap_or_default(), "", "{what}: {status}");
            }
            let tag = &operation["tags"][0];
            let tags = openapi["tags"].as_array().unwrap();
            assert!(tags.iter().any(|known| known["name"] == *tag), "{what}: {tag}");
        }
    }
}

#[test]
fn optional_bodies_are_described_and_never_null() {
    let openapi = goldseam_server::openapi();
    for (path, required) in [("/v1/sweep", false), ("/v1/runs/{run}/pause", false), ("/v1/runs", true)] {
        let body = &openapi["paths"][path]["post"]["requestBody"];
        assert_eq!(body["required"].as_bool().unwrap_or(false), required, "{path}");
        assert!(body["content"]["application/json"]["schema"]["$ref"].is_string(), "{path}: {body}");
    }
}

/// `null` matches any JSON already, so it would match two variants of a `oneOf`.
#[test]
fn null_is_not_a_variant_beside_any_json() {
    let any = json!("#/components/schemas/Payload");
    let mut left = vec![goldseam_server::openapi()];
    while let Some(value) = left.pop() {
        let forms = value["oneOf"].as_array();
        assert!(!forms.is_some_and(|forms| forms.iter().any(|form| form["$ref"] == any)), "{value}");
        left.extend(value.as_object().into_iter().flat_map(|fields| fields.values()));
        left.extend(value.as_array().into_iter().flatten());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_beyond_int64_are_refused() {
    let server = TestServer::open().await;
    let most = 9_223_372_036_854_775_808_u64;
    for (path, body) in [
        ("/v1/prune", json!({ "completed_before_ms": most })),
        ("/v1/locks/l-1/acquire", json!({ "holder": "h", "ttl_ms": most })),
        ("/v1/locks/l-1/release", json!({ "holder": "h", "fence": most })),
        ("/v1/tasks", json!({ "kind": "k", "delay_ms": most })),
        ("/v1/workers", json!({ "name": "w", "workflows": ["a@1"], "slots": 1, "lease_ms": most })),
    ] {
        server.post(path, &body).await.problem(400, "GS0608");
    }
    for path in ["/v1/changes?after=9223372036854775808", "/v1/prune?completed_before_ms=9223372036854775808"]
    {
        server.get(path).await.problem(400, "GS0608");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_beyond_their_described_length_are_refused() {
    let server = TestServer::open().await;
    let long = "k".repeat(4_097);
    for (path, body) in [
        ("/v1/tasks", json!({ "kind": long })),
        ("/v1/tasks/claim", json!({ "owner": "w", "kind": long })),
        ("/v1/tasks/claim", json!({ "owner": long })),
        ("/v1/locks/l-1/acquire", json!({ "holder": long })),
    ] {
        assert_eq!(server.post(path, &body).await.status, 413, "{path}");
    }
}

#[test]
fn every_schema_is_used_and_every_reference_resolves() {
    let openapi = goldseam_server::openapi();
    let text = openapi.to_string();
    let schemas = openapi["components"]["schemas"].as_object().unwrap();
    for name in schemas.keys() {
        assert!(text.contains(&format!("#/components/schemas/{name}\"")), "{name} is used nowhere");
    }
    for piece in text.split("\"#/components/schemas/").skip(1) {
        let name = piece.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name} does not exist");
    }
}

/// Returns the published names of the types in a source file.
fn published_in(file: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut names = Vec::new();
    for piece in text.split("ToSchema").skip(1) {
        let Some((head, rest)) =
            piece.split_once("\npub struct ").or_else(|| piece.split_once("\npub enum "))
        else {
            continue;
        };
        // Attributes directly precede their item; a match further away belongs to another item.
        if head.contains("\n}\n") {
            continue;
        }
        let own = rest.split(|letter: char| !letter.is_alphanumeric()).next().unwrap();
        let given = head.split_once("as = ").map(|(_, given)| given.split(')').next().unwrap());
        names.push(given.unwrap_or(own).to_owned());
    }
    names
}

#[test]
fn no_two_types_are_published_under_one_name() {
    let mut known = std::collections::BTreeMap::new();
    let mut folders: Vec<_> = ["core", "engine", "api", "store"]
        .map(|name| std::path::PathBuf::from(format!("{}/../{name}/src", env!("CARGO_MANIFEST_DIR"))))
        .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                for name in published_in(&path) {
                    let before = known.insert(name.clone(), path.clone());
                    assert_eq!(
                        before,
                        None,
                        "{name} is also in {}: give one of them another name",
                        path.display()
                    );
                }
            }
        }
    }
    assert!(known.len() > 60, "only {} types were found", known.len());
}
