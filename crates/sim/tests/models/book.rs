//! Logs as many worlds share them, and what an order does to one. `decide`, `seal` and `derive` are the real ones;
//! each is asked once for a log and an order, and every other world that comes by is told the same.

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

/// It is always now: no model is about time.
pub(crate) const NOW: Millis = Millis(1);

/// What a log says, computed once.
pub(crate) struct Kept {
    pub(crate) records: Vec<Recorded>,
    pub(crate) head: Hash,
    /// None: nothing is there yet.
    pub(crate) state: Option<State>,
    /// What the model's judge found in it.
    pub(crate) facts: u32,
    /// How many appends made it.
    pub(crate) appends: u8,
    before: Option<Log>,
}

/// A log; its last fingerprint stands for all of it.
#[derive(Clone)]
pub(crate) struct Log(Arc<Kept>);

impl Deref for Log {
    type Target = Kept;
    fn deref(&self) -> &Kept {
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
    /// The log of a run that nobody has started.
    pub(crate) fn empty() -> Self {
        let (records, head, facts) = (vec![], Hash::ZERO, u32::MAX);
        Self(Arc::new(Kept { records, head, state: None, facts, appends: 0, before: None }))
    }

    /// How many events there are.
    pub(crate) fn end(&self) -> u8 {
        u8::try_from(self.records.len()).unwrap_or(u8::MAX)
    }

    /// What the engine believes about the run, which has begun.
    pub(crate) fn now(&self) -> &State {
        self.state.as_ref().unwrap_or_else(|| panic!("the run has not begun"))
    }

    /// The log as it was after an earlier append.
    pub(crate) fn until(&self, end: u8) -> &Self {
        let mut log = self;
        while log.end() > end
            && let Some(before) = &log.before
        {
            log = before;
        }
        log
    }

    /// What an owner knows once it has heard of its append: its claim if it still has one, and how far it has read.
    pub(crate) fn heard<I>(&self, order: &Order<I>) -> (Option<Fenced>, u8) {
        let own = |recorded: &&Recorded| recorded.write.0 == u64::from(order.write);
        let small = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
        let view = self.records.iter().rfind(own).map_or(0, |last| small(last.seq.0));
        let owner = self.until(view).state.as_ref().and_then(|state| state.summary.owner.clone());
        let claim = self.records.iter().filter(own).rfind(|r| r.event.name() == "run.claimed");
        let claim = claim.map(|claim| (small(claim.seq.0), small(claim.branch.0.into())));
        (claim.or(order.fence).filter(|_| owner == Some(order.node())), view)
    }

    /// Whether an append with this write-id is in it.
    pub(crate) fn has(&self, write: u16) -> bool {
        self.records.iter().any(|recorded| recorded.write.0 == u64::from(write))
    }

    /// How many events of this name there are.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.records.iter().filter(|recorded| recorded.event.name() == name).count()
    }

    /// Whether the run has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.summary.status.is_terminal())
    }

    /// Whether the judge found that this holds.
    pub(crate) fn holds(&self, fact: u32) -> bool {
        self.facts & fact != 0
    }
}

/// A position and a branch, as an owner names them.
pub(crate) type Fenced = (u8, u8);

/// Who wants what, under which claim and write-id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Order<I> {
    pub(crate) who: u8,
    pub(crate) boot: u8,
    pub(crate) intent: I,
    pub(crate) fence: Option<Fenced>,
    pub(crate) write: u16,
}

impl<I> Order<I> {
    /// The node that acts: another one after every crash.
    pub(crate) fn node(&self) -> NodeId {
        node(self.who, self.boot)
    }

    /// Doings of the owner that gives this order.
    pub(crate) fn owned(&self, doings: Vec<Owned>) -> Option<Deed> {
        let (epoch, branch) = self.fence?;
        let doings = doings.into_iter().map(|what| Doing { at: NOW, what }).collect();
        let fence = Fence { epoch: Seq(epoch.into()), branch: BranchId(branch.into()) };
        Some(Deed::Ask(Command::Owned(fence, doings)))
    }

    /// Takes a run that nobody has.
    pub(crate) fn claim(&self) -> Option<Deed> {
        Some(Deed::Ask(Command::Claim(Claim::by(self.node()))))
    }

    /// Takes a run from its owner.
    pub(crate) fn take_over(&self, state: &State) -> Option<Deed> {
        let (node, lived) = (state.summary.owner.clone()?, Lived::default());
        let lost = goldseam_core::command::Lost { node, proven: true, evidence: String::new(), lived };
        Some(Deed::Ask(Command::Claim(Claim { lost: Some(lost), ..Claim::by(self.node()) })))
    }
}

/// What an order comes down to.
pub(crate) enum Deed {
    /// The engine decides.
    Ask(Command),
    /// A broken twin writes this without asking.
    Forge(Vec<Event>, TaskMove),
}

/// What an order does to a log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Appended(Log, TaskMove),
    Nothing,
    Refused(Refusal),
}

/// Says what an order comes down to.
type Deeds<I> = dyn Fn(&Log, &Order<I>) -> Option<Deed> + Send + Sync;

/// What every order did to every log so far.
pub(crate) struct Book<I> {
    deed: Box<Deeds<I>>,
    judge: fn(&[Recorded], &State) -> u32,
    known: Mutex<HashMap<(Hash, Order<I>), Outcome>>,
}

impl<I: Copy + Eq + HashTrait> Book<I> {
    /// `deed` says what an order comes down to, `judge` which facts hold of a log, a bit each.
    pub(crate) fn new(
        deed: impl Fn(&Log, &Order<I>) -> Option<Deed> + Send + Sync + 'static,
        judge: fn(&[Recorded], &State) -> u32,
    ) -> Self {
        Self { deed: Box::new(deed), judge, known: Mutex::default() }
    }

    /// What `order` does to `log`.
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
        let (events, task) = match (self.deed)(log, &order) {
            None => return Outcome::Nothing,
            Some(Deed::Forge(events, task)) => {
                (events.into_iter().map(|event| Stamped { at: NOW, event }).collect(), task)
            }
            Some(Deed::Ask(command)) => {
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
        let (state, appends, before) = (Some(state), log.appends + 1, Some(log.clone()));
        Log(Arc::new(Kept { records, head, state, facts, appends, before }))
    }

    /// A log that begins with the run's own beginning.
    pub(crate) fn begun(&self) -> Log {
        let events = vec![Stamped { at: NOW, event: Event::RunQueued(queued()) }];
        self.append(&Log::empty(), events, None, 9_999)
    }
}

/// The run as it is started.
pub(crate) fn queued() -> RunQueued {
    RunQueued {
        workflow: id("w"),
        version: 1,
        input: Payload::null(),
        queue: id("q"),
        priority: 0,
        tags: Tags::new(),
        parent: None,
        plan: Vec::new(),
    }
}

/// A step that is done.
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

/// Says which of these hold, a bit each in their order.
pub(crate) fn bits<const N: usize>(facts: [bool; N]) -> u32 {
    facts.iter().rev().fold(0, |bits, fact| bits << 1 | u32::from(*fact))
}

/// Every event under a claim was written by whoever wrote the claim, and epochs never go down.
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

/// A branch ends once, and nothing follows its end but another branch, or a request for one.
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
