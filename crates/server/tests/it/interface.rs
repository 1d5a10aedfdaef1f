//! Keys, passes and workers through the interface: on the store, and over HTTP.

use goldseam::RunId;
use goldseam::unstable::engine::remote::wire::{Claim, Events, Heartbeat, Register};
use goldseam_api::doc::activity::{ActivityDoc, ActivityQuery};
use goldseam_api::doc::key::{NewKey, Scope};
use goldseam_api::doc::overview::{SuggestionKind, SuggestionsQuery};
use goldseam_api::doc::pass::NewPass;
use goldseam_api::doc::run::DetailQuery;
use goldseam_api::{Api, Caller, KeysApi as _, LocalApi, PassesApi as _, RemoteApi};
use serde_json::json;

use crate::test_server::TestServer;

/// Starts a server with a key of every scope, and returns the interface on its store and over HTTP.
async fn both() -> (TestServer, [Box<dyn Api>; 2]) {
    let server = TestServer::open().await;
    let key = server.key("default", &Scope::ALL).await;
    let local = LocalApi::new(goldseam::connect_existing(&server.store("main.db")).await.unwrap());
    let remote = RemoteApi::new(&server.url, Some(key)).unwrap();
    (server, [Box::new(local), Box::new(remote)])
}

fn new_key(name: &str, namespace: Option<&str>) -> NewKey {
    NewKey {
        name: name.to_owned(),
        scopes: [Scope::Read].into(),
        queues: None,
        namespace: namespace.map(str::to_owned),
        valid_for_ms: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_the_same_on_the_store_and_over_http() {
    let (server, apis) = both().await;
    let caller = Caller::named(Some("ana".to_owned()));
    for (api, name) in apis.iter().zip(["local", "remote"]) {
        let created = api.create_key(&caller, new_key(name, None)).await.unwrap();
        assert_eq!(created.key.namespace, "default");
        for api in &apis {
            assert!(api.keys().await.unwrap().items.contains(&created.key), "{name}");
        }
        let revoked = api.revoke_key(&caller, &created.key.id).await.unwrap();
        assert!(revoked.revoked_at.is_some());
        assert_eq!(api.revoke_key(&caller, &created.key.id).await.unwrap(), revoked, "a repeat");
        assert_eq!(api.revoke_key(&caller, "none").await.unwrap_err().status, 404);
        assert_eq!(api.create_key(&caller, new_key("", None)).await.unwrap_err().status, 400);
    }
    // Direct access to the main store reaches every namespace; a key reaches its own.
    let [local, remote] = &apis;
    let other = local.create_key(&caller, new_key("other", Some("other"))).await.unwrap().key;
    assert!(!remote.keys().await.unwrap().items.contains(&other));
    assert_eq!(remote.revoke_key(&caller, &other.id).await.unwrap_err().status, 404);
    assert_eq!(remote.create_key(&caller, new_key("x", Some("other"))).await.unwrap_err().status, 403);
    assert!(local.revoke_key(&caller, &other.id).await.is_ok());
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_are_the_same_on_the_store_and_over_http() {
    let (server, apis) = both().await;
    let caller = Caller::default();
    let run = RunId::new("r").unwrap();
    let new = || NewPass { answer: None, signal: Some("go".parse().unwrap()), valid_for_ms: None };
    for api in &apis {
        assert_eq!(api.create_pass(&caller, &run, new()).await.unwrap_err().status, 404);
    }
    let start = json!({ "workflow": "greet", "id": "r", "input": "Ada" });
    apis[1].start(&caller, serde_json::from_value(start).unwrap()).await.unwrap();
    for api in &apis {
        let pass = api.create_pass(&caller, &run, new()).await.unwrap();
        let shown =
            server.ask(reqwest::Method::GET, "/v1/pass").bearer_auth(&pass.pass).send().await.unwrap();
        assert_eq!(shown.status().as_u16(), 200);
        let both = NewPass { answer: Some(goldseam::Path::new("q").unwrap()), ..new() };
        assert_eq!(api.create_pass(&caller, &run, both).await.unwrap_err().status, 400);
        assert!(api.rotate_passes(&caller).await.unwrap().rotated_at.0 > 0);
    }
    // Only the main namespace may rotate.
    let other = server.key("other", &Scope::ALL).await;
    let other = RemoteApi::new(&server.url, Some(other)).unwrap();
    assert_eq!(other.rotate_passes(&caller).await.unwrap_err().status, 403);
    assert_eq!(other.keys().await.unwrap().items.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_the_same_on_the_store_and_over_http() {
    let (server, apis) = both().await;
    let caller = Caller::default();
    let register = |queue: &str| {
        let new = json!({ "name": "w", "workflows": ["far@1"], "queues": [queue], "slots": 1 });
        serde_json::from_value::<Register>(new).unwrap()
    };
    for api in &apis {
        assert!(matches!(
            api.register_worker(&caller, register("goldseam-x")).await.unwrap_err().status,
            400 | 403
        ));
        let worker = api.register_worker(&caller, register("default")).await.unwrap().worker;
        assert!(api.nodes().await.unwrap().items.iter().any(|node| node.id == worker));
        let beaten = api.heartbeat_worker(&caller, &worker, Heartbeat::default()).await.unwrap();
        assert!(beaten.news.is_empty() && !beaten.leaving);
        let claim = Claim { limit: 1, ..Claim::default() };
        assert!(api.claim_executions(&caller, &worker, claim).await.unwrap().executions.is_empty());
        let events = serde_json::from_value::<Events>(json!({ "token": "x", "after": 0 })).unwrap();
        assert_eq!(api.read_execution(&caller, events).await.unwrap_err().status, 404);
        let append = json!({ "token": "x", "id": "1", "after": 0, "doings": [] });
        let append = serde_json::from_value(append).unwrap();
        assert!(api.append_to_execution(&caller, append).await.unwrap_err().status < 500);
        assert_eq!(api.remove_worker(&caller, &worker).await.unwrap().worker, worker);
        assert_eq!(api.remove_worker(&caller, &worker).await.unwrap_err().status, 404);
    }
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn overviews_are_the_same_on_the_store_and_over_http() {
    let (server, [local, remote]) = both().await;
    let caller = Caller::default();
    for id in ["q-1", "q-2"] {
        let new = serde_json::from_value(json!({ "workflow": "none", "id": id, "tags": { "who": "ada" } }));
        local.start(&caller, new.unwrap()).await.unwrap();
    }
    let run = RunId::new("q-1").unwrap();
    assert_eq!(local.statuses().await.unwrap(), remote.statuses().await.unwrap());
    assert_eq!(local.statuses().await.unwrap().total, 2);
    let tags = SuggestionsQuery { of: SuggestionKind::Tag, text: Some("WHO".to_owned()), limit: Some(1) };
    let suggested = local.suggestions(tags.clone()).await.unwrap();
    assert_eq!(suggested.items[0].value, "who=ada");
    assert_eq!(suggested, remote.suggestions(tags).await.unwrap());
    let at = DetailQuery { at: Some(1), branch: Some("b1".to_owned()) };
    assert_eq!(local.detail_at(&run, at.clone()).await.unwrap(), remote.detail_at(&run, at).await.unwrap());
    let remedies = local.remedies(&run).await.unwrap();
    assert_eq!(remedies.items.len(), 1, "{remedies:?}");
    assert_eq!(remedies.items[0].rule, remote.remedies(&run).await.unwrap().items[0].rule);
    let here = ActivityQuery::default();
    let there = ActivityQuery::default();
    let here = local.activity(here).await.unwrap();
    let there = remote.activity(there).await.unwrap();
    let started = |doc: &ActivityDoc| doc.intervals.iter().map(|one| one.started).sum::<u64>();
    assert_eq!((started(&here), started(&there), here.complete), (2, 2, there.complete));
    assert_eq!(local.current_key().await.unwrap().scopes, remote.current_key().await.unwrap().scopes);
    drop(server);
}
