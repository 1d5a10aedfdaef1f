//! The Nth call fails: before it, with its reply lost, or by taking the node down, before or after.
//!
//! Every call of a story is made to fail once, in every way; then a healthy node must bring the run to
//! the end it would have had, with every invariant intact.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{Limits, RunId, Status};
use goldseam_engine::{Client, Clock, Config, Engine, EngineError, Seeded, StartOptions, SystemClock};
use goldseam_store::faulty::{Fault, Plan};
use goldseam_store::{FaultyStore, MemoryStore, Store};

use crate::book::{Ack, Book, Trace};
use crate::check::{Evidence, Violation, check_all};
use crate::clock::{SimClock, TrueTime};
use crate::crowd::payload;
use crate::flows::{Hands, register};
use crate::scenario::{LONGEST, Scenario};
use crate::tap::Tap;
use crate::worker::{Care, Worker};
use crate::world;

/// The ways in which a call fails.
pub const FAULTS: [Fault; 4] = [Fault::FailBefore, Fault::LoseReply, Fault::CrashBefore, Fault::CrashAfter];

/// A store that is being opened.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, EngineError>> + Send + 'a>>;

/// What a story is told on.
#[derive(Debug, Clone, Copy)]
pub enum Backend<'a> {
    /// The memory store, in virtual time.
    Memory,
    /// The store that this URL names, in real time: every node opens it by itself, like this.
    Real(&'a str, fn(&str) -> Opening<'_>),
}

/// One story with one fault.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The story.
    pub scenario: &'a Scenario,
    /// The call that fails, counted from 1 over everything that the first node and its client do.
    pub number: u64,
    /// How.
    pub fault: Fault,
    /// Steps that an owner may begin again because what goes wrong cuts it off for longer than it may be silent.
    pub late_max: u32,
}

/// What came of it.
#[derive(Debug)]
pub struct Verdict {
    /// Calls that the first node made in all.
    pub calls: u64,
    /// Invariants that do not hold, and ends that are wrong.
    pub violations: Vec<Violation>,
}

struct Stage<'a> {
    backend: Backend<'a>,
    memory: Option<Arc<MemoryStore>>,
    book: Arc<Book>,
    clock: Arc<dyn Clock>,
    config: Config,
}

impl<'a> Stage<'a> {
    fn set(backend: Backend<'a>) -> Self {
        match backend {
            Backend::Memory => {
                let time = TrueTime::begin();
                let clock = Arc::new(SimClock::new(time, 0, 0));
                let memory = Some(Arc::new(MemoryStore::new(time.store_clock())));
                let book = Arc::new(Book::new(time, Trace::Hash));
                Self { backend, memory, book, clock, config: world::config() }
            }
            Backend::Real(..) => {
                let time = TrueTime::begin_at(SystemClock.now());
                let book = Arc::new(Book::new(time, Trace::Hash));
                Self { backend, memory: None, book, clock: Arc::new(SystemClock), config: quick() }
            }
        }
    }

    /// A connection of its own.
    async fn open(&self, by: usize) -> Result<Arc<dyn Store>, EngineError> {
        let store: Arc<dyn Store> = match (&self.memory, self.backend) {
            (Some(memory), _) => memory.clone(),
            (None, Backend::Real(url, open)) => open(url).await?,
            (None, Backend::Memory) => unreachable!("a stage in memory has a memory"),
        };
        Ok(Arc::new(Tap::new(store, self.book.clone(), by)))
    }

    /// Whether real time passes.
    fn is_real(&self) -> bool {
        matches!(self.backend, Backend::Real(..))
    }

    fn client(&self, store: Arc<dyn Store>, seed: u64) -> Client {
        Client::with(store, self.clock.clone(), Arc::new(Seeded::new(seed)), self.config.limits.clone())
    }

    async fn node(&self, store: Arc<dyn Store>, index: usize) -> Option<Engine> {
        let builder = Engine::builder(store)
            .config(self.config.clone())
            .clock(self.clock.clone())
            .entropy(Arc::new(Seeded::new(1_000 + index as u64)));
        let pace = if self.is_real() { 100 } else { 1 };
        register(builder, &Hands::new(self.book.clone(), index).faster(pace), &[1]).start().await.ok()
    }
}

impl Stage<'_> {
    /// The first node dies, if it lives; the second one starts.
    async fn next(&self, first: Option<Engine>) -> Option<Engine> {
        if let Some(engine) = first {
            self.book.killed();
            self.memory.iter().for_each(|memory| memory.kill(engine.node_id()));
            engine.crash();
        }
        let store = self.open(1).await.ok()?;
        self.node(store, 1).await
    }
}

/// Limits for real time.
fn quick() -> Config {
    Config {
        beat: Duration::from_millis(60),
        silence_max: Duration::from_millis(600),
        watch: Duration::from_millis(30),
        grace: Duration::from_millis(60),
        linger: Duration::from_millis(40),
        long_step: Duration::from_millis(500),
        poll: Duration::from_millis(60),
        limits: Limits { store_patience: Duration::from_millis(300), ..Limits::default() },
        ..world::config()
    }
}

/// Tells one story with one fault, and checks everything.
pub async fn tell(backend: Backend<'_>, case: Case<'_>) -> Result<Verdict, EngineError> {
    let stage = Stage::set(backend);
    stage.book.forgive(case.late_max);
    let link = Arc::new(FaultyStore::new(stage.open(0).await?, Plan::pass().at(case.number, case.fault)));
    let truth = stage.open(9).await?;
    let healthy = stage.client(truth.clone(), 7);
    let run = RunId::new("story").unwrap_or_else(|_| unreachable!("a literal that is an id"));
    let mut first = stage.node(link.clone(), 0).await;
    begin(&stage, &case, first.as_ref(), (&healthy, &run)).await;
    let until = stage.book.time().elapsed() + LONGEST;
    let shaky = stage.client(link.clone(), 8);
    let worker = Worker { book: stage.book.clone(), care: Care::Careful };
    let mut second = None;
    let ended = loop {
        if second.is_none() && (link.is_crashed() || first.is_none()) {
            second = stage.next(first.take()).await;
        }
        let summary = healthy.get(&run).await.ok();
        if let Some(summary) = &summary {
            if summary.status.is_terminal() || stage.book.time().elapsed() >= until {
                break Some(summary.status);
            }
            let client = if link.is_crashed() { &healthy } else { &shaky };
            case.scenario.act(client, &worker, summary).await;
        } else if stage.book.time().elapsed() >= until {
            break None;
        }
        tokio::time::sleep(Duration::from_millis(if stage.is_real() { 5 } else { 20 })).await;
    };
    let calls = link.count();
    // A crash right after the end may leave the row to whoever comes next.
    if second.is_none() && link.is_crashed() {
        second = stage.next(first.take()).await;
    }
    let violations = judge(&stage, &case, ended, &*truth).await;
    drop((first, second));
    Ok(Verdict { calls, violations })
}

/// Pause between two tries of somebody who has to get through.
const AGAIN: Duration = Duration::from_millis(50);

/// Starts the run by the first node, and by a healthy client, as often as it takes, if that failed.
async fn begin(
    stage: &Stage<'_>,
    case: &Case<'_>,
    first: Option<&Engine>,
    (healthy, run): (&Client, &RunId),
) {
    let Scenario { flow, input, .. } = *case.scenario;
    let by_node = match first {
        Some(engine) => engine.run(flow, run.as_str(), &input).await.is_ok(),
        None => false,
    };
    let value = payload(&serde_json::json!(input));
    let until = stage.book.time().elapsed() + LONGEST;
    let mut begun = by_node;
    while !begun && stage.book.time().elapsed() < until {
        begun = healthy.start(flow, run, value.clone(), StartOptions::default()).await.is_ok();
        if !begun {
            tokio::time::sleep(AGAIN).await;
        }
    }
    if begun {
        stage.book.told(Ack::Started(run.clone(), input.to_string()));
    }
}

/// How long a row may be behind its log, where it is written after it; longer than a sweep takes to come round.
const BEHIND_MAX: Duration = Duration::from_secs(15);

async fn judge(
    stage: &Stage<'_>,
    case: &Case<'_>,
    ended: Option<Status>,
    truth: &dyn Store,
) -> Vec<Violation> {
    let until = stage.book.time().elapsed() + BEHIND_MAX;
    let mut violations = loop {
        let mut evidence = Evidence { facts: stage.book.read(), ..Evidence::default() };
        let found = match evidence.read_logs(truth).await {
            Ok(()) => check_all(&evidence),
            Err(error) => vec![Violation::new("I15", format!("nothing can be read: {error}"))],
        };
        // What was done wrong stays wrong; what was only late comes right.
        if found.is_empty() || !stage.is_real() || stage.book.time().elapsed() >= until {
            break found;
        }
        tokio::time::sleep(AGAIN).await;
    };
    if ended != Some(case.scenario.ends) {
        let Scenario { name, ends, .. } = case.scenario;
        violations.push(Violation::new("I15", format!("{name} is {ended:?}, must be {ends}")));
    }
    violations
}

/// Tells a story with every call failing in this way, until it makes no more calls. Returns how many cases there were.
pub async fn every_call(backend: Backend<'_>, scenario: &Scenario, fault: Fault) -> Result<u64, String> {
    for number in 1.. {
        let verdict = tell(backend, Case { scenario, number, fault, late_max: 0 })
            .await
            .map_err(|error| error.to_string())?;
        if !verdict.violations.is_empty() {
            let name = scenario.name;
            return Err(format!("{name}, call {number}, {fault:?}: {:#?}", verdict.violations));
        }
        if verdict.calls < number {
            return Ok(number - 1);
        }
    }
    Ok(0)
}
