//! One case: nodes that die and are followed by others, on one store in memory, in virtual time.

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
use goldseam_store::faulty::Plan;
use goldseam_store::{FaultyStore, MemoryStore, RunFilter, RunOrder, Store};

use super::case::{Case, Dice, Storm};
use super::failed::{Failed, Flaw, Incident, timeline};
use super::people::{Need, People, needs};
use super::report::Shown;
use super::tester::Tester;
use super::world::World;
use crate::{Builder, Engine};

/// Runs `work` where no runtime is, whoever calls.
pub(super) fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Plays one case on a runtime of its own, whose clock stands still while anybody works.
pub(super) fn play(tester: &Tester, case: Case, calm: Option<&Shown>) -> Result<Shown, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.map_err(|error| {
        Failed::new(&tester.workflow, case, Flaw::Setup(error.to_string()), String::new())
    })?;
    runtime.block_on(async {
        let mut stage = Stage::set(tester, case);
        let played = stage.play(calm).await;
        let logs = stage.logs().await;
        let judged = match played {
            Ok(shown) => again(&stage, &logs).map_or_else(|| Ok(shown), Err),
            Err(flaw) => Err(flaw),
        };
        let judged = judged.and_then(|shown| tester.judge(&stage.world, &shown, calm).map(|()| shown));
        judged.map_err(|flaw| Failed::new(&tester.workflow, case, flaw, stage.timeline(&logs)))
    })
}

/// The wall clock of a node: its own offset and drift, and all the time that was skipped.
#[derive(Debug)]
struct NodeClock {
    own: SimClock,
    skipped: Arc<AtomicU64>,
}

impl Clock for NodeClock {
    fn now(&self) -> Millis {
        self.own.now() + Duration::from_millis(self.skipped.load(Ordering::Relaxed))
    }

    /// Skipped time counts, as time in suspend does: a node that goes by its store's clock keeps up with it.
    fn elapsed(&self) -> Duration {
        self.own.elapsed() + Duration::from_millis(self.skipped.load(Ordering::Relaxed))
    }
}

/// Sees every beginning, and where the log ended then.
#[derive(Debug)]
struct Eyes {
    memory: Arc<MemoryStore>,
    seen: Mutex<Vec<Begun>>,
}

#[derive(Debug, Clone)]
struct Begun {
    run: RunId,
    path: String,
    key: String,
    work: Work,
    end: Seq,
}

impl Witness for Eyes {
    fn begins(&self, beginning: Beginning<'_>) {
        let Beginning { run, path, key, work } = beginning;
        // The store in memory answers at once.
        let head = self.memory.head(run).now_or_never().and_then(Result::ok).flatten();
        let end = head.map_or(Seq::ZERO, |head| head.end);
        let begun = Begun { run: run.clone(), path: path.to_string(), key: key.to_owned(), work, end };
        self.seen().push(begun);
    }
}

impl Eyes {
    fn seen(&self) -> MutexGuard<'_, Vec<Begun>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node, one incarnation after another.
struct Seat {
    engine: Option<Engine>,
    link: Arc<FaultyStore>,
    number: u64,
}

/// Everything there is in one case.
struct Stage<'a> {
    tester: &'a Tester,
    case: Case,
    time: TrueTime,
    skipped: Arc<AtomicU64>,
    memory: Arc<MemoryStore>,
    eyes: Arc<Eyes>,
    world: World,
    client: Client,
    seats: Vec<Seat>,
    storm: Option<Storm>,
    /// Names of all nodes that ever started.
    names: BTreeMap<String, u64>,
    crashes: u64,
    /// The connection of the first node that started.
    first: Option<Arc<FaultyStore>>,
    incidents: Vec<Incident>,
}

/// Quiet for so long, nothing but time can move a run: longer than a sweep takes to find a lost wake-up.
const QUIET: Duration = Duration::from_secs(6);
/// Pauses between two looks, from the shortest to the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// The user's configuration, in virtual time, where no run is to blame for a crash.
fn tame(config: Config) -> Config {
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

/// Whether the same call may succeed later.
fn may_pass(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(_) | EngineError::Patience { .. })
}

impl<'a> Stage<'a> {
    fn set(tester: &'a Tester, case: Case) -> Self {
        let time = TrueTime::begin();
        let skipped = Arc::new(AtomicU64::new(0));
        let far = Arc::clone(&skipped);
        let memory = Arc::new(MemoryStore::new(Arc::new(move || {
            time.now() + Duration::from_millis(far.load(Ordering::Relaxed))
        })));
        let clock = NodeClock { own: SimClock::new(time, 0, 0), skipped: Arc::clone(&skipped) };
        let limits = goldseam_core::Limits::default();
        let client = Client::with(memory.clone(), Arc::new(clock), Arc::new(Seeded::new(7)), limits);
        let storm = match case {
            Case::Seed(seed) => Some(Storm::of(seed)),
            Case::Calm | Case::CrashBefore(_) | Case::CrashAfter(_) => None,
        };
        let seats = storm.as_ref().map_or(1, |storm| storm.nodes);
        let seat = |_| Seat { engine: None, link: link(&memory, Plan::pass()), number: 0 };
        Self {
            tester,
            case,
            time,
            skipped,
            eyes: Arc::new(Eyes { memory: memory.clone(), seen: Mutex::default() }),
            world: World::default(),
            client,
            seats: (0..seats).map(seat).collect(),
            memory,
            storm,
            names: BTreeMap::new(),
            crashes: 0,
            first: None,
            incidents: Vec::new(),
        }
    }

    /// Virtual time that passed, without what was skipped.
    fn elapsed(&self) -> Duration {
        self.time.elapsed()
    }

    fn skipped(&self) -> Duration {
        Duration::from_millis(self.skipped.load(Ordering::Relaxed))
    }

    /// Until the run is over.
    async fn play(&mut self, calm: Option<&Shown>) -> Result<Shown, Flaw> {
        let tester = self.tester;
        let dice = self.storm.as_ref().map(|storm| Dice::new(storm.dice.draw()));
        let mut people = People::new(&tester.script, &tester.workers, dice);
        if let Some(calm) = calm {
            people = people.knowing(&calm.got);
        }
        let (mut seen, mut changed, mut look, mut begun) = (Vec::new(), self.elapsed(), LOOKS.0, false);
        loop {
            self.tend().await?;
            begun = begun || self.begin().await?;
            let runs = self.runs().await;
            if let Some(outcome) = self.over(&runs).await? {
                return Ok(self.shown(outcome, &people));
            }
            let now: Vec<(RunId, Seq)> = runs.iter().map(|run| (run.run.clone(), run.as_of)).collect();
            if now != seen {
                (seen, changed, look) = (now, self.elapsed(), LOOKS.0);
            }
            let busy = people.act(&self.client, &runs).await?;
            people.work(&self.client, &self.world).await.map_err(|error| Flaw::Refused(error.to_string()))?;
            let quiet = self.elapsed().saturating_sub(changed);
            if quiet >= tester.patience {
                return Err(Flaw::NoEnd(stuck(&runs)));
            }
            if !busy && quiet >= QUIET && self.skip(&runs) {
                changed = self.elapsed();
            }
            self.pause(look).await;
            look = (look * 2).min(LOOKS.1);
        }
    }

    /// Buries nodes that died, starts those that are missing, ends the storm.
    async fn tend(&mut self) -> Result<(), Flaw> {
        let now = self.elapsed();
        if self.storm.as_ref().is_some_and(|storm| now >= storm.until) {
            self.seats.iter().for_each(|seat| seat.link.follow(Plan::pass()));
        }
        for index in 0..self.seats.len() {
            if self.seats[index].link.is_crashed() {
                self.bury(index).await;
            }
            if self.seats[index].engine.is_none() {
                self.start(index).await?;
            }
        }
        Ok(())
    }

    async fn bury(&mut self, index: usize) {
        let Some(engine) = self.seats[index].engine.take() else { return };
        self.crashes += 1;
        self.memory.kill(engine.node_id());
        engine.crash();
        let what = format!("node {} dies", self.seats[index].number);
        self.happened(what).await;
    }

    async fn start(&mut self, index: usize) -> Result<(), Flaw> {
        let number = self.names.len() as u64 + 1;
        let plan = match &self.storm {
            Some(storm) => storm.plan(self.elapsed(), self.crashes),
            None if self.first.is_none() => self.case.plan(),
            None => Plan::pass(),
        };
        // Hosts disagree by up to half a minute and drift by up to a hundredth.
        let skew = |bound: u64| match &self.storm {
            Some(storm) => i64::try_from(storm.dice.below(2 * bound)).unwrap_or(0) - bound.cast_signed(),
            None => 0,
        };
        let own = SimClock::new(self.time, skew(30_000), skew(10_000));
        let clock = NodeClock { own, skipped: Arc::clone(&self.skipped) };
        let seed = match self.case {
            Case::Seed(seed) => seed.wrapping_mul(1_000).wrapping_add(number),
            Case::Calm | Case::CrashBefore(_) | Case::CrashAfter(_) => number,
        };
        let link = link(&self.memory, plan);
        let Builder(builder) = (self.tester.setup)(Engine::on(link.clone()), self.world.clone());
        let builder = builder.configure(tame).clock(Arc::new(clock)).entropy(Arc::new(Seeded::new(seed)));
        match Builder(builder.witness(self.eyes.clone())).start().await {
            Ok(engine) => {
                self.names.insert(engine.node_id().as_str().to_owned(), number);
                self.first.get_or_insert_with(|| link.clone());
                self.seats[index] = Seat { engine: Some(engine), link, number };
                self.happened(format!("node {number} starts")).await;
                Ok(())
            }
            Err(error) if may_pass(&error) => Ok(()),
            Err(error) => Err(Flaw::Setup(error.to_string())),
        }
    }

    /// Starts the run, as often as it takes.
    async fn begin(&self) -> Result<bool, Flaw> {
        let Tester { workflow, run, input, .. } = self.tester;
        for engine in self.seats.iter().filter_map(|seat| seat.engine.as_ref()) {
            match engine.run(workflow, run, input).await {
                Ok(_) => return Ok(true),
                Err(error) if may_pass(&error) => {}
                Err(error) => return Err(Flaw::Setup(error.to_string())),
            }
        }
        Ok(false)
    }

    /// Every run there is, children included, as its log says.
    async fn runs(&self) -> Vec<Summary> {
        let filter = RunFilter { order: RunOrder::Oldest, limit: u32::MAX, ..RunFilter::default() };
        let mut runs = Vec::new();
        for row in self.memory.runs(filter).await.unwrap_or_default().items {
            // A row may be late.
            runs.push(self.client.get(&row.summary.run).await.unwrap_or(row.summary));
        }
        runs
    }

    /// How the run ended, if it did.
    async fn over(&self, runs: &[Summary]) -> Result<Option<Outcome>, Flaw> {
        let unsettled = |error: EngineError| Flaw::Setup(error.to_string());
        if let Some(parked) = runs.iter().find(|run| run.parked) {
            let history = self.client.history(&parked.run).await.map_err(unsettled)?;
            let said = history.iter().rev().find_map(|recorded| match &recorded.event {
                Event::RunParked { code, reason } => Some((code.clone(), reason.clone())),
                _ => None,
            });
            let (code, reason) = said.unwrap_or_default();
            return Err(match code.as_str() {
                "V1" => Flaw::NotDeterministic(reason),
                _ => Flaw::Parked { code, reason },
            });
        }
        match runs.iter().find(|run| run.run.as_str() == self.tester.run) {
            Some(root) if root.status.is_terminal() => {
                Ok(self.client.state(&root.run).await.map_err(unsettled)?.outcome)
            }
            _ => Ok(None),
        }
    }

    /// If nothing but time can move a run, it is moved to the next moment that is due.
    fn skip(&self, runs: &[Summary]) -> bool {
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

    /// Lets time pass, unless a node dies meanwhile.
    async fn pause(&self, span: Duration) {
        let alive = self.seats.iter().filter(|seat| seat.engine.is_some());
        let deaths: Vec<_> = alive.map(|seat| Box::pin(seat.link.crashed())).collect();
        let nap = tokio::time::sleep(span);
        if deaths.is_empty() {
            return nap.await;
        }
        tokio::select! {
            biased;
            _ = select_all(deaths) => {}
            () = nap => {}
        }
    }

    async fn happened(&mut self, what: String) {
        let mut ends = BTreeMap::new();
        for run in self.runs().await {
            // The log itself: what is known of it may be late.
            let head = self.memory.head(&run.run).await.ok().flatten();
            ends.insert(run.run, head.map_or(Seq::ZERO, |head| head.end));
        }
        let at = self.time.now() + self.skipped();
        self.incidents.push(Incident { at, what, ends });
    }

    fn shown(&self, outcome: Outcome, people: &People<'_>) -> Shown {
        let mut begun: BTreeMap<String, u64> = BTreeMap::new();
        for seen in self.eyes.seen().iter().filter(|seen| seen.work == Work::Step) {
            *begun.entry(seen.path.clone()).or_default() += 1;
        }
        // One that died with the last event is not buried yet.
        let dying = self.seats.iter().filter(|seat| seat.engine.is_some() && seat.link.is_crashed()).count();
        Shown {
            outcome,
            effects: self.world.effects(),
            begun,
            appends: self.first.as_ref().map_or(0, |link| link.appends()),
            crashes: self.crashes + dying as u64,
            mail: people.mail(),
            got: people.got().to_vec(),
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

fn link(memory: &Arc<MemoryStore>, plan: Plan) -> Arc<FaultyStore> {
    Arc::new(FaultyStore::new(memory.clone(), plan))
}

/// User code that began although the log had its completion already.
fn again(stage: &Stage<'_>, logs: &BTreeMap<RunId, Log>) -> Option<Flaw> {
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
    let late =
        |seen: &&Begun| completed.get(&(seen.key.clone(), seen.work)).is_some_and(|done| seen.end >= *done);
    let seen = stage.eyes.seen();
    seen.iter().find(late).map(|seen| {
        let what = if seen.work == Work::Step { "step" } else { "the compensation of" };
        Flaw::Again(format!("{what} {} of run {}", seen.path, seen.run))
    })
}

/// Why nothing moves, in words.
fn stuck(runs: &[Summary]) -> String {
    let mut reasons = Vec::new();
    for run in runs.iter().filter(|run| !run.status.is_terminal()) {
        for (need, ..) in needs(run) {
            reasons.push(match need {
                Need::Signals(names) => format!(
                    "run {} waits for signal {}, and nobody sends it: add .signal({:?}, …)",
                    run.run,
                    names.join(" or "),
                    names.first().map_or("", String::as_str)
                ),
                Need::Answer(path) => format!(
                    "run {} asks {path}, and nobody answers: add .answer({:?}, …)",
                    run.run,
                    path.name()
                ),
            });
        }
        if run.waits.iter().any(|wait| !wait.tasks.is_empty()) {
            let step = run.step.as_ref().map_or("", goldseam_core::Path::as_str);
            reasons.push(format!(
                "run {} waits for remote step {step}, and nobody does it: add .worker(queue, …)",
                run.run
            ));
        }
    }
    match reasons.is_empty() {
        true => "nothing happened for too long; raise it with .patience(…) if a step takes longer".to_owned(),
        false => reasons.join("; "),
    }
}
