//! A run on nothing but objects: batches that are created if they are absent, a row that is replaced by its tag, and
//! markers that are written before what they tell of and removed after it. Every request is a step by itself: its
//! reply is lost, the server is busy, a copy of it arrives much later, or its sender crashes.

mod requests;

use goldseam_core::event::{JumpRequested, Note};
use goldseam_core::{Command, Event, Owned, Payload, Recorded, SignalName, State};
use stateright::{Model, Property};

use crate::book::{
    Book, Deed, Log, Order, bits, done, ends_once, id, number, one_writer_per_epoch, path, queued,
};
use crate::check::Scoped;
use requests::{
    BUSY, KNOWN, Late, PUT_LATE, Phase, Process, REFUSED, ROW_SETTLED, SETTLED, SWEPT, UNMARKED_LATE,
};

pub(crate) use requests::World;

/// What one append is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Intent {
    Start,
    Claim,
    TakeOver,
    Step,
    Finish,
    /// Which one, and how often it was made up anew.
    Signal(u8, u8),
    Jump,
    /// Only the row is put right.
    Sweep,
}

/// What is wrong with a broken twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Whoever finds its own object there believes that somebody was faster.
    TakesItsOwnForAnothers,
    /// Batches are written whatever is there.
    WritesBlindly,
    /// An owner goes by the row.
    TrustsTheRow,
    /// The marker goes before the row says that the run is over.
    UnmarksFirst,
    /// Every life of a run has the same marker.
    OneMarkerForAllLives,
    /// Whether a run was over is told by its row, which may be late.
    GoesOnByTheRow,
    /// A busy server means that the object is there.
    TakesBusyForThere,
}

/// How much happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) nodes: usize,
    /// What each client wants, in order.
    pub(crate) clients: &'static [&'static [Intent]],
    /// Replies that are lost.
    pub(crate) losses: u8,
    /// Requests of which a copy arrives later.
    pub(crate) delays: u8,
    /// Answers that another request is under way.
    pub(crate) busy: u8,
    pub(crate) crashes: u8,
    /// All of these together.
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
    /// Two start the run, or one more lets it go on after it was over.
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
    RequestAndLoseTheReply(usize),
    Delay(usize),
    Busy(usize),
    Crash(usize),
    Arrive(usize),
    Tidy(u8),
    TidyLater(u8),
}

pub(crate) struct Bucket {
    bug: Bug,
    scope: Scope,
    book: Book<Intent>,
}

fn deed(log: &Log, order: &Order<Intent>) -> Option<Deed> {
    let note = Note { id: "jump".to_owned(), by: None, reason: String::new() };
    match order.intent {
        Intent::Start => Some(Deed::Ask(Command::Start { queued: queued(), claim: None })),
        Intent::Claim => order.claim(),
        Intent::TakeOver => order.take_over(log.now()),
        Intent::Step => order.owned(vec![done("step", 0, false)]),
        Intent::Finish => order.owned(vec![Owned::Complete(Payload::null())]),
        Intent::Signal(k, again) => {
            let (name, id) = (id::<SignalName>("go"), format!("g{k}-{again}"));
            Some(Deed::Ask(Command::Signal { name, id, fresh: false, payload: number(k) }))
        }
        Intent::Jump => {
            let to = path("step");
            let jump = JumpRequested { note, to, input: None, drop_mail: false, compensate: false };
            Some(Deed::Ask(Command::Jump(jump)))
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

impl Bucket {
    pub(crate) fn new(scope: Scope, bug: Bug) -> Self {
        Self { bug, scope, book: Book::new(deed, judge) }
    }

    /// What a node does next with a run that it has, or finds.
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
            let next = wanted.get(usize::from(world.processes[who].told)).copied();
            next.filter(|intent| *intent != Intent::Jump || world.log.is_over())
        }
    }
}

impl Model for Bucket {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let process = Process { boot: 0, fence: None, view: 0, job: None, writes: 0, told: 0 };
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
            actions.extend((world.losses < scope.losses).then_some(Act::RequestAndLoseTheReply(who)));
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
                // The step is done before anybody says so: was it done already, as the owner could know?
                let done =
                    world.log.state.as_ref().is_some_and(|state| state.ops.contains_key(&path("step")));
                let epoch = world.log.state.as_ref().map_or(0, |state| state.summary.epoch.0);
                let is_owner = world.processes[who].fence.is_some_and(|fence| u64::from(fence.0) == epoch);
                world.repeated |= intent == Intent::Step && done && is_owner;
                self.begin(&mut world, who, intent)?;
            }
            Act::Request(who) => self.request(&mut world, who, true)?,
            Act::RequestAndLoseTheReply(who) => {
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
                if self.bug == Bug::TakesBusyForThere {
                    let write = world.processes[who].job?.order.write;
                    world.processes[who].job = None;
                    world.processes[who].told += 1;
                    world.acked.push(write);
                }
            }
            Act::Crash(who) => {
                world.crashes += 1;
                let Process { boot, told, .. } = world.processes[who];
                world.processes[who] =
                    Process { boot: boot + 1, fence: None, view: 0, job: None, writes: 0, told };
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
            Property::always("a signal stands once in the log", |_, w: &World| w.log.holds(SIGNALS_ONCE)),
            // I2, I16
            Property::always("what was acknowledged stays", |_, w: &World| {
                w.acked.iter().all(|write| w.log.has(*write))
            }),
            // I4
            Property::always("no owner does again what is done", |_, w: &World| !w.repeated),
            // I7
            Property::always("the row says what the log said", |_, w: &World| {
                w.row.is_none_or(|row| {
                    let log = w.log.until(row.end);
                    (log.appends, log.end(), log.is_over()) == (row.batch, row.end, row.over)
                })
            }),
            // I15, C18
            Property::always("whoever must be found has a marker", |_, w: &World| {
                !w.must_be_found() || w.has_marker()
            }),
            // I1, I15
            Property::always("nothing is stuck", |m: &Self, w: &World| w.is_tidy() || m.can_move(w)),
            Property::sometimes("it completes and leaves nothing behind", |_, w: &World| w.is_tidy()),
            Property::sometimes("a lost reply is settled", |_, w: &World| w.seen & SETTLED != 0),
            Property::sometimes("a row's lost reply is settled", |_, w: &World| w.seen & ROW_SETTLED != 0),
            Property::sometimes("a busy server is asked again", |_, w: &World| {
                w.seen & BUSY != 0 && w.is_tidy()
            }),
            Property::sometimes("a batch arrives late", |_, w: &World| w.seen & PUT_LATE != 0),
            Property::sometimes("a late row is put right", |_, w: &World| w.seen & SWEPT != 0),
        ];
        if self.scope.has(Intent::Signal(0, 0)) {
            properties
                .push(Property::sometimes("a signal comes too late", |_, w: &World| w.seen & REFUSED != 0));
        }
        if self.scope.has(Intent::Jump) {
            properties.push(Property::sometimes("a removal arrives in a later life", |_, w: &World| {
                w.seen & UNMARKED_LATE != 0
            }));
            properties.push(Property::sometimes("a run that was over goes on", |_, w: &World| {
                w.log.count("run.completed") > 0 && !w.log.is_over()
            }));
            properties.push(Property::sometimes("a run that went on ends", |_, w: &World| {
                w.log.count("run.completed") > 1
            }));
        }
        if self.scope.clients.iter().filter(|wanted| wanted.contains(&Intent::Start)).count() > 1 {
            properties.push(Property::sometimes("a run that is there is not begun again", |_, w: &World| {
                w.seen & KNOWN != 0
            }));
        }
        properties
    }
}
