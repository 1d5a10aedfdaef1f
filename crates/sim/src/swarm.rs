//! One seed: a phase with faults, a phase without faults in which every run must end, then the checks.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::state::requested_name;
use goldseam_core::summary::OpenWait;
use goldseam_core::task::TaskState;
use goldseam_core::{RunId, Status, TaskId};
use goldseam_store::faulty::{CallFault, FaultRates};
use goldseam_store::{Expect, Row, RunFilter, RunOrder, Store, TaskFilter, Unreadable};

use crate::check::{SimEvidence, Violation, check_all};
use crate::clients::{Action, OutsideClient, is_mixed, payload, run_id};
use crate::cluster::{SILENCE_MAX, SimCluster};
use crate::follower::RunFollower;
use crate::journal::{JournalFacts, Trace};
use crate::lock_holder::LockHolder;
use crate::operator::{BulkOperator, is_bulk};
use crate::random::Random;
use crate::worker::{Care, Worker};
use crate::workflows::{ADD, POISON};

/// Virtual time in which every run must end once the faults end.
const CALM_MAX: Duration = Duration::from_secs(180);
/// Virtual time at the end in which nothing may be written.
const QUIET: Duration = Duration::from_secs(25);

/// One in this many seeds replays every prefix of its logs in a preflight.
const PREFLIGHT_EVERY: u64 = 8;

/// The result of one seed.
#[derive(Debug, Clone)]
pub struct SeedOutcome {
    /// The seed.
    pub seed: u64,
    /// Hash of all calls, effects, acknowledgements and logs.
    pub hash: u64,
    /// Number of runs in the store at the end, with children.
    pub runs: usize,
    /// Number of calls that reached the store.
    pub calls: u64,
    /// Elapsed virtual time.
    pub simulated: Duration,
    /// Number of faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Violated invariants.
    pub violations: Vec<Violation>,
    /// Number of effects that superseded owners repeated.
    pub late_effects: u64,
    /// The longest time without progress of a run that could move, after the end of the faults, in milliseconds.
    pub longest_gap: i64,
    /// The lines of the trace, if kept.
    pub trace: Vec<String>,
}

/// Runs one seed on its own runtime.
pub fn run_seed(seed: u64, trace: Trace) -> SeedOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    match runtime {
        Ok(runtime) => runtime.block_on(simulate(seed, trace)),
        Err(error) => unreachable!("a runtime without I/O cannot fail to start: {error}"),
    }
}

async fn simulate(seed: u64, trace: Trace) -> SeedOutcome {
    let mut random = Random::new(seed);
    // In a crash loop only the killer ends processes, so that every blame is wrong.
    let rates = if is_loop(seed) { FaultRates::default() } else { draw_rates(&mut random) };
    let slots = 2 + usize::try_from(random.below(3)).unwrap_or(0);
    let mut cluster = SimCluster::new(slots, rates, trace, random.fork());
    if seed.is_multiple_of(5) {
        cluster.drift_max_ppm = 100_000;
    }
    let mut counts = BTreeMap::new();
    cluster.versions = is_mixed(seed).then(|| Random::new(seed ^ 0x7e25));
    begin(&mut cluster, seed, &mut counts).await;
    let worker = Worker { journal: cluster.journal.clone(), care: Care::Forgetful };
    let worker = tokio::spawn(worker.keep_working(cluster.client.clone()));
    let runs = 6 + random.below(14);
    let holders = holders(&cluster, seed);
    let followers = followers(&cluster, seed, runs);
    let operator = is_bulk(seed).then(|| {
        let operator = BulkOperator { client: cluster.client.clone(), random: Random::new(seed ^ 0x0b1c) };
        tokio::spawn(operator.keep_operating())
    });
    let hint_loss = seed.is_multiple_of(3).then(|| Random::new(!seed));
    let killer = is_loop(seed).then(|| Random::new(seed ^ 0xdead));
    let garbling = seed.is_multiple_of(4).then(|| Random::new(!seed ^ 0x6a4b));
    let phase = FaultPhase {
        cluster: &mut cluster,
        random: &mut random,
        seed,
        counts: &mut counts,
        fault_ends: Vec::new(),
        actions: Vec::new(),
        hint_loss,
        killer,
        garbling,
    };
    phase.run(runs).await;
    holders.iter().chain(&operator).for_each(tokio::task::JoinHandle::abort);
    let unsettled = settle(&mut cluster, runs, &mut random).await;
    let quiet_writes = quiet(&cluster).await;
    worker.abort();
    followers.iter().for_each(tokio::task::JoinHandle::abort);
    let facts = cluster.journal.read();
    let evidence = gather(&cluster, facts, unsettled, quiet_writes).await;
    let mut violations = check_all(&evidence);
    if seed.is_multiple_of(PREFLIGHT_EVERY) {
        violations.extend(crate::preflight::check(&evidence.logs).await);
    }
    violations.truncate(50);
    for link in cluster.old_links.iter().chain(cluster.slots.iter().map(|slot| &slot.link)) {
        count(&mut counts, &link.calls());
    }
    count(&mut counts, &cluster.client_link.calls());
    let hash =
        evidence.logs.values().flat_map(|log| &log.records).fold(evidence.facts.hash, |hash, record| {
            crate::random::fold(&format!("{hash:x}{}", record.body))
        });
    SeedOutcome {
        seed,
        hash,
        runs: evidence.logs.len(),
        calls: evidence.facts.calls,
        simulated: cluster.journal.time().elapsed(),
        faults: counts,
        violations,
        late_effects: crate::check::late_effects(&evidence),
        longest_gap: crate::check::longest_gap(&evidence),
        trace: evidence.facts.trace,
    }
}

/// Returns whether all nodes are killed from outside repeatedly in this seed.
fn is_loop(seed: u64) -> bool {
    seed % 7 == 6
}

/// Starts the first nodes and, in some seeds with crash loops, a run that crashes its node.
async fn begin(cluster: &mut SimCluster, seed: u64, counts: &mut BTreeMap<&'static str, u64>) {
    if is_loop(seed) {
        cluster.attempts_max = 3;
        cluster.journal.loops();
        counts.insert("crash_loop", 1);
    }
    start_missing(cluster).await;
    if is_loop(seed) && seed.is_multiple_of(2) {
        poison(cluster).await;
    }
}

/// Starts the programs that share a lock, two of them with the same name. They have their own random numbers, so that
/// the rest of a seed does not depend on them.
fn holders(cluster: &SimCluster, seed: u64) -> Vec<tokio::task::JoinHandle<()>> {
    let holder = |(number, name)| {
        let holder = LockHolder {
            client: cluster.client.clone(),
            journal: cluster.journal.clone(),
            name,
            random: Random::new(seed ^ 0x10c4 ^ number),
        };
        tokio::spawn(holder.keep_holding())
    };
    [(1 << 32, "clerk"), (2 << 32, "clerk"), (3 << 32, "other")].map(holder).into_iter().collect()
}

/// Starts followers of three of the runs.
fn followers(cluster: &SimCluster, seed: u64, runs: u64) -> Vec<tokio::task::JoinHandle<()>> {
    let follower = |number: usize| {
        let mut random = Random::new(seed ^ 0xf011 ^ (number as u64) << 32);
        let run = run_id(random.below(runs));
        let client = cluster.client.clone();
        let journal = cluster.journal.clone();
        tokio::spawn(RunFollower { number, client, journal, random }.keep_reading(run))
    };
    (0..3).map(follower).collect()
}

/// Chooses the fault rates. Each fault is off in some seeds, so that no fault hides another.
fn draw_rates(random: &mut Random) -> FaultRates {
    let mut rate = |most: u64| {
        let drawn = random.below(most + 1);
        if random.percent(40) { 0 } else { u16::try_from(drawn).unwrap_or(0) }
    };
    let fail_before = rate(80);
    let lose_reply = rate(80);
    let delay = rate(60);
    let delay_past_reply = rate(40);
    let duplicate = rate(40);
    let crash_before = rate(2);
    let crash_after = rate(2);
    let delay_max = Duration::from_millis(*random.pick(&[5, 50, 500, 3_000]).unwrap_or(&50));
    FaultRates {
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
            CallFault::Pass => continue,
            CallFault::FailBefore => "fail_before",
            CallFault::LoseReply => "lose_reply",
            CallFault::CrashBefore => "crash_before",
            CallFault::CrashAfter => "crash_after",
            CallFault::Delay(_) => "delay",
            CallFault::DelayPastReply(_) => "delay_past_reply",
            CallFault::Duplicate(_) => "duplicate",
        };
        *counts.entry(kind).or_default() += 1;
    }
}

/// The phase with faults.
struct FaultPhase<'a> {
    cluster: &'a mut SimCluster,
    random: &'a mut Random,
    seed: u64,
    counts: &'a mut BTreeMap<&'static str, u64>,
    /// The turns in which the additional faults of nodes end.
    fault_ends: Vec<(u64, usize)>,
    actions: Vec<tokio::task::JoinHandle<()>>,
    /// Decides which hints are lost. Separate, so that the rest of a seed does not depend on it.
    hint_loss: Option<Random>,
    /// Kills all nodes repeatedly, in seeds with crash loops. Nodes then have no other faults.
    killer: Option<Random>,
    /// Decides which hints become unreadable.
    garbling: Option<Random>,
}

impl FaultPhase<'_> {
    /// Injects faults for some turns, and starts all runs.
    async fn run(mut self, runs: u64) {
        let mut started = 0;
        let turns = 60 + self.random.below(60);
        for turn in 0..turns {
            self.end_faults(turn);
            let action = if started < runs && self.random.percent(35) {
                started += 1;
                Some(Action::Start(started - 1))
            } else {
                draw_action(self.random, started)
            };
            if let Some(action) = action {
                self.send(action);
            }
            if let Some(what) = self.lose_hint(started).await {
                *self.counts.entry(what).or_default() += 1;
            }
            if let Some(what) = self.garble(started).await {
                *self.counts.entry(what).or_default() += 1;
            }
            if self.killer.is_some() {
                self.kill().await;
            } else if self.random.percent(25)
                && let Some(what) = self.node_fault(turn).await
            {
                *self.counts.entry(what).or_default() += 1;
            }
            tokio::time::sleep(Duration::from_millis(self.random.below(500))).await;
            self.cluster.remove_crashed();
        }
        for number in started..runs {
            self.send(Action::Start(number));
        }
        for action in self.actions {
            drop(action.await);
        }
    }

    fn send(&mut self, action: Action) {
        let client = outside_client(self.cluster);
        let random = self.random.fork();
        self.actions.push(tokio::spawn(client.act(action, self.seed, random)));
    }

    fn end_faults(&mut self, turn: u64) {
        let cluster = &mut *self.cluster;
        self.fault_ends.retain(|(when, index)| {
            if *when <= turn {
                cluster.end_faults(*index);
            }
            *when > turn
        });
    }

    /// Injects faults at these rates into a node, until the turn `until`.
    fn inject_faults(&mut self, index: usize, rates: FaultRates, until: u64) {
        self.cluster.inject_faults(index, rates);
        self.fault_ends.push((until, index));
    }

    /// Loses a hint in some seeds: a cached row, the task of a remote step, or an advance task.
    async fn lose_hint(&mut self, started: u64) -> Option<&'static str> {
        let mut random = self.hint_loss.take()?;
        let lost = random.percent(15);
        let number = random.below(started);
        let row = random.percent(50);
        self.hint_loss = Some(random);
        if !lost || started == 0 {
            return None;
        }
        let run = run_id(number);
        let Row { summary, task, .. } = self.cluster.memory.head(&run).await.ok()??.row?;
        if row {
            self.cluster.memory.lose_row(&run);
            return Some("lose_row");
        }
        if let Some(task) = summary.waits.iter().flat_map(|wait| &wait.tasks).next() {
            self.cluster.memory.lose_task(task);
            return Some("lose_remote_task");
        }
        let task = task?;
        if summary.owner.is_some() && summary.as_of.0 % 2 == 1 {
            return self.give_back(task).await;
        }
        self.cluster.memory.lose_task(&task);
        Some("lose_task")
    }

    /// Puts the claimed advance task of a run back into its queue, as if its node had been declared dead. The same node
    /// may claim it again.
    async fn give_back(&self, id: TaskId) -> Option<&'static str> {
        let store = &self.cluster.memory;
        let filter = TaskFilter { id: Some(id), limit: 1, ..TaskFilter::default() };
        let task = store.tasks(filter).await.ok()?.pop().filter(|task| task.state == TaskState::Claimed)?;
        let now = store.now().await.ok()?;
        let expect = Expect::Version(task.version);
        store.put_task(task.returned(now, now), expect).await.ok()?;
        Some("give_back_task")
    }

    /// Kills all nodes in some turns, and starts new ones.
    async fn kill(&mut self) {
        let Some(killer) = &mut self.killer else { return };
        if !killer.percent(40) {
            return;
        }
        for index in 0..self.cluster.slots.len() {
            if self.cluster.crash(index) {
                *self.counts.entry("crash").or_default() += 1;
            }
        }
        start_missing(self.cluster).await;
    }

    /// Makes a hint unreadable in some seeds: a cached row or an advance task.
    async fn garble(&mut self, started: u64) -> Option<&'static str> {
        let mut random = self.garbling.take()?;
        let now = random.percent(15);
        let number = random.below(started.max(1));
        let row = random.percent(60);
        self.garbling = Some(random);
        if !now || started == 0 {
            return None;
        }
        let run = run_id(number);
        let Row { task, .. } = self.cluster.memory.head(&run).await.ok()??.row?;
        if row {
            self.cluster.memory.garble_row(&run);
            return Some("garble_row");
        }
        self.cluster.memory.garble_task(&task?).then_some("garble_task")
    }

    /// Injects a fault into a node. Returns none if the slot is empty or a node was started, which is not a fault.
    async fn node_fault(&mut self, turn: u64) -> Option<&'static str> {
        let slots = self.cluster.slots.len();
        let index = usize::try_from(self.random.below(slots as u64)).unwrap_or(0);
        let is_there = self.cluster.has_node(index);
        let down = FaultRates { fail_before: 1_000, ..FaultRates::default() };
        let what = match self.random.below(100) {
            0..26 => self.cluster.crash(index).then_some("crash"),
            26..54 => {
                if !is_there {
                    self.cluster.start(index).await;
                }
                return None;
            }
            54..59 => self.cluster.leave(index).map(|_| "leave"),
            59..62 => {
                self.cluster.suspect(index);
                Some("suspect")
            }
            62..69 => {
                let slow = FaultRates { delay: 1_000, delay_max: SILENCE_MAX * 4, ..FaultRates::default() };
                let until = turn + 4 + self.random.below(30);
                self.inject_faults(index, slow, until);
                Some("slow")
            }
            69..77 => {
                self.cluster.freeze(index);
                let until = turn + 1 + self.random.below(30);
                self.fault_ends.push((until, index));
                Some("freeze")
            }
            77..85 => {
                let until = turn + 4 + self.random.below(30);
                self.inject_faults(index, down, until);
                Some("partition")
            }
            85..91 => {
                let by = self.random.below(7_200_000).cast_signed() - 3_600_000;
                self.cluster.set_clock(index, by);
                Some("clock_jump")
            }
            _ => {
                self.outage(turn, down);
                return Some("outage");
            }
        };
        what.filter(|_| is_there)
    }

    /// Makes the store fail for all nodes, and partly for the client.
    fn outage(&mut self, turn: u64, down: FaultRates) {
        for index in 0..self.cluster.slots.len() {
            let until = turn + 2 + self.random.below(12);
            self.inject_faults(index, down, until);
        }
        self.cluster.inject_client_faults(FaultRates { fail_before: 300, ..FaultRates::default() });
    }
}

fn outside_client(cluster: &SimCluster) -> OutsideClient {
    OutsideClient { client: cluster.client.clone(), journal: cluster.journal.clone(), truth: cluster.store() }
}

fn draw_action(random: &mut Random, started: u64) -> Option<Action> {
    if started == 0 {
        return None;
    }
    let number = random.below(started);
    Some(match random.below(100) {
        0..35 => Action::Signal(number),
        35..50 => Action::Answer(number),
        50..56 => Action::Cancel(number),
        56..64 => Action::Pause(number),
        64..76 => Action::Resume(number),
        76..88 => Action::Jump(number),
        88..96 => Action::Retry(number),
        96..98 => Action::Terminate(number),
        _ => Action::Withdraw(number),
    })
}

/// Starts the run that crashes its node.
async fn poison(cluster: &SimCluster) {
    let Ok(run) = RunId::new(POISON) else { return };
    let input = payload(&serde_json::json!(1));
    while cluster.client.start(POISON, &run, &input).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts a node in each empty slot.
async fn start_missing(cluster: &mut SimCluster) {
    for index in 0..cluster.slots.len() {
        if !cluster.has_node(index) {
            cluster.start(index).await;
        }
    }
}

/// Ends the faults and waits for the runs to end. Returns those that did not.
async fn settle(cluster: &mut SimCluster, runs: u64, random: &mut Random) -> Vec<(RunId, Status)> {
    deploy(cluster).await;
    cluster.calm();
    cluster.remove_crashed();
    cluster.journal.line("calm");
    start_missing(cluster).await;
    let until = cluster.journal.time().elapsed() + CALM_MAX;
    loop {
        // Now only a poisonous run crashes nodes.
        cluster.remove_crashed();
        start_missing(cluster).await;
        let open = unsettled(cluster).await;
        if open.is_empty() || cluster.journal.time().elapsed() >= until {
            trace_tasks(cluster, &open).await;
            return open;
        }
        for number in 0..runs {
            help(cluster, number, random).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// In mixed seeds, shuts all nodes down. The next ones have all versions.
async fn deploy(cluster: &mut SimCluster) {
    if cluster.versions.is_some() {
        let leaving: Vec<_> = (0..cluster.slots.len()).filter_map(|index| cluster.leave(index)).collect();
        for left in leaving {
            drop(left.await);
        }
    }
}

/// Adds the tasks of runs that did not end to the trace.
async fn trace_tasks(cluster: &SimCluster, open: &[(RunId, Status)]) {
    for (run, status) in open {
        let filter = TaskFilter { run: Some(run.clone()), limit: u32::MAX, ..TaskFilter::default() };
        for task in cluster.memory.tasks(filter).await.unwrap_or_default() {
            cluster.journal.line(&format!("left {run} {status} {task:?}"));
        }
    }
}

/// Resumes, answers and signals a run, as a person would.
async fn help(cluster: &SimCluster, number: u64, random: &mut Random) {
    let outside = outside_client(cluster);
    let run = run_id(number);
    let Ok(summary) = outside.client.get(&run).await else { return };
    if summary.status == Status::Paused {
        outside.clone().act(Action::Resume(number), 0, random.fork()).await;
    }
    if !summary.inputs.is_empty() {
        let id = format!("help-{number}-{}", random.draw());
        outside.answer(&run, &id, random).await;
    }
    if summary.waits.iter().any(|wait| !wait.signals.is_empty()) {
        let value = payload(&serde_json::json!(1));
        let id = format!("help-{number}-{}", summary.as_of.0);
        drop(outside.client.signal(&run, "go", value, Some(id)).await);
    }
    let asked = |wait: &OpenWait| wait.signals.iter().any(|name| requested_name(name) == Some(ADD));
    if summary.waits.iter().any(asked) {
        let id = format!("ask-{number}-{}", summary.as_of.0);
        outside.request(&run, &id, random).await;
    }
}

async fn unsettled(cluster: &SimCluster) -> Vec<(RunId, Status)> {
    let filter = RunFilter { order: RunOrder::Oldest, limit: u32::MAX, ..RunFilter::default() };
    let Ok(page) = cluster.memory.runs(filter).await else { return Vec::new() };
    let unreadable: Vec<RunId> = page.unreadable.iter().filter_map(Unreadable::run).collect();
    let stopped = |row: &Row| row.summary.run.as_str() == POISON && row.summary.status == Status::Parked;
    let open = page.items.into_iter().filter(|row| !row.summary.status.is_terminal() && !stopped(row));
    let lost = cluster.memory.rowless(None, u32::MAX).await.unwrap_or_default();
    let lost = lost.into_iter().chain(unreadable).map(|run| (run, Status::Queued));
    open.map(|row| (row.summary.run, row.summary.status)).chain(lost).collect()
}

/// Counts the writes in a period in which there is nothing to do.
async fn quiet(cluster: &SimCluster) -> u64 {
    // Longer than a node needs to find claims that it holds without knowing.
    tokio::time::sleep(Duration::from_secs(40)).await;
    let before = cluster.journal.writes();
    tokio::time::sleep(QUIET).await;
    cluster.journal.writes() - before
}

async fn gather(
    cluster: &SimCluster,
    facts: JournalFacts,
    unsettled: Vec<(RunId, Status)>,
    quiet_writes: u64,
) -> SimEvidence {
    let mut evidence = SimEvidence { facts, unsettled, quiet_writes, ..SimEvidence::default() };
    // The memory store never fails.
    drop(evidence.read_logs(&*cluster.memory).await);
    evidence
}
