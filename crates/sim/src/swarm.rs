//! One seed: a phase of faults, a phase of calm in which everything must end, then the checks.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::task::TaskState;
use goldseam_core::{RunId, Status, TaskId};
use goldseam_engine::StartOptions;
use goldseam_store::faulty::{Fault, Rates};
use goldseam_store::{Expect, Row, RunFilter, RunOrder, Store, TaskFilter, Unreadable};

use crate::book::{Facts, Trace};
use crate::check::{Evidence, Violation, check_all};
use crate::crowd::{Deed, Person, is_mixed, payload, run_id};
use crate::dice::Dice;
use crate::flows::POISON;
use crate::follow::Reader;
use crate::holder::Holder;
use crate::worker::{Care, Worker};
use crate::world::{SILENCE_MAX, World};

/// Virtual time in which everything must have ended once the faults stop.
const CALM_MAX: Duration = Duration::from_secs(180);
/// Virtual time of quiet at the end, in which nothing may be written.
const QUIET: Duration = Duration::from_secs(25);

/// One seed in this many has all its logs tried by a preflight, at every place where they ended once.
const PREFLIGHT_EVERY: u64 = 8;

/// What one seed showed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Hash of every call, effect and promise, and of all logs.
    pub hash: u64,
    /// Runs in the store at the end, children included.
    pub runs: usize,
    /// Calls that reached the store.
    pub calls: u64,
    /// Virtual time that passed.
    pub simulated: Duration,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Invariants that do not hold.
    pub violations: Vec<Violation>,
    /// Effects begun once more by an owner that was cut off.
    pub late_effects: u64,
    /// The longest that a run which waited for nobody stood still once the faults had stopped, in milliseconds.
    pub longest_gap: i64,
    /// Every line, if wanted.
    pub trace: Vec<String>,
}

/// Runs one seed on a runtime of its own.
pub fn run_seed(seed: u64, trace: Trace) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(simulate(seed, trace)),
        Err(error) => unreachable!("a runtime without I/O cannot fail to start: {error}"),
    }
}

/// The broken twin of a model that stands for `bug`, if healing hides the mistake from the simulation.
#[cfg(feature = "planted")]
pub fn twin_of(bug: goldseam_core::planted::Bug) -> Option<&'static str> {
    use goldseam_core::planted::Bug;
    match bug {
        // Mail that came in between is found by a sweep, a moment later.
        Bug::CheckThenWait => Some("`RestsOnAStaleView` of the model of mail"),
        _ => None,
    }
}

/// The first of these seeds that finds `bug`, and how.
#[cfg(feature = "planted")]
pub fn first_to_find(
    bug: goldseam_core::planted::Bug,
    seeds: impl IntoIterator<Item = u64>,
) -> Option<(u64, Violation)> {
    goldseam_core::planted::plant(Some(bug));
    let found = seeds
        .into_iter()
        .find_map(|seed| Some((seed, run_seed(seed, Trace::Hash).violations.into_iter().next()?)));
    goldseam_core::planted::plant(None);
    found
}

async fn simulate(seed: u64, trace: Trace) -> Outcome {
    let mut dice = Dice::new(seed);
    // In a crash loop only the killer ends processes, so that a blame is a false one.
    let rates = if is_loop(seed) { Rates::default() } else { draw_rates(&mut dice) };
    let seats = 2 + usize::try_from(dice.below(3)).unwrap_or(0);
    let mut world = World::new(seats, rates, trace, dice.fork());
    if seed.is_multiple_of(5) {
        world.drift_max_ppm = 100_000;
    }
    let mut counts = BTreeMap::new();
    world.versions = is_mixed(seed).then(|| Dice::new(seed ^ 0x7e25));
    begin(&mut world, seed, &mut counts).await;
    let worker = Worker { book: world.book.clone(), care: Care::Forgetful };
    let worker = tokio::spawn(worker.keep_working(world.client.clone()));
    let runs = 6 + dice.below(14);
    let holders = holders(&world, seed);
    let readers = readers(&world, seed, runs);
    let (relief, deeds) = (Vec::new(), Vec::new());
    let forgetful = seed.is_multiple_of(3).then(|| Dice::new(!seed));
    let killer = is_loop(seed).then(|| Dice::new(seed ^ 0xdead));
    let garbler = seed.is_multiple_of(4).then(|| Dice::new(!seed ^ 0x6a4b));
    let (world_ref, dice_ref, counts_ref) = (&mut world, &mut dice, &mut counts);
    let storm = Storm {
        world: world_ref,
        dice: dice_ref,
        seed,
        counts: counts_ref,
        relief,
        deeds,
        forgetful,
        killer,
        garbler,
    };
    storm.rage(runs).await;
    holders.iter().for_each(tokio::task::JoinHandle::abort);
    let unsettled = settle(&mut world, runs, &mut dice).await;
    let quiet_writes = quiet(&world).await;
    worker.abort();
    readers.iter().for_each(tokio::task::JoinHandle::abort);
    let facts = world.book.read();
    let evidence = gather(&world, facts, unsettled, quiet_writes).await;
    let mut violations = check_all(&evidence);
    if seed.is_multiple_of(PREFLIGHT_EVERY) {
        violations.extend(crate::preflight::check(&evidence.logs).await);
    }
    violations.truncate(50);
    for link in world.old_links.iter().chain(world.seats.iter().map(|seat| &seat.link)) {
        count(&mut counts, &link.calls());
    }
    count(&mut counts, &world.client_link.calls());
    let hash = evidence
        .logs
        .values()
        .flat_map(|log| &log.records)
        .fold(evidence.facts.hash, |hash, record| crate::dice::fold(&format!("{hash:x}{}", record.body)));
    Outcome {
        seed,
        hash,
        runs: evidence.logs.len(),
        calls: evidence.facts.calls,
        simulated: world.book.time().elapsed(),
        faults: counts,
        violations,
        late_effects: crate::check::late_effects(&evidence),
        longest_gap: crate::check::longest_gap(&evidence),
        trace: evidence.facts.trace,
    }
}

/// Whether all nodes are killed from outside again and again in this seed.
fn is_loop(seed: u64) -> bool {
    seed % 7 == 6
}

/// The first nodes; in some seeds of crash loops, a run that takes its node down.
async fn begin(world: &mut World, seed: u64, counts: &mut BTreeMap<&'static str, u64>) {
    if is_loop(seed) {
        world.attempts_max = 3;
        world.book.loops();
        counts.insert("crash_loop", 1);
    }
    revive(world).await;
    if is_loop(seed) && seed.is_multiple_of(2) {
        poison(world).await;
    }
}

/// Programs that take turns, two of them under one name; their numbers are their own, so that the rest stays as it was.
fn holders(world: &World, seed: u64) -> Vec<tokio::task::JoinHandle<()>> {
    let holder = |(number, name)| {
        let (client, book, dice) =
            (world.client.clone(), world.book.clone(), Dice::new(seed ^ 0x10c4 ^ number));
        tokio::spawn(Holder { client, book, name, dice }.keep_holding())
    };
    [(1 << 32, "clerk"), (2 << 32, "clerk"), (3 << 32, "other")].map(holder).into_iter().collect()
}

/// People who follow three of the runs.
fn readers(world: &World, seed: u64, runs: u64) -> Vec<tokio::task::JoinHandle<()>> {
    let reader = |number: usize| {
        let mut dice = Dice::new(seed ^ 0xf011 ^ (number as u64) << 32);
        let run = run_id(dice.below(runs));
        let (client, book) = (world.client.clone(), world.book.clone());
        tokio::spawn(Reader { number, client, book, dice }.keep_reading(run))
    };
    (0..3).map(reader).collect()
}

/// Some seeds are calm, some are rough; no fault is always there, so that none hides another.
fn draw_rates(dice: &mut Dice) -> Rates {
    let mut rate = |most: u64| {
        let drawn = dice.below(most + 1);
        if dice.percent(40) { 0 } else { u16::try_from(drawn).unwrap_or(0) }
    };
    let (fail_before, lose_reply, delay, delay_past_reply) = (rate(80), rate(80), rate(60), rate(40));
    let (duplicate, crash_before, crash_after) = (rate(40), rate(2), rate(2));
    let delay_max = Duration::from_millis(*dice.pick(&[5, 50, 500, 3_000]).unwrap_or(&50));
    Rates {
        fail_before,
        lose_reply,
        crash_before,
        crash_after,
        delay,
        delay_past_reply,
        duplicate,
        delay_max,
    }
}

fn count(counts: &mut BTreeMap<&'static str, u64>, calls: &[goldseam_store::faulty::Called]) {
    for call in calls {
        let kind = match call.fault {
            Fault::Pass => continue,
            Fault::FailBefore => "fail_before",
            Fault::LoseReply => "lose_reply",
            Fault::CrashBefore => "crash_before",
            Fault::CrashAfter => "crash_after",
            Fault::Delay(_) => "delay",
            Fault::DelayPastReply(_) => "delay_past_reply",
            Fault::Duplicate(_) => "duplicate",
        };
        *counts.entry(kind).or_default() += 1;
    }
}

/// A phase in which everything goes wrong.
struct Storm<'a> {
    world: &'a mut World,
    dice: &'a mut Dice,
    seed: u64,
    counts: &'a mut BTreeMap<&'static str, u64>,
    /// Which node is as faulty as everybody again, and in which turn.
    relief: Vec<(u64, usize)>,
    deeds: Vec<tokio::task::JoinHandle<()>>,
    /// Decides which hints are lost, where any are; a source of its own, so that the rest stays as it was.
    forgetful: Option<Dice>,
    /// Kills all nodes again and again, in seeds of crash loops; then nothing else happens to nodes.
    killer: Option<Dice>,
    garbler: Option<Dice>,
}

impl Storm<'_> {
    /// Everything goes wrong for a while; every one of the runs is started.
    async fn rage(mut self, runs: u64) {
        let mut started = 0;
        let turns = 60 + self.dice.below(60);
        for turn in 0..turns {
            self.relieve(turn);
            let deed = if started < runs && self.dice.percent(35) {
                started += 1;
                Some(Deed::Start(started - 1))
            } else {
                draw_deed(self.dice, started)
            };
            if let Some(deed) = deed {
                self.send(deed);
            }
            if let Some(what) = self.forget(started).await {
                *self.counts.entry(what).or_default() += 1;
            }
            if let Some(what) = self.garble(started).await {
                *self.counts.entry(what).or_default() += 1;
            }
            if self.killer.is_some() {
                self.kill().await;
            } else if self.dice.percent(25)
                && let Some(what) = self.mishap(turn).await
            {
                *self.counts.entry(what).or_default() += 1;
            }
            tokio::time::sleep(Duration::from_millis(self.dice.below(500))).await;
            self.world.bury();
        }
        for number in started..runs {
            self.send(Deed::Start(number));
        }
        for deed in self.deeds {
            drop(deed.await);
        }
    }

    fn send(&mut self, deed: Deed) {
        let (person, dice) = (person(self.world), self.dice.fork());
        self.deeds.push(tokio::spawn(person.act(deed, self.seed, dice)));
    }

    fn relieve(&mut self, turn: u64) {
        let world = &mut *self.world;
        self.relief.retain(|(when, index)| {
            if *when <= turn {
                world.relieve(*index);
            }
            *when > turn
        });
    }

    /// Everything of this node goes wrong by these rates, for some turns.
    fn trouble(&mut self, index: usize, rates: Rates, until: u64) {
        self.world.trouble(index, rates);
        self.relief.push((until, index));
    }

    /// In some seeds hints are lost or wrong: a cached row, the task of a remote step, or the task that moves a run.
    async fn forget(&mut self, started: u64) -> Option<&'static str> {
        let mut dice = self.forgetful.take()?;
        let (lost, number, row) = (dice.percent(15), dice.below(started), dice.percent(50));
        self.forgetful = Some(dice);
        if !lost || started == 0 {
            return None;
        }
        let run = run_id(number);
        let Row { summary, task, .. } = self.world.memory.head(&run).await.ok()??.row?;
        if row {
            self.world.memory.lose_row(&run);
            return Some("lose_row");
        }
        if let Some(task) = summary.waits.iter().flat_map(|wait| &wait.tasks).next() {
            self.world.memory.lose_task(task);
            return Some("lose_remote_task");
        }
        let task = task?;
        if summary.owner.is_some() && summary.as_of.0 % 2 == 1 {
            return self.give_back(task).await;
        }
        self.world.memory.lose_task(&task);
        Some("lose_task")
    }

    /// The task of a run that a node executes is in its queue again, as if a watcher had taken the node for gone: the
    /// same node may claim it.
    async fn give_back(&self, id: TaskId) -> Option<&'static str> {
        let store = &self.world.memory;
        let filter = TaskFilter { id: Some(id), limit: 1, ..TaskFilter::default() };
        let task = store.tasks(filter).await.ok()?.pop().filter(|task| task.state == TaskState::Claimed)?;
        let (now, expect) = (store.now().await.ok()?, Expect::Version(task.version));
        store.put_task(task.returned(now, now), expect).await.ok()?;
        Some("give_back_task")
    }

    /// Most turns end every process, and a new one begins in its seat.
    async fn kill(&mut self) {
        let Some(killer) = &mut self.killer else { return };
        if !killer.percent(40) {
            return;
        }
        for index in 0..self.world.seats.len() {
            if self.world.crash(index) {
                *self.counts.entry("crash").or_default() += 1;
            }
        }
        revive(self.world).await;
    }

    /// In some seeds hints become unreadable: a cached row, or the task that moves a run.
    async fn garble(&mut self, started: u64) -> Option<&'static str> {
        let mut dice = self.garbler.take()?;
        let (now, number, row) = (dice.percent(15), dice.below(started.max(1)), dice.percent(60));
        self.garbler = Some(dice);
        if !now || started == 0 {
            return None;
        }
        let run = run_id(number);
        let Row { task, .. } = self.world.memory.head(&run).await.ok()??.row?;
        if row {
            self.world.memory.garble_row(&run);
            return Some("garble_row");
        }
        self.world.memory.garble_task(&task?).then_some("garble_task")
    }

    /// Something happens to a node; none if it would have, but nobody is there. To start one is no fault.
    async fn mishap(&mut self, turn: u64) -> Option<&'static str> {
        let seats = self.world.seats.len();
        let index = usize::try_from(self.dice.below(seats as u64)).unwrap_or(0);
        let is_there = self.world.has_node(index);
        let down = Rates { fail_before: 1_000, ..Rates::default() };
        let what = match self.dice.below(100) {
            0..26 => self.world.crash(index).then_some("crash"),
            26..54 => {
                if !is_there {
                    self.world.start(index).await;
                }
                return None;
            }
            54..59 => self.world.leave(index).map(|_| "leave"),
            59..62 => {
                self.world.suspect(index);
                Some("suspect")
            }
            62..69 => {
                let slow = Rates { delay: 1_000, delay_max: SILENCE_MAX * 4, ..Rates::default() };
                let until = turn + 4 + self.dice.below(30);
                self.trouble(index, slow, until);
                Some("slow")
            }
            69..77 => {
                self.world.freeze(index);
                let until = turn + 1 + self.dice.below(30);
                self.relief.push((until, index));
                Some("freeze")
            }
            77..85 => {
                let until = turn + 4 + self.dice.below(30);
                self.trouble(index, down, until);
                Some("partition")
            }
            85..91 => {
                let by = self.dice.below(7_200_000).cast_signed() - 3_600_000;
                self.world.set_clock(index, by);
                Some("clock_jump")
            }
            _ => {
                self.outage(turn, down);
                return Some("outage");
            }
        };
        what.filter(|_| is_there)
    }

    /// The store is away for everybody, clients half.
    fn outage(&mut self, turn: u64, down: Rates) {
        for index in 0..self.world.seats.len() {
            let until = turn + 2 + self.dice.below(12);
            self.trouble(index, down, until);
        }
        self.world.trouble_client(Rates { fail_before: 300, ..Rates::default() });
    }
}

fn person(world: &World) -> Person {
    Person { client: world.client.clone(), book: world.book.clone(), truth: world.store() }
}

fn draw_deed(dice: &mut Dice, started: u64) -> Option<Deed> {
    if started == 0 {
        return None;
    }
    let number = dice.below(started);
    Some(match dice.below(100) {
        0..35 => Deed::Signal(number),
        35..50 => Deed::Answer(number),
        50..56 => Deed::Cancel(number),
        56..64 => Deed::Pause(number),
        64..76 => Deed::Resume(number),
        76..88 => Deed::Jump(number),
        88..96 => Deed::Retry(number),
        96..98 => Deed::Terminate(number),
        _ => Deed::Withdraw(number),
    })
}

/// Starts the run that takes its node down.
async fn poison(world: &World) {
    let Ok(run) = RunId::new(POISON) else { return };
    let input = payload(&serde_json::json!(1));
    while world.client.start(POISON, &run, input.clone(), StartOptions::default()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A new process begins wherever one is missing.
async fn revive(world: &mut World) {
    for index in 0..world.seats.len() {
        if !world.has_node(index) {
            world.start(index).await;
        }
    }
}

/// No more faults: every run must end. Returns those that did not.
async fn settle(world: &mut World, runs: u64, dice: &mut Dice) -> Vec<(RunId, Status)> {
    deploy(world).await;
    world.calm();
    world.bury();
    world.book.line("calm");
    revive(world).await;
    let until = world.book.time().elapsed() + CALM_MAX;
    loop {
        // Only a poisonous run ends a process now.
        world.bury();
        revive(world).await;
        let open = unsettled(world).await;
        if open.is_empty() || world.book.time().elapsed() >= until {
            tell_tasks(world, &open).await;
            return open;
        }
        for number in 0..runs {
            help(world, number, dice).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// In a mixed fleet every node leaves, and those that come next have all versions.
async fn deploy(world: &mut World) {
    if world.versions.is_some() {
        let leaving: Vec<_> = (0..world.seats.len()).filter_map(|index| world.leave(index)).collect();
        for left in leaving {
            drop(left.await);
        }
    }
}

/// Writes down how the tasks of runs that did not end are, for whoever reads the trace.
async fn tell_tasks(world: &World, open: &[(RunId, Status)]) {
    for (run, status) in open {
        let filter = TaskFilter { run: Some(run.clone()), limit: u32::MAX, ..TaskFilter::default() };
        for task in world.memory.tasks(filter).await.unwrap_or_default() {
            world.book.line(&format!("left {run} {status} {task:?}"));
        }
    }
}

/// Does what a person would: resumes, answers, signals.
async fn help(world: &World, number: u64, dice: &mut Dice) {
    let (person, run) = (person(world), run_id(number));
    let Ok(summary) = person.client.get(&run).await else { return };
    if summary.status == Status::Paused {
        person.clone().act(Deed::Resume(number), 0, dice.fork()).await;
    }
    if !summary.inputs.is_empty() {
        let id = format!("help-{number}-{}", dice.draw());
        person.answer(&run, &id, dice).await;
    }
    if summary.waits.iter().any(|wait| !wait.signals.is_empty()) {
        let value = payload(&serde_json::json!(1));
        let id = format!("help-{number}-{}", summary.as_of.0);
        drop(person.client.signal(&run, "go", value, Some(id)).await);
    }
}

async fn unsettled(world: &World) -> Vec<(RunId, Status)> {
    let filter = RunFilter { order: RunOrder::Oldest, limit: u32::MAX, ..RunFilter::default() };
    let Ok(page) = world.memory.runs(filter).await else { return Vec::new() };
    let unreadable: Vec<RunId> = page.unreadable.iter().filter_map(Unreadable::run).collect();
    let stopped = |row: &Row| row.summary.run.as_str() == POISON && row.summary.status == Status::Parked;
    let open = page.items.into_iter().filter(|row| !row.summary.status.is_terminal() && !stopped(row));
    let lost = world.memory.rowless(None, u32::MAX).await.unwrap_or_default();
    let lost = lost.into_iter().chain(unreadable).map(|run| (run, Status::Queued));
    open.map(|row| (row.summary.run, row.summary.status)).chain(lost).collect()
}

/// Writes in a stretch of time in which there is nothing to do.
async fn quiet(world: &World) -> u64 {
    // Longer than a node takes to find what it holds without knowing.
    tokio::time::sleep(Duration::from_secs(40)).await;
    let before = world.book.writes();
    tokio::time::sleep(QUIET).await;
    world.book.writes() - before
}

async fn gather(world: &World, facts: Facts, unsettled: Vec<(RunId, Status)>, quiet_writes: u64) -> Evidence {
    let mut evidence = Evidence { facts, unsettled, quiet_writes, ..Evidence::default() };
    // The memory store always answers.
    drop(evidence.read_logs(&*world.memory).await);
    evidence
}
