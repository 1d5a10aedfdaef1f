//! Nodes that start, crash, freeze and restart, on one store.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{Limits, NodeId};
use goldseam_engine::config::Recovery;
use goldseam_engine::{Client, Config, Engine, Seeded};
use goldseam_store::faulty::{FaultPlan, FaultRates};
use goldseam_store::{FaultyStore, MemoryStore, Store};

use crate::clock::{SimClock, TrueTime};
use crate::journal::{Journal, Trace};
use crate::random::Random;
use crate::recording_store::RecordingStore;
use crate::workflows::{Effects, register};

/// `silence_max` of the simulated nodes.
pub const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A slot for one node at a time: a crashed node is replaced by a new incarnation.
#[derive(Debug)]
pub struct NodeSlot {
    /// The number of the slot and of its connection.
    pub index: usize,
    /// The number of the incarnation, counted over all slots; 0 before the first.
    pub life: usize,
    /// The engine, while the node lives.
    pub engine: Option<Engine>,
    /// Its connection.
    pub link: Arc<FaultyStore>,
    /// Its clock.
    pub clock: Arc<SimClock>,
}

/// The store, the nodes and the client of one seed.
#[derive(Debug)]
pub struct SimCluster {
    /// The store without faults.
    pub memory: Arc<MemoryStore>,
    /// The record of everything that happens.
    pub journal: Arc<Journal>,
    /// The nodes.
    pub slots: Vec<NodeSlot>,
    /// The client's connection.
    pub client_link: Arc<FaultyStore>,
    /// The client.
    pub client: Client,
    /// Connections of ended incarnations, for the fault counts.
    pub old_links: Vec<Arc<FaultyStore>>,
    /// Maximum clock drift in parts per million.
    pub drift_max_ppm: u64,
    /// Maximum number of recoveries without progress.
    pub attempts_max: u32,
    /// Chooses the workflow versions of the next incarnation. None: all nodes have version 1 only.
    pub versions: Option<Random>,
    rates: FaultRates,
    calm: bool,
    lives: usize,
    random: Random,
}

/// Returns a configuration with short intervals, so that seeds need little virtual time.
pub fn config() -> Config {
    Config {
        slots: 12,
        beat: Duration::from_millis(300),
        silence_max: SILENCE_MAX,
        watch: Duration::from_millis(200),
        grace: Duration::from_millis(300),
        linger: Duration::from_millis(300),
        long_step: Duration::from_millis(500),
        poll: Duration::from_millis(500),
        drain: Duration::from_secs(2),
        beat_on_thread: false,
        // Crashes are random: no run is to blame for them. Seeds with crash loops set a limit.
        recovery: Recovery {
            attempts_max: u32::MAX,
            stale_after: Duration::from_secs(2),
            delay: Duration::from_millis(10),
            ..Recovery::default()
        },
        sweep: Some(Duration::from_secs(3)),
        limits: limits(),
        ..Config::default()
    }
}

/// Returns the limits of the simulation.
pub fn limits() -> Limits {
    Limits { store_patience: Duration::from_secs(3), ..Limits::default() }
}

impl SimCluster {
    /// Creates a cluster with this many empty slots and faults at `rates`.
    pub fn new(slots: usize, rates: FaultRates, trace: Trace, mut random: Random) -> Self {
        let time = TrueTime::begin();
        let journal = Arc::new(Journal::new(time, trace));
        let memory = Arc::new(MemoryStore::new(time.store_clock()));
        let link = |index: usize, random: &mut Random| {
            let store = RecordingStore::new(memory.clone(), journal.clone(), index);
            Arc::new(FaultyStore::new(Arc::new(store), FaultPlan::seeded(random.draw(), rates)))
        };
        let client_link = {
            // The client may lose its connection, but never crashes.
            let rates = FaultRates { crash_before: 0, crash_after: 0, ..rates };
            let store = RecordingStore::new(memory.clone(), journal.clone(), 99);
            Arc::new(FaultyStore::new(Arc::new(store), FaultPlan::seeded(random.draw(), rates)))
        };
        // The clock of the client is as wrong as those of the nodes.
        let clock = Arc::new(SimClock::new(time, random.below(7_200_000).cast_signed() - 3_600_000, 0));
        let entropy = Arc::new(Seeded::new(random.draw()));
        let client = Client::with(client_link.clone(), clock, entropy, limits());
        let slot = |index| {
            let link = link(index, &mut random);
            let clock = Arc::new(SimClock::new(time, 0, 0));
            NodeSlot { index, life: 0, engine: None, link, clock }
        };
        let slots = (0..slots).map(slot).collect();
        Self {
            memory,
            journal,
            slots,
            client_link,
            client,
            old_links: Vec::new(),
            rates,
            calm: false,
            lives: 0,
            drift_max_ppm: 10_000,
            attempts_max: u32::MAX,
            versions: None,
            random,
        }
    }

    /// Returns the store without faults.
    pub fn store(&self) -> Arc<dyn Store> {
        self.memory.clone()
    }

    /// Starts a new incarnation in this slot. It may fail because of store faults.
    pub async fn start(&mut self, index: usize) {
        let plan = self.plan();
        let store = RecordingStore::new(self.memory.clone(), self.journal.clone(), index);
        let link = Arc::new(FaultyStore::new(Arc::new(store), plan));
        // Clocks differ by up to 30 s and drift by up to 1 %, in some seeds by up to 10 %. Some clocks are exact
        // until a clock jump.
        let exact = self.random.percent(40);
        let mut wrong =
            |by: u64| if exact { 0 } else { self.random.below(2 * by).cast_signed() - by.cast_signed() };
        let offset = wrong(30_000);
        let drift = wrong(self.drift_max_ppm);
        let clock = Arc::new(SimClock::new(self.journal.time(), offset, drift));
        let entropy = Arc::new(Seeded::new(self.random.draw()));
        // The default name contains the process id, which would change the trace.
        let mut config = Config { name: Some(format!("seat {index}")), ..config() };
        config.recovery.attempts_max = self.attempts_max;
        let builder = Engine::builder(link.clone()).config(config).clock(clock.clone()).entropy(entropy);
        self.lives += 1;
        let effects = Effects::new(self.journal.clone(), index).with(self.lives, link.clone());
        let versions = self.draw_versions();
        let started = register(builder, &effects, versions).start().await;
        let Some(slot) = self.slots.get_mut(index) else { return };
        self.old_links.push(std::mem::replace(&mut slot.link, link));
        slot.clock = clock;
        slot.life = self.lives;
        self.journal.line(&format!("start n{index} {}", started.is_ok()));
        slot.engine = started.ok();
        if let Some(engine) = &slot.engine {
            self.journal.lives(engine.node_id(), slot.life);
            self.journal.has(engine.node_id(), versions);
        }
    }

    /// Returns the versions of the next incarnation. In mixed seeds they are random until the faults end, and complete
    /// after that.
    fn draw_versions(&mut self) -> &'static [u32] {
        let calm = self.calm;
        match &mut self.versions {
            None => &[1],
            Some(_) if calm => &[1, 2],
            Some(random) => random.pick(&[&[1][..], &[1, 2], &[2]]).copied().unwrap_or(&[1]),
        }
    }

    fn plan(&mut self) -> FaultPlan {
        let seed = self.random.draw();
        if self.calm { FaultPlan::pass() } else { FaultPlan::seeded(seed, self.rates) }
    }

    /// Kills the node in this slot; returns whether there was one. Only writes already on their way reach the store.
    pub fn crash(&mut self, index: usize) -> bool {
        let Some(slot) = self.slots.get_mut(index) else { return false };
        let Some(engine) = slot.engine.take() else { return false };
        self.journal.line(&format!("crash n{index}"));
        let id: NodeId = engine.node_id().clone();
        self.journal.died(&id);
        slot.link.crash();
        engine.crash();
        self.memory.kill(&id);
        true
    }

    /// Removes the nodes that crashed during a call; returns their number.
    pub fn remove_crashed(&mut self) -> u64 {
        let dead = |slot: &&NodeSlot| slot.engine.is_some() && slot.link.is_crashed();
        let dead: Vec<usize> = self.slots.iter().filter(dead).map(|slot| slot.index).collect();
        for index in &dead {
            self.crash(*index);
        }
        dead.len() as u64
    }

    /// Freezes a node until its faults end: it does nothing, and does not beat.
    pub fn freeze(&mut self, index: usize) {
        if let Some(slot) = self.slots.get(index) {
            self.journal.line(&format!("freeze n{index}"));
            self.held_up(index);
            slot.link.freeze();
        }
    }

    /// Records that the node in this slot, if any, is delayed from now on.
    fn held_up(&self, index: usize) {
        if let Some(slot) = self.slots.get(index).filter(|slot| slot.engine.is_some()) {
            self.journal.froze(slot.life);
        }
    }

    /// Changes the clock of a node.
    pub fn set_clock(&mut self, index: usize, by_ms: i64) {
        if let Some(slot) = self.slots.get(index) {
            self.journal.line(&format!("clock n{index} {by_ms}"));
            slot.clock.jump(by_ms);
        }
    }

    /// Takes the liveness lock from a live node, as after a lost connection: other nodes may take over its runs.
    pub fn suspect(&mut self, index: usize) {
        if let Some(engine) = self.slots.get(index).and_then(|slot| slot.engine.as_ref()) {
            self.journal.line(&format!("suspect n{index}"));
            // The node that takes over counts it as dead.
            self.journal.died(engine.node_id());
            self.memory.suspect(engine.node_id());
        }
    }

    /// Returns whether a node lives in this slot.
    pub fn has_node(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| slot.engine.is_some())
    }

    /// Shuts a node down gracefully.
    pub fn leave(&mut self, index: usize) -> Option<tokio::task::JoinHandle<()>> {
        let engine = self.slots.get_mut(index)?.engine.take()?;
        self.journal.line(&format!("leave n{index}"));
        // Its process ends even if the hand-over fails.
        self.journal.died(engine.node_id());
        Some(tokio::spawn(engine.shutdown()))
    }

    /// Injects faults at these rates into the calls of a node, until `end_faults`.
    pub fn inject_faults(&mut self, index: usize, rates: FaultRates) {
        let seed = self.random.draw();
        if rates.delay > 0 {
            self.held_up(index);
        }
        if let Some(slot) = self.slots.get(index) {
            self.journal.line(&format!("trouble n{index}"));
            slot.link.follow(FaultPlan::seeded(seed, rates));
        }
    }

    /// Injects faults at these rates into the calls of the client.
    pub fn inject_client_faults(&mut self, rates: FaultRates) {
        self.client_link.follow(FaultPlan::seeded(self.random.draw(), rates));
    }

    /// Ends the additional faults of a node: it has the rates of the seed again.
    pub fn end_faults(&mut self, index: usize) {
        let plan = self.plan();
        if let Some(slot) = self.slots.get(index) {
            self.journal.line(&format!("relief n{index}"));
            self.journal.thawed(slot.life);
            slot.link.follow(plan);
            slot.link.thaw();
        }
    }

    /// Ends all faults.
    pub fn calm(&mut self) {
        self.calm = true;
        self.journal.calm();
        self.client_link.follow(FaultPlan::pass());
        for slot in &self.slots {
            self.journal.thawed(slot.life);
            slot.link.follow(FaultPlan::pass());
            slot.link.thaw();
        }
    }

    /// Returns the slots whose node lives.
    pub fn alive(&self) -> Vec<usize> {
        self.slots.iter().filter(|slot| slot.engine.is_some()).map(|slot| slot.index).collect()
    }
}
