//! The Nth call fails: before it is made, with its reply lost, or by a crash of the node before or after it.
//!
//! Each call of a scenario fails once, in each of these ways. Then a healthy node must bring the run to its expected
//! end, and every invariant must hold.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::{Limits, RunId, Status};
use goldseam_engine::{Client, Clock, Config, Engine, EngineError, Seeded, SystemClock};
use goldseam_store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam_store::{FaultyStore, MemoryStore, Store};

use crate::check::{SimEvidence, Violation, check_all};
use crate::clients::payload;
use crate::clock::{SimClock, TrueTime};
use crate::cluster;
use crate::journal::{Ack, Journal, Trace};
use crate::recording_store::RecordingStore;
use crate::scenario::{LONGEST, Scenario};
use crate::worker::{Care, Worker};
use crate::workflows::{Effects, register};

/// The ways in which a call fails.
pub const FAULTS: [CallFault; 4] =
    [CallFault::FailBefore, CallFault::LoseReply, CallFault::CrashBefore, CallFault::CrashAfter];

/// A store that is being opened.
pub type OpeningStore<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, EngineError>> + Send + 'a>>;

/// The store of a scenario.
#[derive(Debug, Clone, Copy)]
pub enum Backend<'a> {
    /// The memory store, in virtual time.
    Memory,
    /// The store at this URL, in real time; each node opens its own connection with this function.
    Real(&'a str, fn(&str) -> OpeningStore<'_>),
}

/// One scenario with one fault.
#[derive(Debug, Clone, Copy)]
pub struct FaultCase<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The call that fails, counted from 1 over all calls of the first node and its client.
    pub number: u64,
    /// How it fails.
    pub fault: CallFault,
    /// Number of steps that an owner may repeat, because the fault silences it for longer than `silence_max`.
    pub late_max: u32,
}

/// The result of a case.
#[derive(Debug)]
pub struct CaseVerdict {
    /// Total number of calls of the first node.
    pub calls: u64,
    /// Number of its appends before the fault; all of them if the fault did not come. Beats and polls differ between
    /// cases, appends do not.
    pub appends: u64,
    /// Violated invariants and wrong ends.
    pub violations: Vec<Violation>,
}

struct Fixture<'a> {
    backend: Backend<'a>,
    memory: Option<Arc<MemoryStore>>,
    journal: Arc<Journal>,
    clock: Arc<dyn Clock>,
    config: Config,
}

impl<'a> Fixture<'a> {
    fn new(backend: Backend<'a>) -> Self {
        match backend {
            Backend::Memory => {
                let time = TrueTime::begin();
                let clock = Arc::new(SimClock::new(time, 0, 0));
                let memory = Some(Arc::new(MemoryStore::new(time.store_clock())));
                let journal = Arc::new(Journal::new(time, Trace::Hash));
                Self { backend, memory, journal, clock, config: cluster::config() }
            }
            Backend::Real(..) => {
                let time = TrueTime::begin_at(SystemClock.now());
                let journal = Arc::new(Journal::new(time, Trace::Hash));
                Self { backend, memory: None, journal, clock: Arc::new(SystemClock), config: quick() }
            }
        }
    }

    /// Opens a new connection.
    async fn open(&self, by: usize) -> Result<Arc<dyn Store>, EngineError> {
        let store: Arc<dyn Store> = match (&self.memory, self.backend) {
            (Some(memory), _) => memory.clone(),
            (None, Backend::Real(url, open)) => open(url).await?,
            (None, Backend::Memory) => unreachable!("a memory fixture has a memory store"),
        };
        Ok(Arc::new(RecordingStore::new(store, self.journal.clone(), by)))
    }

    /// Returns whether the case runs in real time.
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
        register(builder, &Effects::new(self.journal.clone(), index).faster(pace), &[1]).start().await.ok()
    }
}

impl Fixture<'_> {
    /// Kills the first node if it lives, and starts the second one.
    async fn next(&self, first: Option<Engine>) -> Option<Engine> {
        if let Some(engine) = first {
            self.journal.killed();
            self.memory.iter().for_each(|memory| memory.kill(engine.node_id()));
            engine.crash();
        }
        let store = self.open(1).await.ok()?;
        self.node(store, 1).await
    }
}

/// Short intervals for real time.
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
        ..cluster::config()
    }
}

/// Returns the id of a scenario's run.
fn scenario_run() -> RunId {
    const STORY: IdLiteral<kind::Run> = IdLiteral::new("story");
    STORY.id()
}

/// Runs one case and checks all invariants.
pub async fn run_case(backend: Backend<'_>, case: FaultCase<'_>) -> Result<CaseVerdict, EngineError> {
    let fixture = Fixture::new(backend);
    fixture.journal.forgive(case.late_max);
    let link =
        Arc::new(FaultyStore::new(fixture.open(0).await?, FaultPlan::pass().at(case.number, case.fault)));
    let truth = fixture.open(9).await?;
    let healthy = fixture.client(truth.clone(), 7);
    let run = scenario_run();
    let mut first = fixture.node(link.clone(), 0).await;
    begin(&fixture, case.scenario, first.as_ref(), &healthy).await;
    let until = fixture.journal.time().elapsed() + LONGEST;
    let shaky = fixture.client(link.clone(), 8);
    let worker = Worker { journal: fixture.journal.clone(), care: Care::Careful };
    let mut second = None;
    let ended = loop {
        if second.is_none() && (link.is_crashed() || first.is_none()) {
            second = fixture.next(first.take()).await;
        }
        let summary = healthy.get(&run).await.ok();
        if let Some(summary) = &summary {
            if summary.status.is_terminal() || fixture.journal.time().elapsed() >= until {
                break Some(summary.status);
            }
            let client = if link.is_crashed() { &healthy } else { &shaky };
            case.scenario.act(client, &worker, summary).await;
        } else if fixture.journal.time().elapsed() >= until {
            break None;
        }
        tokio::time::sleep(Duration::from_millis(if fixture.is_real() { 5 } else { 20 })).await;
    };
    let calls = link.count();
    let appends = appends_before(&link, case.number);
    // After a crash right at the end, the next node updates the row.
    if second.is_none() && link.is_crashed() {
        second = fixture.next(first.take()).await;
    }
    let violations = judge(&fixture, &case, ended, &*truth).await;
    drop(first);
    drop(second);
    Ok(CaseVerdict { calls, appends, violations })
}

/// Counts the appends before the call with this number.
fn appends_before(link: &FaultyStore, number: u64) -> u64 {
    let before = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
    link.calls().iter().take(before).filter(|call| call.op == StoreMethod::Append).count() as u64
}

/// Pause between two attempts.
const AGAIN: Duration = Duration::from_millis(50);

/// Starts the run through the first node. If that fails, retries through a healthy client.
async fn begin(fixture: &Fixture<'_>, scenario: &Scenario, first: Option<&Engine>, healthy: &Client) {
    let Scenario { flow, input, .. } = *scenario;
    let run = &scenario_run();
    let by_node = match first {
        Some(engine) => engine.start_with(flow, run.as_str(), &input, scenario.options()).await.is_ok(),
        None => false,
    };
    let value = payload(&serde_json::json!(input));
    let until = fixture.journal.time().elapsed() + LONGEST;
    let mut begun = by_node;
    while !begun && fixture.journal.time().elapsed() < until {
        begun = healthy.start_with(flow, run, &value, scenario.options()).await.is_ok();
        if !begun {
            tokio::time::sleep(AGAIN).await;
        }
    }
    if begun {
        fixture.journal.acknowledged(Ack::Started(run.clone(), input.to_string()));
    }
}

/// Maximum time that a row may lag behind its log, on stores that write it later. Longer than the sweep interval.
const BEHIND_MAX: Duration = Duration::from_secs(15);

async fn judge(
    fixture: &Fixture<'_>,
    case: &FaultCase<'_>,
    ended: Option<Status>,
    truth: &dyn Store,
) -> Vec<Violation> {
    let until = fixture.journal.time().elapsed() + BEHIND_MAX;
    let mut violations = loop {
        let mut evidence = SimEvidence { facts: fixture.journal.read(), ..SimEvidence::default() };
        let found = match evidence.read_logs(truth).await {
            Ok(()) => check_all(&evidence),
            Err(error) => vec![Violation::new("I15", format!("cannot read the logs: {error}"))],
        };
        // A real violation stays; a late row disappears.
        if found.is_empty() || !fixture.is_real() || fixture.journal.time().elapsed() >= until {
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

/// Runs a scenario once per call, with that call failing in this way. Returns the number of cases.
pub async fn every_call(backend: Backend<'_>, scenario: &Scenario, fault: CallFault) -> Result<u64, String> {
    for number in 1.. {
        let verdict = run_case(backend, FaultCase { scenario, number, fault, late_max: 0 })
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
