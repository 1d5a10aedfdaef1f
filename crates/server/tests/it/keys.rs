//! Keys: made once, kept as a hash, revoked for good.

use goldseam_api::doc::key::Scope;
use goldseam_server::config::Settings;
use goldseam_server::serve;
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeMap;

use crate::desk::{Desk, Told};

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_a_key_is_nowhere_in_the_store() {
    let desk = Desk::open().await;
    let key = desk.key("default", &[Scope::Read]).await;
    let secret = key.rsplit('_').next().unwrap();
    for file in std::fs::read_dir(desk.dir.path()).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            let bytes = std::fs::read(&file).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", file.display());
        }
    }
    let read = desk.ask(Method::GET, "/v1/locks").bearer_auth(&key).send().await.unwrap();
    let told = Told::of(read).await.ok();
    assert_eq!(told["items"], json!([]), "reserved names are not listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_made_over_http_works_until_it_is_revoked() {
    let desk = Desk::open().await;
    let made = desk.post("/v1/keys", &json!({ "name": "ci", "scopes": ["admin", "read"] })).await.ok();
    let (key, id) = (made["credential"].as_str().unwrap(), made["id"].as_str().unwrap());
    desk.get("/v1/runs").await.problem(401, "GS0601");
    let ask = async |method: Method, path: &str| {
        Told::of(desk.ask(method, path).bearer_auth(key).send().await.unwrap()).await
    };
    ask(Method::GET, "/v1/runs").await.ok();
    let listed = ask(Method::GET, "/v1/keys").await;
    assert!(listed.text.contains("\"ci\"") && !listed.text.contains("hash"), "{}", listed.text);
    ask(Method::POST, &format!("/v1/keys/{id}/revoke")).await.ok();
    ask(Method::GET, "/v1/runs").await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_can_reach_does_not_start_without_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", dir.path().join("main.db").display());
    let flags = BTreeMap::from([("listen", "0.0.0.0:0".to_owned()), ("store", store)]);
    let config = Settings::gather(&flags, |_| None, None).unwrap().config().unwrap();
    let problem = serve(config).await.unwrap_err();
    assert_eq!(problem.code.as_deref(), Some("GS0604"), "{problem}");
}
