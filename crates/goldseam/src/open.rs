//! Opens stores, engines and clients by URL. Only this module names the backends.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use goldseam_admin::copy::{Copier, CopyOptions, Mark, closed_by_copy, mark_of, reopen};
use goldseam_core::next_step::{Hint, NextStep, Setting};
use goldseam_engine::{Builder, Client, Engine, EngineError};
use goldseam_store::check::{Compacted, Migrated, StoreReport};
use goldseam_store::{ClosedStore, MemoryStore, Store, StoreError, shown_url};
#[cfg(feature = "object")]
use goldseam_store_object::BucketStore;
#[cfg(feature = "postgres")]
use goldseam_store_postgres::PostgresStore;
use goldseam_store_sqlite::SqliteStore;

use crate::preflight::Order;
use crate::retention_env;

/// A parsed store URL.
pub(crate) enum StoreUrl {
    Sqlite(PathBuf, goldseam_store_sqlite::SqliteOptions),
    #[cfg(feature = "postgres")]
    Postgres(Box<goldseam_store_postgres::PostgresOptions>),
    #[cfg(feature = "object")]
    Object(Box<goldseam_store_object::BucketOptions>),
}

impl StoreUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, EngineError> {
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
            what: format!("this build does not support the store URL {:?}", shown_url(url)),
            hint: format!("pass {}", supported_urls()).into(),
        }))
    }
}

/// Returns the forms of URLs that this build supports.
fn supported_urls() -> String {
    let urls = [
        Some("sqlite:PATH (for example sqlite:goldseam.db)"),
        cfg!(feature = "postgres").then_some("postgres://USER@HOST/DATABASE"),
        cfg!(feature = "object").then_some("s3://BUCKET/PREFIX"),
    ];
    let urls: Vec<&str> = urls.into_iter().flatten().collect();
    match urls.as_slice() {
        [some @ .., last] if !some.is_empty() => format!("{} or {last}", some.join(", ")),
        urls => urls.concat(),
    }
}

/// Opens the store that `url` names: `sqlite:PATH`, `sqlite:PATH?durability=process`, `postgres://USER@HOST/DATABASE`,
/// `s3://BUCKET/PREFIX`.
///
/// Creates the store if it does not exist, and migrates an older schema. A store that was closed by a copy is opened
/// read-only.
///
/// In a preflight process, opens the store under preflight instead, read-only.
pub async fn open_store(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    if let Some(order) = Order::from_env()? {
        return order.open(url).await;
    }
    read_only_if_closed(open_or_create(url).await?).await
}

/// Makes a store that was closed by a copy read-only, because its runs continue in the destination.
async fn read_only_if_closed(store: Arc<dyn Store>) -> Result<Arc<dyn Store>, EngineError> {
    Ok(match closed_by_copy(&*store).await? {
        Some(closed) => Arc::new(ClosedStore::new(store, closed)),
        None => store,
    })
}

pub(crate) async fn open_or_create(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    Ok(with_crash_points(match StoreUrl::parse(url)? {
        StoreUrl::Sqlite(path, options) => Arc::new(SqliteStore::open(&path, options)?),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(options) => Arc::new(PostgresStore::open(*options).await?),
        #[cfg(feature = "object")]
        StoreUrl::Object(options) => Arc::new(BucketStore::open(*options).await?),
    }))
}

/// Wraps the store in crash points if the feature is on.
fn with_crash_points(store: Arc<dyn Store>) -> Arc<dyn Store> {
    #[cfg(feature = "crash-points")]
    let store = goldseam_store::crash_points::wrapped(store);
    store
}

/// Opens an existing store without changing it; unlike [`open_store`], fails if it is missing or has an older schema.
pub async fn open_existing_store(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    if let Some(order) = Order::from_env()? {
        return order.open(url).await;
    }
    read_only_if_closed(open_existing(url).await?).await
}

pub(crate) async fn open_existing(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    if let StoreUrl::Sqlite(path, _) = StoreUrl::parse(url)?
        && !path.exists()
    {
        return Err(EngineError::Store(StoreError::Refused {
            code: "GS0205",
            what: format!("database {} does not exist", path.display()),
            hint: Hint::from("pass ")
                .step(NextStep::Repeat { setting: Setting::Store })
                .text("; an engine creates the file when it starts"),
        }));
    }
    open_current_store(url).await
}

/// Opens a store whose schema is current. Never migrates implicitly: engines of an older release may still be running.
async fn open_current_store(url: &str) -> Result<Arc<dyn Store>, EngineError> {
    Ok(with_crash_points(match StoreUrl::parse(url)? {
        StoreUrl::Sqlite(path, options) => Arc::new(SqliteStore::open_current(&path, options)?),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(options) => Arc::new(PostgresStore::open_current(*options).await?),
        #[cfg(feature = "object")]
        StoreUrl::Object(options) => Arc::new(BucketStore::open_current(*options).await?),
    }))
}

/// Returns the files of a store that other users of this machine may read or write; none unless it is a SQLite store.
pub fn exposed_files(url: &str) -> Vec<PathBuf> {
    match StoreUrl::parse(url) {
        Ok(StoreUrl::Sqlite(path, _)) => goldseam_store_sqlite::permissions::exposed(&path),
        _ => Vec::new(),
    }
}

/// Checks a store: reads every record, changes nothing.
pub async fn check_store(url: &str) -> Result<StoreReport, EngineError> {
    Ok(match StoreUrl::parse(url)? {
        StoreUrl::Sqlite(path, options) => goldseam_store_sqlite::check::check(&path, &options)?,
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(options) => goldseam_store_postgres::check::check(*options).await?,
        #[cfg(feature = "object")]
        StoreUrl::Object(options) => goldseam_store_object::check(*options).await?,
    })
}

/// Migrates the schema of a store, or creates the store.
pub async fn migrate_store(url: &str) -> Result<Migrated, EngineError> {
    Ok(match StoreUrl::parse(url)? {
        StoreUrl::Sqlite(path, options) => goldseam_store_sqlite::check::migrate(&path, &options)?,
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(options) => goldseam_store_postgres::check::migrate(*options).await?,
        #[cfg(feature = "object")]
        StoreUrl::Object(options) => goldseam_store_object::migrate(*options).await?,
    })
}

/// Gives the space of removed records back. Refuses on SQLite while a node works on the store.
pub async fn compact_store(url: &str) -> Result<Compacted, EngineError> {
    Ok(match StoreUrl::parse(url)? {
        StoreUrl::Sqlite(path, options) => goldseam_store_sqlite::check::compact(&path, &options)?,
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(options) => goldseam_store_postgres::check::compact(*options).await?,
        #[cfg(feature = "object")]
        StoreUrl::Object(_) => {
            let note = "nothing to do: object storage has no unused space; if the bucket keeps old versions of \
                        objects, a lifecycle rule removes them";
            Compacted { before: 0, after: 0, note: note.to_owned() }
        }
    })
}

/// Returns a client of an existing store. Never creates a file or changes a schema.
pub async fn connect_existing(url: &str) -> Result<Client, EngineError> {
    Ok(Client::new(open_existing_store(url).await?))
}

/// Returns a client of the store: it can do everything to runs except execute them.
///
/// Creates a SQLite file that does not exist. Fails if a database or bucket has no Goldseam schema, or an older one:
/// start an engine or call [`migrate_store`] to create or migrate it.
pub async fn connect(url: &str) -> Result<Client, EngineError> {
    if let Some(order) = Order::from_env()? {
        return Ok(Client::new(order.open(url).await?));
    }
    Ok(Client::new(read_only_if_closed(open_current_store(url).await?).await?))
}

/// Prepares a copy of everything in one store to another.
///
/// The source must exist. The destination is created if it does not exist, and its schema is migrated.
pub async fn copier(from: &str, to: &str, options: CopyOptions) -> Result<Copier, EngineError> {
    let source = CopyEnd { client: Client::new(open_existing(from).await?), url: shown_url(from) };
    let destination = CopyEnd { client: Client::new(open_or_create(to).await?), url: shown_url(to) };
    Ok(copier_between(&source, &destination, options))
}

/// Prepares a copy for [`Copier::plan`] only. A destination that does not exist counts as empty and is not created.
pub async fn dry_copier(from: &str, to: &str, options: CopyOptions) -> Result<Copier, EngineError> {
    let store: Arc<dyn Store> =
        if exists(to).await? { open_existing(to).await? } else { Arc::new(MemoryStore::default()) };
    let source = CopyEnd { client: Client::new(open_existing(from).await?), url: shown_url(from) };
    let destination = CopyEnd { client: Client::new(store), url: shown_url(to) };
    Ok(copier_between(&source, &destination, options))
}

/// One side of a copy.
struct CopyEnd {
    client: Client,
    /// Without credentials.
    url: String,
}

fn copier_between(source: &CopyEnd, destination: &CopyEnd, options: CopyOptions) -> Copier {
    Copier::new((&source.client, &source.url), (&destination.client, &destination.url), options)
}

/// Returns whether a store exists at `url`.
async fn exists(url: &str) -> Result<bool, EngineError> {
    Ok(match StoreUrl::parse(url)? {
        StoreUrl::Sqlite(path, _) => path.exists(),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(options) => goldseam_store_postgres::check::check(*options).await?.schema > 0,
        #[cfg(feature = "object")]
        StoreUrl::Object(options) => goldseam_store_object::exists(&options).await?,
    })
}

/// Returns the mark of the copy that a store takes part in, if any.
pub async fn copy_mark(url: &str) -> Result<Option<Mark>, EngineError> {
    Ok(mark_of(&*open_existing(url).await?).await?)
}

/// Reopens a store that was closed by a copy, and returns the removed mark. See [`goldseam_admin::copy::reopen`].
pub async fn reopen_store(url: &str) -> Result<Option<Mark>, EngineError> {
    reopen(&*open_existing(url).await?).await
}

/// Opens a store for an [`Engine`].
pub trait OpenEngine {
    /// Opens a store for an engine, as [`open_store`] does. Register workflows, then call [`Builder::start`].
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn greet(ctx: Context, name: String) -> goldseam::Result<String> {
    ///     ctx.step("greet", || async { Ok(format!("Hello, {name}!")) }).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> goldseam::Result<()> {
    /// # let folder = tempfile::tempdir()?;
    /// # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    /// // For example "sqlite:shop.db".
    /// let engine = Engine::open(&url).await?.workflow("greet", greet).start().await?;
    /// let run = engine.start(greet, "hello-1", &"Ada".to_owned()).await?;
    /// assert_eq!(run.result().await?, "Hello, Ada!");
    /// engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    fn open(url: &str) -> impl Future<Output = Result<Builder, EngineError>> + Send;

    /// Opens an existing store for a preflight. Unlike [`OpenEngine::open`], changes nothing, and fails if the store
    /// is missing or has an older schema.
    fn open_existing(url: &str) -> impl Future<Output = Result<Builder, EngineError>> + Send;

    /// Returns a builder of an engine on an open store.
    fn on(store: Arc<dyn Store>) -> Builder;

    /// Returns a builder without a store, for a preflight of exported histories.
    fn detached() -> Builder;
}

impl OpenEngine for Engine {
    async fn open(url: &str) -> Result<Builder, EngineError> {
        Ok(Self::on(open_store(url).await?))
    }

    async fn open_existing(url: &str) -> Result<Builder, EngineError> {
        Ok(Self::on(open_existing_store(url).await?))
    }

    fn on(store: Arc<dyn Store>) -> Builder {
        let builder = Self::builder(store).environment().environment_work(retention_env::from_process());
        match Order::from_env() {
            Ok(None) => builder,
            Ok(Some(order)) => builder.instead_of_start(|builder| Box::pin(order.run(builder))),
            Err(error) => builder.instead_of_start(|_| Box::pin(std::future::ready(error))),
        }
    }

    fn detached() -> Builder {
        Self::on(goldseam_engine::preflight::read_only(Arc::new(MemoryStore::default())))
    }
}
