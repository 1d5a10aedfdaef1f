//! Compensation: steps complete, then one fails or an operator cancels, and the completed steps are compensated in
//! reverse order. Owners crash at every point, live owners are suspected, and the next owner continues. A compensation
//! that fails parks the run until an operator resumes it.

use goldseam_core::decide::TaskMove;
use goldseam_core::event::{Note, StepFailed};
use goldseam_core::state::{OpKind, StepOp, StepProgress, Undo};
use goldseam_core::{Command, Event, Failure, Owned, Path, Payload, Recorded, Refusal, Seq, State};
use stateright::{Model, Property};

use crate::check::Scoped;
use crate::cluster::{Cluster, Landed, Task};
use crate::decisions::{
    Decisions, Fenced, Log, NOW, Order, Proposal, bits, done, ends_once, one_writer_per_epoch, path,
};

/// The intent of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Intent {
    Claim,
    TakeOver,
    Step(u8),
    /// The last step fails terminally.
    LastStepFails,
    Finish,
    UndoBegins(u8),
    /// A compensation completes; the same append may contain the next action.
    UndoEnds(u8, Then),
    UndoFails(u8),
    End,
    Cancel,
    Resume(u8),
}

/// The action in the same append as a completed compensation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Nothing,
    Next(u8),
    End,
}

/// The mistake of a broken twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// A new owner repeats the compensations of earlier owners.
    RestartsCompensation,
    /// A new owner treats started compensations as completed.
    SkipsStartedCompensations,
    /// A cancel during compensation ends the run.
    CancelEndsAtOnce,
}

/// The bounds of the search.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) owners: usize,
    /// The steps, and whether each has a compensation.
    pub(crate) steps: &'static [bool],
    /// Maximum number of takeovers from live owners.
    pub(crate) takeovers: u8,
    /// Maximum number of lost replies.
    pub(crate) losses: u8,
    /// Maximum number of owner crashes.
    pub(crate) crashes: u8,
    /// Maximum number of failed compensations.
    pub(crate) parks: u8,
    /// Maximum number of faults in total.
    pub(crate) faults: u8,
}

impl Scope {
    pub(crate) const SMALL: Self = Self {
        owners: 1,
        steps: &[true, false, true],
        takeovers: 0,
        losses: 1,
        crashes: 1,
        parks: 1,
        faults: 1,
    };
    pub(crate) const LARGE: Self = Self { owners: 2, steps: &[true, true], takeovers: 1, ..Self::SMALL };
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct World {
    cluster: Cluster<Intent>,
    takeovers: u8,
    losses: u8,
    crashes: u8,
    parks: u8,
    cancelled: bool,
    fenced: bool,
    settled: bool,
    /// The owner repeated something that is completed in the log.
    repeated: bool,
    /// A former owner did.
    repeated_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Send(usize, Intent),
    Land(usize),
    LandAndLoseReply(usize),
    LandAndCrash(usize),
    Crash(usize),
    LandAfterCrash(usize),
}

pub(crate) struct SagaModel {
    bug: Bug,
    scope: Scope,
    decisions: Decisions<Intent>,
}

impl SagaModel {
    pub(crate) fn new(scope: Scope, bug: Bug) -> Self {
        let steps = scope.steps;
        Self {
            bug,
            scope,
            decisions: Decisions::new(move |log, order| propose(bug, steps, log, order), judge),
        }
    }

    /// Returns the possible next intents of the owner, by the log that it has read.
    fn next(&self, log: &Log, fence: Fenced) -> Vec<Intent> {
        let state = log.now();
        let cancelled = state.summary.cancel.is_some();
        if !cancelled && !has_failed(state) {
            let steps = (0..self.scope.steps.len()).map(|step| u8::try_from(step).unwrap_or(u8::MAX));
            let missing = steps.into_iter().find(|step| !state.ops.contains_key(&step_path(*step)));
            return missing.map_or_else(
                || vec![Intent::LastStepFails, Intent::Finish],
                |step| vec![Intent::Step(step)],
            );
        }
        if self.bug == Bug::CancelEndsAtOnce && cancelled && !state.undone.is_empty() {
            return vec![Intent::End];
        }
        let left = self.left(log, fence);
        let Some(first) = left.first() else { return vec![Intent::End] };
        if state.undone.get(&step_path(*first)) != Some(&Undo::Started) {
            return vec![Intent::UndoBegins(*first)];
        }
        let then = left.get(1).map_or(Then::End, |next| Then::Next(*next));
        vec![
            Intent::UndoEnds(*first, Then::Nothing),
            Intent::UndoEnds(*first, then),
            Intent::UndoFails(*first),
        ]
    }

    /// Returns the steps that remain to be compensated, in reverse order.
    fn left(&self, log: &Log, fence: Fenced) -> Vec<u8> {
        let state = log.now();
        let number = |path: &Path| path.as_str().trim_start_matches('s').parse().unwrap_or(u8::MAX);
        match self.bug {
            Bug::RestartsCompensation => {
                let mine = |r: &&Recorded| r.epoch == Some(Seq(fence.0.into()));
                let is_done = |path: &&Path| {
                    log.records.iter().filter(mine).any(|r| matches!(&r.event, Event::CompensationCompleted { path: undone } if undone == *path))
                };
                state.undo.iter().rev().filter(|path| !is_done(path)).map(number).collect()
            }
            Bug::SkipsStartedCompensations => {
                let mine = |r: &&Recorded| r.epoch == Some(Seq(fence.0.into()));
                let begun_before = |path: &Path| {
                    let begun = log.records.iter().filter(mine).any(|r| r.event.path() == Some(path));
                    !begun && state.undone.contains_key(path)
                };
                let left = state.to_undo(Seq::ZERO);
                left.iter().filter(|path| !begun_before(path)).map(number).collect()
            }
            Bug::None | Bug::CancelEndsAtOnce => state.to_undo(Seq::ZERO).iter().map(number).collect(),
        }
    }

    fn land(&self, world: &mut World, who: usize, replied: bool) -> Option<()> {
        let landed = world.cluster.land(&self.decisions, who, replied, |_, sent| sent.order)?;
        world.settled |= landed == Landed::Settled;
        world.fenced |= landed == Landed::Refused(Refusal::Fenced);
        Some(())
    }

    /// Records whether an owner repeats something: it acts before it writes.
    fn record_repeat(&self, world: &mut World, who: usize, intent: Intent) {
        let state = world.cluster.log.now();
        let was_done = match intent {
            Intent::Step(step) => state.ops.contains_key(&step_path(step)),
            Intent::UndoEnds(step, _) | Intent::UndoFails(step) => {
                state.undone.get(&step_path(step)) == Some(&Undo::Completed)
            }
            _ => false,
        };
        let epoch = u8::try_from(state.summary.epoch.0).unwrap_or(u8::MAX);
        let is_owner = world.cluster.actors[who].fence.is_some_and(|fence| fence.0 == epoch);
        world.repeated |= was_done && is_owner;
        world.repeated_late |= was_done && !is_owner;
    }

    fn owner_actions(&self, world: &World, who: usize, actions: &mut Vec<Act>) {
        let cluster = &world.cluster;
        let scope = &self.scope;
        let actor = &cluster.actors[who];
        let may_fail = world.takeovers + world.losses + world.crashes + world.parks < scope.faults;
        if may_fail && world.crashes < scope.crashes && (actor.sent.is_some() || actor.fence.is_some()) {
            actions.push(Act::Crash(who));
            actions.extend(actor.sent.map(|_| Act::LandAndCrash(who)));
        }
        if actor.sent.is_some() {
            actions.push(Act::Land(who));
            let may_lose = may_fail && world.losses < scope.losses;
            actions.extend(may_lose.then_some(Act::LandAndLoseReply(who)));
        } else if let Some(fence) = actor.fence {
            let may_park = may_fail && world.parks < scope.parks;
            let next = self.next(cluster.log.until(actor.view), fence);
            let possible =
                next.into_iter().filter(|intent| may_park || !matches!(intent, Intent::UndoFails(_)));
            actions.extend(possible.map(|intent| Act::Send(who, intent)));
        } else {
            actions.extend((cluster.task == Task::Ready).then_some(Act::Send(who, Intent::Claim)));
            let owned = cluster.log.now().summary.owner.is_some();
            let suspected = may_fail && world.takeovers < scope.takeovers && owned;
            actions.extend((suspected || cluster.is_orphaned()).then_some(Act::Send(who, Intent::TakeOver)));
        }
    }
}

fn step_path(step: u8) -> Path {
    path(&format!("s{step}"))
}

/// Returns whether the last step failed.
fn has_failed(state: &State) -> bool {
    matches!(
        state.ops.get(&path("last")).map(|op| &op.kind),
        Some(OpKind::Step(StepOp { progress: StepProgress::Failed(_), .. }))
    )
}

fn propose(bug: Bug, steps: &'static [bool], log: &Log, order: &Order<Intent>) -> Option<Proposal> {
    let state = log.now();
    let failure = || Failure::terminal("it went wrong");
    let note = |id: String| Note { id, by: None, reason: String::new() };
    let begin = |step: u8| {
        let failure = state.failure.is_none().then(failure);
        Owned::UndoStarted { path: step_path(step), failure }
    };
    let end = || if has_failed(state) { Owned::Fail(failure()) } else { Owned::EndCancelled };
    match order.intent {
        Intent::Claim => order.claim(),
        Intent::TakeOver => order.take_over(state),
        Intent::Cancel => Some(Proposal::Ask(Command::Cancel(note("cancel".to_owned())))),
        Intent::Resume(n) => Some(Proposal::Ask(Command::Resume(note(format!("resume-{n}"))))),
        Intent::Step(step) => {
            let undo = steps.get(usize::from(step)).copied().unwrap_or(false);
            order.owned(vec![done(step_path(step).as_str(), step.into(), undo)])
        }
        Intent::LastStepFails => order.owned(vec![Owned::StepFailed {
            failed: StepFailed {
                path: path("last"),
                ord: 100,
                attempt: 1,
                began: NOW,
                failure: failure(),
                left: 0,
                input: None,
                group: false,
                fence: None,
                retry: None,
            },
            retry_at: None,
            timeout: None,
        }]),
        Intent::Finish => order.owned(vec![Owned::Complete(Payload::null())]),
        Intent::UndoBegins(step) => unasked(bug, state, order, vec![begin(step)]),
        Intent::UndoEnds(step, then) => {
            let mut doings = vec![Owned::UndoCompleted(step_path(step))];
            match then {
                Then::Nothing => {}
                Then::Next(next) => doings.push(begin(next)),
                Then::End => doings.push(end()),
            }
            unasked(bug, state, order, doings)
        }
        Intent::UndoFails(step) => {
            order.owned(vec![Owned::UndoFailed { path: step_path(step), failure: failure() }])
        }
        Intent::End => order.owned(vec![end()]),
    }
}

/// In the twin that restarts compensation, an owner writes its compensations without `decide`.
fn unasked(bug: Bug, state: &State, order: &Order<Intent>, doings: Vec<Owned>) -> Option<Proposal> {
    let is_owner = order.fence.is_some_and(|fence| Seq(fence.0.into()) == state.summary.epoch);
    if bug != Bug::RestartsCompensation || !is_owner {
        return order.owned(doings);
    }
    let mut task = TaskMove::Keep;
    let events = doings.into_iter().map(|doing| match doing {
        Owned::UndoStarted { path, failure } => Event::CompensationStarted { path, failure },
        Owned::UndoCompleted(path) => Event::CompensationCompleted { path },
        Owned::Fail(failure) => {
            task = TaskMove::Remove;
            Event::RunFailed { failure }
        }
        _ => {
            task = TaskMove::Remove;
            Event::RunCancelled { reason: String::new(), terminated: None }
        }
    });
    let events = events.collect();
    Some(Proposal::Forge(events, task))
}

const ONE_WRITER: u32 = 1;
const ENDS_ONCE: u32 = 2;
const UNDONE_ONCE: u32 = 4;
const REVERSED: u32 = 8;
const NONE_MISSING: u32 = 16;
const BEGUN_BEFORE: u32 = 32;
const NO_STEP_AFTER: u32 = 64;
const NONE_IF_COMPLETED: u32 = 128;
const TAKEN_OVER_MIDWAY: u32 = 256;
const CANCELLED_MIDWAY: u32 = 512;

fn judge(records: &[Recorded], _: &State) -> u32 {
    let mut done: Vec<&Path> = vec![];
    let mut begun: Vec<&Path> = vec![];
    let mut undone: Vec<&Path> = vec![];
    let mut begun_before = true;
    let mut no_step_after = true;
    let mut none_missing = true;
    let mut none_if_completed = true;
    let mut taken_over = false;
    let mut cancelled = false;
    for recorded in records {
        match &recorded.event {
            Event::StepCompleted(step) => {
                no_step_after &= begun.is_empty();
                if step.undo {
                    done.push(&step.path);
                }
            }
            Event::CompensationStarted { path, .. } => begun.push(path),
            Event::CompensationCompleted { path } => {
                begun_before &= begun.contains(&path);
                undone.push(path);
            }
            Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                none_missing &= undone.len() >= done.len();
            }
            Event::RunCompleted { .. } => none_if_completed &= begun.is_empty(),
            Event::RunRecovered(_) => taken_over |= !begun.is_empty(),
            Event::RunCancelRequested(_) => cancelled |= !begun.is_empty(),
            _ => {}
        }
    }
    done.reverse();
    let mut distinct = undone.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let mut begun_once = begun.clone();
    begun_once.dedup();
    bits([
        one_writer_per_epoch(records),
        ends_once(records),
        distinct.len() == undone.len(),
        done.starts_with(&undone) && done.starts_with(&begun_once),
        none_missing,
        begun_before,
        no_step_after,
        none_if_completed,
        taken_over,
        cancelled,
    ])
}

impl Model for SagaModel {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            cluster: Cluster::new(self.decisions.begun(), self.scope.owners + 1),
            takeovers: 0,
            losses: 0,
            crashes: 0,
            parks: 0,
            cancelled: false,
            fenced: false,
            settled: false,
            repeated: false,
            repeated_late: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        let cluster = &world.cluster;
        for who in 0..self.scope.owners {
            self.owner_actions(world, who, actions);
        }
        let person = self.scope.owners;
        if cluster.actors[person].sent.is_some() {
            actions.push(Act::Land(person));
        } else {
            actions.extend((!world.cancelled).then_some(Act::Send(person, Intent::Cancel)));
            let parked = cluster.log.now().summary.status == goldseam_core::Status::Parked;
            actions.extend(parked.then_some(Act::Send(person, Intent::Resume(world.parks))));
        }
        actions.extend((0..cluster.orphans.len()).map(Act::LandAfterCrash));
    }

    fn next_state(&self, world: &World, action: Act) -> Option<World> {
        let mut world = world.clone();
        match action {
            Act::Land(who) => self.land(&mut world, who, true)?,
            Act::LandAndLoseReply(who) => {
                self.land(&mut world, who, false)?;
                world.losses += 1;
            }
            Act::LandAndCrash(who) => {
                self.land(&mut world, who, false)?;
                world.crashes += 1;
                world.cluster.crash(who);
            }
            Act::Crash(who) => {
                world.crashes += 1;
                world.cluster.crash(who);
            }
            Act::LandAfterCrash(index) => world.cluster.land_orphan(&self.decisions, index)?,
            Act::Send(who, intent) => {
                let wrongly = intent == Intent::TakeOver && !world.cluster.is_orphaned();
                world.takeovers += u8::from(wrongly);
                world.parks += u8::from(matches!(intent, Intent::UndoFails(_)));
                world.cancelled |= intent == Intent::Cancel;
                self.record_repeat(&mut world, who, intent);
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
            // I6
            Property::always("a run ends once", |_, w: &World| w.cluster.log.holds(ENDS_ONCE)),
            // I13
            Property::always("a step is compensated once", |_, w: &World| w.cluster.log.holds(UNDONE_ONCE)),
            // I13
            Property::always("compensations run in reverse order", |_, w: &World| {
                w.cluster.log.holds(REVERSED)
            }),
            // I13, C13
            Property::always("no compensation is missing at the end", |_, w: &World| {
                w.cluster.log.holds(NONE_MISSING)
            }),
            // C13
            Property::always("a compensation is started in the log", |_, w: &World| {
                w.cluster.log.holds(BEGUN_BEFORE)
            }),
            // I13
            Property::always("no step follows a compensation", |_, w: &World| {
                w.cluster.log.holds(NO_STEP_AFTER)
            }),
            // I13
            Property::always("a completed run is not compensated", |_, w: &World| {
                w.cluster.log.holds(NONE_IF_COMPLETED)
            }),
            // I4
            Property::always("no owner repeats a completed step", |_, w: &World| !w.repeated),
            // I2, I16
            Property::always("acknowledged writes stay", |_, w: &World| {
                w.cluster.keeps_acknowledged_writes()
            }),
            // I1, I15
            Property::always("no run is stuck", |m: &Self, w: &World| {
                w.cluster.log.is_over() || m.can_move(w)
            }),
            Property::sometimes("the run completes", |_, w: &World| w.cluster.log.count("run.completed") > 0),
            Property::sometimes("the run fails", |_, w: &World| w.cluster.log.count("run.failed") > 0),
            Property::sometimes("the run is cancelled", |_, w: &World| {
                w.cluster.log.count("run.cancelled") > 0
            }),
            Property::sometimes("the run is cancelled during compensation", |_, w: &World| {
                w.cluster.log.holds(CANCELLED_MIDWAY) && w.cluster.log.is_over()
            }),
            Property::sometimes("the next owner continues a compensation", |_, w: &World| {
                w.cluster.log.holds(TAKEN_OVER_MIDWAY) && w.cluster.log.is_over()
            }),
            Property::sometimes("a lost reply is settled", |_, w: &World| w.settled),
            Property::sometimes("an operator resumes a failed compensation", |_, w: &World| {
                w.parks > 0 && w.cluster.log.count("run.failed") > 0
            }),
        ];
        if self.scope.takeovers > 0 {
            properties.push(Property::sometimes("a zombie is fenced", |_, w: &World| w.fenced));
            properties.push(Property::sometimes("a zombie's late effect is refused", |_, w: &World| {
                w.repeated_late && w.fenced && w.cluster.log.is_over()
            }));
        }
        properties
    }
}
