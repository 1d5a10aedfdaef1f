//! The journal of a simulation, in one order: accepted appends, side effects, acknowledgements to clients.
//!
//! Only the checks read it, so no engine can depend on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goldseam_core::{Millis, NodeId, Path, RunId, Seq};

use crate::clock::TrueTime;

/// An append that the store accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// Its position in the journal.
    pub order: u64,
    /// The run.
    pub run: RunId,
    /// The end of the log before the append.
    pub after: Seq,
    /// The encoded events.
    pub bodies: Vec<String>,
    /// The true time.
    pub at: Millis,
    /// The number of the connection.
    pub by: usize,
}

/// A side effect of a step, as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedEffect {
    /// Its position in the journal.
    pub order: u64,
    /// The run.
    pub run: RunId,
    /// Name of the step.
    pub step: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// The idempotency key; empty for a compensation.
    pub key: String,
    /// The true time.
    pub at: Millis,
    /// The number of the node.
    pub node: usize,
    /// The number of the incarnation, counted over all nodes.
    pub life: usize,
    /// The position in the journal at which it ended: completed, failed or dropped. None while it is in progress.
    pub until: Option<u64>,
}

/// A period in which one incarnation of a node was frozen or delayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The incarnation.
    pub life: usize,
    /// The position in the journal at its start.
    pub from: u64,
    /// The true time of its end. None while it lasts.
    pub until: Option<Millis>,
}

/// An acknowledgement to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ack {
    /// The reply to the request with this id.
    Replied(RunId, String, goldseam_engine::client::Reply),
    /// A run was started with this input.
    Started(RunId, String),
    /// The response to a second start with the same id and other input.
    OtherInput(RunId, StartReply),
    /// Mail with this id was accepted.
    Mail(RunId, String),
    /// The result of an attempt of a remote step was accepted under this fence.
    Brought(RunId, Path, u32, u64),
    /// A lock is held under this fence, with an expiry by the store's clock.
    Held {
        /// The lock.
        lock: String,
        /// The fence of the hold.
        fence: u64,
        /// Start of the hold.
        from: Millis,
        /// Expiry of the hold.
        until: Millis,
    },
    /// The holder begins to release a lock.
    LetGo {
        /// The lock.
        lock: String,
        /// The fence of the hold.
        fence: u64,
        /// When the release begins.
        at: Millis,
    },
    /// A follower received the events at these positions of a run, in this order.
    Followed(usize, RunId, Vec<Seq>),
    /// Whether the log held the command with this id right after its acknowledgement.
    Read(RunId, String, bool),
}

/// The response to a start with other input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartReply {
    /// It was accepted, which is wrong.
    Taken,
    /// It was refused, which is right.
    Refused,
    /// The store failed.
    Unknown,
}

#[derive(Debug, Default)]
struct Entries {
    order: u64,
    executed: Vec<Executed>,
    effects: Vec<ObservedEffect>,
    acks: Vec<Ack>,
    flaws: Vec<String>,
    call_loops: Vec<String>,
    called_at: Millis,
    at_once: u64,
    writes: u64,
    calls: u64,
    hash: u64,
    kills: u32,
    dead: Option<BTreeSet<NodeId>>,
    windows: Vec<Window>,
    lives: BTreeMap<NodeId, usize>,
    versions: BTreeMap<NodeId, Vec<u32>>,
    late_max: u32,
    calm_at: Option<Millis>,
    loops: bool,
    trace: Option<Vec<String>>,
}

/// Number of calls at one moment of virtual time above which they count as an endless loop.
const AT_ONCE_MAX: u64 = 50_000;

/// Whether calls reach the store endlessly while no time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallLoop {
    /// No endless loop.
    No,
    /// An endless loop.
    Endless,
}

/// The record of everything that happens in a simulation.
#[derive(Debug)]
pub struct Journal {
    time: TrueTime,
    entries: Mutex<Entries>,
}

impl Journal {
    /// Creates an empty journal.
    pub fn new(time: TrueTime, trace: Trace) -> Self {
        let trace = (trace == Trace::Keep).then(Vec::new);
        Self {
            time,
            entries: Mutex::new(Entries { trace, hash: 0xcbf2_9ce4_8422_2325, ..Entries::default() }),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the source of true time.
    pub fn time(&self) -> TrueTime {
        self.time
    }

    /// Adds a line to the trace.
    pub fn line(&self, text: &str) {
        let at = self.time.elapsed().as_millis();
        let line = format!("{at:>8} {text}");
        let mut entries = self.entries();
        for byte in line.bytes() {
            entries.hash = (entries.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if let Some(trace) = &mut entries.trace {
            trace.push(line);
        }
    }

    /// Records a call that reached the store.
    pub fn call(&self, by: usize, text: &str) -> CallLoop {
        let at = self.time.now();
        let mut entries = self.entries();
        entries.calls += 1;
        entries.at_once = if entries.called_at == at { entries.at_once + 1 } else { 1 };
        entries.called_at = at;
        let is_endless = entries.at_once > AT_ONCE_MAX;
        if is_endless {
            entries
                .call_loops
                .push(format!("{AT_ONCE_MAX} calls at one moment, the last by node {by}: {text}"));
            entries.at_once = 0;
        }
        drop(entries);
        self.line(&format!("n{by} {text}"));
        if is_endless { CallLoop::Endless } else { CallLoop::No }
    }

    /// Records an append that the store accepted.
    pub fn executed(&self, by: usize, run: &RunId, after: Seq, bodies: Vec<String>) {
        let at = self.time.now();
        let mut entries = self.entries();
        entries.order += 1;
        entries.writes += 1;
        let order = entries.order;
        entries.executed.push(Executed { order, run: run.clone(), after, bodies, at, by });
    }

    /// Records a change of a record.
    pub fn wrote(&self) {
        self.entries().writes += 1;
    }

    /// Records a side effect without duration.
    pub fn effect(&self, run: &RunId, step: &str, source: EffectSource) {
        drop(self.begin_effect(run, step, source));
    }

    /// Records the start of a side effect, which lasts until the returned guard is dropped.
    pub fn begin_effect(&self, run: &RunId, step: &str, source: EffectSource) -> Effect<'_> {
        self.line(&format!("n{} effect {run} {step} {} {}", source.node, source.attempt, source.key));
        let at = self.time.now();
        let mut entries = self.entries();
        entries.order += 1;
        let EffectSource { attempt, key, node, life } = source;
        let order = entries.order;
        let run = run.clone();
        let step = step.to_owned();
        entries.effects.push(ObservedEffect { order, run, step, attempt, key, at, node, life, until: None });
        Effect { journal: self, order }
    }

    /// Records an acknowledgement to a client.
    pub fn acknowledged(&self, ack: Ack) {
        self.line(&format!("ack {ack:?}"));
        self.entries().acks.push(ack);
    }

    /// Records an inconsistent record that the store listed.
    pub fn flaw(&self, what: String) {
        self.entries().flaws.push(what);
    }

    /// Records that a node was killed.
    pub fn killed(&self) {
        self.entries().kills += 1;
    }

    /// Records that this node was killed, left, or looked dead to others. Name either all such nodes or none.
    pub fn died(&self, node: &NodeId) {
        let mut entries = self.entries();
        entries.kills += 1;
        entries.dead.get_or_insert_default().insert(node.clone());
    }

    /// Records the node id of an incarnation.
    pub fn lives(&self, node: &NodeId, life: usize) {
        self.entries().lives.insert(node.clone(), life);
    }

    /// Records the workflow versions of a node.
    pub fn has(&self, node: &NodeId, versions: &[u32]) {
        self.entries().versions.insert(node.clone(), versions.to_vec());
    }

    /// Records that an incarnation is frozen or delayed from now on, unless it already is.
    pub fn froze(&self, life: usize) {
        let mut entries = self.entries();
        if !entries.windows.iter().any(|window| window.life == life && window.until.is_none()) {
            let from = entries.order;
            entries.windows.push(Window { life, from, until: None });
        }
    }

    /// Records the end of the period in which an incarnation is frozen or delayed.
    pub fn thawed(&self, life: usize) {
        let now = self.time.now();
        let mut entries = self.entries();
        let open = entries.windows.iter_mut().filter(|window| window.life == life && window.until.is_none());
        open.for_each(|window| window.until = Some(now));
    }

    /// Allows this many unexplained late effects: in real time, delays of nodes are not known.
    pub fn forgive(&self, late_max: u32) {
        self.entries().late_max = late_max;
    }

    /// Records that nodes are killed from outside repeatedly, and runs have a limit of recoveries.
    pub fn loops(&self) {
        self.entries().loops = true;
    }

    /// Records the end of the faults.
    pub fn calm(&self) {
        let now = self.time.now();
        self.entries().calm_at = Some(now);
    }

    /// Returns the number of appends and changes of records so far.
    pub fn writes(&self) -> u64 {
        self.entries().writes
    }

    /// Returns a copy of everything, for the checks.
    pub fn read(&self) -> JournalFacts {
        let entries = self.entries();
        JournalFacts {
            executed: entries.executed.clone(),
            effects: entries.effects.clone(),
            acks: entries.acks.clone(),
            flaws: entries.flaws.clone(),
            call_loops: entries.call_loops.clone(),
            kills: entries.kills,
            dead: entries.dead.clone(),
            windows: entries.windows.clone(),
            lives: entries.lives.clone(),
            versions: entries.versions.clone(),
            late_max: entries.late_max,
            calm_at: entries.calm_at,
            loops: entries.loops,
            calls: entries.calls,
            hash: entries.hash,
            trace: entries.trace.clone().unwrap_or_default(),
        }
    }
}

/// Guard of a side effect, which lasts until the guard is dropped.
#[derive(Debug)]
pub struct Effect<'a> {
    journal: &'a Journal,
    order: u64,
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        let mut entries = self.journal.entries();
        entries.order += 1;
        let now = entries.order;
        if let Some(seen) = entries.effects.iter_mut().rev().find(|seen| seen.order == self.order) {
            seen.until = Some(now);
        }
    }
}

/// Whether the lines of the trace are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Keep only their hash.
    Hash,
    /// Keep all lines.
    Keep,
}

/// The origin of a side effect and its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectSource {
    /// Number of the attempt.
    pub attempt: u32,
    /// The idempotency key.
    pub key: String,
    /// The node.
    pub node: usize,
    /// Its incarnation.
    pub life: usize,
}

/// The content of a journal.
#[derive(Debug, Clone, Default)]
pub struct JournalFacts {
    /// Appends in order.
    pub executed: Vec<Executed>,
    /// Side effects in order.
    pub effects: Vec<ObservedEffect>,
    /// Acknowledgements in order.
    pub acks: Vec<Ack>,
    /// Inconsistent records.
    pub flaws: Vec<String>,
    /// Endless loops of calls.
    pub call_loops: Vec<String>,
    /// Number of killed nodes.
    pub kills: u32,
    /// The killed nodes, if known.
    pub dead: Option<BTreeSet<NodeId>>,
    /// Periods in which incarnations were frozen or delayed, in order.
    pub windows: Vec<Window>,
    /// Incarnations by node id.
    pub lives: BTreeMap<NodeId, usize>,
    /// Workflow versions by node id, if known.
    pub versions: BTreeMap<NodeId, Vec<u32>>,
    /// Allowed number of unexplained late effects.
    pub late_max: u32,
    /// The true time at which the faults ended, if they did.
    pub calm_at: Option<Millis>,
    /// Whether nodes were killed from outside repeatedly and runs had a limit of recoveries.
    pub loops: bool,
    /// Calls that reached the store.
    pub calls: u64,
    /// Hash of the trace.
    pub hash: u64,
    /// The trace, if it was kept.
    pub trace: Vec<String>,
}
