//! A namespace: its store, its engine and the limits of its requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::admin::retention::Archive;
use goldseam::unstable::engine::OsEntropy;
use goldseam::unstable::engine::remote::{self, RemoteOptions, RemoteWorkers};
use goldseam::{Client, Engine, Redactor};
use goldseam_api::credentials::keys::KeyStore;
use goldseam_api::credentials::passes::Passes;
use goldseam_api::credentials::token::TokenSigner;
use goldseam_api::{LocalApi, ServedNamespace};
use tokio::sync::Mutex as AsyncMutex;

use crate::fan_out::FanOut;
use crate::foundation::Foundation;
use crate::slots::RequestSlots;

/// Minimum interval between two counts of the queues.
const COUNT_EVERY: Duration = Duration::from_secs(5);
/// Counting takes at most one part in this many of the time.
const COUNT_SHARE: u32 = 20;
/// Token purpose of executions.
const EXECUTION: &str = "execution";

/// A namespace of a running server.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    /// The operations on its store.
    pub(crate) api: LocalApi,
    pub(crate) fan_out: Arc<FanOut>,
    pub(crate) request_slots: RequestSlots,
    client: Client,
    last_count: AsyncMutex<Option<LastCount>>,
    /// The node that heals the store and has no workflows; `None` after shutdown.
    engine: Mutex<Option<Engine>>,
}

/// The options of a namespace.
pub(crate) struct NamespaceOptions<'a> {
    /// The archive of pruned logs; prunes are refused without it.
    pub(crate) archive: Option<Arc<dyn Archive>>,
    pub(crate) request_slots: RequestSlots,
    pub(crate) redactor: &'a Redactor,
    pub(crate) foundation: &'a Foundation,
    pub(crate) workers_per_key: usize,
    /// Settings of healing and of the nodes of remote workers.
    pub(crate) engine: goldseam::Config,
    pub(crate) keys: KeyStore,
    pub(crate) passes: Arc<Passes>,
    /// Signs the tokens of executions.
    pub(crate) signer: TokenSigner,
}

/// The last count of the queues.
#[derive(Debug, Clone, Copy)]
struct LastCount {
    at: Duration,
    took: Duration,
}

/// The execution tokens of one namespace.
#[derive(Debug)]
struct ExecutionTokens {
    signer: TokenSigner,
    namespace: String,
}

impl remote::Tokens for ExecutionTokens {
    fn seal(&self, text: &str) -> String {
        // A string always serialises to JSON.
        self.signer.seal(EXECUTION, &self.namespace, &text).unwrap_or_default()
    }

    fn open(&self, token: &str) -> Option<String> {
        self.signer.open(EXECUTION, &self.namespace, token)
    }
}

impl Namespace {
    pub(crate) fn new(name: String, engine: Engine, options: NamespaceOptions<'_>) -> Self {
        // Requests come from other processes: their claims must not end when this server's node dies.
        let own = engine.client();
        let limits = goldseam::Limits::clone(&own.ledger().limits);
        let clock = Arc::clone(&options.foundation.clock);
        let client = Client::with(Arc::clone(own.store()), clock, Arc::new(OsEntropy), limits)
            .with_config(options.engine.clone());
        let client = client.counted_as(&name).hiding(options.redactor.clone());
        let tokens = ExecutionTokens { signer: options.signer, namespace: name.clone() };
        let remote = RemoteOptions {
            workers_per_key: options.workers_per_key,
            config: options.engine,
            ..RemoteOptions::default()
        };
        let served = ServedNamespace {
            name: name.clone(),
            keys: options.keys,
            passes: options.passes,
            workers: RemoteWorkers::new(&client, remote, Arc::new(tokens)),
        };
        let api = LocalApi::new(client.clone()).serving(served);
        Self {
            name,
            api: match options.archive {
                Some(archive) => api.with_archive(archive),
                None => api,
            },
            fan_out: FanOut::new(client.clone()),
            request_slots: options.request_slots,
            client,
            last_count: AsyncMutex::default(),
            engine: Mutex::new(Some(engine)),
        }
    }

    /// Returns the client of its store.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Updates the queue metrics unless they are recent. A slow store, or one with a slow pace, is counted less often.
    pub(crate) async fn count_queues(&self, now: Duration) {
        let mut last = self.last_count.lock().await;
        let pause =
            |took: Duration| COUNT_EVERY.max(took * COUNT_SHARE).max(self.client.store().pace().sweep);
        if last.is_some_and(|last| now.saturating_sub(last.at) < pause(last.took)) {
            return;
        }
        let clock = &self.client.ledger().clock;
        let began = clock.elapsed();
        if let Err(error) = self.client.queue().stats().await {
            tracing::warn!(%error, namespace = self.name, "failed to count the queues");
        }
        *last = Some(LastCount { at: now, took: clock.elapsed().saturating_sub(began) });
    }

    /// Closes the store. Releases the executions of remote workers, which can no longer reach this process.
    pub(crate) async fn close(&self) {
        self.api.remote_workers().shutdown(Duration::ZERO).await;
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.shutdown().await;
        }
    }
}
