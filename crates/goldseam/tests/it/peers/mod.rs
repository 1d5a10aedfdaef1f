//! Bugs of other engines, as tests of this one. `docs/peers.md` lists them.

mod recovery;
mod signals;
mod stuck;
mod takeover;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use goldseam::unstable::engine::{Clock, OsEntropy};
use goldseam::unstable::store::faulty::{FaultPlan, FaultRates};
use goldseam::unstable::store::{FaultyStore, MemoryStore, Store, TaskFilter};
use goldseam::{Builder, Client, Config, Engine, Limits, Millis, OpenEngine as _, Payload, RunId};
use goldseam_conformance::Fixture;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) use crate::support::run_id as id;

/// Where virtual time begins.
const START: Millis = Millis(1_700_000_000_000);
const HOUR: Duration = Duration::from_secs(3_600);

/// The clock of a machine in virtual time, wrong by `wrong_by` milliseconds.
#[derive(Debug, Clone, Copy)]
struct VirtualClock {
    began: Instant,
    wrong_by: i64,
}

impl VirtualClock {
    #[expect(clippy::disallowed_methods, reason = "virtual time, which passes only when all tasks wait")]
    fn passed(self) -> Duration {
        Instant::now().saturating_duration_since(self.began)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Millis {
        Millis((START + self.passed()).0 + self.wrong_by)
    }

    fn elapsed(&self) -> Duration {
        self.passed() + 24 * HOUR
    }
}

/// A memory store and its nodes, in virtual time.
pub(crate) struct World {
    pub(crate) store: Arc<MemoryStore>,
    time: VirtualClock,
    /// Milliseconds by which the store's clock was set forward.
    ahead: Arc<AtomicI64>,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "where virtual time begins")]
    pub(crate) fn new() -> Self {
        let time = VirtualClock { began: Instant::now(), wrong_by: 0 };
        let ahead = Arc::new(AtomicI64::new(0));
        let set = Arc::clone(&ahead);
        let clock = move || Millis(time.now().0 + set.load(Ordering::Relaxed));
        Self { store: Arc::new(MemoryStore::new(Arc::new(clock))), time, ahead }
    }

    /// Sets the store's clock forward.
    pub(crate) fn set_store_forward(&self, by_ms: i64) {
        self.ahead.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Returns a connection whose calls can be made to fail.
    pub(crate) fn link(&self) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new(self.store.clone(), FaultPlan::pass()))
    }

    /// Returns a builder of an engine on this connection.
    pub(crate) fn node(&self, link: Arc<dyn Store>) -> Builder {
        self.node_wrong_by(link, 0)
    }

    /// Returns a builder of an engine on a machine whose clock is wrong.
    pub(crate) fn node_wrong_by(&self, link: Arc<dyn Store>, wrong_by: i64) -> Builder {
        let config = Config {
            beat_on_thread: false,
            limits: Limits { store_patience: Duration::from_secs(2), ..Limits::default() },
            ..Config::default()
        };
        let clock = Arc::new(VirtualClock { wrong_by, ..self.time });
        Engine::on(link).config(config).clock(clock)
    }

    /// Returns a client on a connection without faults.
    pub(crate) fn client(&self) -> Client {
        self.client_on(self.store.clone())
    }

    /// Returns a client on this connection.
    pub(crate) fn client_on(&self, link: Arc<dyn Store>) -> Client {
        Client::with(link, Arc::new(self.time), Arc::new(OsEntropy), Limits::default())
    }

    /// Kills the process of an engine.
    pub(crate) fn kill(&self, engine: Engine) {
        let node = engine.node_id().clone();
        engine.crash();
        self.store.kill(&node);
    }
}

/// Polls `probe` until it returns true, for at most an hour, which is virtual if time is.
pub(crate) async fn until<F, Fut>(what: &str, mut probe: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let wait = async {
        while !probe().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(HOUR, wait).await.is_ok(), "timed out: {what}");
}

/// A plan by which every call fails.
pub(crate) fn cut_off() -> FaultPlan {
    FaultPlan::seeded(0, FaultRates { fail_before: 1_000, ..FaultRates::default() })
}

/// Blocks steps until the test opens it.
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
        // Cannot fail: `self` owns the sender.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

/// Returns stores on a real clock whose hints can be removed.
pub(crate) async fn stores() -> [Fixture; 2] {
    let memory = Fixture::memory_on(goldseam_store_sqlite::system_clock());
    [memory, goldseam_store_sqlite::testing::fixture_on_real_clock().await]
}

/// Queues a run for any engine that has its workflow.
pub(crate) async fn queue(client: &Client, workflow: &str, run: &str) -> RunId {
    client.start(workflow, &id(run), &Payload::null()).await.unwrap();
    id(run)
}

/// Removes the tasks of a run, so that nothing moves it.
pub(crate) async fn lose_task(fixture: &Fixture, run: &RunId) {
    let filter = TaskFilter { run: Some(run.clone()), limit: 10, ..TaskFilter::default() };
    for task in fixture.store.tasks(filter).await.unwrap() {
        fixture.damage.as_ref().unwrap().lose_task(&task.id).await;
    }
}

/// Counts the events of this name in the log.
pub(crate) async fn count(client: &Client, run: &RunId, name: &str) -> usize {
    let history = client.history(run).await.unwrap();
    history.iter().filter(|recorded| recorded.event.name() == name).count()
}

/// The future of a workflow.
pub(crate) type Running = std::pin::Pin<Box<dyn Future<Output = goldseam::Result<u32>> + Send>>;
