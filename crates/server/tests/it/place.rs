//! The engine that the shared worker tests use here: behind a server, over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use goldseam::Client;
use goldseam_server::config::Settings;
use goldseam_server::{Running, serve};
use reqwest::Method;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::support::Scratch;
use crate::test_server::{Reply, client};
use crate::workers::client::{Answer, Server};

pub(crate) struct Place {
    /// A client of the store, without the server.
    pub(crate) client: Client,
    http: reqwest::Client,
    url: String,
    server: Mutex<Option<Running>>,
}

impl Place {
    pub(crate) async fn open(scratch: &Scratch) -> Arc<Self> {
        let flags = BTreeMap::from([("store", scratch.url()), ("listen", "127.0.0.1:0".to_owned())]);
        let settings = Settings::gather(&flags, |_| None, None).unwrap();
        let server = serve(settings.config().unwrap()).await.unwrap();
        let url = server.url();
        let client_of_store = scratch.client().await;
        Arc::new(Self { client: client_of_store, http: client(), url, server: Mutex::new(Some(server)) })
    }

    /// Shuts the server down.
    pub(crate) async fn stop(&self) {
        let server = self.server.lock().await.take();
        if let Some(server) = server {
            server.shutdown().await;
        }
    }
}

impl Server for Place {
    fn call<'a>(&'a self, method: &'a str, path: &'a str, body: Value) -> Answer<'a> {
        Box::pin(async move {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let request = self.http.request(method, format!("{}{path}", self.url));
            let request = if body.is_null() { request } else { request.json(&body) };
            let Ok(reply) = request.send().await else { return Err("lost".to_owned()) };
            let reply = Reply::of(reply).await;
            match reply.status.as_u16() {
                200 => Ok(reply.body),
                _ => Err(reply.body["code"].as_str().unwrap_or_default().to_owned()),
            }
        })
    }
}
