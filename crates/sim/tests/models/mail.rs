//! Signals and waits: a run reads its mail and becomes dormant while signals arrive, its wake-up is lost, its owner
//! crashes, an operator jumps back to its start, and it continues as new.

use std::collections::BTreeSet;

use goldseam_core::command::Heal;
use goldseam_core::decide::TaskMove;
use goldseam_core::event::{By, JumpRequested, Note, Release, WaitStarted};
use goldseam_core::recovery::{Bounds, Cached, Healer, Owner, Reason, Remedy, Sight, diagnose};
use goldseam_core::state::{OpKind, WaitOp};
use goldseam_core::task::{NewTask, Task as Record};
use goldseam_core::{
    BranchId, Command, Event, Limits, Millis, Owned, Payload, Recorded, Seq, SignalName, State, View, decide,
};
use stateright::{Model, Property};

use crate::check::Scoped;
use crate::cluster::{Cluster, Landed, Sent, Task};
use crate::decisions::{
    Decisions, Log, NOW, Order, Outcome, Proposal, bits, ends_once, id, number, one_writer_per_epoch, path,
};

/// The intent of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Intent {
    Claim,
    TakeOver,
    Wait(u8, Rest),
    Check(u8, Rest),
    ContinueAsNew(u8),
    Finish,
    Signal(u8),
    Jump(u8),
    /// Heal; the healer has read the log up to this end.
    Heal(u8),
}

/// Whether the run is released when it only waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rest {
    Yes,
    /// No, because the log has changed: the code reads it first.
    No,
    /// A broken twin uses the decision that it made when the log ended here.
    AsDecidedAt(u8),
}

/// The mistake of a broken twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// It releases the run by an outdated view of its mail.
    RestsOnAStaleView,
    /// A repeated signal counts as another signal.
    ForgetsSignalIds,
    /// `continue_as_new` drops unread mail.
    DropsMail,
}

/// The bounds of the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) owners: usize,
    pub(crate) signals: u8,
    /// Number of generations of the run.
    pub(crate) generations: u8,
    /// Number of signals that each generation waits for.
    pub(crate) waits: u8,
    pub(crate) jumps: u8,
    /// Maximum number of lost wake-ups.
    pub(crate) hints: u8,
    /// Maximum number of owner crashes.
    pub(crate) crashes: u8,
    /// Maximum number of clients that miss a reply and retry.
    pub(crate) retries: u8,
    /// Maximum number of faults in total.
    pub(crate) faults: u8,
}

impl Scope {
    pub(crate) const SMALL: Self = Self {
        owners: 1,
        signals: 2,
        generations: 2,
        waits: 1,
        jumps: 1,
        hints: 1,
        crashes: 1,
        retries: 1,
        faults: 1,
    };
    /// Two owners, or more signals than waits.
    pub(crate) const LARGE: &[Self] =
        &[Self { owners: 2, signals: 1, generations: 1, ..Self::SMALL }, Self { signals: 3, ..Self::SMALL }];

    fn client(&self) -> usize {
        self.owners
    }

    fn person(&self) -> usize {
        self.owners + 1
    }

    fn healer(&self) -> usize {
        self.owners + 2
    }
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct World {
    cluster: Cluster<Intent>,
    /// Number of signals that were acknowledged to the client.
    answered: u8,
    jumps: u8,
    hints: u8,
    crashes: u8,
    retries: u8,
    healed: bool,
    deduplicated: bool,
    looked_again: bool,
    came_too_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Send(usize, Intent),
    Land(usize),
    LandAndLoseHint(usize),
    LandAndCrash(usize),
    Crash(usize),
    LandAfterCrash(usize),
    FindDuplicate,
}

pub(crate) struct MailModel {
    bug: Bug,
    scope: Scope,
    decisions: Decisions<Intent>,
}

impl MailModel {
    pub(crate) fn new(scope: Scope, bug: Bug) -> Self {
        Self { bug, scope, decisions: Decisions::new(move |log, order| propose(bug, log, order), judge) }
    }

    /// Returns the next intent of the workflow's code, by the state that its owner has read.
    fn next(&self, state: &State) -> Intent {
        for wait in 0..self.scope.waits {
            match state.ops.get(&wait_path(wait)).map(|op| &op.kind) {
                Some(OpKind::Wait(WaitOp { found: Some(_), .. })) => {}
                Some(_) => return Intent::Check(wait, Rest::Yes),
                None => return Intent::Wait(wait, Rest::Yes),
            }
        }
        let next = state.queued.input.read::<Option<u8>>().ok().flatten().unwrap_or(0) + 1;
        if next < self.scope.generations { Intent::ContinueAsNew(next) } else { Intent::Finish }
    }

    /// Returns the order to send after a conflict.
    fn again(&self, sent: Sent<Intent>) -> Order<Intent> {
        let rest = match self.bug {
            Bug::RestsOnAStaleView => Rest::AsDecidedAt(sent.after),
            _ => Rest::No,
        };
        let intent = match sent.order.intent {
            Intent::Wait(wait, Rest::Yes) => Intent::Wait(wait, rest),
            Intent::Check(wait, Rest::Yes) => Intent::Check(wait, rest),
            other => other,
        };
        Order { intent, ..sent.order }
    }

    fn land(&self, world: &mut World, who: usize, replied: bool) -> Option<Landed> {
        let landed = world.cluster.land(&self.decisions, who, replied, |_, sent| self.again(sent))?;
        let rests = |sent: Sent<Intent>| matches!(sent.order.intent, Intent::Wait(_, Rest::No));
        world.looked_again |= landed == Landed::Again && world.cluster.actors[who].sent.is_some_and(rests);
        if who == self.scope.client() {
            let is_there = matches!(landed, Landed::Done(_) | Landed::Settled | Landed::Nothing);
            world.answered += u8::from(is_there);
            world.deduplicated |= landed == Landed::Nothing;
            world.came_too_late |= matches!(landed, Landed::Refused(_));
        }
        world.healed |= who == self.scope.healer() && matches!(landed, Landed::Done(_));
        Some(landed)
    }

    fn actor_actions(&self, world: &World, who: usize, actions: &mut Vec<Act>) {
        let cluster = &world.cluster;
        let scope = &self.scope;
        let actor = &cluster.actors[who];
        let end = cluster.log.end();
        let may_fail = world.hints + world.crashes + world.retries < scope.faults;
        let may_crash = match who {
            who if who < scope.owners => {
                world.crashes < scope.crashes && (actor.sent.is_some() || actor.fence.is_some())
            }
            who => who == scope.client() && world.retries < scope.retries && actor.sent.is_some(),
        };
        if may_fail && may_crash {
            actions.push(Act::Crash(who));
            actions.extend(actor.sent.map(|_| Act::LandAndCrash(who)));
        }
        if actor.sent.is_some() {
            actions.push(Act::Land(who));
            let may_lose = may_fail && world.hints < scope.hints && cluster.task == Task::Dormant;
            actions.extend(may_lose.then_some(Act::LandAndLoseHint(who)));
        } else if who == scope.client() {
            let next = Act::Send(who, Intent::Signal(world.answered));
            actions.extend((world.answered < scope.signals).then_some(next));
            actions.extend((world.answered < scope.signals).then_some(Act::FindDuplicate));
        } else if who == scope.person() {
            actions.extend((world.jumps < scope.jumps).then_some(Act::Send(who, Intent::Jump(world.jumps))));
        } else if who == scope.healer() {
            actions.extend((cluster.task == Task::Dormant).then_some(Act::Send(who, Intent::Heal(end))));
        } else if actor.fence.is_some() {
            actions.push(Act::Send(who, self.next(cluster.log.until(actor.view).now())));
        } else {
            actions.extend((cluster.task == Task::Ready).then_some(Act::Send(who, Intent::Claim)));
            actions.extend(cluster.is_orphaned().then_some(Act::Send(who, Intent::TakeOver)));
        }
    }
}

fn wait_path(wait: u8) -> goldseam_core::Path {
    path(&format!("w{wait}"))
}

fn propose(bug: Bug, log: &Log, order: &Order<Intent>) -> Option<Proposal> {
    let note = |id: String| Note { id, by: None, reason: String::new() };
    match order.intent {
        Intent::Claim => order.claim(),
        Intent::TakeOver => order.take_over(log.now()),
        Intent::Signal(k) => {
            let again = if bug == Bug::ForgetsSignalIds { order.write } else { 0 };
            let name = id::<SignalName>("go");
            let id = format!("g{k}-{again}");
            Some(Proposal::Ask(Command::Signal { name, id, fresh: false, payload: number(k) }))
        }
        Intent::Jump(n) => {
            let note = note(format!("j{n}"));
            let to = wait_path(0);
            let jump = JumpRequested { note, to, input: None, drop_mail: false, compensate: false };
            Some(Proposal::Ask(Command::Jump(jump)))
        }
        Intent::Heal(at) => heal(log.now(), at),
        Intent::Wait(wait, rest) => {
            let path = wait_path(wait);
            let ord = wait.into();
            let signals = vec![id::<SignalName>("go")];
            let wanted = WaitStarted {
                path,
                ord,
                signals,
                schemas: std::collections::BTreeMap::new(),
                inputs: vec![],
                children: vec![],
                due: None,
            };
            resting(log, order, Owned::Wait { wanted, ask: None }, rest)
        }
        Intent::Check(wait, rest) => resting(log, order, Owned::Check(wait_path(wait)), rest),
        Intent::ContinueAsNew(generation) => {
            let propose = order.owned(vec![Owned::ContinueAsNew(number(generation))])?;
            let (Proposal::Ask(command), Bug::DropsMail) = (&propose, bug) else { return Some(propose) };
            let Some((mut events, task)) = decided(log, command) else { return Some(propose) };
            for event in &mut events {
                if let Event::BranchOpened(opened) = event {
                    opened.carried.iter_mut().for_each(|carried| carried.mail.clear());
                }
            }
            Some(Proposal::Forge(events, task))
        }
        Intent::Finish => order.owned(vec![Owned::Complete(Payload::null())]),
    }
}

fn resting(log: &Log, order: &Order<Intent>, doing: Owned, rest: Rest) -> Option<Proposal> {
    let mut doings = vec![doing];
    if rest != Rest::No {
        doings.push(Owned::Release(Release::Unload));
    }
    let propose = order.owned(doings)?;
    let (Proposal::Ask(command), Rest::AsDecidedAt(end)) = (&propose, rest) else { return Some(propose) };
    match (decided(log, command), decided(log.until(end), command)) {
        (Some(_), Some((events, task))) => Some(Proposal::Forge(events, task)),
        _ => Some(propose),
    }
}

fn decided(log: &Log, command: &Command) -> Option<(Vec<Event>, TaskMove)> {
    let decision = decide(View::Full(log.now()), command, NOW, &Limits::default()).ok()?;
    Some((decision.events.into_iter().map(|stamped| stamped.event).collect(), decision.task))
}

/// Proposes what a sweep does about a run with a dormant task, by the real diagnosis.
fn heal(state: &State, at: u8) -> Option<Proposal> {
    let task = NewTask {
        id: Record::advance_id(&state.summary.run, 1),
        kind: Record::advance_kind("w", 0),
        queue: id("q"),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis::NEVER,
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    let task = task.into_task(NOW);
    let sight = Sight {
        now: NOW,
        state,
        row: Some(Cached { summary: &state.summary, task: Some(&task.id) }),
        task: Some(&task),
        owner: if state.summary.owner.is_some() { Owner::Alive } else { Owner::None },
        claimant: Owner::None,
        versions: None,
        queues: None,
        remote: &[],
        children: &[],
        bounds: Bounds::default(),
    };
    let found = diagnose(&sight).into_iter().find(|found| found.remedy == Remedy::Wake)?;
    let healer = Healer { node: None, reason: Reason::StaleDetection };
    let rule = found.rule;
    let evidence = found.evidence;
    let remedy = found.remedy;
    Some(Proposal::Ask(Command::Heal(Heal {
        rule,
        evidence,
        remedy,
        at: Seq(at.into()),
        healer,
        note: None,
    })))
}

/// Returns the mail that a branch and its lineage consumed, up to a position.
fn taken(records: &[Recorded], branch: BranchId, until: Seq) -> Vec<Seq> {
    let opened = records.iter().find_map(|recorded| match &recorded.event {
        Event::BranchOpened(opened) if opened.branch == branch => Some((recorded.seq, opened)),
        _ => None,
    });
    let mut mail = match opened {
        None => vec![],
        Some((seq, opened)) => match opened.parent {
            Some(parent) => taken(records, parent, opened.cutoff.min(until)),
            None => {
                let before = records.iter().rfind(|recorded| recorded.seq < seq);
                before.map_or_else(Vec::new, |before| taken(records, before.branch, before.seq.min(until)))
            }
        },
    };
    mail.extend(records.iter().filter_map(|recorded| match recorded.event {
        Event::WaitResolved { by: By::Mail(seq), .. }
            if recorded.branch == branch && recorded.seq <= until =>
        {
            Some(seq)
        }
        _ => None,
    }));
    mail
}

const ONE_WRITER: u32 = 1;
const ENDS_ONCE: u32 = 2;
const RECEIVED_ONCE: u32 = 4;
const TAKEN_ONCE: u32 = 8;
const IN_ORDER: u32 = 16;
const NONE_LOST: u32 = 32;
/// The run waits for mail that is in its log, and has no owner.
const WANTED: u32 = 64;
/// The run waits for mail that has not arrived.
const WAITS: u32 = 128;
const TAKEN_AGAIN_AFTER_A_JUMP: u32 = 256;
const CARRIED: u32 = 512;

fn judge(records: &[Recorded], state: &State) -> u32 {
    let signals = records.iter().filter_map(|recorded| match &recorded.event {
        Event::SignalReceived { payload, .. } => Some((recorded.seq, payload.as_str())),
        _ => None,
    });
    let signals: Vec<(Seq, &str)> = signals.collect();
    let arrived: Vec<Seq> = signals.iter().map(|(seq, _)| *seq).collect();
    let contents: BTreeSet<&str> = signals.iter().map(|(_, content)| *content).collect();
    let branch = records.last().map_or(BranchId::ROOT, |last| last.branch);
    let taken = taken(records, branch, Seq(u64::MAX));
    let distinct: BTreeSet<Seq> = taken.iter().copied().collect();
    let left: Vec<Seq> = arrived.iter().copied().filter(|seq| !distinct.contains(seq)).collect();
    let resolved = records.iter().filter(|r| matches!(r.event, Event::WaitResolved { .. })).count();
    let carried = records.iter().any(|recorded| match &recorded.event {
        Event::BranchOpened(opened) => {
            opened.carried.as_ref().is_some_and(|carried| !carried.mail.is_empty())
        }
        _ => false,
    });
    let waiting = !state.summary.waits.is_empty();
    bits([
        one_writer_per_epoch(records),
        ends_once(records),
        contents.len() == signals.len(),
        distinct.len() == taken.len(),
        arrived.starts_with(&taken),
        state.unread.keys().copied().eq(left),
        waiting && !state.unread.is_empty() && state.summary.owner.is_none(),
        waiting && state.unread.is_empty(),
        resolved > taken.len(),
        carried,
    ])
}

impl Model for MailModel {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            cluster: Cluster::new(self.decisions.begun(), self.scope.owners + 3),
            answered: 0,
            jumps: 0,
            hints: 0,
            crashes: 0,
            retries: 0,
            healed: false,
            deduplicated: false,
            looked_again: false,
            came_too_late: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        for who in 0..world.cluster.actors.len() {
            self.actor_actions(world, who, actions);
        }
        actions.extend((0..world.cluster.orphans.len()).map(Act::LandAfterCrash));
    }

    fn next_state(&self, world: &World, action: Act) -> Option<World> {
        let mut world = world.clone();
        let crashed = |world: &mut World, who: usize| {
            if who == self.scope.client() {
                world.retries += 1;
            } else {
                world.crashes += 1;
            }
            world.cluster.crash(who);
        };
        match action {
            Act::Land(who) => drop(self.land(&mut world, who, true)?),
            Act::LandAndLoseHint(who) => {
                let Landed::Done(TaskMove::Wake) = self.land(&mut world, who, true)? else { return None };
                world.cluster.task = Task::Dormant;
                world.hints += 1;
            }
            Act::LandAndCrash(who) => {
                self.land(&mut world, who, false)?;
                crashed(&mut world, who);
            }
            Act::Crash(who) => crashed(&mut world, who),
            Act::LandAfterCrash(index) => world.cluster.land_orphan(&self.decisions, index)?,
            Act::FindDuplicate => {
                // The client missed the reply, sends its signal again, and receives a reply.
                let order =
                    Order { who: 9, boot: 0, intent: Intent::Signal(world.answered), fence: None, write: 0 };
                if self.decisions.outcome(&world.cluster.log, order) != Outcome::Nothing {
                    return None;
                }
                world.answered += 1;
                world.deduplicated = true;
            }
            Act::Send(who, intent) => {
                world.jumps += u8::from(matches!(intent, Intent::Jump(_)));
                world.cluster.send(&self.decisions, who, intent)?;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type World = self::World;
        let mut properties = vec![
            // I5
            Property::always("one owner's appends per epoch", |_, w: &World| w.cluster.log.holds(ONE_WRITER)),
            // I6, R9
            Property::always("no signal reopens a finished run", |_, w: &World| {
                w.cluster.log.holds(ENDS_ONCE)
            }),
            // I11, C11
            Property::always("a signal is in the log once", |_, w: &World| {
                w.cluster.log.holds(RECEIVED_ONCE)
            }),
            // I11
            Property::always("a signal is consumed once per lineage", |_, w: &World| {
                w.cluster.log.holds(TAKEN_ONCE)
            }),
            // I11
            Property::always("signals are consumed in order", |_, w: &World| w.cluster.log.holds(IN_ORDER)),
            // I11
            Property::always("unconsumed mail is kept", |_, w: &World| w.cluster.log.holds(NONE_LOST)),
            // I2, I16
            Property::always("acknowledged writes stay", |_, w: &World| {
                w.cluster.keeps_acknowledged_writes()
                    && w.cluster.log.count("signal.received") >= usize::from(w.answered)
            }),
            // I11, C11
            Property::always("a run with wanted mail is not dormant", |_, w: &World| {
                !w.cluster.log.holds(WANTED) || w.cluster.task != Task::Dormant || w.hints > 0
            }),
            // I9
            Property::always("healthy runs are not healed", |_, w: &World| !w.healed || w.hints > 0),
            // I1, I15
            Property::always("no run is stuck", |m: &Self, w: &World| {
                w.cluster.log.is_over() || m.can_move(w) || w.cluster.log.holds(WAITS)
            }),
            Property::sometimes("the run completes", |_, w: &World| w.cluster.log.is_over()),
            Property::sometimes("the run becomes dormant", |_, w: &World| w.cluster.task == Task::Dormant),
            Property::sometimes("a lost wake-up is found", |_, w: &World| w.healed),
            Property::sometimes("a repeated signal is deduplicated", |_, w: &World| w.deduplicated),
            Property::sometimes("the run reads again before it is released", |_, w: &World| w.looked_again),
            Property::sometimes("mail is consumed again after a jump", |_, w: &World| {
                w.cluster.log.holds(TAKEN_AGAIN_AFTER_A_JUMP)
            }),
            Property::sometimes("an ended run continues", |_, w: &World| {
                w.cluster.log.count("run.completed") > 0 && !w.cluster.log.is_over()
            }),
            Property::sometimes("a crash is survived", |_, w: &World| {
                w.crashes > 0 && w.cluster.log.is_over() && w.cluster.log.count("run.recovered") > 0
            }),
        ];
        if self.scope.generations > 1 {
            let carried = |_: &Self, w: &World| w.cluster.log.holds(CARRIED);
            properties.push(Property::sometimes("unread mail is carried over", carried));
        }
        if self.scope.signals > self.scope.generations * self.scope.waits {
            properties.push(Property::sometimes("a signal arrives too late", |_, w: &World| w.came_too_late));
        }
        properties
    }
}
