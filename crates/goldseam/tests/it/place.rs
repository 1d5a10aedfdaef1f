//! Where the worker of `workers` finds the engine: in this process, by the same paths and documents as over HTTP.

use std::sync::Arc;
use std::time::Duration;

use goldseam::core::NodeId;
use goldseam::engine::remote::{PlainTokens, RemoteOptions, RemoteWorkers};
use goldseam::{Client, Config, EngineError, Recovery};
use serde_json::Value;

use crate::support::Scratch;
use crate::workers::client::{Answer, Server};

pub(crate) struct Place {
    /// For what others do.
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
            // Suspects of crashing their process need not wait for long.
            recovery: Recovery { delay: Duration::from_millis(5), ..Recovery::default() },
            ..Config::default()
        };
        let options = RemoteOptions { config, ..RemoteOptions::default() };
        let workers = RemoteWorkers::new(&client, options, Arc::new(PlainTokens));
        Arc::new(Self { client, workers })
    }

    /// Shuts the server down, as far as there is one.
    pub(crate) async fn stop(&self) {
        self.workers.shutdown(Duration::ZERO).await;
    }
}

fn read<T: serde::de::DeserializeOwned>(body: &Value) -> T {
    serde_json::from_str(&body.to_string()).unwrap()
}

fn told<T: serde::Serialize>(answer: Result<T, EngineError>) -> Result<Value, String> {
    answer.map(|answer| serde_json::to_value(answer).unwrap()).map_err(|error| error.code().to_owned())
}

impl Server for Place {
    fn call<'a>(&'a self, method: &'a str, path: &'a str, body: Value) -> Answer<'a> {
        Box::pin(async move {
            let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
            let worker = |id: &str| NodeId::new(id).unwrap();
            match (method, parts.as_slice()) {
                ("POST", ["workers"]) => told(self.workers.register(read(&body)).await),
                ("DELETE", ["workers", id]) => told(self.workers.leave(&worker(id)).await),
                ("POST", ["workers", id, "heartbeat"]) => {
                    told(self.workers.heartbeat(&worker(id), read(&body)).await)
                }
                ("POST", ["workers", id, "claim"]) => {
                    told(self.workers.claim(&worker(id), read(&body)).await)
                }
                ("POST", ["executions", "append"]) => told(self.workers.append(read(&body)).await),
                ("POST", ["executions", "events"]) => told(self.workers.events(read(&body)).await),
                _ => panic!("there is no {method} {path}"),
            }
        })
    }
}
