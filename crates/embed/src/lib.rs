//! The engine inside a program of another language.
//!
//! [`Embedded::open`] opens a store, starts an engine that heals its runs, and answers the requests of a server's API
//! in this process: no socket, no key. A worker that registers here is a node that dies with the process, so on a
//! store with liveness locks other nodes take over its runs at once.
//!
//! ```
//! use goldseam_embed::{ApiCall, EmbedSettings, Embedded};
//!
//! # fn main() -> Result<(), goldseam_api::Problem> {
//! let engine = Embedded::open("memory:", &EmbedSettings::default())?;
//! let reply = engine.request(ApiCall::get("/v1/runs"))?;
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

use std::future::Future;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use goldseam::unstable::engine::{Clock, SystemClock};
use goldseam::unstable::store::{MemoryStore, Store};
use goldseam_api::Problem;
use goldseam_server::{InProcess, InProcessOptions};
use tokio::runtime::{Builder, Handle, Runtime};

pub use call::{ApiCall, ApiReply};
pub use clock::ShiftedClock;
pub use settings::EmbedSettings;
pub use stream::{EventStream, StreamEnded};

/// The URL of a store in memory, which ends with the engine.
pub const MEMORY: &str = "memory:";
/// Pause between two polls of the queue while time is virtual.
const POLL_VIRTUAL: Duration = Duration::from_millis(10);
/// How long a close waits for the threads of the engine.
const ENDING: Duration = Duration::from_secs(5);

/// An engine in this process. All methods may be called from any thread.
#[derive(Debug)]
pub struct Embedded {
    /// None after the end: nothing keeps the store open then.
    running: Mutex<Option<LiveEngine>>,
    clock: Option<Arc<ShiftedClock>>,
    /// The process that opened it. The threads of the engine do not exist in a forked child.
    process: u32,
}

/// What ends with a close.
#[derive(Debug)]
struct LiveEngine {
    server: Arc<InProcess>,
    runtime: Runtime,
}

impl Embedded {
    /// Opens the store and starts an engine on it: `sqlite:PATH`, `postgres://…`, `s3://…` or `memory:`. Creates the
    /// store if it does not exist.
    pub fn open(url: &str, settings: &EmbedSettings) -> Result<Self, Problem> {
        let mut config = settings.config(url)?;
        let clock = settings.virtual_time.then(|| Arc::new(ShiftedClock::default()));
        if clock.is_some() {
            config.engine.poll = POLL_VIRTUAL;
        }
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().worker_threads(settings.threads.max(1)).thread_name("goldseam");
        let runtime = builder
            .build()
            .map_err(|error| Problem::new(500, format!("cannot start the threads of the engine: {error}")))?;
        let options = options(url, clock.clone())?;
        let server = match runtime.block_on(InProcess::open(config, options)) {
            Ok(server) => Arc::new(server),
            Err(problem) => {
                runtime.shutdown_background();
                return Err(problem);
            }
        };
        let running = Mutex::new(Some(LiveEngine { server, runtime }));
        Ok(Self { running, clock, process: std::process::id() })
    }

    fn running(&self) -> MutexGuard<'_, Option<LiveEngine>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine and its runtime. Refuses a call in a forked child, which would wait without end, and a call after
    /// the end.
    fn parts(&self) -> Result<(Arc<InProcess>, Handle), Problem> {
        if self.process != std::process::id() {
            return Err(Problem::new(409, "this process was forked after the engine was opened")
                .code("GS0630")
                .hint("open the engine in the child process, after the fork"));
        }
        match &*self.running() {
            Some(LiveEngine { server, runtime }) => Ok((Arc::clone(server), runtime.handle().clone())),
            None => Err(closed()),
        }
    }

    /// Runs `work` on the runtime and waits for it.
    fn wait<T, F>(handle: &Handle, work: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (sender, receiver) = sync_channel(1);
        handle.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv().map_err(|_| closed())
    }

    /// Sends a request and waits for the response.
    pub fn request(&self, call: ApiCall) -> Result<ApiReply, Problem> {
        let (server, handle) = self.parts()?;
        Self::wait(&handle, async move { call.answer(&server).await })
    }

    /// Sends a request and returns at once. `done` is called with the response on a thread of the engine.
    pub fn submit(&self, call: ApiCall, done: impl FnOnce(ApiReply) + Send + 'static) -> Result<(), Problem> {
        let (server, handle) = self.parts()?;
        handle.spawn(async move { done(call.answer(&server).await) });
        Ok(())
    }

    /// Begins a request on the calling thread, and returns the response if the request has to wait for no other thread: a
    /// lone append to SQLite is committed here. Otherwise `done` gets it later, as with [`Embedded::submit`].
    pub fn begin(
        &self,
        call: ApiCall,
        done: impl FnOnce(ApiReply) + Send + 'static,
    ) -> Result<Option<ApiReply>, Problem> {
        let (server, handle) = self.parts()?;
        let _entered = handle.enter();
        let mut answer = Box::pin(async move { call.answer(&server).await });
        // The task below registers its own waker with its first poll.
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => Ok(Some(reply)),
            Poll::Pending => {
                handle.spawn(async move { done(answer.await) });
                Ok(None)
            }
        }
    }

    /// Opens a stream of server-sent events.
    pub fn stream(&self, path: &str, last_event_id: Option<&str>) -> Result<EventStream, Problem> {
        let (server, handle) = self.parts()?;
        let call = ApiCall::get(path).header("last-event-id", last_event_id.unwrap_or_default());
        let opened = Self::wait(&handle, async move { call.open(&server).await })??;
        EventStream::of(opened, &handle)
    }

    /// Ends a worker of this engine as a crash of its process would, for tests: nothing is released.
    pub fn crash_worker(&self, worker: &str) -> Result<(), Problem> {
        let (server, handle) = self.parts()?;
        let worker = worker.to_owned();
        Self::wait(&handle, async move { server.crash_worker(&worker).await })?
    }

    /// Moves virtual time forward. Refused if the engine was opened without virtual time.
    pub fn advance(&self, span: Duration) -> Result<(), Problem> {
        let clock = self.clock.as_ref().ok_or_else(|| {
            Problem::new(409, "the time of this engine is real").code("GS0632").hint(
                "open it with virtual time to move its clock; this is for tests of workflows on a store of their own",
            )
        })?;
        clock.advance(span);
        Ok(())
    }

    /// Closes the engine: workers release their runs within `drain`, and no attempt is counted. Then the store is
    /// closed. Later calls are refused; a second close does nothing. In a forked child it only forgets the engine.
    pub fn close(&self, drain: Duration) {
        let Some(running) = self.running().take() else { return };
        if self.process != std::process::id() {
            std::mem::forget(running);
            return;
        }
        let LiveEngine { server, runtime } = running;
        runtime.block_on(server.close(drain));
        drop(server);
        runtime.shutdown_timeout(ENDING);
    }

    /// Ends the engine like a crash: nothing is released, nothing is written.
    pub fn abandon(&self) {
        match self.running().take() {
            Some(running) if self.process == std::process::id() => running.runtime.shutdown_background(),
            Some(running) => std::mem::forget(running),
            None => {}
        }
    }
}

fn closed() -> Problem {
    Problem::new(409, "the engine is closed")
        .code("GS0631")
        .hint("open another engine, or close this one later")
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Opens stores that only this crate names.
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
    Ok(InProcessOptions { clock: time, store })
}
