//! Every route with every credential that must not open it. The routes come from the description, so new routes are
//! covered automatically.

use goldseam_api::doc::key::Scope;
use goldseam_server::openapi;
use reqwest::{Method, header};
use serde_json::Value;

use crate::test_server::{Reply, TestServer};

/// The public routes.
const PUBLIC: [&str; 2] = ["/healthz", "/readyz"];

struct Route {
    method: Method,
    path: String,
    /// The security scheme: key, pass or signature.
    scheme: Option<String>,
    scope: Option<Scope>,
}

fn routes() -> Vec<Route> {
    let openapi = openapi();
    let mut routes = vec![];
    for (path, item) in openapi["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let needs = &operation["security"][0];
            let scope = operation["x-scope"].as_str().map(|scope| scope.parse().unwrap());
            let scheme = needs.as_object().and_then(|needs| needs.keys().next().cloned());
            routes.push(Route { method, path: filled(path), scheme, scope });
        }
    }
    assert!(routes.len() > 45, "{} routes", routes.len());
    routes
}

/// Fills in the parameters of a path.
fn filled(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x1".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

async fn asked(server: &TestServer, route: &Route, credential: Option<&str>) -> Reply {
    let mut request = server.ask(route.method.clone(), &route.path);
    if let Some(credential) = credential {
        request = request.header(header::AUTHORIZATION, credential);
    }
    Reply::of(request.send().await.unwrap()).await
}

#[test]
fn every_route_but_two_needs_a_scope_a_pass_or_a_signature() {
    for Route { method, path, scheme, scope } in routes() {
        assert_eq!(scheme.is_none(), PUBLIC.contains(&path.as_str()), "{method} {path}");
        let has_scope = scope.is_some() || path == "/v1/key";
        assert_eq!(has_scope, scheme.as_deref() == Some("key"), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_credentials_open_no_route() {
    let server = TestServer::with(&[("requests_per_second", "100000")]).await;
    let good = server.key("default", &Scope::ALL).await;
    let expired = server.key_for("default", &Scope::ALL, Some(0)).await;
    let revoked = server.key("default", &Scope::ALL).await;
    let id = revoked.split('_').nth(1).unwrap();
    server.keys().await.revoke(id, None).await.unwrap();
    // The server learns of the revocation a moment later.
    while server.ask(Method::GET, "/nowhere").bearer_auth(&revoked).send().await.unwrap().status().as_u16()
        == 404
    {
        tokio::task::yield_now().await;
    }
    let mut wrong = good.clone();
    let last = if wrong.ends_with('0') { '1' } else { '0' };
    wrong.pop();
    wrong.push(last);
    let bearer = |key: &str| format!("Bearer {key}");
    let bad = [
        None,
        Some("Bearer nothing".to_owned()),
        Some("Bearer ".to_owned()),
        Some("Bearer".to_owned()),
        Some(good.clone()),
        Some(format!("Basic {good}")),
        Some(bearer(&good[..good.len() - 1])),
        Some(bearer(&wrong)),
        Some(bearer(&expired)),
        Some(bearer(&revoked)),
        Some(bearer(&format!("gsk_{}_{}", "0".repeat(16), "0".repeat(64)))),
    ];
    for route in routes().iter().filter(|route| route.scheme.is_some()) {
        for credential in &bad {
            let reply = asked(&server, route, credential.as_deref()).await;
            // Repeated failures exceed the rate limit, which also refuses the request.
            let turned_away = reply.status.as_u16() == 401 || reply.status.as_u16() == 429;
            assert!(turned_away, "{} {} with {credential:?}: {}", route.method, route.path, reply.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_opens_exactly_the_routes_of_its_scope() {
    let server = TestServer::with(&[("requests_per_second", "100000")]).await;
    for scope in Scope::ALL {
        let key = format!("Bearer {}", server.key("default", &[scope]).await);
        let is_signed = |route: &&Route| route.scheme.as_deref() == Some("signature");
        for route in routes().iter().filter(is_signed) {
            let reply = asked(&server, route, Some(&key)).await;
            assert!(matches!(reply.status.as_u16(), 401 | 429), "{} {}", route.method, route.path);
        }
        let takes_a_bearer = |route: &&Route| matches!(route.scheme.as_deref(), Some("key" | "pass"));
        for route in routes().iter().filter(takes_a_bearer).filter(|route| !is_stream(route)) {
            let reply = asked(&server, route, Some(&key)).await;
            let refused = reply.status.as_u16() == 403 && reply.body["code"] == "GS0602";
            assert_eq!(
                refused,
                route.scope != Some(scope) && !takes_any_key(route),
                "{} {} with {scope}: {}",
                route.method,
                route.path,
                reply.text
            );
            assert!(
                reply.status.as_u16() != 401 && reply.status.as_u16() != 500,
                "{} {}: {}",
                route.method,
                route.path,
                reply.text
            );
        }
    }
}

/// Returns whether a key with any scope opens the route.
fn takes_any_key(route: &Route) -> bool {
    route.scheme.as_deref() == Some("key") && route.scope.is_none()
}

/// Returns whether the response never ends.
fn is_stream(route: &Route) -> bool {
    route.path == "/v1/events"
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_resemble_public_routes_stay_closed() {
    let server = TestServer::open().await;
    server.key("default", &Scope::ALL).await;
    for path in [
        "/v1/runs/healthz",
        "/v1/runs/readyz",
        "/healthz/",
        "//healthz",
        "/healthz%2f..%2fv1%2fruns",
        "/v1/runs?x=/healthz",
        "/metrics",
        "/nowhere",
        "/v1/healthz",
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status.as_u16(), 401, "{path}: {}", reply.text);
    }
    assert_eq!(server.get("/healthz").await.text, "ok\n");
    assert_eq!(server.get("/readyz").await.text, "ok\n");
    assert_eq!(server.post("/healthz", &Value::Null).await.status.as_u16(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_keys_is_rate_limited() {
    let server = TestServer::open().await;
    server.key("default", &Scope::ALL).await;
    let mut slowed = false;
    for _ in 0..200 {
        let reply = asked(&server, &routes()[5], Some("Bearer nothing")).await;
        slowed |= reply.status.as_u16() == 429;
    }
    assert!(slowed);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_namespace_sees_nothing_of_another() {
    let server = TestServer::open().await;
    let ours = server.key("default", &Scope::ALL).await;
    let theirs = server.key("other", &Scope::ALL).await;
    let ask = async |key: &str, method: Method, path: &str, body: Value| {
        let request = server.ask(method, path).bearer_auth(key);
        let request = if body.is_null() { request } else { request.json(&body) };
        Reply::of(request.send().await.unwrap()).await
    };
    let secret = serde_json::json!({ "workflow": "greet", "id": "r-1", "input": "in-their-store-only" });
    ask(&theirs, Method::POST, "/v1/runs", secret).await.ok();
    for n in 0..3 {
        let body =
            serde_json::json!({ "workflow": "w", "id": format!("page-{n}"), "input": "in-their-store-only" });
        ask(&theirs, Method::POST, "/v1/runs", body).await.ok();
    }
    let page = ask(&theirs, Method::GET, "/v1/runs?limit=1", Value::Null).await.ok();
    let cursor = page["next"].as_str().unwrap();
    let path = format!("/v1/runs?limit=1&after={cursor}");
    ask(&theirs, Method::GET, &path, Value::Null).await.ok();
    ask(&ours, Method::GET, &path, Value::Null).await.problem(400, "GS0608");
    for route in routes().iter().filter(|route| route.scope.is_some() && !is_stream(route)) {
        let path = route.path.replace("x1", "r-1");
        let reply = ask(&ours, route.method.clone(), &path, serde_json::json!({})).await;
        assert!(!reply.text.contains("in-their-store-only"), "{} {path}: {}", route.method, reply.text);
    }
    let body = serde_json::json!({ "name": "x", "scopes": ["read"], "namespace": "other" });
    ask(&ours, Method::POST, "/v1/keys", body).await.problem(403, "GS0602");
    let listed = ask(&ours, Method::GET, "/v1/keys", Value::Null).await.ok();
    assert!(listed["items"].as_array().unwrap().iter().all(|key| key["namespace"] == "default"), "{listed}");
    let id = theirs.split('_').nth(1).unwrap();
    let reply = ask(&ours, Method::POST, &format!("/v1/keys/{id}/revoke"), Value::Null).await;
    assert_eq!(reply.status.as_u16(), 404);
}
