//! A namespace: a store of its own, and everything that a server does on it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use goldseam::engine::remote::{self, RemoteOptions, RemoteWorkers};
use goldseam::retention::Archive;
use goldseam::{Client, Engine, Redactor};
use goldseam_api::Local;
use tokio::sync::Mutex as AsyncMutex;

use crate::concurrency::RequestSlots;
use crate::stream::FanOut;
use crate::token::Tokens;

/// Queues are counted at most this often.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// And for at most one part of so many of the time.
const COUNT_SHARE: u32 = 20;
/// What tokens of executions are for.
const EXECUTION: &str = "execution";

/// A namespace of a running server.
#[derive(Debug)]
pub(crate) struct Namespace {
    /// Its name.
    pub(crate) name: String,
    /// What can be done to its store.
    pub(crate) api: Local,
    /// Where its pruned logs go; none: nothing is pruned.
    pub(crate) archive: Option<Box<dyn Archive>>,
    /// Its followers.
    pub(crate) tails: Arc<FanOut>,
    /// When its requests are answered.
    pub(crate) request_slots: RequestSlots,
    client: Client,
    /// When its queues were last counted, and how long that took.
    counted: AsyncMutex<Option<(Duration, Duration)>>,
    /// The node that heals it; it has no workflows. None once the server has left.
    engine: Mutex<Option<Engine>>,
    /// The workers in other processes that it speaks for, from the first request of one on.
    workers: OnceLock<RemoteWorkers>,
    /// Of one key, at once.
    workers_per_key: usize,
}

/// Tokens of the executions of one namespace.
#[derive(Debug)]
struct Sealed {
    tokens: Tokens,
    namespace: String,
}

impl remote::Tokens for Sealed {
    fn seal(&self, text: &str) -> String {
        // A text is always JSON.
        self.tokens.seal(EXECUTION, &self.namespace, &text).unwrap_or_default()
    }

    fn open(&self, token: &str) -> Option<String> {
        self.tokens.open(EXECUTION, &self.namespace, token)
    }
}

impl Namespace {
    pub(crate) fn new(
        name: String,
        engine: Engine,
        archive: Option<Box<dyn Archive>>,
        (request_slots, redactor, workers_per_key): (RequestSlots, &Redactor, usize),
    ) -> Self {
        // Whoever asks is not this process: what they hold is not let go of when this server's node dies.
        let own = engine.client();
        let limits = goldseam::Limits::clone(&own.ledger().limits);
        let client = Client::new(Arc::clone(own.store())).with_limits(limits);
        let client = client.counted_as(&name).hiding(redactor.clone());
        let (api, tails) = (Local::new(client.clone()), FanOut::new(client.clone()));
        let (engine, workers) = (Mutex::new(Some(engine)), OnceLock::new());
        let counted = AsyncMutex::default();
        Self { name, api, archive, tails, request_slots, client, counted, engine, workers, workers_per_key }
    }

    /// The client beneath.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Counts its queues for whoever reads the numbers, unless that was done a moment ago. A store that takes long, or
    /// that asks for it, is counted more rarely.
    pub(crate) async fn count_queues(&self, now: Duration) {
        let mut counted = self.counted.lock().await;
        let pause =
            |took: Duration| COUNT_EVERY.max(took * COUNT_SHARE).max(self.client.store().pace().sweep);
        if counted.is_some_and(|(at, took)| now.saturating_sub(at) < pause(took)) {
            return;
        }
        let clock = &self.client.ledger().clock;
        let began = clock.elapsed();
        if let Err(error) = self.client.queue().stats().await {
            tracing::warn!(%error, namespace = self.name, "the queues could not be counted");
        }
        *counted = Some((now, clock.elapsed().saturating_sub(began)));
    }

    /// The workers in other processes that it speaks for.
    pub(crate) fn workers(&self, tokens: &Tokens) -> &RemoteWorkers {
        self.workers.get_or_init(|| {
            let sealed = Sealed { tokens: tokens.clone(), namespace: self.name.clone() };
            let options = RemoteOptions { workers_per_key: self.workers_per_key, ..RemoteOptions::default() };
            RemoteWorkers::new(&self.client, options, Arc::new(sealed))
        })
    }

    /// The same, if there ever was one.
    pub(crate) fn workers_here(&self) -> Option<&RemoteWorkers> {
        self.workers.get()
    }

    /// Leaves the store. Workers cannot reach this process any more: what they have is given back for them.
    pub(crate) async fn leave(&self) {
        if let Some(workers) = self.workers.get() {
            workers.shutdown(Duration::ZERO).await;
        }
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.shutdown().await;
        }
    }
}
