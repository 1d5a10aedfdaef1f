//! Generated requests, valid, almost valid and invalid: every response matches the description.

use goldseam_api::doc::key::Scope;
use reqwest::{Method, header};
use serde_json::{Map, Value, json};

use crate::test_server::{Reply, TestServer};

/// Rounds over all routes.
const ROUNDS: u64 = 12;

/// A deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// Existing, missing and invalid names.
const TEXTS: &[&str] = &[
    "r-1",
    "t-1",
    "l-1",
    "greet",
    "go",
    "approve",
    "default",
    "b1",
    "b2",
    "A2",
    "x",
    "",
    "..",
    "../etc",
    "a/b",
    "é",
    "\u{202e}",
    "goldseam.copy",
    "goldseam.secret",
    "'; DROP TABLE runs; --",
    "%00",
    "null",
    "0",
    "-1",
    "1e309",
];

/// Generates a value that a schema allows, or almost allows.
fn value(dice: &mut Dice, schema: &Value, openapi: &Value, depth: u32) -> Value {
    if dice.chance(8) || depth > 6 {
        return odd(dice);
    }
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return value(dice, &openapi["components"]["schemas"][name], openapi, depth + 1);
    }
    for several in ["oneOf", "anyOf", "allOf"] {
        if let Some(options) = schema[several].as_array() {
            let option = dice.one(options).clone();
            return value(dice, &option, openapi, depth + 1);
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return dice.one(words).clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => dice.one(kinds).as_str().unwrap_or("null").to_owned(),
        kind => kind.as_str().unwrap_or("any").to_owned(),
    };
    match kind.as_str() {
        "object" => object(dice, schema, openapi, depth),
        "array" => (0..dice.below(3)).map(|_| value(dice, &schema["items"], openapi, depth + 1)).collect(),
        "string" => json!(dice.one(TEXTS)),
        "integer" => json!(*dice.one(&[0_i64, 1, 2, 50, 500, 501, -1, i64::MAX])),
        "boolean" => json!(dice.chance(50)),
        "null" => Value::Null,
        _ => odd(dice),
    }
}

fn object(dice: &mut Dice, schema: &Value, openapi: &Value, depth: u32) -> Value {
    let mut object = Map::new();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        if required.contains(&name.as_str()) || dice.chance(40) {
            object.insert(name.clone(), value(dice, part, openapi, depth + 1));
        }
    }
    if dice.chance(5) {
        object.insert("unknown".to_owned(), Value::Null);
    }
    Value::Object(object)
}

fn odd(dice: &mut Dice) -> Value {
    let odd = [
        Value::Null,
        json!([]),
        json!({}),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!("x".repeat(5_000)),
        json!([[[[[1]]]]]),
    ];
    dice.one(&odd).clone()
}

/// Generates a URL of the route, with a part of its query.
fn address(dice: &mut Dice, path: &str, operation: &Value, openapi: &Value) -> String {
    let encoded = |text: &str| {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => (byte as char).to_string(),
                _ => format!("%{byte:02x}"),
            })
            .collect::<String>()
    };
    let part = |dice: &mut Dice, part: &str| match part.starts_with('{') {
        true => encoded(dice.one::<&str>(TEXTS)),
        false => part.to_owned(),
    };
    let mut address = path.split('/').map(|text| part(dice, text)).collect::<Vec<_>>().join("/");
    let queries = operation["parameters"].as_array().cloned().unwrap_or_default();
    let mut sign = '?';
    for query in queries.iter().filter(|parameter| parameter["in"] == "query") {
        let name = query["name"].as_str().unwrap();
        if dice.chance(35) || query["required"] == json!(true) {
            let text = match value(dice, &query["schema"], openapi, 0) {
                Value::String(text) => text,
                // Requests must not wait.
                _ if name == "wait_ms" => "1".to_owned(),
                other => other.to_string(),
            };
            address.push_str(&format!("{sign}{name}={}", encoded(&text)));
            sign = '&';
        }
    }
    address
}

fn check(openapi: &Value, operation: &Value, what: &str, reply: &Reply) {
    let status = reply.status.as_u16();
    assert!(status < 500 || status == 501, "{what}: {status} {}", reply.text);
    let described = &operation["responses"][status.to_string()];
    assert!(described.is_object(), "{what}: {status} is not described: {}", reply.text);
    if status == 200 && reply.kind == "application/json" {
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        let mut schema = schema.clone();
        schema["components"] = openapi["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(&reply.body).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{what}: {errors:?} in {}", reply.text);
    } else if status >= 400 {
        assert_eq!(reply.kind, "application/problem+json", "{what}: {}", reply.text);
        assert!(described["content"]["application/problem+json"].is_object(), "{what}: {described}");
        assert_eq!(reply.body["status"], json!(status), "{what}");
        assert!(
            reply.body["detail"].is_string() && reply.body["title"].is_string(),
            "{what}: {}",
            reply.text
        );
    }
    assert!(
        !reply.text.contains("goldseam.key.") && !reply.text.contains("\"hash\":\""),
        "{what}: {}",
        reply.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_matches_its_description() {
    let server = TestServer::with(&[("requests_per_second", "100000")]).await;
    let key = server.key("default", &Scope::ALL).await;
    let engine = server.engine().await;
    let openapi = goldseam_server::openapi().clone();
    let mut dice = Dice(7);
    for body in
        [json!({ "workflow": "greet", "id": "r-1", "input": "x" }), json!({ "workflow": "ask", "id": "x" })]
    {
        server.ask(Method::POST, "/v1/runs").bearer_auth(&key).json(&body).send().await.unwrap();
    }
    for round in 0..ROUNDS {
        for (path, item) in openapi["paths"].as_object().unwrap() {
            // Streams never end, and a request could revoke the key of this test.
            if path.ends_with("/events") || path.starts_with("/v1/keys/") {
                continue;
            }
            for (method, operation) in item.as_object().unwrap() {
                let address = address(&mut dice, path, operation, &openapi);
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                let mut request = server.ask(method.clone(), &address).bearer_auth(&key);
                let mut body = Value::Null;
                if operation["requestBody"].is_object() && !dice.chance(5) {
                    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
                    body = value(&mut dice, schema, &openapi, 0);
                    if let Some(wait) = body.get_mut("wait_ms") {
                        *wait = json!(1);
                    }
                    request = request.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
                }
                if dice.chance(20) {
                    request = request.header("idempotency-key", *dice.one(&["k1", "k2", "k3"]));
                }
                let what = format!("round {round}: {method} {address} {body}");
                let reply =
                    Reply::of(request.send().await.unwrap_or_else(|error| panic!("{what}: {error}"))).await;
                check(&openapi, operation, &what, &reply);
            }
        }
    }
    assert_eq!(server.get("/healthz").await.text, "ok\n");
    engine.shutdown().await;
}
