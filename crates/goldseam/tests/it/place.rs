//! A server for the client in `workers`, in this process: the same paths and documents as over HTTP.

use std::sync::Arc;
use std::time::Duration;

use goldseam::unstable::core::NodeId;
use goldseam::unstable::engine::remote::{PlainTokens, RemoteOptions, RemoteWorkers};
use goldseam::{Client, Config, EngineError, Recovery};
use serde_json::Value;

use crate::support::Scratch;
use crate::workers::client::{Answer, Server};

pub(crate) struct Place {
    /// A client for everything that is not done by workers.
    pub(crate) client: Client,
    workers: RemoteWorkers,
}

impl Place {
    pub(crate) async fn open(scratch: &Scratch) -> Arc<Self> {
        let client = scratch.client().await;
        let config = Config {
            beat: Duration::from_millis(50),
            silence_max: Duration::from_millis(800),
            watch: Duration::from_millis(20),
            // Shortens the quarantine of suspects.
            recovery: Recovery { delay: Duration::from_millis(5), ..Recovery::default() },
            ..Config::default()
        };
        let options = RemoteOptions { config, ..RemoteOptions::default() };
        let workers = RemoteWorkers::new(&client, options, Arc::new(PlainTokens));
        Arc::new(Self { client, workers })
    }

    /// Shuts the server down.
    pub(crate) async fn stop(&self) {
        self.workers.shutdown(Duration::ZERO).await;
    }
}

fn read<T: serde::de::DeserializeOwned>(body: &Value) -> T {
    serde_json::from_str(&body.to_string()).unwrap()
}

/// Renders a response as the server does: a document, or an error code.
fn respond<T: serde::Serialize>(result: Result<T, EngineError>) -> Result<Value, String> {
    result.map(|response| serde_json::to_value(response).unwrap()).map_err(|error| error.code().to_owned())
}

impl Server for Place {
    fn call<'a>(&'a self, method: &'a str, path: &'a str, body: Value) -> Answer<'a> {
        Box::pin(async move {
            let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
            let worker = |id: &str| NodeId::new(id).unwrap();
            match (method, parts.as_slice()) {
                ("POST", ["workers"]) => respond(self.workers.register(read(&body)).await),
                ("DELETE", ["workers", id]) => respond(self.workers.leave(&worker(id)).await),
                ("POST", ["workers", id, "heartbeat"]) => {
                    respond(self.workers.heartbeat(&worker(id), read(&body)).await)
                }
                ("POST", ["workers", id, "claim"]) => {
                    respond(self.workers.claim(&worker(id), read(&body)).await)
                }
                ("POST", ["executions", "append"]) => respond(self.workers.append(read(&body)).await),
                ("POST", ["executions", "events"]) => respond(self.workers.events(read(&body)).await),
                _ => panic!("unknown route {method} {path}"),
            }
        })
    }
}
