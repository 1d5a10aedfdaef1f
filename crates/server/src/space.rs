//! A namespace: a store of its own, and everything that a server does on it.

use std::sync::{Arc, Mutex, PoisonError};

use goldseam::{Client, Engine};
use goldseam_api::Local;

use crate::stream::Tails;

/// A namespace of a running server.
#[derive(Debug)]
pub(crate) struct Space {
    /// Its name.
    pub(crate) name: String,
    /// What can be done to its store.
    pub(crate) api: Local,
    /// Its followers.
    pub(crate) tails: Arc<Tails>,
    client: Client,
    /// The node that heals it; it has no workflows. None once the server has left.
    engine: Mutex<Option<Engine>>,
}

impl Space {
    pub(crate) fn new(name: String, engine: Engine) -> Self {
        let client = engine.client().clone();
        let (api, tails) = (Local::new(client.clone()), Tails::new(client.clone()));
        Self { name, api, tails, client, engine: Mutex::new(Some(engine)) }
    }

    /// The client beneath.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Leaves the store.
    pub(crate) async fn leave(&self) {
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.shutdown().await;
        }
    }
}
