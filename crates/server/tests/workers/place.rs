//! Where the worker of `workers` finds the engine: behind a server, over HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use goldseam::Client;
use goldseam_server::config::Settings;
use goldseam_server::{Running, serve};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::support::Scratch;
use crate::workers::client::{Answer, Server};

pub(crate) struct Place {
    /// For what others do, past the server.
    pub(crate) client: Client,
    address: SocketAddr,
    server: Mutex<Option<Running>>,
}

impl Place {
    pub(crate) async fn open(scratch: &Scratch) -> Arc<Self> {
        let flags = BTreeMap::from([("store", scratch.url()), ("listen", "127.0.0.1:0".to_owned())]);
        let settings = Settings::gather(&flags, |_| None, None).unwrap();
        let server = serve(settings.config().unwrap()).await.unwrap();
        let (client, address) = (scratch.client().await, server.address);
        Arc::new(Self { client, address, server: Mutex::new(Some(server)) })
    }

    /// Shuts the server down.
    pub(crate) async fn stop(&self) {
        let server = self.server.lock().await.take();
        if let Some(server) = server {
            server.shutdown().await;
        }
    }

    /// One request on a connection of its own, and the status and body of its answer.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let (host, length) = (self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{kind}content-length: {length}\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap())
    }
}

impl Server for Place {
    fn call<'a>(&'a self, method: &'a str, path: &'a str, body: Value) -> Answer<'a> {
        Box::pin(async move {
            let (status, answer) = self.ask(method, path, &body).await;
            match status {
                200 => Ok(answer),
                _ => Err(answer["code"].as_str().unwrap_or_default().to_owned()),
            }
        })
    }
}
