//! A client of the HTTP interface without any library: starts a run twice with one idempotency key, and finds one run.
//!
//! `goldseam dev`, then from another terminal: `cargo run -p goldseam --example http_client`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

/// Sends a request to the server and returns the document.
fn send(server: &str, request: &str, headers: &str, body: &str) -> goldseam::Result<Value> {
    let host = server.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let Some((head, document)) = response.split_once("\r\n\r\n") else {
        return Err("the server closed the connection".into());
    };
    match head.split(' ').nth(1) {
        Some("200") => Ok(serde_json::from_str(document)?),
        // A problem has a code and says what to do.
        _ => Err(document.into()),
    }
}

/// Runs the example on the server at `server`. No node needs to have the workflow: the runs are queued.
pub(crate) fn run(server: &str) -> goldseam::Result<String> {
    let body = json!({ "workflow": "ship", "input": { "item": "a lamp" } }).to_string();
    // After a timeout a client does not know whether the run was started, so it repeats the request with the same key.
    let start = || send(server, "POST /v1/runs", "idempotency-key: order-7\r\n", &body);
    let first = start()?;
    let second = start()?;
    let list = send(server, "GET /v1/runs?workflow=ship", "", "")?;
    let count = list["items"].as_array().map_or(0, Vec::len);
    Ok(format!("same run: {}; runs: {count}", first["run"].is_string() && first["run"] == second["run"]))
}

fn main() -> goldseam::Result<()> {
    let server = std::env::var("GOLDSEAM_SERVER").unwrap_or_else(|_| "http://127.0.0.1:7733".to_owned());
    println!("{}", run(&server)?);
    Ok(())
}
