//! The interface over a store in this process.

mod activity;
mod commands;
mod dialogue;
mod follow;
mod healing;
mod idempotency;
mod keys;
mod limit;
mod locks;
mod nodes;
mod operations;
mod overview;
mod passes;
mod retention;
mod runs;
mod search;
mod tasks;
mod workers;

use std::sync::Arc;

use goldseam::admin::retention::Archive;
use goldseam::unstable::core::argument;
use goldseam::unstable::engine::remote::{PlainTokens, RemoteOptions, RemoteWorkers};
use goldseam::unstable::engine::{OsEntropy, SystemClock};
use goldseam::{Client, Limits, Payload};

use crate::caller::Caller;
use crate::credentials::keys::KeyStore;
use crate::credentials::passes::Passes;
use crate::credentials::token::FileSecret;
use crate::problem::Problem;

pub use limit::open_queue;

/// The interface over a store in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalApi {
    client: Client,
    sweepers: Arc<healing::Sweepers>,
    /// The namespace whose keys and passes callers may use; `None` with direct access to the main store.
    namespace: Option<String>,
    keys: KeyStore,
    passes: Arc<Passes>,
    workers: RemoteWorkers,
    /// The archive of pruned logs; prunes are refused without it.
    archive: Option<Arc<dyn Archive>>,
}

/// What the interface of a server's namespace adds to that of its store.
#[derive(Debug)]
pub struct ServedNamespace {
    /// The name of the namespace.
    pub name: String,
    /// The keys of the main store.
    pub keys: KeyStore,
    /// The passes of the main store.
    pub passes: Arc<Passes>,
    /// The remote workers of the namespace.
    pub workers: RemoteWorkers,
}

impl LocalApi {
    /// Wraps a client of a main store, with direct access to its keys and passes.
    pub fn new(client: Client) -> Self {
        let store = client.store();
        let keys = KeyStore::new(Arc::clone(store), Arc::new(OsEntropy));
        let passes = Self::passes_of(&client, FileSecret::default());
        let workers = RemoteWorkers::new(&client, RemoteOptions::default(), Arc::new(PlainTokens));
        Self { client, sweepers: Arc::default(), namespace: None, keys, passes, workers, archive: None }
    }

    /// Signs passes with this `secret_file`, which must be the file of the servers of the store.
    #[must_use]
    pub fn signing_with(self, own: FileSecret) -> Self {
        Self { passes: Self::passes_of(&self.client, own), ..self }
    }

    /// Limits keys, passes and workers to a namespace of a server.
    #[must_use]
    pub fn serving(self, served: ServedNamespace) -> Self {
        let ServedNamespace { name, keys, passes, workers } = served;
        Self { namespace: Some(name), keys, passes, workers, ..self }
    }

    /// Prunes into this archive.
    #[must_use]
    pub fn with_archive(self, archive: Arc<dyn Archive>) -> Self {
        Self { archive: Some(archive), ..self }
    }

    fn passes_of(client: &Client, own: FileSecret) -> Arc<Passes> {
        let store = Arc::clone(client.store());
        Arc::new(Passes::new(store, Arc::new(OsEntropy), Arc::new(SystemClock), own))
    }

    /// The remote workers that this process acts for.
    pub fn remote_workers(&self) -> &RemoteWorkers {
        &self.workers
    }

    /// The client of the store.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn limits(&self) -> &Limits {
        &self.client.ledger().limits
    }

    /// Checks a payload against the limits and returns it in its stored form.
    fn payload(&self, payload: &Payload) -> Result<Payload, Problem> {
        Ok(Payload::parse(payload.as_str(), self.limits())?)
    }

    fn check_text(&self, what: &str, text: &str) -> Result<(), Problem> {
        limit::text(what, text, self.limits())
    }

    /// Checks an id that deduplicates requests.
    fn check_id(&self, id: Option<&str>) -> Result<(), Problem> {
        let Some(id) = id else { return Ok(()) };
        self.check_text("the id", id)?;
        Ok(argument::name("the id", id)?)
    }

    /// The actor for the log: the authenticated caller, and the name that the request gives.
    fn who(&self, caller: &Caller, by: Option<String>) -> Result<Option<String>, Problem> {
        for name in [&caller.who, &by].into_iter().flatten() {
            self.check_text("the name", name)?;
            argument::text("the name", name)?;
        }
        Ok(match (&caller.who, by) {
            (Some(who), Some(by)) if *who != by => Some(format!("{by} via {who}")),
            (who, by) => who.clone().or(by),
        })
    }
}
