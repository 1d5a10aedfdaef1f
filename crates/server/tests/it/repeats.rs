//! A repeat gets the first answer; something else under the same token or id is refused, after a restart, too.

use serde_json::{Value, json};

use crate::desk::Desk;

/// Claims one task and returns its id and its token.
async fn claim(desk: &Desk, kind: &str) -> (String, Value) {
    let want = json!({ "owner": "w", "kind": kind, "wait_ms": 20000 });
    let claimed = desk.post("/v1/tasks/claim", &want).await.ok();
    let item = &claimed["items"][0];
    (item["task"]["id"].as_str().unwrap().to_owned(), item["token"].clone())
}

/// The first result stands: the same again is answered alike, others are refused.
async fn first_result_stands(desk: &Desk, task: &str, token: &Value, (verb, first): (&str, Value)) {
    let send = async |verb: &str, result: &Value| {
        let mut body = result.clone();
        body["token"] = token.clone();
        desk.post(&format!("/v1/tasks/{task}/{verb}"), &body).await
    };
    let told = send(verb, &first).await.ok();
    assert_eq!(send(verb, &first).await.ok()["state"], told["state"], "a repeat is answered alike");
    let others = [
        ("complete", json!({ "result": "other" })),
        ("fail", json!({ "failure": { "class": "terminal", "message": "other" } })),
        ("fail", json!({ "failure": { "class": "retryable", "message": "broken" } })),
    ];
    for (other, result) in others {
        let problem = send(other, &result).await.problem(409, "GS0603");
        assert!(problem["hint"].as_str().unwrap().contains("the first one stands"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_result_under_a_tasks_token_is_refused() {
    let mut desk = Desk::open().await;
    let engine = desk.engine().await;
    desk.start("far", "f-1", json!(1)).await;
    let (step, step_token) = claim(&desk, "resize").await;
    desk.post("/v1/tasks", &json!({ "kind": "own", "id": "t-1" })).await.ok();
    let (done, done_token) = claim(&desk, "own").await;
    desk.post("/v1/tasks", &json!({ "kind": "bad", "id": "t-2", "attempts_max": 3 })).await.ok();
    let (failed, failed_token) = claim(&desk, "bad").await;
    let failure = json!({ "failure": { "class": "terminal", "message": "broken" } });
    for round in ["first", "after a restart"] {
        first_result_stands(&desk, &step, &step_token, ("complete", json!({ "result": "small" }))).await;
        first_result_stands(&desk, &done, &done_token, ("complete", json!({ "result": 1 }))).await;
        first_result_stands(&desk, &failed, &failed_token, ("fail", failure.clone())).await;
        if round == "first" {
            desk.restart().await;
        }
    }
    let ended = desk.get("/v1/runs/f-1/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], json!("small"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_doings_under_an_appends_id_are_refused() {
    let mut desk = Desk::open().await;
    let new = json!({ "name": "w", "workflows": ["order@1"], "slots": 1 });
    let worker = desk.post("/v1/workers", &new).await.ok()["worker"].as_str().unwrap().to_owned();
    desk.start("order", "o-1", json!(1)).await;
    let want = json!({ "limit": 1, "wait_ms": 10000 });
    let claimed = desk.post(&format!("/v1/workers/{worker}/claim"), &want).await.ok();
    let execution = &claimed["executions"][0];
    let append = |id: &str, output: Value| {
        json!({ "token": execution["token"], "id": id, "after": execution["end"],
            "doings": [{ "complete": { "output": output } }] })
    };
    let path = "/v1/executions/append";
    let first = desk.post(path, &append("a-1", json!({ "paid": true }))).await.ok();
    assert_eq!((&first["outcome"], &first["repeated"]), (&json!("over"), &json!(false)));
    for round in ["first", "after a restart"] {
        let again = desk.post(path, &append("a-1", json!({ "paid": true }))).await.ok();
        assert_eq!((&again["repeated"], &again["events"]), (&json!(true), &first["events"]), "{round}");
        let problem = desk.post(path, &append("a-1", json!({ "paid": false }))).await.problem(409, "GS0603");
        assert!(problem["detail"].as_str().unwrap().contains("a-1"), "{problem}");
        if round == "first" {
            desk.restart().await;
        }
    }
}
