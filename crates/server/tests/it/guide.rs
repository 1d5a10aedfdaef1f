//! The requests in the guide work.

use reqwest::Method;
use serde_json::json;

use crate::test_server::{Reply, TestServer};

const GUIDE: &str = include_str!("../../../../docs/guides/serving-a-store.md");

/// Splits a command into words and keeps quoted words whole.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![];
    let mut quote = None;
    let mut open = String::new();
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            (' ', None) => words.extend(Some(std::mem::take(&mut open)).filter(|word| !word.is_empty())),
            (c, _) => open.push(c),
        }
    }
    words.push(open);
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_the_guide_works() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    let block = GUIDE.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let mut made = 0;
    for line in block.lines().filter(|line| line.starts_with("curl ")) {
        let mut method = Method::GET;
        let mut path = String::new();
        let mut headers = vec![];
        let mut body = None;
        let mut words = words(line).into_iter().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "-s" => {}
                "-X" => method = words.next().unwrap().parse().unwrap(),
                "-H" => headers.push(words.next().unwrap()),
                "-d" => body = words.next(),
                _ => path = word.strip_prefix("$URL").unwrap().to_owned(),
            }
        }
        if body.is_some() {
            method = Method::POST;
        }
        let mut request = server.ask(method, &path);
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        request = body.into_iter().fold(request, |request, body| request.body(body));
        Reply::of(request.send().await.unwrap()).await.ok();
        made += 1;
    }
    assert_eq!(made, 8);
    let ended = server.get("/v1/runs/greet-7/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], json!("Hello, Ada!"));
    engine.shutdown().await;
}
