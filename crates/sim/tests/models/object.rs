//! A run on object storage: batches that are created if absent, a row that is replaced by its tag, and markers that are
//! written before the change that they announce and removed after it. Each request is a separate action: its reply
//! may be lost, the server may be busy, a copy may arrive much later, or its sender may crash.

mod requests;

use goldseam_core::event::{JumpRequested, Note};
use goldseam_core::{Command, Event, Owned, Payload, Recorded, SignalName, State};
use stateright::{Model, Property};

use crate::check::Scoped;
use crate::decisions::{
    Decisions, Log, Order, Proposal, bits, done, ends_once, id, number, one_writer_per_epoch, path, queued,
};
use requests::{
    BUSY, KNOWN, Late, PUT_LATE, Phase, Process, REFUSED, ROW_SETTLED, SETTLED, SWEPT, UNMARKED_LATE,
};

pub(crate) use requests::World;

/// The intent of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Intent {
    Start,
    Claim,
    TakeOver,
    Step,
    Finish,
    /// The number of the signal, and how often it got a new id.
    Signal(u8, u8),
    Jump,
    /// Corrects only the row.
    Sweep,
}

/// The mistake of a broken twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// A writer treats its own object as a conflict.
    MistakesItsOwnObject,
    /// Batches overwrite existing objects.
    WritesBlindly,
    /// An owner trusts the row, which may be late.
    TrustsTheRow,
    /// The marker is removed before the row shows the end of the run.
    UnmarksFirst,
    /// All lives of a run share one marker.
    OneMarkerForAllLives,
    /// The row, which may be late, decides whether a run had ended.
    ContinuesByTheRow,
    /// A busy response counts as an existing object.
    TreatsBusyAsConflict,
}

/// The bounds of the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) nodes: usize,
    /// The intents of each client, in order.
    pub(crate) clients: &'static [&'static [Intent]],
    /// Maximum number of lost replies.
    pub(crate) losses: u8,
    /// Maximum number of requests of which a copy arrives later.
    pub(crate) delays: u8,
    /// Maximum number of busy responses.
    pub(crate) busy: u8,
    pub(crate) crashes: u8,
    /// Maximum number of faults in total.
    pub(crate) faults: u8,
}

impl Scope {
    pub(crate) const SMALL: Self = Self {
        nodes: 1,
        clients: &[&[Intent::Start, Intent::Signal(0, 0)]],
        losses: 1,
        delays: 1,
        busy: 1,
        crashes: 1,
        faults: 1,
    };
    /// Two clients start the run, or a second client continues the ended run.
    pub(crate) const LARGE: &[Self] = &[
        Self { clients: &[&[Intent::Start, Intent::Signal(0, 0)], &[Intent::Start]], ..Self::SMALL },
        Self { clients: &[&[Intent::Start], &[Intent::Jump]], ..Self::SMALL },
    ];

    fn has(&self, intent: Intent) -> bool {
        self.clients.iter().any(|wanted| wanted.contains(&intent))
    }

    fn sweeper(&self) -> usize {
        self.nodes + self.clients.len()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Begin(usize, Intent),
    Request(usize),
    RequestAndLoseReply(usize),
    Delay(usize),
    Busy(usize),
    Crash(usize),
    Arrive(usize),
    Tidy(u8),
    TidyLater(u8),
}

pub(crate) struct ObjectModel {
    bug: Bug,
    scope: Scope,
    decisions: Decisions<Intent>,
}

fn propose(log: &Log, order: &Order<Intent>) -> Option<Proposal> {
    let note = Note { id: "jump".to_owned(), by: None, reason: String::new() };
    match order.intent {
        Intent::Start => Some(Proposal::Ask(Command::Start { queued: queued(), claim: None })),
        Intent::Claim => order.claim(),
        Intent::TakeOver => order.take_over(log.now()),
        Intent::Step => order.owned(vec![done("step", 0, false)]),
        Intent::Finish => order.owned(vec![Owned::Complete(Payload::null())]),
        Intent::Signal(k, again) => {
            let name = id::<SignalName>("go");
            let id = format!("g{k}-{again}");
            Some(Proposal::Ask(Command::Signal { name, id, fresh: false, payload: number(k) }))
        }
        Intent::Jump => {
            let to = path("step");
            let jump = JumpRequested { note, to, input: None, drop_mail: false, compensate: false };
            Some(Proposal::Ask(Command::Jump(jump)))
        }
        Intent::Sweep => None,
    }
}

const ONE_WRITER: u32 = 1;
const BEGINS_ONCE: u32 = 2;
const ENDS_ONCE: u32 = 4;
const SIGNALS_ONCE: u32 = 8;

fn judge(records: &[Recorded], _: &State) -> u32 {
    let signals = records.iter().filter_map(|recorded| match &recorded.event {
        Event::SignalReceived { payload, .. } => Some(payload.as_str()),
        _ => None,
    });
    let mut signals: Vec<&str> = signals.collect();
    let all = signals.len();
    signals.sort_unstable();
    signals.dedup();
    bits([
        one_writer_per_epoch(records),
        records.iter().filter(|recorded| recorded.event.name() == "run.queued").count() == 1,
        ends_once(records),
        signals.len() == all,
    ])
}

impl ObjectModel {
    pub(crate) fn new(scope: Scope, bug: Bug) -> Self {
        Self { bug, scope, decisions: Decisions::new(propose, judge) }
    }

    /// Returns the next intent of a node for a run that it owns or finds.
    fn node_wants(&self, world: &World, who: usize) -> Option<Intent> {
        let process = &world.processes[who];
        let state = world.log.state.as_ref()?;
        if process.fence.is_some() {
            let known = match (self.bug, world.row) {
                (Bug::TrustsTheRow, Some(row)) => world.log.until(row.end),
                _ => world.log.until(process.view),
            };
            let has_step = known.now().ops.contains_key(&path("step"));
            return Some(if has_step { Intent::Finish } else { Intent::Step });
        }
        if !world.has_marker() || world.log.is_over() {
            return None;
        }
        match state.summary.owner {
            None => Some(Intent::Claim),
            Some(_) if world.is_orphaned() => Some(Intent::TakeOver),
            Some(_) => None,
        }
    }

    fn wants(&self, world: &World, who: usize) -> Option<Intent> {
        if who < self.scope.nodes {
            self.node_wants(world, who)
        } else if who == self.scope.sweeper() {
            (world.has_marker() && world.row_is_late()).then_some(Intent::Sweep)
        } else {
            let wanted = self.scope.clients[who - self.scope.nodes];
            let next = wanted.get(usize::from(world.processes[who].answered)).copied();
            next.filter(|intent| *intent != Intent::Jump || world.log.is_over())
        }
    }
}

impl Model for ObjectModel {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let process = Process { boot: 0, fence: None, view: 0, job: None, writes: 0, answered: 0 };
        vec![World {
            log: Log::empty(),
            row: None,
            markers: 0,
            processes: vec![process; self.scope.sweeper() + 1],
            late: vec![],
            acked: vec![],
            losses: 0,
            delays: 0,
            busy: 0,
            crashes: 0,
            repeated: false,
            seen: 0,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        let scope = &self.scope;
        let may_fail = world.losses + world.delays + world.busy + world.crashes < scope.faults;
        for (who, process) in world.processes.iter().enumerate() {
            let Some(job) = process.job else {
                actions.extend(self.wants(world, who).map(|intent| Act::Begin(who, intent)));
                let may_crash = may_fail && world.crashes < scope.crashes && process.fence.is_some();
                actions.extend(may_crash.then_some(Act::Crash(who)));
                continue;
            };
            actions.push(Act::Request(who));
            if !may_fail {
                continue;
            }
            actions.extend((world.losses < scope.losses).then_some(Act::RequestAndLoseReply(who)));
            actions.extend((world.delays < scope.delays).then_some(Act::Delay(who)));
            actions.extend((world.crashes < scope.crashes).then_some(Act::Crash(who)));
            let may_meet = world.busy < scope.busy && job.phase == Phase::Put;
            actions.extend(may_meet.then_some(Act::Busy(who)));
        }
        actions.extend((0..world.late.len()).map(Act::Arrive));
        let Some(row) = world.row.filter(|row| row.over) else { return };
        for marker in (0..row.end).filter(|marker| world.markers & (1 << marker) != 0) {
            actions.push(Act::Tidy(marker));
            actions.extend((may_fail && world.delays < scope.delays).then_some(Act::TidyLater(marker)));
        }
    }

    fn next_state(&self, world: &World, action: Act) -> Option<World> {
        let mut world = world.clone();
        match action {
            Act::Begin(who, intent) => {
                // The step is executed before it is written: record whether the owner repeats it.
                let done =
                    world.log.state.as_ref().is_some_and(|state| state.ops.contains_key(&path("step")));
                let epoch = world.log.state.as_ref().map_or(0, |state| state.summary.epoch.0);
                let is_owner = world.processes[who].fence.is_some_and(|fence| u64::from(fence.0) == epoch);
                world.repeated |= intent == Intent::Step && done && is_owner;
                self.begin(&mut world, who, intent)?;
            }
            Act::Request(who) => self.request(&mut world, who, true)?,
            Act::RequestAndLoseReply(who) => {
                world.losses += 1;
                self.request(&mut world, who, false)?;
            }
            Act::Delay(who) => {
                world.delays += 1;
                self.delay(&mut world, who)?;
            }
            Act::Busy(who) => {
                world.busy += 1;
                world.see(BUSY);
                if self.bug == Bug::TreatsBusyAsConflict {
                    let write = world.processes[who].job?.order.write;
                    world.processes[who].job = None;
                    world.processes[who].answered += 1;
                    world.acked.push(write);
                }
            }
            Act::Crash(who) => {
                world.crashes += 1;
                let Process { boot, answered, .. } = world.processes[who];
                world.processes[who] =
                    Process { boot: boot + 1, fence: None, view: 0, job: None, writes: 0, answered };
            }
            Act::Arrive(index) => self.arrive(&mut world, index)?,
            Act::Tidy(marker) => world.markers &= !(1 << marker),
            Act::TidyLater(marker) => {
                world.delays += 1;
                world.late.push(Late::Unmark(marker));
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type World = self::World;
        let mut properties = vec![
            // I5
            Property::always("one owner's appends per epoch", |_, w: &World| w.log.holds(ONE_WRITER)),
            // I14
            Property::always("a run begins once", |_, w: &World| w.log.holds(BEGINS_ONCE)),
            // I6
            Property::always("a run ends once", |_, w: &World| w.log.holds(ENDS_ONCE)),
            // I11
            Property::always("a signal is in the log once", |_, w: &World| w.log.holds(SIGNALS_ONCE)),
            // I2, I16
            Property::always("acknowledged writes stay", |_, w: &World| {
                w.acked.iter().all(|write| w.log.has(*write))
            }),
            // I4
            Property::always("no owner repeats a completed step", |_, w: &World| !w.repeated),
            // I7
            Property::always("the row equals an earlier state of the log", |_, w: &World| {
                w.row.is_none_or(|row| {
                    let log = w.log.until(row.end);
                    (log.appends, log.end(), log.is_over()) == (row.batch, row.end, row.over)
                })
            }),
            // I15, C18
            Property::always("a run that must be found has a marker", |_, w: &World| {
                !w.must_be_found() || w.has_marker()
            }),
            // I1, I15
            Property::always("no run is stuck", |m: &Self, w: &World| w.is_tidy() || m.can_move(w)),
            Property::sometimes("the run completes and leaves no marker", |_, w: &World| w.is_tidy()),
            Property::sometimes("a lost reply is settled", |_, w: &World| w.seen & SETTLED != 0),
            Property::sometimes("a row's lost reply is settled", |_, w: &World| w.seen & ROW_SETTLED != 0),
            Property::sometimes("a request to a busy server is retried", |_, w: &World| {
                w.seen & BUSY != 0 && w.is_tidy()
            }),
            Property::sometimes("a batch arrives late", |_, w: &World| w.seen & PUT_LATE != 0),
            Property::sometimes("a late row is corrected", |_, w: &World| w.seen & SWEPT != 0),
        ];
        if self.scope.has(Intent::Signal(0, 0)) {
            properties
                .push(Property::sometimes("a signal arrives too late", |_, w: &World| w.seen & REFUSED != 0));
        }
        if self.scope.has(Intent::Jump) {
            properties.push(Property::sometimes("a removal arrives in a later life", |_, w: &World| {
                w.seen & UNMARKED_LATE != 0
            }));
            properties.push(Property::sometimes("an ended run continues", |_, w: &World| {
                w.log.count("run.completed") > 0 && !w.log.is_over()
            }));
            properties.push(Property::sometimes("a continued run ends", |_, w: &World| {
                w.log.count("run.completed") > 1
            }));
        }
        if self.scope.clients.iter().filter(|wanted| wanted.contains(&Intent::Start)).count() > 1 {
            properties.push(Property::sometimes("an existing run is not started again", |_, w: &World| {
                w.seen & KNOWN != 0
            }));
        }
        properties
    }
}
