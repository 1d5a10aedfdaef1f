//! Malformed, huge or deep input: the problem names the reason and the limit, and the server keeps running.

use std::time::Duration;

use reqwest::{Method, header};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{Reply, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn invalid_body_is_refused_with_the_reason() {
    let server = TestServer::open().await;
    let send = async |kind: &str, body: String| {
        let request = server.ask(Method::POST, "/v1/runs").header(header::CONTENT_TYPE, kind).body(body);
        Reply::of(request.send().await.unwrap()).await
    };
    let json = "application/json";
    for body in ["", "{", "[]", "null", "{\"workflow\":1}", "{\"workflow\":\"w\",\"unknown\":1}", "\u{0}"] {
        send(json, body.to_owned()).await.problem(400, "GS0608");
    }
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "multipart/form-data"]
    {
        send(kind, "{\"workflow\":\"w\"}".to_owned()).await.problem(415, "GS0609");
    }
    let huge = format!("{{\"workflow\":\"w\",\"input\":\"{}\"}}", "x".repeat(3 << 20));
    let request = server.ask(Method::POST, "/v1/runs").header(header::CONTENT_TYPE, json).body(huge);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()[header::CONNECTION], "close", "the rest of the body is not read");
    let problem = Reply::of(response).await.problem(413, "GS0605");
    assert_eq!(problem["limit"], json!(2 << 20));
    let large = format!("{{\"workflow\":\"w\",\"input\":\"{}\"}}", "x".repeat((1 << 20) + 1));
    assert_eq!(send(json, large).await.status.as_u16(), 413);
    for depth in [100, 1_000, 100_000] {
        let deep = format!("{{\"workflow\":\"w\",\"input\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(send(json, deep).await.status.as_u16(), 400, "{depth}");
    }
    for id in ["..", "a/b", "", "x y", "-x", "goldseam.copy"] {
        let reply = send(json, json!({ "workflow": "w", "id": id }).to_string()).await;
        assert!(matches!(reply.status.as_u16(), 400 | 403), "{id}: {}", reply.text);
    }
    for path in
        ["/v1/runs?limit=0", "/v1/runs?limit=501", "/v1/runs?status=dead", "/v1/runs?after=x", "/v1/runs?x=1"]
    {
        assert_eq!(server.get(path).await.status.as_u16(), 400, "{path}");
    }
    assert_eq!(server.get("/v1/runs?limit=501").await.body["limit"], json!(500));
    server.get("/v1/runs").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_another_origin_can_neither_read_nor_change() {
    let server = TestServer::open().await;
    let rebound =
        server.ask(Method::GET, "/v1/runs").header(header::HOST, "evil.example").send().await.unwrap();
    Reply::of(rebound).await.problem(421, "GS0606");
    let crossed = server
        .ask(Method::POST, "/v1/runs")
        .header(header::ORIGIN, "http://evil.example")
        .json(&json!({ "workflow": "w" }));
    Reply::of(crossed.send().await.unwrap()).await.problem(403, "GS0606");
    let host = server.url.trim_start_matches("http://").to_owned();
    let own = server
        .ask(Method::POST, "/v1/runs")
        .header(header::ORIGIN, format!("http://{host}"))
        .json(&json!({ "workflow": "w" }));
    Reply::of(own.send().await.unwrap()).await.ok();
}

/// Sends bytes and returns everything received until the connection ends. Closes it unless the request does.
async fn raw(server: &TestServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let _ = stream.write_all(bytes).await;
    if !bytes.windows(17).any(|window| window == b"Connection: close") {
        let _ = stream.shutdown().await;
    }
    let mut answer = vec![];
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the problem at the end of a raw response.
fn problem_of(response: &str) -> (u16, serde_json::Value) {
    let (head, body) = response.split_once("\r\n\r\n").expect(response);
    let head = head.to_ascii_lowercase();
    assert!(head.contains("content-type: application/problem+json"), "{head}");
    assert!(head.contains("connection: close") && head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_be_parsed_get_a_problem() {
    let server = TestServer::open().await;
    let end = "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let cases = [
        (format!("GET /v1/runs?where={} {end}\r\n", "x".repeat(33 << 10)), 431, "GS0605"),
        (format!("GET /v1/runs?where={} {end}\r\n", "x".repeat(300 << 10)), 431, "GS0605"),
        (format!("GET /healthz {end}X: {}\r\n\r\n", "x".repeat(64 << 10)), 431, "GS0605"),
        (format!("GET /healthz {end}{}\r\n", "X: x\r\n".repeat(200)), 431, "GS0605"),
        ("\0\0\0\0\r\n\r\n".to_owned(), 400, "GS0608"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400, "GS0608"),
        ("GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), 400, "GS0608"),
        ("POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".to_owned(), 400, "GS0608"),
    ];
    for (request, status, code) in cases {
        let (found, problem) = problem_of(&raw(&server, request.as_bytes()).await);
        let start: String = request.chars().take(60).collect();
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{start}: {problem}");
        assert!(problem["hint"].is_string(), "{problem}");
        if status == 431 {
            assert_eq!(problem["limit"], json!(32 << 10), "{start}");
        }
    }
    // The response to the request before it is complete.
    let both = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n\0{}", "\r\n\r\n");
    let answer = raw(&server, both.as_bytes()).await;
    let (first, second) = answer.split_at(answer.rfind("HTTP/1.1 4").unwrap());
    assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("\r\n\r\nok\n"), "{answer}");
    assert_eq!(problem_of(second).1["code"], json!("GS0608"));
    let long = server.get(&format!("/v1/runs?where={}", "x".repeat(20 << 10))).await;
    assert!(
        long.status.is_client_error() && long.body["code"].is_string(),
        "a long URL is parsed: {}",
        long.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_http_does_no_harm() {
    let server = TestServer::open().await;
    let header = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {}\r\n\r\n",
        "x".repeat(64 << 10)
    );
    assert!(raw(&server, header.as_bytes()).await.contains("431"));
    let many: String = (0..200).map(|n| format!("X{n}: x\r\n")).collect();
    let many = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{many}\r\n");
    assert!(raw(&server, many.as_bytes()).await.contains("431"));
    for bytes in [
        &b"\x16\x03\x01"[..],
        b"GET",
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        raw(&server, bytes).await;
    }
    let climbing = b"GET /v1/../healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(raw(&server, climbing).await.starts_with("HTTP/1.1 404"), "paths are not normalised");
    let smuggled = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/runs HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert!(!raw(&server, smuggled).await.contains("\"items\""));
    assert_eq!(server.get("/healthz").await.text, "ok\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_senders_are_cut_off() {
    let server = TestServer::impatient(Duration::from_millis(200)).await;
    let address = server.url.trim_start_matches("http://");
    let mut answers = vec![];
    for begun in [
        "GET /v1/runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ] {
        // The client keeps the connection open, so it ends only when the server gives up.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut answer = vec![];
        stream.read_to_end(&mut answer).await.unwrap();
        answers.push(String::from_utf8_lossy(&answer).into_owned());
    }
    assert!(answers[0].is_empty() || answers[0].starts_with("HTTP/1.1 408"), "{}", answers[0]);
    assert!(answers[1].starts_with("HTTP/1.1 408") && answers[1].contains("GS0605"), "{}", answers[1]);
    assert_eq!(server.get("/healthz").await.text, "ok\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_response_has_limit_and_retry_after() {
    let server = TestServer::with(&[("requests_per_second", "1")]).await;
    let mut slowed = None;
    for _ in 0..20 {
        let response = server.ask(Method::GET, "/v1/runs").send().await.unwrap();
        if response.status().as_u16() == 429 {
            slowed = Some(response);
        }
    }
    let response = slowed.expect("no request was limited");
    assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    let problem = Reply::of(response).await.problem(429, "GS0607");
    assert_eq!(problem["limit"], json!(1));
    assert_eq!(server.get("/healthz").await.text, "ok\n", "/healthz has no rate limit");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_requests_are_answered_on_shutdown() {
    let mut server = TestServer::with(&[("finish_seconds", "50")]).await;
    server.start("greet", "r", json!("Ada")).await;
    let running = server.running.take().unwrap();
    let asked = [
        server.ask(Method::GET, "/v1/runs/r/result?wait_ms=60000"),
        server.ask(Method::POST, "/v1/tasks/claim").json(&json!({ "owner": "w", "wait_ms": 60000 })),
    ];
    let mut waiting = tokio::task::JoinSet::new();
    for request in asked {
        waiting.spawn(request.send());
    }
    // Both waiting requests, and this one.
    while !server.get("/metrics").await.text.contains("goldseam_http_requests_under_way 3") {
        tokio::task::yield_now().await;
    }
    let (answered, ()) = tokio::join!(waiting.join_all(), running.shutdown());
    for answer in answered {
        assert_eq!(answer.unwrap().status().as_u16(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_queues_and_names_cannot_be_claimed() {
    let server = TestServer::open().await;
    let claim = async |body| server.post("/v1/tasks/claim", &body).await;
    assert_eq!(claim(json!({ "owner": "w", "queue": "goldseam-mail" })).await.status.as_u16(), 403);
    let node = server.get("/v1/nodes").await.ok()["items"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(claim(json!({ "owner": node })).await.status.as_u16(), 400);
    let task = json!({ "kind": "k", "queue": "goldseam-heartbeat" });
    assert_eq!(server.post("/v1/tasks", &task).await.status.as_u16(), 403);
    let worker = json!({ "name": "w", "workflows": ["w@1"], "queues": ["goldseam-mail"], "slots": 1 });
    assert_eq!(server.post("/v1/workers", &worker).await.status.as_u16(), 403);
    let run = json!({ "workflow": "w", "queue": "goldseam-mail" });
    assert_eq!(server.post("/v1/runs", &run).await.status.as_u16(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_tags_are_refused_with_the_limit() {
    let server = TestServer::open().await;
    let tags: serde_json::Map<_, _> = (0..40).map(|n| (format!("t{n}"), json!("x"))).collect();
    let reply =
        server.post("/v1/runs", &json!({ "workflow": "w", "tags": tags })).await.problem(400, "GS0102");
    assert_eq!(reply["limit"], json!(32));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_server_shuts_down() {
    let mut server = TestServer::with(&[("connections_max", "1")]).await;
    let running = server.running.take().unwrap();
    let mut only = TcpStream::connect(running.address).await.unwrap();
    only.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut begun = [0; 1];
    only.read_exact(&mut begun).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), running.shutdown()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_non_utf8_or_duplicate_bodies_are_refused() {
    let server = TestServer::open().await;
    let send = async |body: &[u8]| {
        let request = server.ask(Method::POST, "/v1/runs").header(header::CONTENT_TYPE, "application/json");
        Reply::of(request.body(body.to_vec()).send().await.unwrap()).await
    };
    let compressed = server
        .ask(Method::POST, "/v1/runs")
        .header(header::CONTENT_ENCODING, "gzip")
        .json(&json!({ "workflow": "w" }));
    Reply::of(compressed.send().await.unwrap()).await.problem(415, "GS0609");
    for body in [
        &b"{\"workflow\":\"\xff\"}"[..],
        b"{\"workflow\":\"w\",\"input\":\"\xc3\x28\"}",
        b"{\"workflow\":\"w\",\"workflow\":\"x\"}",
        b"{\"workflow\":\"w\",\"input\":NaN}",
    ] {
        let reply = send(body).await;
        assert_eq!(reply.status.as_u16(), 400, "{}: {}", String::from_utf8_lossy(body), reply.text);
    }
    assert_eq!(server.get("/v1/runs").await.ok()["items"], json!([]));
    // Payloads that strict parsers refuse are refused. Duplicate names in a payload are left to its reader.
    for input in ["1e400", "{\"a\":-1e999}", "\"\\ud800\"", "{\"\\udc00\":1}"] {
        let reply = send(format!("{{\"workflow\":\"w\",\"input\":{input}}}").as_bytes()).await;
        let problem = reply.problem(400, "GS0102");
        assert!(problem["hint"].is_string(), "{problem}");
    }
    send(b"{\"workflow\":\"w\",\"id\":\"r-1\",\"input\":{\"a\":1e300,\"a\":2}}").await.ok();
    for path in ["/v1/runs/r-1", "/v1/runs/r-1/history"] {
        let reply = server.get(path).await;
        assert!(reply.status.is_success() && reply.text.contains("1e300"), "{path}: {}", reply.text);
    }
    let signal =
        server.ask(Method::POST, "/v1/runs/r-1/signal").header(header::CONTENT_TYPE, "application/json");
    let signal = signal.body("{\"name\":\"go\",\"payload\":\"\\udfff\"}").send().await.unwrap();
    Reply::of(signal).await.problem(400, "GS0102");
    assert_eq!(
        server.post("/v1/doctor", &json!({})).await.ok()["unreadable"].as_array().map_or(0, Vec::len),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_body_is_cut_off_at_the_limit() {
    let server = TestServer::with(&[("body_bytes_max", "1000")]).await;
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).await.unwrap();
    let head = "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
        Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..3 {
        stream.write_all(format!("190\r\n{}\r\n", " ".repeat(400)).as_bytes()).await.unwrap();
    }
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("GS0605"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn larger_limit_of_bodies_is_honoured() {
    let server = TestServer::with(&[("body_bytes_max", "4194304")]).await;
    let body = format!("{{\"workflow\":\"w\",\"input\":1{}}}", " ".repeat(3 << 20));
    let request = server.ask(Method::POST, "/v1/runs").header(header::CONTENT_TYPE, "application/json");
    Reply::of(request.body(body).send().await.unwrap()).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_configured_hosts_and_origins_only() {
    let server = TestServer::with(&[("hosts", "app.example"), ("origins", "https://app.example")]).await;
    let named = async |name: &str| {
        let request = server.ask(Method::GET, "/v1/runs").header(header::HOST, name);
        Reply::of(request.send().await.unwrap()).await
    };
    for own in ["app.example", "APP.example:7733", "localhost", "127.0.0.1:1", "[::1]"] {
        named(own).await.ok();
    }
    for other in ["evil.example", "app.example.evil.example", "xapp.example"] {
        named(other).await.problem(421, "GS0606");
    }
    let of = async |origin: &str| {
        let request = server.ask(Method::POST, "/v1/runs").header(header::ORIGIN, origin);
        Reply::of(request.json(&json!({ "workflow": "w" })).send().await.unwrap()).await
    };
    of("https://app.example").await.ok();
    for other in ["http://app.example", "https://app.example:444", "https://app.example.evil.example", "null"]
    {
        of(other).await.problem(403, "GS0606");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payload_and_history_limits_are_configurable() {
    let server = TestServer::with(&[("payload_bytes_max", "1000"), ("history_bytes_max", "5000")]).await;
    server.post("/v1/runs", &json!({ "workflow": "unregistered", "id": "r" })).await.ok();
    let send = async |bytes: usize| {
        server.post("/v1/runs/r/signal", &json!({ "name": "go", "payload": "x".repeat(bytes - 2) })).await
    };
    assert_eq!(send(1_001).await.problem(413, "GS0102")["limit"], json!(1_000));
    let mut taken = 0;
    let refused = loop {
        let reply = send(1_000).await;
        match reply.status.is_success() {
            true => taken += 1,
            false => break reply.problem(409, "GS0112"),
        }
    };
    assert_eq!((refused["limit"].clone(), taken), (json!(5_000), 4));
    assert!(refused["hint"].as_str().unwrap().contains("continue_as_new"), "{refused}");
    let bytes = server.get("/v1/runs/r").await.ok()["bytes"].as_u64().unwrap();
    assert!((5_000..6_500).contains(&bytes), "{bytes}");
    server.post("/v1/runs/r/cancel", &json!({})).await.ok();
}
