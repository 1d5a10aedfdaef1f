//! Bugs that other engines shipped, played against this one. `docs/peers.md` says which is which.

mod recovery;
mod signals;
mod stuck;
mod takeover;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use goldseam::engine::{Clock, OsEntropy};
use goldseam::store::faulty::{Plan, Rates};
use goldseam::store::{FaultyStore, MemoryStore, Store, TaskFilter};
use goldseam::{Builder, Client, Config, Engine, Limits, Millis, Payload, RunId, StartOptions};
use goldseam_store::conformance::Fixture;
use tokio::sync::watch;
use tokio::time::Instant;

/// Where virtual time begins.
const START: Millis = Millis(1_700_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn id(run: &str) -> RunId {
    RunId::new(run).unwrap()
}

/// A machine's clock under virtual time, wrong by so many milliseconds.
#[derive(Debug, Clone, Copy)]
struct Virtual {
    began: Instant,
    wrong_by: i64,
}

impl Virtual {
    #[expect(clippy::disallowed_methods, reason = "virtual time, which only passes where nobody is busy")]
    fn passed(self) -> Duration {
        Instant::now().saturating_duration_since(self.began)
    }
}

impl Clock for Virtual {
    fn now(&self) -> Millis {
        Millis((START + self.passed()).0 + self.wrong_by)
    }

    fn elapsed(&self) -> Duration {
        self.passed() + 24 * HOUR
    }
}

/// A store in memory, and nodes on it, all under virtual time.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    time: Virtual,
    /// Milliseconds by which the store's clock was set forward.
    ahead: Arc<AtomicI64>,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "where virtual time begins")]
    pub(crate) fn new() -> Self {
        let time = Virtual { began: Instant::now(), wrong_by: 0 };
        let ahead = Arc::new(AtomicI64::new(0));
        let set = Arc::clone(&ahead);
        let clock = move || Millis(time.now().0 + set.load(Ordering::Relaxed));
        Self { store: Arc::new(MemoryStore::new(Arc::new(clock))), time, ahead }
    }

    /// Somebody sets the store's clock.
    pub(crate) fn set_store_forward(&self, by_ms: i64) {
        self.ahead.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// A connection that fails when it is told to.
    pub(crate) fn link(&self) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new(self.store.clone(), Plan::pass()))
    }

    /// An engine to be, over this connection.
    pub(crate) fn node(&self, link: Arc<dyn Store>) -> Builder {
        self.node_wrong_by(link, 0)
    }

    /// The same on a machine whose clock is wrong.
    pub(crate) fn node_wrong_by(&self, link: Arc<dyn Store>, wrong_by: i64) -> Builder {
        let config = Config {
            beat_on_thread: false,
            limits: Limits { store_patience: Duration::from_secs(2), ..Limits::default() },
            ..Config::default()
        };
        let clock = Arc::new(Virtual { wrong_by, ..self.time });
        Engine::on(link).config(config).clock(clock)
    }

    /// Somebody from outside, who sees everything.
    pub(crate) fn client(&self) -> Client {
        self.client_on(self.store.clone())
    }

    /// The same over this connection.
    pub(crate) fn client_on(&self, link: Arc<dyn Store>) -> Client {
        Client::with(link, Arc::new(self.time), Arc::new(OsEntropy), Limits::default())
    }

    /// The process of an engine dies.
    pub(crate) fn kill(&self, engine: Engine) {
        let node = engine.node_id().clone();
        engine.crash();
        self.store.kill(&node);
    }
}

/// Waits until it is so, for an hour at most: a virtual one, where time is virtual.
pub(crate) async fn until<F, Fut>(what: &str, mut is_so: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(HOUR, wait).await.is_ok(), "never happened: {what}");
}

/// Every call fails.
pub(crate) fn cut_off() -> Plan {
    Plan::seeded(0, Rates { fail_before: 1_000, ..Rates::default() })
}

/// Holds steps until the test lets them go on.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) async fn passed(&self) {
        // The sender is ours, so it is not gone.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

/// Stores on a real clock whose hints can be lost.
pub(crate) async fn stores() -> [Fixture; 2] {
    let memory = Fixture::memory_on(goldseam_store_sqlite::system_clock());
    [memory, goldseam_store_sqlite::testing::fixture_on_real_clock().await]
}

/// Queues a run for whoever has its workflow.
pub(crate) async fn queue(client: &Client, workflow: &str, run: &str) -> RunId {
    client.start(workflow, &id(run), Payload::null(), StartOptions::default()).await.unwrap();
    id(run)
}

/// The run has no task any more: nothing moves it.
pub(crate) async fn lose_task(fixture: &Fixture, run: &RunId) {
    let filter = TaskFilter { run: Some(run.clone()), limit: 10, ..TaskFilter::default() };
    for task in fixture.store.tasks(filter).await.unwrap() {
        fixture.damage.as_ref().unwrap().lose_task(&task.id).await;
    }
}

/// How often an event of this name is in the log.
pub(crate) async fn count(client: &Client, run: &RunId, name: &str) -> usize {
    let history = client.history(run).await.unwrap();
    history.iter().filter(|recorded| recorded.event.name() == name).count()
}

/// A workflow that is being executed.
pub(crate) type Running = std::pin::Pin<Box<dyn Future<Output = goldseam::Result<u32>> + Send>>;
