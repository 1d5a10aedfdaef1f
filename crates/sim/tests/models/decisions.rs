//! Logs that are shared by many worlds, and memoized decisions. `decide`, `seal` and `derive` are the real functions;
//! each is called once per log and order.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash as HashTrait, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use goldseam_core::command::Claim;
use goldseam_core::decide::{Stamped, TaskMove};
use goldseam_core::event::{RunQueued, StepCompleted, Tags};
use goldseam_core::recovery::Lived;
use goldseam_core::seal::{Place, seal};
use goldseam_core::{
    BranchId, Command, Doing, Event, Fence, Hash, Limits, Millis, NodeId, Owned, Path, Payload, Recorded,
    Refusal, RunId, Seq, State, View, WriteId, decide, derive,
};

/// The only time in the models.
pub(crate) const NOW: Millis = Millis(1);

/// The content of a log and what is derived from it.
pub(crate) struct LogData {
    pub(crate) records: Vec<Recorded>,
    pub(crate) head: Hash,
    /// None if the log is empty.
    pub(crate) state: Option<State>,
    /// The facts that the model's judge found, one bit each.
    pub(crate) facts: u32,
    /// Number of appends.
    pub(crate) appends: u8,
    before: Option<Log>,
}

/// A log, identified by its last hash.
#[derive(Clone)]
pub(crate) struct Log(Arc<LogData>);

impl Deref for Log {
    type Target = LogData;
    fn deref(&self) -> &LogData {
        &self.0
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.records.iter().map(|r| (r.event.name(), r.write.0))).finish()
    }
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head
    }
}

impl HashTrait for Log {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.head.hash(state);
    }
}

impl Log {
    /// Returns an empty log.
    pub(crate) fn empty() -> Self {
        Self(Arc::new(LogData {
            records: vec![],
            head: Hash::ZERO,
            state: None,
            facts: u32::MAX,
            appends: 0,
            before: None,
        }))
    }

    /// Returns the number of events.
    pub(crate) fn end(&self) -> u8 {
        u8::try_from(self.records.len()).unwrap_or(u8::MAX)
    }

    /// Returns the state of the run, which must have begun.
    pub(crate) fn now(&self) -> &State {
        self.state.as_ref().unwrap_or_else(|| panic!("the run has not begun"))
    }

    /// Returns the log as it was when it ended at `end`.
    pub(crate) fn until(&self, end: u8) -> &Self {
        let mut log = self;
        while log.end() > end
            && let Some(before) = &log.before
        {
            log = before;
        }
        log
    }

    /// Returns what a writer knows after the reply to its append: its claim, if it still has one, and the end that it
    /// has read.
    pub(crate) fn view_after<I>(&self, order: &Order<I>) -> (Option<Fenced>, u8) {
        let own = |recorded: &&Recorded| recorded.write.0 == u64::from(order.write);
        let small = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
        let view = self.records.iter().rfind(own).map_or(0, |last| small(last.seq.0));
        let owner = self.until(view).state.as_ref().and_then(|state| state.summary.owner.clone());
        let claim = self.records.iter().filter(own).rfind(|r| r.event.name() == "run.claimed");
        let claim = claim.map(|claim| (small(claim.seq.0), small(claim.branch.0.into())));
        (claim.or(order.fence).filter(|_| owner == Some(order.node())), view)
    }

    /// Returns whether the log contains the append with this write-id.
    pub(crate) fn has(&self, write: u16) -> bool {
        self.records.iter().any(|recorded| recorded.write.0 == u64::from(write))
    }

    /// Counts the events of this name.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.records.iter().filter(|recorded| recorded.event.name() == name).count()
    }

    /// Returns whether the run has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.summary.status.is_terminal())
    }

    /// Returns whether the judge found this fact.
    pub(crate) fn holds(&self, fact: u32) -> bool {
        self.facts & fact != 0
    }
}

/// The epoch and branch of an owner's fence.
pub(crate) type Fenced = (u8, u8);

/// An intent of an actor, with its claim and write-id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Order<I> {
    pub(crate) who: u8,
    pub(crate) boot: u8,
    pub(crate) intent: I,
    pub(crate) fence: Option<Fenced>,
    pub(crate) write: u16,
}

impl<I> Order<I> {
    /// Returns the node of the actor, which changes with every crash.
    pub(crate) fn node(&self) -> NodeId {
        node(self.who, self.boot)
    }

    /// Proposes actions of the owner that gives this order.
    pub(crate) fn owned(&self, doings: Vec<Owned>) -> Option<Proposal> {
        let (epoch, branch) = self.fence?;
        let doings = doings.into_iter().map(|what| Doing { at: NOW, what }).collect();
        let fence = Fence { epoch: Seq(epoch.into()), branch: BranchId(branch.into()) };
        Some(Proposal::Ask(Command::Owned(fence, doings)))
    }

    /// Proposes to claim a run without an owner.
    pub(crate) fn claim(&self) -> Option<Proposal> {
        Some(Proposal::Ask(Command::Claim(Claim::by(self.node()))))
    }

    /// Proposes to take a run over from its owner.
    pub(crate) fn take_over(&self, state: &State) -> Option<Proposal> {
        let lost = goldseam_core::command::Lost {
            node: state.summary.owner.clone()?,
            proven: true,
            evidence: String::new(),
            lived: Lived::default(),
        };
        Some(Proposal::Ask(Command::Claim(Claim { lost: Some(lost), ..Claim::by(self.node()) })))
    }
}

/// The proposed change of an order.
#[expect(clippy::large_enum_variant, reason = "few exist at a time")]
pub(crate) enum Proposal {
    /// A command for the real `decide`.
    Ask(Command),
    /// Events that a broken twin writes without `decide`.
    Forge(Vec<Event>, TaskMove),
}

/// The result of an order on a log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Appended(Log, TaskMove),
    Nothing,
    Refused(Refusal),
}

/// Returns the proposed change of an order.
type Propose<I> = dyn Fn(&Log, &Order<I>) -> Option<Proposal> + Send + Sync;

/// The memoized outcomes of orders on logs.
pub(crate) struct Decisions<I> {
    propose: Box<Propose<I>>,
    judge: fn(&[Recorded], &State) -> u32,
    known: Mutex<HashMap<(Hash, Order<I>), Outcome>>,
}

impl<I: Copy + Eq + HashTrait> Decisions<I> {
    /// `propose` returns the proposed change of an order; `judge` returns the facts of a log, one bit each.
    pub(crate) fn new(
        propose: impl Fn(&Log, &Order<I>) -> Option<Proposal> + Send + Sync + 'static,
        judge: fn(&[Recorded], &State) -> u32,
    ) -> Self {
        Self { propose: Box::new(propose), judge, known: Mutex::default() }
    }

    /// Returns the result of `order` on `log`.
    pub(crate) fn outcome(&self, log: &Log, order: Order<I>) -> Outcome {
        let key = (log.head, order);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outcome) = known().get(&key) {
            return outcome.clone();
        }
        let outcome = self.decide(log, order);
        known().entry(key).or_insert(outcome).clone()
    }

    fn decide(&self, log: &Log, order: Order<I>) -> Outcome {
        let (events, task) = match (self.propose)(log, &order) {
            None => return Outcome::Nothing,
            Some(Proposal::Forge(events, task)) => {
                (events.into_iter().map(|event| Stamped { at: NOW, event }).collect(), task)
            }
            Some(Proposal::Ask(command)) => {
                let view = log.state.as_ref().map_or(View::Absent, View::Full);
                match decide(view, &command, NOW, &Limits::default()) {
                    Err(refusal) => return Outcome::Refused(refusal),
                    Ok(decision) => (decision.events, decision.task),
                }
            }
        };
        if events.is_empty() {
            return Outcome::Nothing;
        }
        let epoch = order.fence.map(|(epoch, _)| Seq(epoch.into()));
        Outcome::Appended(self.append(log, events, epoch, order.write), task)
    }

    fn append(&self, log: &Log, events: Vec<Stamped>, epoch: Option<Seq>, write: u16) -> Log {
        let branch = log.state.as_ref().map_or(BranchId::ROOT, |state| state.summary.branch);
        let after = Seq(log.records.len() as u64);
        let sealed =
            seal(Place { after, prev: log.head, branch, epoch, write: WriteId(write.into()) }, events);
        let head = sealed.heads.last().copied().unwrap_or(log.head);
        let mut records = log.records.clone();
        records.extend(sealed.records);
        let state = derive(&id::<RunId>("r1"), &records, head).unwrap_or_else(|e| panic!("{e}"));
        let facts = (self.judge)(&records, &state);
        Log(Arc::new(LogData {
            records,
            head,
            state: Some(state),
            facts,
            appends: log.appends + 1,
            before: Some(log.clone()),
        }))
    }

    /// Returns the log of a queued run.
    pub(crate) fn begun(&self) -> Log {
        let events = vec![Stamped { at: NOW, event: Event::RunQueued(queued()) }];
        self.append(&Log::empty(), events, None, 9_999)
    }
}

/// Returns the first event of the run.
pub(crate) fn queued() -> RunQueued {
    RunQueued {
        workflow: id("w"),
        version: 1,
        input: Payload::null(),
        queue: id("q"),
        priority: 0,
        tags: Tags::new(),
        attributes: Default::default(),
        parent: None,
        plan: Vec::new(),
        trace: None,
        start_at: None,
        deadline: None,
        lane: None,
    }
}

/// Returns the completion of a step.
pub(crate) fn done(step: &str, ord: u32, undo: bool) -> Owned {
    Owned::StepCompleted(StepCompleted {
        path: path(step),
        ord,
        attempt: 1,
        began: NOW,
        output: Payload::null(),
        input: None,
        undo,
        group: false,
        fence: None,
    })
}

/// Packs facts into bits, the first one into the lowest bit.
pub(crate) fn bits<const N: usize>(facts: [bool; N]) -> u32 {
    facts.iter().rev().fold(0, |bits, fact| bits << 1 | u32::from(*fact))
}

/// Returns whether each event under a claim has the writer of the claim, and epochs never decrease.
pub(crate) fn one_writer_per_epoch(records: &[Recorded]) -> bool {
    let claimed = |epoch: Seq| records.iter().find(|r| r.seq == epoch && r.event.name() == "run.claimed");
    let same = |recorded: &Recorded| match recorded.epoch.map(claimed) {
        None => true,
        Some(None) => false,
        Some(Some(claim)) => claim.write.0 / 100 == recorded.write.0 / 100,
    };
    let epochs: Vec<Seq> = records.iter().filter_map(|recorded| recorded.epoch).collect();
    records.iter().all(same) && epochs.is_sorted()
}

/// Returns whether each branch ends once, followed only by another branch, a request for one, or a note.
pub(crate) fn ends_once(records: &[Recorded]) -> bool {
    let mut over = false;
    records.iter().all(|recorded| {
        let event = &recorded.event;
        let was_over = over;
        over = (over || event.is_terminal()) && !matches!(event, Event::BranchOpened(_));
        !was_over || matches!(event, Event::BranchOpened(_) | Event::JumpRequested(_) | Event::NoteAdded(_))
    })
}

pub(crate) fn node(who: u8, boot: u8) -> NodeId {
    id(&format!("n-{who}-{boot}"))
}

pub(crate) fn id<T: for<'a> TryFrom<&'a str>>(text: &str) -> T {
    T::try_from(text).unwrap_or_else(|_| panic!("{text}"))
}

pub(crate) fn path(text: &str) -> Path {
    Path::new(text).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn number(value: u8) -> Payload {
    Payload::of(&value, &Limits::default()).unwrap_or_else(|e| panic!("{e}"))
}
