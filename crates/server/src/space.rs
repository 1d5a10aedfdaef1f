//! A namespace: a store of its own, and everything that a server does on it.

use std::sync::{Mutex, PoisonError};

use goldseam::{Client, Engine};

/// A namespace of a running server.
#[derive(Debug)]
pub(crate) struct Space {
    /// Its name.
    pub(crate) name: String,
    client: Client,
    /// The node that heals it; it has no workflows. None once the server has left.
    engine: Mutex<Option<Engine>>,
}

impl Space {
    pub(crate) fn new(name: String, engine: Engine) -> Self {
        let client = engine.client().clone();
        Self { name, client, engine: Mutex::new(Some(engine)) }
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
