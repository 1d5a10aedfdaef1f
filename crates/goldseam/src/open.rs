//! From a URL to a store, an engine or a client: the one place that names the backends.

use std::future::Future;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use goldseam_core::Limits;
use goldseam_engine::config::Recovery;
use goldseam_engine::copy::{Copier, CopyOptions, Mark, closed_by_copy, mark_of, reopen};
use goldseam_engine::{Client, Clock, Config, Context, EngineError, Entropy, Error, Secret};
use goldseam_store::check::{Migrated, Report};
use goldseam_store::{ClosedStore, MemoryStore, Store, StoreError, shown_url};
#[cfg(feature = "object")]
use goldseam_store_object::BucketStore;
#[cfg(feature = "postgres")]
use goldseam_store_postgres::PostgresStore;
use goldseam_store_sqlite::SqliteStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::preflight::{Order, Preflight, PreflightReport};

/// What a URL names.
enum Place {
    Sqlite(PathBuf, goldseam_store_sqlite::Options),
    #[cfg(feature = "postgres")]
    Postgres(Box<goldseam_store_postgres::Options>),
    #[cfg(feature = "object")]
    Object(Box<goldseam_store_object::Options>),
}

impl Place {
    fn of(url: &str) -> Result<Self, EngineError> {
        if url.starts_with("sqlite:") {
            let (path, options) = goldseam_store_sqlite::url::parse(url)?;
            return Ok(Self::Sqlite(path, options));
        }
        #[cfg(feature = "postgres")]
        if goldseam_store_postgres::url::is_ours(url) {
            return Ok(Self::Postgres(Box::new(goldseam_store_postgres::url::parse(url)?)));
        }
        #[cfg(feature = "object")]
        if goldseam_store_object::url::is_ours(url) {
            return Ok(Self::Object(Box::new(goldseam_store_object::url::parse(url)?)));
        }
        Err(EngineError::Store(StoreError::Refused {
            code: "GS0206",
            what: format!("{:?} is not a store URL that this build understands", shown_url(url)),
            hint: "write sqlite:PATH, for example sqlite:goldseam.db, postgres://USER@HOST/DATABASE, or \
                s3://BUCKET/PREFIX"
                .to_owned(),
        }))
    }
}

/// Opens the store that `url` names: `sqlite:PATH`, `sqlite:PATH?durability=process`, `postgres://USER@HOST/DATABASE`,
/// `s3://BUCKET/PREFIX`.
///
/// Makes it if it is not there and brings an older schema up to date: an engine in its users' own process
/// has nobody else to do it. A store that a copy closed can be read only.
///
/// In a process that makes a preflight, this is the store to look at, and it can be read only.
pub async fn open_store(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    if let Some(order) = Order::given()? {
        return order.open(url).await;
    }
    unless_closed(make(url).await?).await
}

/// A store that a copy closed may be looked at: its runs go on elsewhere.
async fn unless_closed(store: Arc<dyn Store>) -> Result<Arc<dyn Store>, EngineError> {
    Ok(match closed_by_copy(&*store).await? {
        Some(closed) => Arc::new(ClosedStore::new(store, closed)),
        None => store,
    })
}

async fn make(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    Ok(mortal(match Place::of(url)? {
        Place::Sqlite(path, options) => Arc::new(SqliteStore::open(&path, options)?),
        #[cfg(feature = "postgres")]
        Place::Postgres(options) => Arc::new(PostgresStore::open(*options).await?),
        #[cfg(feature = "object")]
        Place::Object(options) => Arc::new(BucketStore::open(*options).await?),
    }))
}

/// A process may be told to die at a call of its store, if it was built for that.
fn mortal(store: Arc<dyn Store>) -> Arc<dyn Store> {
    #[cfg(feature = "crash-points")]
    let store = goldseam_store::crash_points::wrapped(store);
    store
}

/// Like [`open_store`], but refuses a store that is not there, or has an older schema, and changes nothing.
pub async fn open_existing_store(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    if let Some(order) = Order::given()? {
        return order.open(url).await;
    }
    unless_closed(find(url).await?).await
}

pub(crate) async fn find(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    if let Place::Sqlite(path, _) = Place::of(url)?
        && !path.exists()
    {
        return Err(EngineError::Store(StoreError::Refused {
            code: "GS0205",
            what: format!("there is no database {}", path.display()),
            hint: "name one with --store sqlite:PATH or GOLDSEAM_STORE; an engine makes it when it starts"
                .to_owned(),
        }));
    }
    open_current_store(url).await
}

/// Engines that still run may be of an older release; only somebody who means it may end their days.
async fn open_current_store(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    Ok(mortal(match Place::of(url)? {
        Place::Sqlite(path, options) => Arc::new(SqliteStore::open_current(&path, options)?),
        #[cfg(feature = "postgres")]
        Place::Postgres(options) => Arc::new(PostgresStore::open_current(*options).await?),
        #[cfg(feature = "object")]
        Place::Object(options) => Arc::new(BucketStore::open_current(*options).await?),
    }))
}

/// The files of a store that other users of this machine may read or write. A store that is no file has none.
pub fn exposed_files(url: &str) -> Vec<PathBuf> {
    match Place::of(url) {
        Ok(Place::Sqlite(path, _)) => goldseam_store_sqlite::private::exposed(&path),
        _ => Vec::new(),
    }
}

/// Looks a store over: reads all of it, changes nothing.
pub async fn check_store(url: &str) -> Result<Report, EngineError> {
    Ok(match Place::of(url)? {
        Place::Sqlite(path, options) => goldseam_store_sqlite::check::check(&path, &options)?,
        #[cfg(feature = "postgres")]
        Place::Postgres(options) => goldseam_store_postgres::check::check(*options).await?,
        #[cfg(feature = "object")]
        Place::Object(options) => goldseam_store_object::check(*options).await?,
    })
}

/// Brings the schema of a store up to date, or makes a new store.
pub async fn migrate_store(url: &str) -> Result<Migrated, EngineError> {
    Ok(match Place::of(url)? {
        Place::Sqlite(path, options) => goldseam_store_sqlite::check::migrate(&path, &options)?,
        #[cfg(feature = "postgres")]
        Place::Postgres(options) => goldseam_store_postgres::check::migrate(*options).await?,
        #[cfg(feature = "object")]
        Place::Object(options) => goldseam_store_object::migrate(*options).await?,
    })
}

/// A client of a store that must be there already: looking never makes a file, nor changes a schema.
pub async fn connect_existing(url: &str) -> Result<Client, EngineError> {
    Ok(Client::new(open_existing_store(url).await?))
}

/// A client of the store that `url` names: it can do everything to runs but execute them.
///
/// Makes the store if it is not there, but refuses an older schema: that is for an engine to change, or
/// for [`migrate_store`].
pub async fn connect(url: &str) -> Result<Client, EngineError> {
    if let Some(order) = Order::given()? {
        return Ok(Client::new(order.open(url).await?));
    }
    Ok(Client::new(unless_closed(open_current_store(url).await?).await?))
}

/// Moves everything of one store to another. The source must be there; the destination is made if it is not, and
/// brought up to date.
pub async fn copier(from: &str, to: &str, options: CopyOptions) -> Result<Copier, EngineError> {
    let (from, to) = ((find(from).await?, shown_url(from)), (make(to).await?, shown_url(to)));
    Ok(between(from, to, options))
}

/// Like [`copier`], for [`Copier::plan`] only: a destination that is not there counts as an empty one, and is not made.
pub async fn dry_copier(from: &str, to: &str, options: CopyOptions) -> Result<Copier, EngineError> {
    let there: Arc<dyn Store> = match is_there(to).await? {
        true => find(to).await?,
        false => Arc::new(MemoryStore::default()),
    };
    Ok(between((find(from).await?, shown_url(from)), (there, shown_url(to)), options))
}

fn between(
    (from, here): (Arc<dyn Store>, String),
    (to, there): (Arc<dyn Store>, String),
    options: CopyOptions,
) -> Copier {
    Copier::new((&Client::new(from), &here), (&Client::new(to), &there), options)
}

/// Whether there is anything at all under this URL.
async fn is_there(url: &str) -> Result<bool, EngineError> {
    Ok(match Place::of(url)? {
        Place::Sqlite(path, _) => path.exists(),
        #[cfg(feature = "postgres")]
        Place::Postgres(options) => goldseam_store_postgres::check::check(*options).await?.schema > 0,
        #[cfg(feature = "object")]
        Place::Object(options) => goldseam_store_object::is_there(&options).await?,
    })
}

/// What a store says about the copy it takes part in, if it does.
pub async fn copy_mark(url: &str) -> Result<Option<Mark>, EngineError> {
    Ok(mark_of(&*find(url).await?).await?)
}

/// Opens a store that a copy closed; returns what it said. See [`goldseam_engine::copy::reopen`].
pub async fn reopen_store(url: &str) -> Result<Option<Mark>, EngineError> {
    reopen(&*find(url).await?).await
}

/// A running engine; see [`Engine::open`]. Everything a [`Client`] can do, it can do too.
#[derive(Debug)]
pub struct Engine(goldseam_engine::Engine);

impl Engine {
    /// Opens a store for an engine. Register workflows, then call [`Builder::start`].
    pub async fn open(url: &str) -> Result<Builder, EngineError> {
        Ok(Self::on(open_store(url).await?))
    }

    /// Like [`Engine::open`], but refuses a store that is not there, or has an older schema, and changes nothing: for a
    /// preflight.
    pub async fn open_existing(url: &str) -> Result<Builder, EngineError> {
        Ok(Self::on(open_existing_store(url).await?))
    }

    /// Workflows without a store, for a preflight of exported histories.
    pub fn detached() -> Builder {
        Self::on(goldseam_engine::preflight::read_only(Arc::new(MemoryStore::default())))
    }

    /// An engine on a store that is open already.
    pub fn on(store: Arc<dyn Store>) -> Builder {
        Builder(goldseam_engine::Engine::builder(store))
    }

    /// Stops taking work, hands over what is running, and leaves. No attempt is counted for any of it.
    pub async fn shutdown(self) {
        self.0.shutdown().await;
    }

    /// Stops at once, like a crash. What was running goes on as soon as an engine runs again.
    pub fn crash(self) {
        self.0.crash();
    }
}

impl Deref for Engine {
    type Target = goldseam_engine::Engine;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// An engine to be: workflows are registered, nothing runs yet.
#[derive(Debug)]
#[must_use = "nothing runs until `start`"]
pub struct Builder(pub(crate) goldseam_engine::Builder);

impl Builder {
    /// Registers version 1 of a workflow.
    pub fn workflow<F, Fut, I, O, E>(self, name: &str, function: F) -> Self
    where
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<Error>,
    {
        Self(self.0.workflow(name, function))
    }

    /// Registers a version of a workflow. New runs begin with the newest; older runs stay on theirs.
    pub fn workflow_version<F, Fut, I, O, E>(self, name: &str, version: u32, function: F) -> Self
    where
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, E>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
        E: Into<Error>,
    {
        Self(self.0.workflow_version(name, version, function))
    }

    /// Declares the steps of a workflow that always makes the same ones: `show` then tells how many are left,
    /// and a run that has made them all without an end is found (rule A3).
    pub fn plan<'a>(self, workflow: &str, steps: impl IntoIterator<Item = &'a str>) -> Self {
        Self(self.0.plan(workflow, steps))
    }

    /// How runs of one workflow are recovered, where it differs from the rest.
    pub fn recovery(self, workflow: &str, recovery: Recovery) -> Self {
        Self(self.0.recovery(workflow, recovery))
    }

    /// A secret that steps get by its name, with [`Context::secret`]. Its value is kept out of every text that the engine
    /// writes: failures, panics, progress, heartbeats.
    ///
    /// ```no_run
    /// use goldseam::prelude::*;
    ///
    /// /// The order says which account pays, by the name of a secret.
    /// async fn charge(ctx: Context, account: String) -> goldseam::Result<()> {
    ///     ctx.step("charge", || async {
    ///         let key = ctx.secret(&account)?;
    ///         pay(key.expose()).await
    ///     })
    ///     .await
    /// }
    /// # async fn pay(_: &str) -> goldseam::Result<()> { Ok(()) }
    ///
    /// # async fn demo() -> Result<(), goldseam::EngineError> {
    /// let engine = Engine::open("sqlite:shop.db")
    ///     .await?
    ///     .secret("stripe", Secret::from_env("STRIPE_KEY")?)
    ///     .workflow("charge", charge)
    ///     .start()
    ///     .await?;
    /// engine.run("charge", "order-7", &"stripe").await?;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn secret(self, name: &str, secret: Secret) -> Self {
        Self(self.0.secret(name, secret))
    }

    /// Lets the sweeps of this engine heal states that other systems keep beside the runs, where the store has a place for
    /// them. Without it, no engine changes them.
    pub fn foreign_states(self, options: goldseam_engine::healer::foreign::ForeignOptions) -> Self {
        Self(self.0.foreign_states(options))
    }

    /// Replaces the whole configuration. Call it before registering workflows.
    pub fn config(self, config: Config) -> Self {
        Self(self.0.config(config))
    }

    /// Runs in memory at once.
    pub fn slots(self, slots: u32) -> Self {
        Self(self.0.slots(slots))
    }

    /// Bounds on everything. Call it before registering workflows.
    pub fn limits(self, limits: Limits) -> Self {
        Self(self.0.limits(limits))
    }

    /// Another clock: for tests and simulation.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self(self.0.clock(clock))
    }

    /// Another source of randomness: for tests and simulation.
    pub fn entropy(self, entropy: Arc<dyn Entropy>) -> Self {
        Self(self.0.entropy(entropy))
    }

    /// Tries the registered workflows against stored runs, without effects and without a write; see
    /// [`preflight`](crate::preflight).
    pub async fn preflight(&self, what: Preflight) -> Result<PreflightReport, EngineError> {
        self.0.preflight(what).await
    }

    /// Joins the store, recovers what dead nodes left behind, and begins to work.
    ///
    /// In a process that `goldseam preflight --program` started, it makes a preflight instead, and ends the process.
    pub async fn start(self) -> Result<Engine, EngineError> {
        if let Some(order) = Order::given()? {
            return Err(order.carry_out(self.0).await);
        }
        Ok(Engine(self.0.start().await?))
    }
}
