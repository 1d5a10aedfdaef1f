//! Published values and requests over HTTP.

use goldseam::prelude::*;
use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

async fn basket(ctx: Context, _: ()) -> goldseam::Result<u32> {
    let mut total = 0;
    loop {
        match ctx.select("next").request("add").signal("close").await? {
            Selected::Request(line) => {
                let value = line.read::<u32>()?;
                if value > 100 {
                    line.refuse("too much").await?;
                    continue;
                }
                total += value;
                ctx.publish("total", &total).await?;
                line.answer(&total).await?;
            }
            _ => return Ok(total),
        }
    }
}

async fn engine(server: &TestServer) -> Engine {
    let builder = Engine::open(&server.store("main.db")).await.unwrap();
    builder.workflow("basket", basket).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_answered_and_the_value_published() {
    let server = TestServer::open().await;
    let engine = engine(&server).await;
    server.start("basket", "b-1", Value::Null).await;
    let add = async |payload: u32, id: &str| {
        server
            .post("/v1/runs/b-1/requests/add", &json!({ "payload": payload, "id": id, "wait_ms": 20000 }))
            .await
    };
    let first = add(40, "one").await.ok();
    assert_eq!((&first["reply"], &first["answer"]), (&json!("answered"), &json!(40)));
    assert_eq!(add(40, "one").await.ok(), first, "the same id returns the same answer");
    add(41, "one").await.problem(409, "GS0174");
    let refused = add(200, "two").await.ok();
    assert_eq!((&refused["reply"], &refused["refused"]), (&json!("refused"), &json!("too much")));
    assert_eq!(add(2, "three").await.ok()["answer"], json!(42));
    let value = server.get("/v1/runs/b-1/published/total").await.ok();
    assert_eq!((&value["value"], &value["name"]), (&json!(42), &json!("total")));
    assert_eq!(server.get("/v1/runs/b-1/published").await.ok()["items"], json!([value]));
    let missing = server.get("/v1/runs/b-1/published/speed").await.problem(404, "GS0168");
    assert!(missing["detail"].as_str().unwrap().ends_with("it has published total"), "{missing}");
    server.get("/v1/runs/none/published").await.problem(404, "GS0104");
    server.get("/v1/runs/b-1/published/a%20b").await.problem(400, "GS0101");
    server.post("/v1/runs/b-1/signal", &json!({ "name": "close" })).await.ok();
    server.get("/v1/runs/b-1/result?wait_ms=20000").await.ok();
    assert_eq!(server.get("/v1/runs/b-1/published/total").await.ok()["value"], json!(42));
    assert_eq!(server.get("/v1/runs/b-1/requests/add?id=three").await.ok()["answer"], json!(42));
    add(1, "four").await.problem(409, "GS0105");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_request_is_returned_to_by_its_id() {
    let server = TestServer::open().await;
    server.start("basket", "b-1", Value::Null).await;
    let path = "/v1/runs/b-1/requests/add";
    let asked = server.post(path, &json!({ "payload": 7, "wait_ms": 0 })).await.ok();
    assert_eq!(asked["reply"], json!("pending"), "{asked}");
    let id = asked["id"].as_str().unwrap();
    server.get(&format!("{path}?id=other")).await.problem(404, "GS0175");
    server.get(path).await.problem(400, "GS0608");
    let long = server.post(path, &json!({ "payload": 7, "wait_ms": 60001 })).await;
    assert_eq!(long.status.as_u16(), 400, "{}", long.text);
    server.post(path, &json!({ "payload": "x".repeat(300_000) })).await.problem(413, "GS0102");
    server.post("/v1/runs/b-1/requests/a%20b", &json!({})).await.problem(400, "GS0101");
    server.post("/v1/runs/none/requests/add", &json!({})).await.problem(404, "GS0104");
    let engine = engine(&server).await;
    let event = &asked["event"];
    let wait = "wait_ms=20000";
    let answered = server.get(&format!("{path}?id={id}&event={event}&{wait}")).await.ok();
    assert_eq!((&answered["reply"], &answered["answer"]), (&json!("answered"), &json!(7)));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_repeats_of_a_request_are_answered_once() {
    let server = TestServer::open().await;
    let engine = engine(&server).await;
    server.start("basket", "b-1", Value::Null).await;
    let ask = async |payload: u32| {
        let body = json!({ "payload": payload, "wait_ms": 20000 });
        let request = server.ask(Method::POST, "/v1/runs/b-1/requests/add");
        Reply::of(request.header("idempotency-key", "same").json(&body).send().await.unwrap()).await
    };
    let replies = futures_util::future::join_all((0..8).map(|_| ask(5))).await;
    let replies: Vec<Value> = replies.into_iter().map(Reply::ok).collect();
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    assert_eq!(replies[0]["answer"], json!(5));
    ask(6).await.problem(409, "GS0603");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_only_reads_sends_no_request() {
    let server = TestServer::open().await;
    server.start("basket", "b-1", Value::Null).await;
    let key = server.key("default", &[Scope::Read]).await;
    let send = async |method: Method, path: &str| {
        let request = server.ask(method, path).bearer_auth(&key);
        Reply::of(request.json(&json!({ "wait_ms": 0 })).send().await.unwrap()).await
    };
    send(Method::POST, "/v1/runs/b-1/requests/add").await.problem(403, "GS0602");
    let read = server.ask(Method::GET, "/v1/runs/b-1/published").bearer_auth(&key).send().await.unwrap();
    Reply::of(read).await.ok();
}
