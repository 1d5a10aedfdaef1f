//! What was really done, in one order: appends that the store took, side effects, promises to clients.
//!
//! Nobody in the simulation reads it but the checks, so no engine can be right by accident.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goldseam_core::{Millis, NodeId, Path, RunId, Seq};

use crate::clock::TrueTime;

/// An append that the store took.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// Its place in the order of everything.
    pub order: u64,
    /// The run.
    pub run: RunId,
    /// It began after this position.
    pub after: Seq,
    /// The texts.
    pub bodies: Vec<String>,
    /// The true moment.
    pub at: Millis,
    /// Whose connection it came by.
    pub by: usize,
}

/// A side effect, as the world outside saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its place in the order of everything.
    pub order: u64,
    /// The run.
    pub run: RunId,
    /// What the step is called.
    pub step: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// The idempotency key that it was given; empty for a compensation.
    pub key: String,
    /// The true moment.
    pub at: Millis,
    /// The node that did it.
    pub node: usize,
    /// Which of the incarnations in its seat, counted over all seats.
    pub life: usize,
    /// The place in the order of everything at which it was over: done, failed or dropped. None while it goes on.
    pub until: Option<u64>,
}

/// A stretch of time in which one incarnation of a node stood still or was held up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The incarnation.
    pub life: usize,
    /// It began after so much of everything.
    pub from: u64,
    /// The true moment at which it was over, if it was.
    pub until: Option<Millis>,
}

/// Something that a client was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ack {
    /// A run was started with this input.
    Started(RunId, String),
    /// A second start under the id, with other input, was answered like this.
    OtherInput(RunId, Answer),
    /// Mail with this id was taken.
    Mail(RunId, String),
    /// The result of an attempt at a remote step, brought under this claim, was taken.
    Brought(RunId, Path, u32, u64),
    /// A lock was held from a moment to another at the most, both by the store's clock, under this fence.
    Held {
        /// The lock.
        lock: String,
        /// The number of the hold.
        fence: u64,
        /// From when.
        from: Millis,
        /// Until when, unless it was let go before.
        until: Millis,
    },
    /// Its holder began to let it go at this moment.
    LetGo {
        /// The lock.
        lock: String,
        /// The number of the hold.
        fence: u64,
        /// When.
        at: Millis,
    },
    /// A follower was shown these positions of a run, in this order.
    Followed(usize, RunId, Vec<Seq>),
    /// Right after an acknowledgement, the log held the command with this id, or not.
    Read(RunId, String, bool),
}

/// How a start with other input was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It was taken.
    Taken,
    /// It was refused as it must be.
    Refused,
    /// The store failed; nothing is known.
    Unknown,
}

#[derive(Debug, Default)]
struct Pages {
    order: u64,
    executed: Vec<Executed>,
    seen: Vec<Seen>,
    acks: Vec<Ack>,
    flaws: Vec<String>,
    rushes: Vec<String>,
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

/// Calls at one moment of virtual time that only a loop without an end makes.
const AT_ONCE_MAX: u64 = 50_000;

/// Whether calls reach the store without an end while no time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rush {
    /// They do not.
    No,
    /// They do.
    Endless,
}

/// The book itself.
#[derive(Debug)]
pub struct Book {
    time: TrueTime,
    pages: Mutex<Pages>,
}

impl Book {
    /// An empty one; it keeps every line if `trace` says so.
    pub fn new(time: TrueTime, trace: Trace) -> Self {
        let trace = (trace == Trace::Keep).then(Vec::new);
        Self { time, pages: Mutex::new(Pages { trace, hash: 0xcbf2_9ce4_8422_2325, ..Pages::default() }) }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True time.
    pub fn time(&self) -> TrueTime {
        self.time
    }

    /// A line of the trace.
    pub fn line(&self, text: &str) {
        let at = self.time.elapsed().as_millis();
        let line = format!("{at:>8} {text}");
        let mut pages = self.pages();
        for byte in line.bytes() {
            pages.hash = (pages.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        if let Some(trace) = &mut pages.trace {
            trace.push(line);
        }
    }

    /// A call reached the store.
    pub fn call(&self, by: usize, text: &str) -> Rush {
        let at = self.time.now();
        let mut pages = self.pages();
        pages.calls += 1;
        pages.at_once = if pages.called_at == at { pages.at_once + 1 } else { 1 };
        pages.called_at = at;
        let is_endless = pages.at_once > AT_ONCE_MAX;
        if is_endless {
            pages.rushes.push(format!("{AT_ONCE_MAX} calls at one moment, the last by node {by}: {text}"));
            pages.at_once = 0;
        }
        drop(pages);
        self.line(&format!("n{by} {text}"));
        if is_endless { Rush::Endless } else { Rush::No }
    }

    /// The store took an append.
    pub fn executed(&self, by: usize, (run, after): (&RunId, Seq), bodies: Vec<String>) {
        let at = self.time.now();
        let mut pages = self.pages();
        pages.order += 1;
        pages.writes += 1;
        let order = pages.order;
        pages.executed.push(Executed { order, run: run.clone(), after, bodies, at, by });
    }

    /// The store changed a record.
    pub fn wrote(&self) {
        self.pages().writes += 1;
    }

    /// A side effect was made, in one moment.
    pub fn saw(&self, run: &RunId, step: &str, mark: Mark) {
        drop(self.begins(run, step, mark));
    }

    /// A side effect begins; it goes on until what is returned is dropped.
    pub fn begins(&self, run: &RunId, step: &str, mark: Mark) -> Effect<'_> {
        self.line(&format!("n{} effect {run} {step} {} {}", mark.node, mark.attempt, mark.key));
        let at = self.time.now();
        let mut pages = self.pages();
        pages.order += 1;
        let Mark { attempt, key, node, life } = mark;
        let (order, run, step) = (pages.order, run.clone(), step.to_owned());
        pages.seen.push(Seen { order, run, step, attempt, key, at, node, life, until: None });
        Effect { book: self, order }
    }

    /// A client was told something.
    pub fn told(&self, ack: Ack) {
        self.line(&format!("told {ack:?}"));
        self.pages().acks.push(ack);
    }

    /// The store listed a record that contradicts itself.
    pub fn flaw(&self, what: String) {
        self.pages().flaws.push(what);
    }

    /// A node was killed.
    pub fn killed(&self) {
        self.pages().kills += 1;
    }

    /// This node was killed, left, or gave others proof of its death. If one is named, all of them are.
    pub fn died(&self, node: &NodeId) {
        let mut pages = self.pages();
        pages.kills += 1;
        pages.dead.get_or_insert_default().insert(node.clone());
    }

    /// This incarnation calls itself so.
    pub fn lives(&self, node: &NodeId, life: usize) {
        self.pages().lives.insert(node.clone(), life);
    }

    /// This node has these versions of every workflow.
    pub fn has(&self, node: &NodeId, versions: &[u32]) {
        self.pages().versions.insert(node.clone(), versions.to_vec());
    }

    /// An incarnation stands still or is held up from now on, unless it is already.
    pub fn froze(&self, life: usize) {
        let mut pages = self.pages();
        if !pages.windows.iter().any(|window| window.life == life && window.until.is_none()) {
            let from = pages.order;
            pages.windows.push(Window { life, from, until: None });
        }
    }

    /// It goes on.
    pub fn thawed(&self, life: usize) {
        let now = self.time.now();
        let mut pages = self.pages();
        let open = pages.windows.iter_mut().filter(|window| window.life == life && window.until.is_none());
        open.for_each(|window| window.until = Some(now));
    }

    /// So many effects may begin late without a reason: for stories in real time, where nobody knows who was held up.
    pub fn forgive(&self, late_max: u32) {
        self.pages().late_max = late_max;
    }

    /// Nodes are killed from outside again and again, and runs have a limit of recoveries.
    pub fn loops(&self) {
        self.pages().loops = true;
    }

    /// From now on nothing goes wrong any more.
    pub fn calm(&self) {
        let now = self.time.now();
        self.pages().calm_at = Some(now);
    }

    /// Appends and changes of records so far.
    pub fn writes(&self) -> u64 {
        self.pages().writes
    }

    /// Everything, for the checks.
    pub fn read(&self) -> Facts {
        let pages = self.pages();
        Facts {
            executed: pages.executed.clone(),
            seen: pages.seen.clone(),
            acks: pages.acks.clone(),
            flaws: pages.flaws.clone(),
            rushes: pages.rushes.clone(),
            kills: pages.kills,
            dead: pages.dead.clone(),
            windows: pages.windows.clone(),
            lives: pages.lives.clone(),
            versions: pages.versions.clone(),
            late_max: pages.late_max,
            calm_at: pages.calm_at,
            loops: pages.loops,
            calls: pages.calls,
            hash: pages.hash,
            trace: pages.trace.clone().unwrap_or_default(),
        }
    }
}

/// A side effect that goes on until this is dropped.
#[derive(Debug)]
pub struct Effect<'a> {
    book: &'a Book,
    order: u64,
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        let mut pages = self.book.pages();
        pages.order += 1;
        let now = pages.order;
        if let Some(seen) = pages.seen.iter_mut().rev().find(|seen| seen.order == self.order) {
            seen.until = Some(now);
        }
    }
}

/// Whether every line is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// Only their hash.
    Hash,
    /// All of them.
    Keep,
}

/// Who did a side effect, and under which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Number of the attempt.
    pub attempt: u32,
    /// The idempotency key.
    pub key: String,
    /// The node.
    pub node: usize,
    /// Its incarnation.
    pub life: usize,
}

/// What the book holds.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Appends in order.
    pub executed: Vec<Executed>,
    /// Side effects in order.
    pub seen: Vec<Seen>,
    /// Promises in order.
    pub acks: Vec<Ack>,
    /// Records that contradict themselves.
    pub flaws: Vec<String>,
    /// Loops without an end, that were met.
    pub rushes: Vec<String>,
    /// Nodes killed.
    pub kills: u32,
    /// Which of them, where that is known.
    pub dead: Option<BTreeSet<NodeId>>,
    /// When which incarnation was held up, in order.
    pub windows: Vec<Window>,
    /// The incarnations by the names in the logs.
    pub lives: BTreeMap<NodeId, usize>,
    /// The versions that each of them has of every workflow, where that is known.
    pub versions: BTreeMap<NodeId, Vec<u32>>,
    /// Effects that may begin late without a reason.
    pub late_max: u32,
    /// The true moment at which the faults stopped, if they did.
    pub calm_at: Option<Millis>,
    /// Nodes were killed from outside again and again, and runs had a limit of recoveries.
    pub loops: bool,
    /// Calls that reached the store.
    pub calls: u64,
    /// Hash of the trace.
    pub hash: u64,
    /// The trace, if it was kept.
    pub trace: Vec<String>,
}
