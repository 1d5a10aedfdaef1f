//! A repeated request gets the first response; a different one under the same token or id is refused, also after a
//! restart.

use serde_json::{Value, json};

use crate::test_server::TestServer;

/// Claims one task and returns its id and its token.
async fn claim(server: &TestServer, kind: &str) -> (String, Value) {
    let want = json!({ "owner": "w", "kind": kind, "wait_ms": 20000 });
    let claimed = server.post("/v1/tasks/claim", &want).await.ok();
    let item = &claimed["items"][0];
    (item["task"]["id"].as_str().unwrap().to_owned(), item["token"].clone())
}

/// Checks that the first result is kept: a repeat succeeds, a different result is refused.
async fn first_result_stands(server: &TestServer, task: &str, token: &Value, (verb, first): (&str, Value)) {
    let send = async |verb: &str, result: &Value| {
        let mut body = result.clone();
        body["token"] = token.clone();
        server.post(&format!("/v1/tasks/{task}/{verb}"), &body).await
    };
    let reply = send(verb, &first).await.ok();
    assert_eq!(send(verb, &first).await.ok()["state"], reply["state"], "a repeat gets the same response");
    let others = [
        ("complete", json!({ "result": "other" })),
        ("fail", json!({ "failure": { "class": "terminal", "message": "other" } })),
        ("fail", json!({ "failure": { "class": "retryable", "message": "broken" } })),
    ];
    for (other, result) in others {
        let problem = send(other, &result).await.problem(409, "GS0603");
        assert!(problem["hint"].as_str().unwrap().contains("the first result is kept"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn different_result_under_a_task_token_is_refused() {
    let mut server = TestServer::open().await;
    let engine = server.engine().await;
    server.start("far", "f-1", json!(1)).await;
    let (step, step_token) = claim(&server, "resize").await;
    server.post("/v1/tasks", &json!({ "kind": "own", "id": "t-1" })).await.ok();
    let (done, done_token) = claim(&server, "own").await;
    server.post("/v1/tasks", &json!({ "kind": "bad", "id": "t-2", "attempts_max": 3 })).await.ok();
    let (failed, failed_token) = claim(&server, "bad").await;
    let failure = json!({ "failure": { "class": "terminal", "message": "broken" } });
    for round in ["first", "after a restart"] {
        first_result_stands(&server, &step, &step_token, ("complete", json!({ "result": "small" }))).await;
        first_result_stands(&server, &done, &done_token, ("complete", json!({ "result": 1 }))).await;
        first_result_stands(&server, &failed, &failed_token, ("fail", failure.clone())).await;
        if round == "first" {
            server.restart().await;
        }
    }
    let ended = server.get("/v1/runs/f-1/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], json!("small"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn different_doings_under_an_append_id_are_refused() {
    let mut server = TestServer::open().await;
    let new = json!({ "name": "w", "workflows": ["order@1"], "slots": 1 });
    let worker = server.post("/v1/workers", &new).await.ok()["worker"].as_str().unwrap().to_owned();
    server.start("order", "o-1", json!(1)).await;
    let want = json!({ "limit": 1, "wait_ms": 10000 });
    let claimed = server.post(&format!("/v1/workers/{worker}/claim"), &want).await.ok();
    let execution = &claimed["executions"][0];
    let append = |id: &str, output: Value| {
        json!({ "token": execution["token"], "id": id, "after": execution["end"],
            "doings": [{ "complete": { "output": output } }] })
    };
    let path = "/v1/executions/append";
    let first = server.post(path, &append("a-1", json!({ "paid": true }))).await.ok();
    assert_eq!((&first["outcome"], &first["repeated"]), (&json!("over"), &json!(false)));
    for round in ["first", "after a restart"] {
        let again = server.post(path, &append("a-1", json!({ "paid": true }))).await.ok();
        assert_eq!((&again["repeated"], &again["events"]), (&json!(true), &first["events"]), "{round}");
        let problem =
            server.post(path, &append("a-1", json!({ "paid": false }))).await.problem(409, "GS0603");
        assert!(problem["detail"].as_str().unwrap().contains("a-1"), "{problem}");
        if round == "first" {
            server.restart().await;
        }
    }
}
