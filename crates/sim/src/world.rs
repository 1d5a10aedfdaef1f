//! Nodes that start, crash, freeze and come back, on one store.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{Limits, NodeId};
use goldseam_engine::config::Recovery;
use goldseam_engine::{Client, Config, Engine, Seeded};
use goldseam_store::faulty::{Plan, Rates};
use goldseam_store::{FaultyStore, MemoryStore, Store};

use crate::book::{Book, Trace};
use crate::clock::{SimClock, TrueTime};
use crate::dice::Dice;
use crate::flows::{Hands, register};
use crate::tap::Tap;

/// How long a silent node is waited for in the simulation.
pub const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A node of the simulation: one incarnation after another.
#[derive(Debug)]
pub struct Seat {
    /// Its number, also of its connection.
    pub index: usize,
    /// Which incarnation this is, counted over all seats; 0 before the first.
    pub life: usize,
    /// The engine, while it lives.
    pub engine: Option<Engine>,
    /// Its connection.
    pub link: Arc<FaultyStore>,
    /// Its clock.
    pub clock: Arc<SimClock>,
}

/// Everything there is.
#[derive(Debug)]
pub struct World {
    /// The store beneath everything.
    pub memory: Arc<MemoryStore>,
    /// What was really done.
    pub book: Arc<Book>,
    /// The nodes.
    pub seats: Vec<Seat>,
    /// The client's connection.
    pub client_link: Arc<FaultyStore>,
    /// The client.
    pub client: Client,
    /// Connections of incarnations that are over, for the counts.
    pub old_links: Vec<Arc<FaultyStore>>,
    /// How wrong clocks may go, in millionths.
    pub drift_max_ppm: u64,
    /// Recoveries without progress before a run is stopped.
    pub attempts_max: u32,
    /// Draws which versions the next incarnation has; none: all nodes have version 1 and no other.
    pub versions: Option<Dice>,
    rates: Rates,
    calm: bool,
    lives: usize,
    dice: Dice,
}

/// Short limits, so that little virtual time shows much.
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
        // Crashes are drawn at random here: no run is to blame for them. Seeds of crash loops have a limit.
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

/// Bounds of the simulation.
pub fn limits() -> Limits {
    Limits { store_patience: Duration::from_secs(3), ..Limits::default() }
}

impl World {
    /// A world with `seats` empty seats and faults at `rates`.
    pub fn new(seats: usize, rates: Rates, trace: Trace, mut dice: Dice) -> Self {
        let time = TrueTime::begin();
        let book = Arc::new(Book::new(time, trace));
        let memory = Arc::new(MemoryStore::new(time.store_clock()));
        let link = |index: usize, dice: &mut Dice| {
            let tap = Tap::new(memory.clone(), book.clone(), index);
            Arc::new(FaultyStore::new(Arc::new(tap), Plan::seeded(dice.draw(), rates)))
        };
        let client_link = {
            // Whoever is outside may be cut off, but has nothing to lose by dying.
            let rates = Rates { crash_before: 0, crash_after: 0, ..rates };
            let tap = Tap::new(memory.clone(), book.clone(), 99);
            Arc::new(FaultyStore::new(Arc::new(tap), Plan::seeded(dice.draw(), rates)))
        };
        // Whoever is outside has a clock as wrong as any other.
        let clock = Arc::new(SimClock::new(time, dice.below(7_200_000).cast_signed() - 3_600_000, 0));
        let entropy = Arc::new(Seeded::new(dice.draw()));
        let client = Client::with(client_link.clone(), clock, entropy, limits());
        let seat = |index| {
            let (link, clock) = (link(index, &mut dice), Arc::new(SimClock::new(time, 0, 0)));
            Seat { index, life: 0, engine: None, link, clock }
        };
        let seats = (0..seats).map(seat).collect();
        Self {
            memory,
            book,
            seats,
            client_link,
            client,
            old_links: Vec::new(),
            rates,
            calm: false,
            lives: 0,
            drift_max_ppm: 10_000,
            attempts_max: u32::MAX,
            versions: None,
            dice,
        }
    }

    /// The store beneath everything, as a store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.memory.clone()
    }

    /// Starts a new incarnation in this seat, if its store lets it.
    pub async fn start(&mut self, index: usize) {
        let plan = self.plan();
        let tap = Tap::new(self.memory.clone(), self.book.clone(), index);
        let link = Arc::new(FaultyStore::new(Arc::new(tap), plan));
        // Hosts disagree by up to half a minute and drift by up to a hundredth, in some seeds by up to a tenth; some go
        // exactly right, until somebody sets their clock.
        let exact = self.dice.percent(40);
        let mut wrong =
            |by: u64| if exact { 0 } else { self.dice.below(2 * by).cast_signed() - by.cast_signed() };
        let (offset, drift) = (wrong(30_000), wrong(self.drift_max_ppm));
        let clock = Arc::new(SimClock::new(self.book.time(), offset, drift));
        let entropy = Arc::new(Seeded::new(self.dice.draw()));
        // Not the process's own name, or a trace would be another one in another process.
        let mut config = Config { name: Some(format!("seat {index}")), ..config() };
        config.recovery.attempts_max = self.attempts_max;
        let builder = Engine::builder(link.clone()).config(config).clock(clock.clone()).entropy(entropy);
        self.lives += 1;
        let hands = Hands::new(self.book.clone(), index).with(self.lives, link.clone());
        let versions = self.draw_versions();
        let started = register(builder, &hands, versions).start().await;
        let Some(seat) = self.seats.get_mut(index) else { return };
        self.old_links.push(std::mem::replace(&mut seat.link, link));
        seat.clock = clock;
        seat.life = self.lives;
        self.book.line(&format!("start n{index} {}", started.is_ok()));
        seat.engine = started.ok();
        if let Some(engine) = &seat.engine {
            self.book.lives(engine.node_id(), seat.life);
            self.book.has(engine.node_id(), versions);
        }
    }

    /// The versions of the next incarnation: where fleets are mixed, an old, a new or a newest build; once the faults
    /// have stopped, the deploy is complete.
    fn draw_versions(&mut self) -> &'static [u32] {
        let calm = self.calm;
        match &mut self.versions {
            None => &[1],
            Some(_) if calm => &[1, 2],
            Some(dice) => dice.pick(&[&[1][..], &[1, 2], &[2]]).copied().unwrap_or(&[1]),
        }
    }

    fn plan(&mut self) -> Plan {
        let seed = self.dice.draw();
        if self.calm { Plan::pass() } else { Plan::seeded(seed, self.rates) }
    }

    /// Kills a node: nothing of it reaches the store any more, except writes on their way already.
    ///
    /// Says whether there was one.
    pub fn crash(&mut self, index: usize) -> bool {
        let Some(seat) = self.seats.get_mut(index) else { return false };
        let Some(engine) = seat.engine.take() else { return false };
        self.book.line(&format!("crash n{index}"));
        let id: NodeId = engine.node_id().clone();
        self.book.died(&id);
        seat.link.crash();
        engine.crash();
        self.memory.kill(&id);
        true
    }

    /// Buries the nodes that died in the middle of a call.
    pub fn bury(&mut self) -> u64 {
        let dead = |seat: &&Seat| seat.engine.is_some() && seat.link.is_crashed();
        let dead: Vec<usize> = self.seats.iter().filter(dead).map(|seat| seat.index).collect();
        for index in &dead {
            self.crash(*index);
        }
        dead.len() as u64
    }

    /// A node stands still until it is relieved: nothing of it happens in between, not even its heartbeat.
    pub fn freeze(&mut self, index: usize) {
        if let Some(seat) = self.seats.get(index) {
            self.book.line(&format!("freeze n{index}"));
            self.held_up(index);
            seat.link.freeze();
        }
    }

    /// Writes down that the node in this seat, if there is one, is held up between any two things that it does.
    fn held_up(&self, index: usize) {
        if let Some(seat) = self.seats.get(index).filter(|seat| seat.engine.is_some()) {
            self.book.froze(seat.life);
        }
    }

    /// Somebody sets a node's clock.
    pub fn set_clock(&mut self, index: usize, by_ms: i64) {
        if let Some(seat) = self.seats.get(index) {
            self.book.line(&format!("clock n{index} {by_ms}"));
            seat.clock.jump(by_ms);
        }
    }

    /// A living node loses its liveness lock, as with a lost connection: others may take over from it.
    pub fn suspect(&mut self, index: usize) {
        if let Some(engine) = self.seats.get(index).and_then(|seat| seat.engine.as_ref()) {
            self.book.line(&format!("suspect n{index}"));
            // Whoever takes over believes it dead, and counts it.
            self.book.died(engine.node_id());
            self.memory.suspect(engine.node_id());
        }
    }

    /// Whether a node lives in this seat.
    pub fn has_node(&self, index: usize) -> bool {
        self.seats.get(index).is_some_and(|seat| seat.engine.is_some())
    }

    /// Lets a node leave by itself.
    pub fn leave(&mut self, index: usize) -> Option<tokio::task::JoinHandle<()>> {
        let engine = self.seats.get_mut(index)?.engine.take()?;
        self.book.line(&format!("leave n{index}"));
        // Its process is gone afterwards, whatever became of its hand-over.
        self.book.died(engine.node_id());
        Some(tokio::spawn(engine.shutdown()))
    }

    /// From now on everything of this node goes wrong by these rates.
    pub fn trouble(&mut self, index: usize, rates: Rates) {
        let seed = self.dice.draw();
        if rates.delay > 0 {
            self.held_up(index);
        }
        if let Some(seat) = self.seats.get(index) {
            self.book.line(&format!("trouble n{index}"));
            seat.link.follow(Plan::seeded(seed, rates));
        }
    }

    /// The same for the client.
    pub fn trouble_client(&mut self, rates: Rates) {
        self.client_link.follow(Plan::seeded(self.dice.draw(), rates));
    }

    /// This node is as faulty as everybody again.
    pub fn relieve(&mut self, index: usize) {
        let plan = self.plan();
        if let Some(seat) = self.seats.get(index) {
            self.book.line(&format!("relief n{index}"));
            self.book.thawed(seat.life);
            seat.link.follow(plan);
            seat.link.thaw();
        }
    }

    /// No more faults, for anybody.
    pub fn calm(&mut self) {
        self.calm = true;
        self.book.calm();
        self.client_link.follow(Plan::pass());
        for seat in &self.seats {
            self.book.thawed(seat.life);
            seat.link.follow(Plan::pass());
            seat.link.thaw();
        }
    }

    /// The seats whose node lives.
    pub fn alive(&self) -> Vec<usize> {
        self.seats.iter().filter(|seat| seat.engine.is_some()).map(|seat| seat.index).collect()
    }
}
