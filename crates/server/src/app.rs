//! What a running server has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam::Redactor;
use goldseam::engine::{Clock, Entropy, OsEntropy, SystemClock};
use goldseam_api::Problem;
use tokio::sync::{Semaphore, watch};

use crate::address_slots::AddressSlots;
use crate::auth::Principal;
use crate::body_memory::BodyMemory;
use crate::concurrency::RequestSlots;
use crate::config::Config;
use crate::extract::Access;
use crate::keyring::Keyring;
use crate::keys::Keys;
use crate::namespace::Namespace;
use crate::otlp;
use crate::pass::Passes;
use crate::rate::Rates;
use crate::routes::{Readiness, Scopes};
use crate::spawn::spawn;
use crate::stream::FollowerSlots;
use crate::token::{FileSecret, Tokens};
use crate::waits::Waits;

/// What a running server has.
#[derive(Debug)]
pub(crate) struct App {
    /// What it goes by.
    pub(crate) config: Config,
    /// Whether only this machine can reach it.
    pub(crate) is_loopback: bool,
    /// The scope that each route needs.
    pub(crate) scopes: Scopes,
    /// The keys.
    pub(crate) keyring: Keyring,
    /// What passes are made with.
    pub(crate) passes: Passes,
    /// What it signs with.
    pub(crate) tokens: Tokens,
    /// How much anybody may ask.
    pub(crate) rates: Rates,
    /// Requests of the clients behind trusted proxies.
    pub(crate) clients: AddressSlots,
    /// Seats of followers.
    pub(crate) followers: FollowerSlots,
    /// Permits of followers to read and encode events. Without them thousands of followers would delay every other
    /// request.
    pub(crate) catching_up: Arc<Semaphore>,
    /// Requests that wait.
    pub(crate) waits: Waits,
    /// Bodies that are taken in.
    pub(crate) bodies: Arc<BodyMemory>,
    /// True once the server was told to end: it still accepts connections, and says that it is not ready.
    pub(crate) draining: AtomicBool,
    /// True once the server is leaving.
    pub(crate) leaving: watch::Sender<bool>,
    /// Time.
    pub(crate) clock: Arc<dyn Clock>,
    /// What is kept out of everything that it shows.
    pub(crate) redactor: Arc<Redactor>,
    namespaces: BTreeMap<String, Arc<Namespace>>,
    /// Whether the stores answered when they were last asked.
    pub(crate) ready: Readiness,
}

impl App {
    /// Opens every store and begins to heal them.
    pub(crate) async fn open(config: Config, is_loopback: bool, scopes: Scopes) -> Result<Self, Problem> {
        let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) =
            (Arc::new(SystemClock), Arc::new(OsEntropy));
        let redactor = Arc::new(config.redactor(|name| std::env::var(name).ok())?);
        let own = FileSecret::read(config.secret_file.as_deref())?;
        let mut namespaces = BTreeMap::new();
        let namespace_count = config.stores().count();
        for (name, url) in config.stores() {
            let store = goldseam::open_store(url).await?;
            let place = config.archive_of(name);
            let archive = place.map(|place| goldseam::retention::open_archive(&place)).transpose()?;
            let request_slots = RequestSlots::share(config.requests_at_once, namespace_count);
            let engine = goldseam::Engine::on(store).config(config.engine(name)).start().await?;
            let namespace = Namespace::new(
                name.to_owned(),
                engine,
                archive,
                (request_slots, &redactor, config.workers_per_key),
            );
            namespaces.insert(name.to_owned(), Arc::new(namespace));
        }
        let main =
            namespaces.get(crate::NAMESPACE_DEFAULT).map(|namespace| Arc::clone(namespace.client().store()));
        let main = main.ok_or_else(|| Problem::new(500, "a server needs a main store"))?;
        let tokens = Tokens::of(&*main, &*entropy, &own).await?;
        let passes = Passes::new(Arc::clone(&main), Arc::clone(&entropy), Arc::clone(&clock), own);
        let keyring = Keyring::new(Keys::new(main, entropy), Arc::clone(&clock));
        let rates = Rates::new(Arc::clone(&clock), config.rates, config.rate_failures);
        let (leaving, _) = watch::channel(false);
        let followers = FollowerSlots::new(config.followers_max);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let catching_up = Arc::new(Semaphore::new(cores));
        let waits = Waits::new(config.waits_max, config.connections_max, namespace_count);
        let clients = AddressSlots::new(config.connections_per_address);
        let bodies = BodyMemory::new(config.bodies_bytes_max);
        let app = Self {
            config,
            is_loopback,
            scopes,
            keyring,
            passes,
            tokens,
            rates,
            clients,
            followers,
            catching_up,
            waits,
            bodies,
            draining: AtomicBool::new(false),
            leaving,
            clock,
            redactor,
            namespaces,
            ready: Readiness::default(),
        };
        app.check_keys().await?;
        for namespace in app.namespaces() {
            spawn(Arc::clone(&namespace.tails).run(app.leaving.subscribe()));
        }
        if let Some(url) = &app.config.otlp {
            app.trace(url)?;
        }
        Ok(app)
    }

    /// Whoever can be reached from elsewhere must be able to tell who asks.
    async fn check_keys(&self) -> Result<(), Problem> {
        if self.is_loopback || !self.keyring.is_empty().await? {
            return Ok(());
        }
        if self.config.insecure_no_keys {
            tracing::warn!("anybody who can reach this server can do anything: insecure_no_keys is set");
            return Ok(());
        }
        Err(Problem::new(
            403,
            format!("{} can be reached from elsewhere, and there is no key to ask for", self.config.listen),
        )
        .code("GS0604")
        .hint("make one: goldseam key create ops --scope admin; or listen on 127.0.0.1"))
    }

    /// Begins to send traces.
    fn trace(&self, url: &str) -> Result<(), Problem> {
        let http = otlp::http()?;
        for namespace in self.namespaces() {
            let (client, namespace) = (namespace.client().clone(), namespace.name.clone());
            let (redactor, http) = (Arc::clone(&self.redactor), http.clone());
            let tracer = otlp::Tracer { client, namespace, url: url.to_owned(), http, redactor };
            spawn(tracer.run(self.leaving.subscribe()));
        }
        Ok(())
    }

    /// Whether no key is asked for: there is none, and either only this machine can reach the server or somebody
    /// spelled out that it should be so.
    pub(crate) async fn is_open(&self) -> Result<bool, Problem> {
        self.is_open_to(self.is_loopback).await
    }

    /// The same for what came by a listener that only this machine can reach, or that others can.
    pub(crate) async fn is_open_to(&self, is_loopback: bool) -> Result<bool, Problem> {
        Ok((is_loopback || self.config.insecure_no_keys) && self.keyring.is_empty().await?)
    }

    /// Whether the server was told to end: what comes from now on should go elsewhere.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns once the server is leaving: whoever waits is answered then.
    pub(crate) async fn left(&self) {
        let mut leaving = self.leaving.subscribe();
        let _ = leaving.wait_for(|leaving| *leaving).await;
    }

    /// Somebody in a namespace.
    pub(crate) fn namespace(&self, name: &str, principal: Principal) -> Result<Access, Problem> {
        let namespace = self.namespaces.get(name).cloned();
        let namespace = namespace.ok_or_else(|| {
            Problem::new(403, "the namespace of this key is not served here")
                .code("GS0602")
                .hint("list its store under [namespaces] in the server's configuration")
        })?;
        Ok(Access { namespace, principal: Arc::new(principal) })
    }

    /// Every namespace.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.values()
    }

    /// Hands over what is under way and leaves every store.
    pub(crate) async fn leave(&self) {
        for namespace in self.namespaces.values() {
            namespace.leave().await;
        }
    }
}
