//! The state of a running server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam::OpenEngine as _;
use goldseam::admin::retention::{Archive, Retainer, open_archive};
use goldseam::unstable::engine::{Clock, Entropy, OsEntropy};
use goldseam::unstable::store::Store;
use goldseam::{Engine, Redactor};
use goldseam_api::Problem;
use goldseam_api::credentials::keys::KeyStore;
use goldseam_api::credentials::passes::Passes;
use goldseam_api::credentials::token::{FileSecret, TokenSigner};
use tokio::sync::{Semaphore, watch};

use crate::address_slots::AddressSlots;
use crate::body_memory::BodyMemory;
use crate::config::ServerConfig;
use crate::extract::Access;
use crate::follower_slots::FollowerSlots;
use crate::foundation::Foundation;
use crate::keyring::Keyring;
use crate::namespace::{Namespace, NamespaceOptions};
use crate::otlp;
use crate::principal::Principal;
use crate::rate::Rates;
use crate::readiness::Readiness;
use crate::slots::RequestSlots;
use crate::spawn::spawn;
use crate::waits::WaitSlots;

/// The state of a running server.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) config: ServerConfig,
    /// Whether only this machine can reach the main listener.
    pub(crate) is_loopback: bool,
    pub(crate) keyring: Keyring,
    pub(crate) passes: Arc<Passes>,
    /// Signs cursors and tokens.
    pub(crate) tokens: TokenSigner,
    pub(crate) rates: Rates,
    /// Running requests of clients behind trusted proxies.
    pub(crate) clients: AddressSlots,
    pub(crate) followers: FollowerSlots,
    /// Permits of followers to read and encode events. Without them thousands of followers would delay every other
    /// request.
    pub(crate) follower_reads: Arc<Semaphore>,
    /// Long polls and streams.
    pub(crate) waits: WaitSlots,
    /// Memory of request bodies.
    pub(crate) bodies: Arc<BodyMemory>,
    /// Set on SIGTERM: the server accepts connections but is not ready.
    pub(crate) draining: AtomicBool,
    /// Set when the server stops accepting requests.
    pub(crate) leaving: watch::Sender<bool>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) redactor: Arc<Redactor>,
    namespaces: BTreeMap<String, Arc<Namespace>>,
    pub(crate) readiness: Readiness,
}

impl ServerState {
    /// Opens every store and starts an engine on each, which heals its runs.
    pub(crate) async fn open(config: ServerConfig, is_loopback: bool) -> Result<Self, Problem> {
        Self::open_on(Foundation::default(), config, is_loopback).await
    }

    /// Like [`ServerState::open`], on another clock or on a store that is open already.
    pub(crate) async fn open_on(
        foundation: Foundation,
        config: ServerConfig,
        is_loopback: bool,
    ) -> Result<Self, Problem> {
        let clock = Arc::clone(&foundation.clock);
        let entropy: Arc<dyn Entropy> = Arc::new(OsEntropy);
        let redactor = Arc::new(config.redactor(|name| std::env::var(name).ok())?);
        let file_secret = FileSecret::read(config.secret_file.as_deref())?;
        // An engine refuses a closed store, so engines start before anything is written.
        let engines = start_engines(&config, &foundation).await?;
        let main = main_store(&engines)?;
        let tokens = TokenSigner::of(&*main, &*entropy, &file_secret).await?;
        let passes = Passes::new(Arc::clone(&main), Arc::clone(&entropy), Arc::clone(&clock), file_secret);
        let shared = MainStore { keys: KeyStore::new(main, entropy), passes: Arc::new(passes), tokens };
        let namespaces = open_namespaces(&config, &foundation, &redactor, engines, &shared)?;
        let MainStore { keys, passes, tokens } = shared;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let app = Self {
            is_loopback,
            keyring: Keyring::new(keys, Arc::clone(&clock)),
            passes,
            tokens,
            rates: Rates::new(Arc::clone(&clock), config.rates, config.rate_failures),
            clients: AddressSlots::new(config.connections_per_address),
            followers: FollowerSlots::new(config.followers_max),
            follower_reads: Arc::new(Semaphore::new(cores)),
            waits: WaitSlots::new(config.waits_max, config.connections_max, namespaces.len()),
            bodies: BodyMemory::new(config.bodies_bytes_max),
            draining: AtomicBool::new(false),
            leaving: watch::channel(false).0,
            clock,
            redactor,
            namespaces,
            readiness: Readiness::default(),
            config,
        };
        app.require_keys().await?;
        for namespace in app.namespaces() {
            spawn(Arc::clone(&namespace.fan_out).run(app.leaving.subscribe()));
        }
        if let Some(url) = &app.config.otlp {
            app.start_tracing(url)?;
        }
        Ok(app)
    }

    /// Refuses to serve a non-loopback address without keys, unless `insecure_no_keys` is set.
    async fn require_keys(&self) -> Result<(), Problem> {
        if self.is_loopback || !self.keyring.is_empty().await? {
            return Ok(());
        }
        if self.config.insecure_no_keys {
            tracing::warn!("insecure_no_keys is set: every client that reaches this server has full access");
            return Ok(());
        }
        Err(Problem::new(
            403,
            format!("cannot serve {} without API keys: other machines can reach it", self.config.listen),
        )
        .code("GS0604")
        .hint("create a key: goldseam key create ops --scope admin; or listen on 127.0.0.1"))
    }

    fn start_tracing(&self, url: &str) -> Result<(), Problem> {
        let http = otlp::http()?;
        for namespace in self.namespaces() {
            let tracer = otlp::Tracer {
                client: namespace.client().clone(),
                namespace: namespace.name.clone(),
                url: url.to_owned(),
                http: http.clone(),
                redactor: Arc::clone(&self.redactor),
            };
            spawn(tracer.run(self.leaving.subscribe()));
        }
        Ok(())
    }

    /// Returns whether the main listener needs no key: none exists, and the listener is on loopback or
    /// `insecure_no_keys` is set.
    pub(crate) async fn is_open(&self) -> Result<bool, Problem> {
        self.is_open_to(self.is_loopback).await
    }

    /// Returns the same for any listener.
    pub(crate) async fn is_open_to(&self, is_loopback: bool) -> Result<bool, Problem> {
        Ok((is_loopback || self.config.insecure_no_keys) && self.keyring.is_empty().await?)
    }

    /// Returns whether the server has received SIGTERM, so that new requests should go elsewhere.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Waits until the server stops accepting requests. Waiting requests are answered then.
    pub(crate) async fn shutdown_started(&self) {
        let mut leaving = self.leaving.subscribe();
        let _ = leaving.wait_for(|leaving| *leaving).await;
    }

    /// Returns the access of a caller to its namespace.
    pub(crate) fn access(&self, namespace: &str, principal: Principal) -> Result<Access, Problem> {
        let namespace = self.namespaces.get(namespace).cloned().ok_or_else(|| {
            Problem::new(403, "this server does not serve the namespace of this key")
                .code("GS0602")
                .hint("list its store under [namespaces] in the server's configuration")
        })?;
        Ok(Access { namespace, principal: Arc::new(principal) })
    }

    /// Returns every namespace.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.values()
    }

    /// Releases all runs and closes every store.
    pub(crate) async fn close(&self) {
        for namespace in self.namespaces.values() {
            namespace.close().await;
        }
    }
}

/// What all namespaces share: it is in the main store.
struct MainStore {
    keys: KeyStore,
    passes: Arc<Passes>,
    tokens: TokenSigner,
}

/// Opens the store of each namespace and starts an engine on it.
async fn start_engines(
    config: &ServerConfig,
    foundation: &Foundation,
) -> Result<BTreeMap<String, Engine>, Problem> {
    let mut engines = BTreeMap::new();
    for (name, url) in config.stores() {
        let open = foundation.store.clone().filter(|_| name == crate::NAMESPACE_DEFAULT);
        let store = match open {
            Some(store) => store,
            None => goldseam::open_store(url).await?,
        };
        let clock = Arc::clone(&foundation.clock);
        let engine = Engine::on(store).without_environment().clock(clock).config(config.engine(name));
        let engine = engine.start().await?;
        engines.insert(name.to_owned(), engine);
    }
    Ok(engines)
}

fn main_store(engines: &BTreeMap<String, Engine>) -> Result<Arc<dyn Store>, Problem> {
    let main = engines.get(crate::NAMESPACE_DEFAULT);
    let store = main.map(|engine| Arc::clone(engine.client().store()));
    store.ok_or_else(|| Problem::new(500, "the server has no main store"))
}

fn open_namespaces(
    config: &ServerConfig,
    foundation: &Foundation,
    redactor: &Redactor,
    engines: BTreeMap<String, Engine>,
    main: &MainStore,
) -> Result<BTreeMap<String, Arc<Namespace>>, Problem> {
    let count = engines.len();
    let mut namespaces = BTreeMap::new();
    for (name, engine) in engines {
        let archive = config.archive_of(&name);
        let archive =
            archive.map(|archive| open_archive(&archive)).transpose()?.map(Arc::<dyn Archive>::from);
        if let Some(archive) = &archive {
            let client = engine.client().clone();
            let policies = config.retention.clone();
            engine.attach(Retainer::new(client, Arc::clone(archive), policies).run());
        }
        let options = NamespaceOptions {
            archive,
            request_slots: RequestSlots::share(config.requests_at_once, count),
            redactor,
            foundation,
            workers_per_key: config.workers_per_key,
            engine: config.engine(&name),
            keys: main.keys.clone(),
            passes: Arc::clone(&main.passes),
            signer: main.tokens.clone(),
        };
        namespaces.insert(name.clone(), Arc::new(Namespace::new(name, engine, options)));
    }
    Ok(namespaces)
}
