//! What a running server has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam::Redactor;
use goldseam::engine::{Clock, Entropy, OsEntropy, SystemClock};
use goldseam_api::Problem;
use tokio::sync::{Semaphore, watch};

use crate::addresses::Addresses;
use crate::bodies::Bodies;
use crate::config::Config;
use crate::extract::In;
use crate::guard::Principal;
use crate::keyring::Keyring;
use crate::keys::Keys;
use crate::otlp;
use crate::pass::Passes;
use crate::rate::Rates;
use crate::routes::{Readiness, Scopes};
use crate::space::Space;
use crate::spawn::spawn;
use crate::stream::Places;
use crate::token::{FileSecret, Tokens};
use crate::turns::Turns;
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
    pub(crate) clients: Addresses,
    /// Seats of followers.
    pub(crate) places: Places,
    /// Permits of followers to read and encode events. Without them thousands of followers would delay every other
    /// request.
    pub(crate) catching_up: Arc<Semaphore>,
    /// Requests that wait.
    pub(crate) waits: Waits,
    /// Bodies that are taken in.
    pub(crate) bodies: Arc<Bodies>,
    /// True once the server was told to end: it still accepts connections, and says that it is not ready.
    pub(crate) draining: AtomicBool,
    /// True once the server is leaving.
    pub(crate) leaving: watch::Sender<bool>,
    /// Time.
    pub(crate) clock: Arc<dyn Clock>,
    /// What is kept out of everything that it shows.
    pub(crate) redactor: Arc<Redactor>,
    spaces: BTreeMap<String, Arc<Space>>,
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
        let mut spaces = BTreeMap::new();
        let namespaces = config.stores().count();
        for (name, url) in config.stores() {
            let store = goldseam::open_store(url).await?;
            let place = config.archive_of(name);
            let archive = place.map(|place| goldseam::retention::open_archive(&place)).transpose()?;
            let turns = Turns::share(config.requests_at_once, namespaces);
            let engine = goldseam::Engine::on(store).config(config.engine(name)).start().await?;
            let space =
                Space::new(name.to_owned(), engine, archive, (turns, &redactor, config.workers_per_key));
            spaces.insert(name.to_owned(), Arc::new(space));
        }
        let main = spaces.get(crate::NAMESPACE_DEFAULT).map(|space| Arc::clone(space.client().store()));
        let main = main.ok_or_else(|| Problem::new(500, "a server needs a main store"))?;
        let tokens = Tokens::of(&*main, &*entropy, &own).await?;
        let passes = Passes::new(Arc::clone(&main), Arc::clone(&entropy), Arc::clone(&clock), own);
        let keyring = Keyring::new(Keys::new(main, entropy), Arc::clone(&clock));
        let rates = Rates::new(Arc::clone(&clock), config.rates, config.rate_failures);
        let (leaving, _) = watch::channel(false);
        let places = Places::new(config.followers_max);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let catching_up = Arc::new(Semaphore::new(cores));
        let waits = Waits::new(config.waits_max, config.connections_max, namespaces);
        let clients = Addresses::new(config.connections_per_address);
        let bodies = Bodies::new(config.bodies_bytes_max);
        let app = Self {
            config,
            is_loopback,
            scopes,
            keyring,
            passes,
            tokens,
            rates,
            clients,
            places,
            catching_up,
            waits,
            bodies,
            draining: AtomicBool::new(false),
            leaving,
            clock,
            redactor,
            spaces,
            ready: Readiness::default(),
        };
        app.check_keys().await?;
        for space in app.spaces() {
            spawn(Arc::clone(&space.tails).run(app.leaving.subscribe()));
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
        for space in self.spaces() {
            let (client, namespace) = (space.client().clone(), space.name.clone());
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
    pub(crate) fn space(&self, name: &str, principal: Principal) -> Result<In, Problem> {
        let space = self.spaces.get(name).cloned();
        let space = space.ok_or_else(|| {
            Problem::new(403, "the namespace of this key is not served here")
                .code("GS0602")
                .hint("list its store under [namespaces] in the server's configuration")
        })?;
        Ok(In { space, principal: Arc::new(principal) })
    }

    /// Every namespace.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = &Arc<Space>> {
        self.spaces.values()
    }

    /// Hands over what is under way and leaves every store.
    pub(crate) async fn leave(&self) {
        for space in self.spaces.values() {
            space.leave().await;
        }
    }
}
