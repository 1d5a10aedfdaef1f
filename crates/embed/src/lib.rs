//! The engine inside a program of another language.
//!
//! [`Embedded::open`] opens a store, starts an engine that heals its runs, and answers the requests of a server's API
//! in this process: no socket, no key. A worker that registers here is a node that dies with the process, so on a
//! store with liveness locks other nodes take over its runs at once.
//!
//! ```
//! use goldseam_embed::{Call, EmbedSettings, Embedded};
//!
//! # fn main() -> Result<(), goldseam_api::Problem> {
//! let engine = Embedded::open("memory:", &EmbedSettings::default())?;
//! let reply = engine.request(Call::get("/v1/runs"))?;
//! assert_eq!(reply.status, 200);
//! engine.close(std::time::Duration::ZERO);
//! # Ok(()) }
//! ```
//!
//! The methods block the calling thread or return at once; the program needs no async runtime of Rust.

mod call;
mod clock;
mod settings;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::unstable::engine::{Clock, SystemClock};
use goldseam::unstable::store::{MemoryStore, Store};
use goldseam_api::Problem;
use goldseam_server::{InProcess, InProcessOptions};
use tokio::runtime::{Builder, Handle, Runtime};

pub use call::{Call, Reply};
pub use clock::ShiftedClock;
pub use settings::EmbedSettings;
pub use stream::{EventStream, StreamEnded};

/// The URL of a store in memory, which ends with the engine.
pub const MEMORY: &str = "memory:";
/// Pause between two polls of the queue while time is virtual.
const POLL_VIRTUAL: Duration = Duration::from_millis(10);

/// An engine in this process. All methods may be called from any thread.
#[derive(Debug)]
pub struct Embedded {
    server: Arc<InProcess>,
    handle: Handle,
    runtime: Mutex<Option<Runtime>>,
    clock: Option<Arc<ShiftedClock>>,
    /// The process that opened it. The threads of the engine do not exist in a forked child.
    process: u32,
}

impl Embedded {
    /// Opens the store and starts an engine on it: `sqlite:PATH`, `postgres://…`, `s3://…` or `memory:`. Creates the
    /// store if it does not exist.
    pub fn open(url: &str, settings: &EmbedSettings) -> Result<Self, Problem> {
        let config = settings.config(url)?;
        let clock = settings.virtual_time.then(|| Arc::new(ShiftedClock::default()));
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().worker_threads(settings.threads.max(1)).thread_name("goldseam");
        let runtime = builder
            .build()
            .map_err(|error| Problem::new(500, format!("cannot start the threads of the engine: {error}")))?;
        let options = options(url, clock.clone())?;
        let server = runtime.block_on(InProcess::open(config, options));
        let server = match server {
            Ok(server) => Arc::new(server),
            Err(problem) => {
                runtime.shutdown_background();
                return Err(problem);
            }
        };
        let handle = runtime.handle().clone();
        Ok(Self { server, handle, runtime: Mutex::new(Some(runtime)), clock, process: std::process::id() })
    }

    /// Refuses a call in a forked child, which would wait forever, and a call after the end.
    fn check(&self) -> Result<(), Problem> {
        if self.process != std::process::id() {
            return Err(Problem::new(409, "this process was forked after the engine was opened")
                .code("GS0630")
                .hint("open the engine in the child process, after the fork"));
        }
        if self.runtime.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Err(Problem::new(409, "the engine is closed")
                .code("GS0631")
                .hint("open another engine, or close this one later"));
        }
        Ok(())
    }

    /// Sends a request and waits for the response.
    pub fn request(&self, call: Call) -> Result<Reply, Problem> {
        self.check()?;
        let server = Arc::clone(&self.server);
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(call.answer(&server).await);
        });
        receiver.recv().map_err(|_| Problem::new(409, "the engine was closed").code("GS0631"))
    }

    /// Sends a request and returns at once. `done` is called with the response on a thread of the engine.
    pub fn submit(&self, call: Call, done: impl FnOnce(Reply) + Send + 'static) -> Result<(), Problem> {
        self.check()?;
        let server = Arc::clone(&self.server);
        self.handle.spawn(async move { done(call.answer(&server).await) });
        Ok(())
    }

    /// Opens a stream of server-sent events.
    pub fn stream(&self, path: &str, last_event_id: Option<&str>) -> Result<EventStream, Problem> {
        self.check()?;
        let call = Call::get(path).header("last-event-id", last_event_id.unwrap_or_default());
        let server = Arc::clone(&self.server);
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let handle = self.handle.clone();
        handle.spawn(async move {
            let _ = sender.send(call.open(&server).await);
        });
        let opened =
            receiver.recv().map_err(|_| Problem::new(409, "the engine was closed").code("GS0631"))?;
        EventStream::of(opened?, &self.handle)
    }

    /// Ends a worker of this engine as a crash of its process would, for tests: nothing is released.
    pub fn crash_worker(&self, worker: &str) -> Result<(), Problem> {
        self.check()?;
        let (server, worker) = (Arc::clone(&self.server), worker.to_owned());
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.handle.spawn(async move {
            let _ = sender.send(server.crash_worker(&worker).await);
        });
        receiver.recv().map_err(|_| Problem::new(409, "the engine was closed").code("GS0631"))?
    }

    /// Moves virtual time forward. Refused if the engine was opened without virtual time.
    pub fn advance(&self, span: Duration) -> Result<(), Problem> {
        self.check()?;
        let clock = self.clock.as_ref().ok_or_else(|| {
            Problem::new(409, "the time of this engine is real").code("GS0632").hint(
                "open it with virtual time to move its clock; this is for tests of workflows on a store of their own",
            )
        })?;
        clock.advance(span);
        Ok(())
    }

    /// Closes the engine: workers release their runs within `drain`, and no attempt is counted. Later calls are
    /// refused; a second close does nothing. In a forked child it only forgets the engine.
    pub fn close(&self, drain: Duration) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(runtime) = runtime else { return };
        if self.process != std::process::id() {
            std::mem::forget(runtime);
            return;
        }
        runtime.block_on(self.server.close(drain));
        runtime.shutdown_background();
    }

    /// Ends the engine like a crash: nothing is released, nothing is written.
    pub fn abandon(&self) {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        match runtime {
            Some(runtime) if self.process == std::process::id() => runtime.shutdown_background(),
            Some(runtime) => std::mem::forget(runtime),
            None => {}
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Opens stores that only this crate names, and sets the pace of virtual time.
fn options(url: &str, clock: Option<Arc<ShiftedClock>>) -> Result<InProcessOptions, Problem> {
    let time: Arc<dyn Clock> = match &clock {
        Some(clock) => Arc::clone(clock) as Arc<dyn Clock>,
        None => Arc::new(SystemClock),
    };
    let shown = Arc::clone(&time);
    let store: Option<Arc<dyn Store>> = match (url, &clock) {
        (MEMORY, _) => Some(Arc::new(MemoryStore::new(Arc::new(move || shown.now())))),
        (url, Some(_)) if url.starts_with("sqlite:") => {
            let (path, mut options) =
                goldseam_store_sqlite::url::parse(url).map_err(goldseam::EngineError::from)?;
            options.clock = Arc::new(move || shown.now());
            let store = goldseam_store_sqlite::SqliteStore::open(&path, options);
            Some(Arc::new(store.map_err(goldseam::EngineError::from)?))
        }
        (_, Some(_)) => {
            return Err(
                Problem::bad_request("virtual time needs a store in memory or on SQLite").code("GS0632")
            );
        }
        (_, None) => None,
    };
    let mut options = InProcessOptions { clock: time, store, ..InProcessOptions::default() };
    if clock.is_some() {
        options.nodes.poll = POLL_VIRTUAL;
    }
    Ok(options)
}
