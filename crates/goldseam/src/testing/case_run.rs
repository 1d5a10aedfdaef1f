//! Runs one case: nodes that crash and are replaced, on one store in memory, in virtual time.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_all;
use goldseam_core::{Event, Millis, RunId, Seq, Summary};
use goldseam_engine::config::Recovery;
use goldseam_engine::testing::{Beginning, Log, SimClock, TrueTime, Witness, Work};
use goldseam_engine::{Client, Clock, Config, EngineError, Outcome, Seeded};
use goldseam_store::faulty::FaultPlan;
use goldseam_store::{FaultyStore, MemoryStore, RunFilter, RunOrder, Store};

use super::actors::{Actors, Need, needs};
use super::case::{Case, Random, SeededFaults};
use super::failed::{Failed, Flaw, Incident, timeline};
use super::report::CaseResult;
use super::tester::Tester;
use super::world::World;
use crate::{Engine, OpenEngine as _};

/// Runs `work` on a thread without a runtime, because the caller may have one.
pub(super) fn on_new_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Runs one case on its own runtime, whose clock advances only when all tasks wait.
pub(super) fn run_case(tester: &Tester, case: Case, calm: Option<&CaseResult>) -> Result<CaseResult, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.map_err(|error| {
        Failed::new(&tester.workflow, case, Flaw::Setup(error.to_string()), String::new())
    })?;
    runtime.block_on(async {
        let mut case_run = CaseRun::new(tester, case);
        let result = case_run.run(calm).await;
        let logs = case_run.logs().await;
        let checked = result.and_then(|result| {
            if let Some(flaw) = find_repeated_start(&case_run.recorder, &logs) {
                return Err(flaw);
            }
            tester.judge(&case_run.world, &result, calm)?;
            Ok(result)
        });
        checked.map_err(|flaw| Failed::new(&tester.workflow, case, flaw, case_run.timeline(&logs)))
    })
}

/// The wall clock of a node: its offset and drift, plus the skipped time.
#[derive(Debug)]
struct NodeClock {
    own: SimClock,
    skipped: Arc<AtomicU64>,
}

impl Clock for NodeClock {
    fn now(&self) -> Millis {
        self.own.now() + Duration::from_millis(self.skipped.load(Ordering::Relaxed))
    }

    /// Includes skipped time, as a real clock includes time in suspend, so the node stays in step with the store's
    /// clock.
    fn elapsed(&self) -> Duration {
        self.own.elapsed() + Duration::from_millis(self.skipped.load(Ordering::Relaxed))
    }
}

/// Records each start of user code, and where the log ended at that time.
#[derive(Debug)]
struct StartRecorder {
    memory: Arc<MemoryStore>,
    seen: Mutex<Vec<ObservedStart>>,
}

#[derive(Debug, Clone)]
struct ObservedStart {
    run: RunId,
    path: String,
    key: String,
    work: Work,
    end: Seq,
}

impl Witness for StartRecorder {
    fn begins(&self, beginning: Beginning<'_>) {
        let Beginning { run, path, key, work } = beginning;
        // The memory store returns without waiting.
        let head = self.memory.head(run).now_or_never().and_then(Result::ok).flatten();
        let end = head.map_or(Seq::ZERO, |head| head.end);
        let begun =
            ObservedStart { run: run.clone(), path: path.to_string(), key: key.to_owned(), work, end };
        self.seen().push(begun);
    }
}

impl StartRecorder {
    fn seen(&self) -> MutexGuard<'_, Vec<ObservedStart>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A slot for one node at a time: a crashed node is replaced by a new one.
struct NodeSlot {
    engine: Option<Engine>,
    link: Arc<FaultyStore>,
    number: u64,
}

/// The nodes, the store and the actors of one case.
struct CaseRun<'a> {
    tester: &'a Tester,
    case: Case,
    time: TrueTime,
    skipped: Arc<AtomicU64>,
    memory: Arc<MemoryStore>,
    recorder: Arc<StartRecorder>,
    world: World,
    client: Client,
    slots: Vec<NodeSlot>,
    faults: Option<SeededFaults>,
    /// Numbers of all nodes that ever started, by id.
    names: BTreeMap<String, u64>,
    crashes: u64,
    /// The store connection of the first node that started.
    first: Option<Arc<FaultyStore>>,
    incidents: Vec<Incident>,
}

/// After this time without an event, runs wait for time only. Longer than a sweep needs to find a lost wake-up.
const QUIET: Duration = Duration::from_secs(6);
/// Shortest pause between two polls.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two polls.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Adapts the user's configuration to virtual time, and never blames a run for the injected crashes.
fn test_config(config: Config) -> Config {
    let recovery =
        Recovery { attempts_max: u32::MAX, stale_after: Duration::from_secs(2), ..config.recovery };
    Config {
        beat: Duration::from_secs(1),
        silence_max: Duration::from_secs(10),
        watch: Duration::from_millis(500),
        grace: Duration::from_millis(300),
        linger: Duration::from_millis(100),
        poll: Duration::from_millis(500),
        sweep: Some(Duration::from_secs(3)),
        beat_on_thread: false,
        recovery,
        recovery_of: BTreeMap::new(),
        ..config
    }
}

/// Returns whether the same call may succeed later.
fn is_transient(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(_) | EngineError::TimedOut { .. } | EngineError::Contended { .. })
}

impl<'a> CaseRun<'a> {
    fn new(tester: &'a Tester, case: Case) -> Self {
        let time = TrueTime::begin();
        let skipped = Arc::new(AtomicU64::new(0));
        let store_skipped = Arc::clone(&skipped);
        let memory = Arc::new(MemoryStore::new(Arc::new(move || {
            time.now() + Duration::from_millis(store_skipped.load(Ordering::Relaxed))
        })));
        let clock = NodeClock { own: SimClock::new(time, 0, 0), skipped: Arc::clone(&skipped) };
        let limits = goldseam_core::Limits::default();
        let client = Client::with(memory.clone(), Arc::new(clock), Arc::new(Seeded::new(7)), limits);
        let faults = match case {
            Case::Seed(seed) => Some(SeededFaults::new(seed)),
            Case::Calm | Case::CrashBefore(_) | Case::CrashAfter(_) => None,
        };
        let slots = faults.as_ref().map_or(1, |faults| faults.nodes);
        let slot = |_| NodeSlot { engine: None, link: connect(&memory, FaultPlan::pass()), number: 0 };
        Self {
            tester,
            case,
            time,
            skipped,
            recorder: Arc::new(StartRecorder { memory: memory.clone(), seen: Mutex::default() }),
            world: World::default(),
            client,
            slots: (0..slots).map(slot).collect(),
            memory,
            faults,
            names: BTreeMap::new(),
            crashes: 0,
            first: None,
            incidents: Vec::new(),
        }
    }

    /// Returns the virtual time since the start, without skipped time.
    fn elapsed(&self) -> Duration {
        self.time.elapsed()
    }

    fn skipped(&self) -> Duration {
        Duration::from_millis(self.skipped.load(Ordering::Relaxed))
    }

    /// Polls the nodes and actors until the run ends.
    async fn run(&mut self, calm: Option<&CaseResult>) -> Result<CaseResult, Flaw> {
        let tester = self.tester;
        let random = self.faults.as_ref().map(|faults| Random::new(faults.random.draw()));
        let mut actors = Actors::new(&tester.script, &tester.workers, random);
        if let Some(calm) = calm {
            actors = actors.with_recipients(&calm.recipients);
        }
        let mut seen = Vec::new();
        let mut changed = self.elapsed();
        let mut pause = PAUSE_MIN;
        let mut started = false;
        loop {
            self.replace_dead_nodes().await?;
            started = started || self.start_run().await?;
            let runs = self.runs().await;
            if let Some(outcome) = self.outcome(&runs).await? {
                return Ok(self.result(outcome, &actors));
            }
            let now: Vec<(RunId, Seq)> = runs.iter().map(|run| (run.run.clone(), run.as_of)).collect();
            if now != seen {
                seen = now;
                changed = self.elapsed();
                pause = PAUSE_MIN;
            }
            let busy = actors.act(&self.client, &runs).await?;
            actors
                .run_workers(&self.client, &self.world)
                .await
                .map_err(|error| Flaw::Refused(error.to_string()))?;
            let quiet = self.elapsed().saturating_sub(changed);
            if quiet >= tester.patience {
                return Err(Flaw::NoEnd(describe_stall(&runs)));
            }
            if !busy && quiet >= QUIET && self.skip_to_next_due(&runs) {
                changed = self.elapsed();
            }
            self.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Removes crashed nodes, starts new ones, and stops the injected faults when their time is over.
    async fn replace_dead_nodes(&mut self) -> Result<(), Flaw> {
        let now = self.elapsed();
        if self.faults.as_ref().is_some_and(|faults| now >= faults.until) {
            self.slots.iter().for_each(|slot| slot.link.follow(FaultPlan::pass()));
        }
        for index in 0..self.slots.len() {
            if self.slots[index].link.is_crashed() {
                self.remove_dead(index).await;
            }
            if self.slots[index].engine.is_none() {
                self.start_node(index).await?;
            }
        }
        Ok(())
    }

    async fn remove_dead(&mut self, index: usize) {
        let Some(engine) = self.slots[index].engine.take() else { return };
        self.crashes += 1;
        self.memory.kill(engine.node_id());
        engine.crash();
        self.record_incident(format!("node {} dies", self.slots[index].number)).await;
    }

    async fn start_node(&mut self, index: usize) -> Result<(), Flaw> {
        let number = self.names.len() as u64 + 1;
        let plan = match &self.faults {
            Some(faults) => faults.plan(self.elapsed(), self.crashes),
            None if self.first.is_none() => self.case.plan(),
            None => FaultPlan::pass(),
        };
        // Clocks differ by up to 30 s and drift by up to 1 %.
        let skew = |bound: u64| match &self.faults {
            Some(faults) => i64::try_from(faults.random.below(2 * bound)).unwrap_or(0) - bound.cast_signed(),
            None => 0,
        };
        let own = SimClock::new(self.time, skew(30_000), skew(10_000));
        let clock = NodeClock { own, skipped: Arc::clone(&self.skipped) };
        let seed = match self.case {
            Case::Seed(seed) => seed.wrapping_mul(1_000).wrapping_add(number),
            Case::Calm | Case::CrashBefore(_) | Case::CrashAfter(_) => number,
        };
        let link = connect(&self.memory, plan);
        let builder = (self.tester.setup)(Engine::on(link.clone()), self.world.clone())
            .configure(test_config)
            .clock(Arc::new(clock))
            .entropy(Arc::new(Seeded::new(seed)))
            .witness(self.recorder.clone());
        match builder.start().await {
            Ok(engine) => {
                self.names.insert(engine.node_id().as_str().to_owned(), number);
                self.first.get_or_insert_with(|| link.clone());
                self.slots[index] = NodeSlot { engine: Some(engine), link, number };
                self.record_incident(format!("node {number} starts")).await;
                Ok(())
            }
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => Err(Flaw::Setup(error.to_string())),
        }
    }

    /// Starts the run; returns false if the call must be repeated.
    async fn start_run(&self) -> Result<bool, Flaw> {
        let Tester { workflow, run, input, .. } = self.tester;
        for engine in self.slots.iter().filter_map(|slot| slot.engine.as_ref()) {
            match engine.start(workflow, run, input).await {
                Ok(_) => return Ok(true),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(Flaw::Setup(error.to_string())),
            }
        }
        Ok(false)
    }

    /// Returns all runs with their children, in the state of their logs.
    async fn runs(&self) -> Vec<Summary> {
        let filter = RunFilter { order: RunOrder::Oldest, limit: u32::MAX, ..RunFilter::default() };
        let mut runs = Vec::new();
        for row in self.memory.runs(filter).await.unwrap_or_default().items {
            // The cached row may be late.
            runs.push(self.client.get(&row.summary.run).await.unwrap_or(row.summary));
        }
        runs
    }

    /// Returns the outcome of the run, if it has ended. Fails if a run is parked.
    async fn outcome(&self, runs: &[Summary]) -> Result<Option<Outcome>, Flaw> {
        let unreadable = |error: EngineError| Flaw::Setup(error.to_string());
        if let Some(parked) = runs.iter().find(|run| run.parked) {
            let history = self.client.history(&parked.run).await.map_err(unreadable)?;
            let cause = history.iter().rev().find_map(|recorded| match &recorded.event {
                Event::RunParked { code, reason } => Some((code.clone(), reason.clone())),
                _ => None,
            });
            let (code, reason) = cause.unwrap_or_default();
            return Err(match code.as_str() {
                "V1" => Flaw::NotDeterministic(reason),
                _ => Flaw::Parked { code, reason },
            });
        }
        match runs.iter().find(|run| run.run.as_str() == self.tester.run) {
            Some(root) if root.status.is_terminal() => {
                Ok(self.client.state(&root.run).await.map_err(unreadable)?.outcome)
            }
            _ => Ok(None),
        }
    }

    /// Skips to the next due time if all open runs wait and no node owns one; returns whether it skipped.
    fn skip_to_next_due(&self, runs: &[Summary]) -> bool {
        let mut open = runs.iter().filter(|run| !run.status.is_terminal()).peekable();
        if open.peek().is_none() || open.clone().any(|run| run.owner.is_some()) {
            return false;
        }
        let due = open.flat_map(|run| &run.waits).filter_map(|wait| wait.due).min();
        let left = due.map_or(Duration::ZERO, |due| due.since(self.time.now() + self.skipped()));
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        self.skipped.fetch_add(left, Ordering::Relaxed);
        left > 0
    }

    /// Waits for `span` of virtual time, or until a node crashes.
    async fn pause(&self, span: Duration) {
        let alive = self.slots.iter().filter(|slot| slot.engine.is_some());
        let crashes: Vec<_> = alive.map(|slot| Box::pin(slot.link.crashed())).collect();
        let sleep = tokio::time::sleep(span);
        if crashes.is_empty() {
            return sleep.await;
        }
        tokio::select! {
            biased;
            _ = select_all(crashes) => {}
            () = sleep => {}
        }
    }

    async fn record_incident(&mut self, what: String) {
        let mut ends = BTreeMap::new();
        for run in self.runs().await {
            // Ask the log: the summary may be late.
            let head = self.memory.head(&run.run).await.ok().flatten();
            ends.insert(run.run, head.map_or(Seq::ZERO, |head| head.end));
        }
        let at = self.time.now() + self.skipped();
        self.incidents.push(Incident { at, what, ends });
    }

    fn result(&self, outcome: Outcome, actors: &Actors<'_>) -> CaseResult {
        let mut begun: BTreeMap<String, u64> = BTreeMap::new();
        for seen in self.recorder.seen().iter().filter(|seen| seen.work == Work::Step) {
            *begun.entry(seen.path.clone()).or_default() += 1;
        }
        // A node that crashed at the last event is still in its slot.
        let dying = self.slots.iter().filter(|slot| slot.engine.is_some() && slot.link.is_crashed()).count();
        CaseResult {
            outcome,
            effects: self.world.effects(),
            begun,
            appends: self.first.as_ref().map_or(0, |link| link.appends()),
            crashes: self.crashes + dying as u64,
            mail: actors.mail(),
            recipients: actors.recipients().to_vec(),
            took: self.elapsed() + self.skipped(),
        }
    }

    async fn logs(&self) -> BTreeMap<RunId, Log> {
        let mut logs = BTreeMap::new();
        for run in self.runs().await {
            let records = self.memory.read(&run.run, Seq::ZERO, u32::MAX).await.unwrap_or_default();
            logs.insert(run.run.clone(), Log::of(records, Some(run)));
        }
        logs
    }

    fn timeline(&self, logs: &BTreeMap<RunId, Log>) -> String {
        let name_of = |node: &str| match self.names.get(node) {
            Some(number) => format!("node {number}"),
            None => node.to_owned(),
        };
        let text = |(run, log): (&RunId, &Log)| timeline(run, &log.events, &self.incidents, name_of);
        logs.iter().map(text).collect()
    }
}

fn connect(memory: &Arc<MemoryStore>, plan: FaultPlan) -> Arc<FaultyStore> {
    Arc::new(FaultyStore::new(memory.clone(), plan))
}

/// Finds user code that began after its completion was recorded.
fn find_repeated_start(recorder: &StartRecorder, logs: &BTreeMap<RunId, Log>) -> Option<Flaw> {
    let mut completed: BTreeMap<(String, Work), Seq> = BTreeMap::new();
    for (run, log) in logs {
        for recorded in &log.events {
            let (path, work) = match &recorded.event {
                Event::StepCompleted(step) => (&step.path, Work::Step),
                Event::CompensationCompleted { path } => (path, Work::Undo),
                _ => continue,
            };
            completed.entry((log.key(run, recorded, path), work)).or_insert(recorded.seq);
        }
    }
    let late = |seen: &&ObservedStart| {
        completed.get(&(seen.key.clone(), seen.work)).is_some_and(|done| seen.end >= *done)
    };
    let seen = recorder.seen();
    seen.iter().find(late).map(|seen| {
        let what = if seen.work == Work::Step { "step" } else { "the compensation of" };
        Flaw::Again(format!("{what} {} of run {}", seen.path, seen.run))
    })
}

/// Describes what the open runs wait for.
fn describe_stall(runs: &[Summary]) -> String {
    let mut reasons = Vec::new();
    for run in runs.iter().filter(|run| !run.status.is_terminal()) {
        for (need, ..) in needs(run) {
            reasons.push(match need {
                Need::Signals(names) => {
                    let first = names.first().map_or("", String::as_str);
                    let (word, first) = match first.strip_prefix("request.") {
                        Some(request) => ("request", request),
                        None => ("signal", first),
                    };
                    let names = names.join(" or ");
                    format!(
                        "run {} waits for signal {names}, which the test does not send: add .{word}({first:?}, …)",
                        run.run,
                    )
                }
                Need::Answer(path) => format!(
                    "run {} asks question {path}, which the test does not answer: add .answer({:?}, …)",
                    run.run,
                    path.name()
                ),
            });
        }
        if run.waits.iter().any(|wait| !wait.tasks.is_empty()) {
            let step = run.step.as_ref().map_or("", goldseam_core::Path::as_str);
            reasons.push(format!(
                "run {} waits for remote step {step}, which has no worker: add .worker(queue, …)",
                run.run
            ));
        }
    }
    if reasons.is_empty() {
        "no event for too long; raise the limit with .patience(…) if a step takes longer".to_owned()
    } else {
        reasons.join("; ")
    }
}
