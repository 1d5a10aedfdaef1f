//! Ownership and fencing: owners and a client on one log. Live owners are suspected, owners crash between a write and
//! its reply and restart as other nodes, writes are delayed, and replies are lost.

use goldseam_core::event::{Release, WaitStarted};
use goldseam_core::state::{OpKind, WaitOp};
use goldseam_core::{Command, Owned, Payload, Recorded, Refusal, SignalName, State};
use stateright::{Model, Property};

use crate::check::Scoped;
use crate::cluster::{Cluster, Landed, Sent, Task};
use crate::decisions::{
    Decisions, Log, Order, Proposal, bits, done, ends_once, id, one_writer_per_epoch, path,
};

/// The intent of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Intent {
    Claim,
    TakeOver,
    Step(u8),
    /// Waits for the next signal, and releases the run if it has not arrived.
    Park(u8),
    /// Checks again, and releases the run if the signal has not arrived.
    Check(u8),
    Finish,
    Signal(u8),
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct World {
    cluster: Cluster<Intent>,
    takeovers: u8,
    losses: u8,
    crashes: u8,
    fenced: bool,
    settled: bool,
    landed_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Send(usize, Intent),
    Land(usize),
    LandAndLoseReply(usize),
    Crash(usize),
    LandAfterCrash(usize),
}

/// Whether a retry after a conflict still names the owner's claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Retry {
    Fenced,
    Unfenced,
}

/// The bounds of the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) owners: usize,
    /// Number of steps before the first wait.
    pub(crate) steps: u8,
    /// Number of waits, each with a signal.
    pub(crate) signals: u8,
    /// Maximum number of takeovers from live owners.
    pub(crate) takeovers: u8,
    /// Maximum number of lost replies.
    pub(crate) losses: u8,
    /// Maximum number of owner crashes.
    pub(crate) crashes: u8,
    /// Maximum number of faults in total.
    pub(crate) faults: u8,
}

impl Scope {
    pub(crate) const SMALL: Self =
        Self { owners: 2, steps: 1, signals: 1, takeovers: 1, losses: 1, crashes: 1, faults: 1 };
    pub(crate) const LARGE: Self = Self { signals: 2, faults: 2, ..Self::SMALL };
}

pub(crate) struct OwnershipModel {
    retry: Retry,
    scope: Scope,
    decisions: Decisions<Intent>,
}

impl OwnershipModel {
    pub(crate) fn new(scope: Scope, retry: Retry) -> Self {
        Self { retry, scope, decisions: Decisions::new(propose, judge) }
    }

    /// Returns the next intent of the workflow's code, by the state that its owner has read.
    fn next(&self, state: &State) -> Intent {
        for step in 0..self.scope.steps {
            if !state.ops.contains_key(&path(&format!("s{step}"))) {
                return Intent::Step(step);
            }
        }
        for wait in 0..self.scope.signals {
            match state.ops.get(&path(&format!("w{wait}"))).map(|op| &op.kind) {
                Some(OpKind::Wait(WaitOp { found: Some(_), .. })) => {}
                Some(_) => return Intent::Check(wait),
                None => return Intent::Park(wait),
            }
        }
        Intent::Finish
    }

    fn again(&self, log: &Log, sent: Sent<Intent>) -> Order<Intent> {
        match (self.retry, sent.order.fence) {
            (Retry::Unfenced, Some((_, branch))) => {
                let epoch = u8::try_from(log.now().summary.epoch.0).unwrap_or(u8::MAX);
                Order { fence: Some((epoch, branch)), ..sent.order }
            }
            _ => sent.order,
        }
    }

    fn land(&self, world: &mut World, who: usize, replied: bool) -> Option<()> {
        let landed = world.cluster.land(&self.decisions, who, replied, |log, sent| self.again(log, sent))?;
        world.losses += u8::from(!replied);
        world.settled |= landed == Landed::Settled;
        world.fenced |= landed == Landed::Refused(Refusal::Fenced);
        Some(())
    }
}

fn propose(log: &Log, order: &Order<Intent>) -> Option<Proposal> {
    let signal = id::<SignalName>("go");
    match order.intent {
        Intent::Claim => order.claim(),
        Intent::TakeOver => order.take_over(log.now()),
        Intent::Signal(k) => Some(Proposal::Ask(Command::Signal {
            name: signal,
            id: format!("g{k}"),
            fresh: false,
            payload: Payload::null(),
        })),
        Intent::Step(step) => order.owned(vec![done(&format!("s{step}"), step.into(), false)]),
        Intent::Park(wait) => {
            let wanted = WaitStarted {
                path: path(&format!("w{wait}")),
                ord: 10 + u32::from(wait),
                signals: vec![signal],
                schemas: std::collections::BTreeMap::new(),
                inputs: vec![],
                children: vec![],
                due: None,
            };
            order.owned(vec![Owned::Wait { wanted, ask: None }, Owned::Release(Release::Unload)])
        }
        Intent::Check(wait) => {
            let path = path(&format!("w{wait}"));
            order.owned(vec![Owned::Check(path), Owned::Release(Release::Unload)])
        }
        Intent::Finish => order.owned(vec![Owned::Complete(Payload::null())]),
    }
}

const ONE_WRITER: u32 = 1;
const STEPS_ONCE: u32 = 2;
const ENDS_ONCE: u32 = 4;
const SIGNALS_ONCE: u32 = 8;
const WAITS_ONCE: u32 = 16;
/// The run waits, has a signal, and has no owner.
const WANTED: u32 = 32;

fn judge(records: &[Recorded], state: &State) -> u32 {
    let once = |name: &str, key: fn(&Recorded) -> String| {
        let mut keys: Vec<_> = records.iter().filter(|r| r.event.name() == name).map(key).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        keys.len() == all
    };
    let by_path = |r: &Recorded| r.event.path().map(ToString::to_string).unwrap_or_default();
    let by_id = |r: &Recorded| match &r.event {
        goldseam_core::Event::SignalReceived { id, .. } => id.clone(),
        _ => String::new(),
    };
    let waiting = !state.summary.waits.is_empty();
    bits([
        one_writer_per_epoch(records),
        once("step.completed", by_path),
        ends_once(records),
        once("signal.received", by_id),
        once("wait.resolved", by_path),
        waiting && !state.unread.is_empty() && state.summary.owner.is_none(),
    ])
}

impl Model for OwnershipModel {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let cluster = Cluster::new(self.decisions.begun(), self.scope.owners + 1);
        vec![World {
            cluster,
            takeovers: 0,
            losses: 0,
            crashes: 0,
            fenced: false,
            settled: false,
            landed_late: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        let cluster = &world.cluster;
        let scope = &self.scope;
        let may_fail = world.takeovers + world.losses + world.crashes < scope.faults;
        let summary = &cluster.log.now().summary;
        for (who, actor) in cluster.actors.iter().enumerate() {
            let is_client = who == scope.owners;
            let busy = actor.sent.is_some() || actor.fence.is_some();
            actions.extend(
                (may_fail && world.crashes < scope.crashes && busy && !is_client).then_some(Act::Crash(who)),
            );
            if actor.sent.is_some() {
                actions.push(Act::Land(who));
                actions
                    .extend((may_fail && world.losses < scope.losses).then_some(Act::LandAndLoseReply(who)));
            } else if is_client {
                let next = u8::try_from(cluster.log.count("signal.received")).unwrap_or(u8::MAX);
                actions.extend((next < scope.signals).then_some(Act::Send(who, Intent::Signal(next))));
            } else if actor.fence.is_some() {
                actions.push(Act::Send(who, self.next(cluster.log.until(actor.view).now())));
            } else {
                actions.extend((cluster.task == Task::Ready).then_some(Act::Send(who, Intent::Claim)));
                let suspected = may_fail && world.takeovers < scope.takeovers && summary.owner.is_some();
                actions
                    .extend((suspected || cluster.is_orphaned()).then_some(Act::Send(who, Intent::TakeOver)));
            }
        }
        actions.extend((0..cluster.orphans.len()).map(Act::LandAfterCrash));
    }

    fn next_state(&self, world: &World, action: Act) -> Option<World> {
        let mut world = world.clone();
        match action {
            Act::Land(who) => self.land(&mut world, who, true)?,
            Act::LandAndLoseReply(who) => self.land(&mut world, who, false)?,
            Act::LandAfterCrash(index) => {
                world.cluster.land_orphan(&self.decisions, index)?;
                world.landed_late = true;
            }
            Act::Crash(who) => {
                world.crashes += 1;
                world.cluster.crash(who);
            }
            Act::Send(who, intent) => {
                let wrongly = intent == Intent::TakeOver && !world.cluster.is_orphaned();
                world.takeovers += u8::from(wrongly);
                world.cluster.send(&self.decisions, who, intent)?;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type World = self::World;
        vec![
            // I5
            Property::always("one owner's appends per epoch", |_, w: &World| w.cluster.log.holds(ONE_WRITER)),
            // I4
            Property::always("a step completes once", |_, w: &World| w.cluster.log.holds(STEPS_ONCE)),
            // I6
            Property::always("a run ends once", |_, w: &World| w.cluster.log.holds(ENDS_ONCE)),
            // I11
            Property::always("a signal is consumed once", |_, w: &World| {
                w.cluster.log.holds(SIGNALS_ONCE) && w.cluster.log.holds(WAITS_ONCE)
            }),
            // I2, I16
            Property::always("acknowledged writes stay", |_, w: &World| {
                w.cluster.keeps_acknowledged_writes()
            }),
            // I11
            Property::always("a run with wanted mail is not dormant", |_, w: &World| {
                !w.cluster.log.holds(WANTED) || w.cluster.task != Task::Dormant
            }),
            // I1, I15
            Property::always("no run is stuck", |m: &Self, w: &World| {
                w.cluster.log.is_over() || m.can_move(w)
            }),
            Property::sometimes("the run completes", |_, w: &World| w.cluster.log.is_over()),
            Property::sometimes("the run is taken over", |_, w: &World| {
                w.cluster.log.count("run.recovered") > 0
            }),
            Property::sometimes("a zombie is fenced", |_, w: &World| w.fenced),
            Property::sometimes("a lost reply is settled", |_, w: &World| w.settled),
            Property::sometimes("a write lands after its sender's crash", |_, w: &World| w.landed_late),
            Property::sometimes("the run becomes dormant", |_, w: &World| w.cluster.task == Task::Dormant),
        ]
    }
}
