//! Conditions, counts and groups over HTTP.

use serde_json::json;

use crate::test_server::TestServer;

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_counted_and_grouped_by_a_condition() {
    let server = TestServer::open().await;
    for (id, region, amount) in [("a", "eu", 120), ("b", "eu", 80), ("c", "us", 200)] {
        let attributes = json!({ "region": region, "amount": amount });
        server
            .post("/v1/runs", &json!({ "workflow": "unknown", "id": id, "attributes": attributes }))
            .await
            .ok();
    }
    let eu = encoded("region = \"eu\" and amount > 100");
    let page = server.get(&format!("/v1/runs?where={eu}")).await.ok();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["items"][0]["run"]), (1, &json!("a")));
    assert_eq!(page["items"][0]["attributes"], json!({ "amount": 120, "region": "eu" }));
    let counted = server.get(&format!("/v1/groups?where={}", encoded("amount > 0"))).await.ok();
    assert_eq!((&counted["total"], &counted["groups"]), (&json!(3), &json!([])));
    let groups = server.get("/v1/groups?by=region").await.ok();
    assert_eq!((&groups["groups"][0]["key"], &groups["groups"][0]["count"]), (&json!("eu"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_another_condition_or_order_is_refused() {
    let server = TestServer::open().await;
    for id in ["a", "b", "c"] {
        server.post("/v1/runs", &json!({ "workflow": "unknown", "id": id })).await.ok();
    }
    let queued = format!("/v1/runs?limit=1&where={}", encoded("status = queued"));
    let first = server.get(&queued).await.ok();
    let next = first["next"].as_str().unwrap().to_owned();
    let second = server.get(&format!("{queued}&after={next}")).await.ok();
    assert_eq!(second["items"][0]["run"], json!("b"));
    for other in [
        format!("/v1/runs?limit=1&where={}&after={next}", encoded("status = failed")),
        format!("{queued}&order=oldest&after={next}"),
        format!("/v1/runs?after={next}"),
    ] {
        server.get(&other).await.problem(400, "GS0154");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_conditions_have_a_code_and_a_place() {
    let server = TestServer::open().await;
    server.start("greet", "r", json!("Ada")).await;
    for (text, code) in [
        ("status =", "GS0139"),
        ("status = faild", "GS0141"),
        ("regoin = \"eu\"", "GS0140"),
        ("\u{0}", "GS0139"),
    ] {
        server.get(&format!("/v1/runs?where={}", encoded(text))).await.problem(400, code);
        server.get(&format!("/v1/groups?where={}", encoded(text))).await.problem(400, code);
    }
    server.get("/v1/groups?by=created").await.problem(400, "GS0143");
    let long = json!({ "workflow": "w", "attributes": { "a": "x".repeat(300) } });
    server.post("/v1/runs", &long).await.problem(400, "GS0142");
    server
        .post("/v1/runs", &json!({ "workflow": "w", "attributes": { "a": null } }))
        .await
        .problem(400, "GS0608");
}
