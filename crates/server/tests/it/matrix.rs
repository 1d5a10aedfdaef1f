//! Every route, with every credential that must not open it. The list of routes is the description itself, so that a new
//! route is covered at once.

use goldseam_api::doc::key::Scope;
use goldseam_server::openapi;
use reqwest::{Method, header};
use serde_json::Value;

use crate::desk::{Desk, Told};

/// What anybody may ask for.
const PUBLIC: [&str; 2] = ["/healthz", "/readyz"];

struct Route {
    method: Method,
    path: String,
    /// What it needs: a key, a pass, a signature.
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

/// An address of the route, with a name for each of its parts.
fn filled(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x1".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

async fn asked(desk: &Desk, route: &Route, credential: Option<&str>) -> Told {
    let mut request = desk.ask(route.method.clone(), &route.path);
    if let Some(credential) = credential {
        request = request.header(header::AUTHORIZATION, credential);
    }
    Told::of(request.send().await.unwrap()).await
}

#[test]
fn every_route_but_two_needs_a_scope_a_pass_or_a_signature() {
    for Route { method, path, scheme, scope } in routes() {
        assert_eq!(scheme.is_none(), PUBLIC.contains(&path.as_str()), "{method} {path}");
        assert_eq!(scope.is_some(), scheme.as_deref() == Some("key"), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_opens_to_a_credential_that_is_not_valid() {
    let desk = Desk::with(&[("requests_per_second", "100000")]).await;
    let good = desk.key("default", &Scope::ALL).await;
    let expired = desk.key_for("default", &Scope::ALL, Some(0)).await;
    let revoked = desk.key("default", &Scope::ALL).await;
    let id = revoked.split('_').nth(1).unwrap();
    desk.keys().await.revoke(id, None).await.unwrap();
    // What was revoked elsewhere is known a moment later.
    while desk.ask(Method::GET, "/nowhere").bearer_auth(&revoked).send().await.unwrap().status().as_u16()
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
            let told = asked(&desk, route, credential.as_deref()).await;
            // Many wrong keys in a row are answered more and more slowly: that is no entry either.
            let turned_away = told.status.as_u16() == 401 || told.status.as_u16() == 429;
            assert!(turned_away, "{} {} with {credential:?}: {}", route.method, route.path, told.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_opens_what_its_scope_says_and_nothing_else() {
    let desk = Desk::with(&[("requests_per_second", "100000")]).await;
    for scope in Scope::ALL {
        let key = format!("Bearer {}", desk.key("default", &[scope]).await);
        let is_signed = |route: &&Route| route.scheme.as_deref() == Some("signature");
        for route in routes().iter().filter(is_signed) {
            let told = asked(&desk, route, Some(&key)).await;
            assert!(matches!(told.status.as_u16(), 401 | 429), "{} {}", route.method, route.path);
        }
        let takes_a_bearer = |route: &&Route| matches!(route.scheme.as_deref(), Some("key" | "pass"));
        for route in routes().iter().filter(takes_a_bearer).filter(|route| !is_stream(route)) {
            let told = asked(&desk, route, Some(&key)).await;
            let refused = told.status.as_u16() == 403 && told.body["code"] == "GS0602";
            assert_eq!(
                refused,
                route.scope != Some(scope),
                "{} {} with {scope}: {}",
                route.method,
                route.path,
                told.text
            );
            assert!(
                told.status.as_u16() != 401 && told.status.as_u16() != 500,
                "{} {}: {}",
                route.method,
                route.path,
                told.text
            );
        }
    }
}

/// It would be followed without end.
fn is_stream(route: &Route) -> bool {
    route.path == "/v1/events"
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_like_a_public_route_stays_closed() {
    let desk = Desk::open().await;
    desk.key("default", &Scope::ALL).await;
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
        let told = desk.get(path).await;
        assert_eq!(told.status.as_u16(), 401, "{path}: {}", told.text);
    }
    assert_eq!(desk.get("/healthz").await.text, "ok\n");
    assert_eq!(desk.get("/readyz").await.text, "ok\n");
    assert_eq!(desk.post("/healthz", &Value::Null).await.status.as_u16(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_keys_is_made_slow() {
    let desk = Desk::open().await;
    desk.key("default", &Scope::ALL).await;
    let mut slowed = false;
    for _ in 0..200 {
        let told = asked(&desk, &routes()[5], Some("Bearer nothing")).await;
        slowed |= told.status.as_u16() == 429;
    }
    assert!(slowed);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_namespace_sees_nothing_of_another() {
    let desk = Desk::open().await;
    let (ours, theirs) = (desk.key("default", &Scope::ALL).await, desk.key("other", &Scope::ALL).await);
    let ask = async |key: &str, method: Method, path: &str, body: Value| {
        let request = desk.ask(method, path).bearer_auth(key);
        let request = if body.is_null() { request } else { request.json(&body) };
        Told::of(request.send().await.unwrap()).await
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
        let told = ask(&ours, route.method.clone(), &path, serde_json::json!({})).await;
        assert!(!told.text.contains("in-their-store-only"), "{} {path}: {}", route.method, told.text);
    }
    let body = serde_json::json!({ "name": "x", "scopes": ["read"], "namespace": "other" });
    ask(&ours, Method::POST, "/v1/keys", body).await.problem(403, "GS0602");
    let listed = ask(&ours, Method::GET, "/v1/keys", Value::Null).await.ok();
    assert!(listed["items"].as_array().unwrap().iter().all(|key| key["namespace"] == "default"), "{listed}");
    let id = theirs.split('_').nth(1).unwrap();
    let told = ask(&ours, Method::POST, &format!("/v1/keys/{id}/revoke"), Value::Null).await;
    assert_eq!(told.status.as_u16(), 404);
}
