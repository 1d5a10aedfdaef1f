//! Compensation: steps are done, then one fails or a person cancels, and what was done is undone, the latest first.
//! Owners crash in every gap, are suspected wrongly and leave what they began to the next; an undoing that fails
//! parks the run until a person lets it go on.

use goldseam_core::decide::TaskMove;
use goldseam_core::event::{Note, StepFailed};
use goldseam_core::state::{OpKind, StepOp, StepProgress, Undo};
use goldseam_core::{Command, Event, Failure, Owned, Path, Payload, Recorded, Refusal, Seq, State};
use stateright::{Model, Property};

use crate::book::{Book, Deed, Fenced, Log, NOW, Order, bits, done, ends_once, one_writer_per_epoch, path};
use crate::check::Scoped;
use crate::stage::{Landed, Stage, Task};

/// What one append is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Intent {
    Claim,
    TakeOver,
    Step(u8),
    /// The last step fails for good.
    LastStepFails,
    Finish,
    UndoBegins(u8),
    /// A step is undone; in the same append, what comes next.
    UndoEnds(u8, Then),
    UndoFails(u8),
    End,
    Cancel,
    Resume(u8),
}

/// What goes with the end of an undoing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Then {
    Nothing,
    Next(u8),
    End,
}

/// What is wrong with a broken twin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// A new owner undoes what it does not remember having undone.
    BeginsAnew,
    /// A new owner takes what was begun for done.
    SkipsWhatWasBegun,
    /// A cancellation in the middle is the end.
    CancelEndsAtOnce,
}

/// How much happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    pub(crate) owners: usize,
    /// Steps, and whether each can be undone.
    pub(crate) steps: &'static [bool],
    /// Owners that are suspected although they live.
    pub(crate) takeovers: u8,
    /// Replies that are lost.
    pub(crate) losses: u8,
    /// Owners that crash.
    pub(crate) crashes: u8,
    /// Undoings that fail.
    pub(crate) parks: u8,
    /// All faults together.
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
    stage: Stage<Intent>,
    takeovers: u8,
    losses: u8,
    crashes: u8,
    parks: u8,
    cancelled: bool,
    fenced: bool,
    settled: bool,
    /// The owner did something that its log said was done.
    repeated: bool,
    /// Somebody who was no longer the owner did.
    repeated_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Act {
    Send(usize, Intent),
    Land(usize),
    LandAndLoseTheReply(usize),
    LandAndCrash(usize),
    Crash(usize),
    LandAfterTheCrash(usize),
}

pub(crate) struct Saga {
    bug: Bug,
    scope: Scope,
    book: Book<Intent>,
}

impl Saga {
    pub(crate) fn new(scope: Scope, bug: Bug) -> Self {
        let steps = scope.steps;
        Self { bug, scope, book: Book::new(move |log, order| deed((bug, steps), log, order), judge) }
    }

    /// What the owner may do next, by what it has read.
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

    /// Steps that are left to undo, the latest first.
    fn left(&self, log: &Log, fence: Fenced) -> Vec<u8> {
        let state = log.now();
        let number = |path: &Path| path.as_str().trim_start_matches('s').parse().unwrap_or(u8::MAX);
        match self.bug {
            Bug::BeginsAnew => {
                let mine = |r: &&Recorded| r.epoch == Some(Seq(fence.0.into()));
                let is_done = |path: &&Path| {
                    log.records.iter().filter(mine).any(|r| matches!(&r.event, Event::CompensationCompleted { path: undone } if undone == *path))
                };
                state.undo.iter().rev().filter(|path| !is_done(path)).map(number).collect()
            }
            Bug::SkipsWhatWasBegun => {
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

    fn land(&self, world: &mut World, who: usize, heard: bool) -> Option<()> {
        let landed = world.stage.land(&self.book, who, heard, |_, sent| sent.order)?;
        world.settled |= landed == Landed::Settled;
        world.fenced |= landed == Landed::Refused(Refusal::Fenced);
        Some(())
    }

    /// An owner acts before it says so: whether that had been done already.
    fn witness(&self, world: &mut World, who: usize, intent: Intent) {
        let state = world.stage.log.now();
        let was_done = match intent {
            Intent::Step(step) => state.ops.contains_key(&step_path(step)),
            Intent::UndoEnds(step, _) | Intent::UndoFails(step) => {
                state.undone.get(&step_path(step)) == Some(&Undo::Completed)
            }
            _ => false,
        };
        let epoch = u8::try_from(state.summary.epoch.0).unwrap_or(u8::MAX);
        let is_owner = world.stage.actors[who].fence.is_some_and(|fence| fence.0 == epoch);
        world.repeated |= was_done && is_owner;
        world.repeated_late |= was_done && !is_owner;
    }

    fn owner_actions(&self, world: &World, who: usize, actions: &mut Vec<Act>) {
        let (stage, scope) = (&world.stage, &self.scope);
        let actor = &stage.actors[who];
        let may_fail = world.takeovers + world.losses + world.crashes + world.parks < scope.faults;
        if may_fail && world.crashes < scope.crashes && (actor.sent.is_some() || actor.fence.is_some()) {
            actions.push(Act::Crash(who));
            actions.extend(actor.sent.map(|_| Act::LandAndCrash(who)));
        }
        if actor.sent.is_some() {
            actions.push(Act::Land(who));
            let may_lose = may_fail && world.losses < scope.losses;
            actions.extend(may_lose.then_some(Act::LandAndLoseTheReply(who)));
        } else if let Some(fence) = actor.fence {
            let may_park = may_fail && world.parks < scope.parks;
            let next = self.next(stage.log.until(actor.view), fence);
            let possible =
                next.into_iter().filter(|intent| may_park || !matches!(intent, Intent::UndoFails(_)));
            actions.extend(possible.map(|intent| Act::Send(who, intent)));
        } else {
            actions.extend((stage.task == Task::Ready).then_some(Act::Send(who, Intent::Claim)));
            let owned = stage.log.now().summary.owner.is_some();
            let suspected = may_fail && world.takeovers < scope.takeovers && owned;
            actions.extend((suspected || stage.is_orphaned()).then_some(Act::Send(who, Intent::TakeOver)));
        }
    }
}

fn step_path(step: u8) -> Path {
    path(&format!("s{step}"))
}

/// Whether the last step failed, which is then how the run ends.
fn has_failed(state: &State) -> bool {
    matches!(
        state.ops.get(&path("last")).map(|op| &op.kind),
        Some(OpKind::Step(StepOp { progress: StepProgress::Failed(_), .. }))
    )
}

fn deed((bug, steps): (Bug, &'static [bool]), log: &Log, order: &Order<Intent>) -> Option<Deed> {
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
        Intent::Cancel => Some(Deed::Ask(Command::Cancel(note("cancel".to_owned())))),
        Intent::Resume(n) => Some(Deed::Ask(Command::Resume(note(format!("resume-{n}"))))),
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

/// The twin that begins anew writes its undoings without asking whether they were done, as long as the run is its own.
fn unasked(bug: Bug, state: &State, order: &Order<Intent>, doings: Vec<Owned>) -> Option<Deed> {
    let is_owner = order.fence.is_some_and(|fence| Seq(fence.0.into()) == state.summary.epoch);
    if bug != Bug::BeginsAnew || !is_owner {
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
    Some(Deed::Forge(events, task))
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
    let (mut begun, mut undone): (Vec<&Path>, Vec<&Path>) = (vec![], vec![]);
    let (mut begun_before, mut no_step_after, mut none_missing, mut none_if_completed) =
        (true, true, true, true);
    let (mut taken_over, mut cancelled) = (false, false);
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

impl Model for Saga {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            stage: Stage::new(self.book.begun(), self.scope.owners + 1),
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
        let stage = &world.stage;
        for who in 0..self.scope.owners {
            self.owner_actions(world, who, actions);
        }
        let person = self.scope.owners;
        if stage.actors[person].sent.is_some() {
            actions.push(Act::Land(person));
        } else {
            actions.extend((!world.cancelled).then_some(Act::Send(person, Intent::Cancel)));
            let parked = stage.log.now().summary.status == goldseam_core::Status::Parked;
            actions.extend(parked.then_some(Act::Send(person, Intent::Resume(world.parks))));
        }
        actions.extend((0..stage.orphans.len()).map(Act::LandAfterTheCrash));
    }

    fn next_state(&self, world: &World, action: Act) -> Option<World> {
        let mut world = world.clone();
        match action {
            Act::Land(who) => self.land(&mut world, who, true)?,
            Act::LandAndLoseTheReply(who) => {
                self.land(&mut world, who, false)?;
                world.losses += 1;
            }
            Act::LandAndCrash(who) => {
                self.land(&mut world, who, false)?;
                world.crashes += 1;
                world.stage.crash(who);
            }
            Act::Crash(who) => {
                world.crashes += 1;
                world.stage.crash(who);
            }
            Act::LandAfterTheCrash(index) => world.stage.land_orphan(&self.book, index)?,
            Act::Send(who, intent) => {
                let wrongly = intent == Intent::TakeOver && !world.stage.is_orphaned();
                world.takeovers += u8::from(wrongly);
                world.parks += u8::from(matches!(intent, Intent::UndoFails(_)));
                world.cancelled |= intent == Intent::Cancel;
                self.witness(&mut world, who, intent);
                world.stage.send(&self.book, who, intent)?;
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type World = self::World;
        let mut properties = vec![
            // I5
            Property::always("one owner's appends per epoch", |_, w: &World| w.stage.log.holds(ONE_WRITER)),
            // I6
            Property::always("a run ends once", |_, w: &World| w.stage.log.holds(ENDS_ONCE)),
            // I13
            Property::always("a step is undone once", |_, w: &World| w.stage.log.holds(UNDONE_ONCE)),
            // I13
            Property::always("the latest is undone first", |_, w: &World| w.stage.log.holds(REVERSED)),
            // I13, C13
            Property::always("nothing is left when it ends", |_, w: &World| w.stage.log.holds(NONE_MISSING)),
            // C13
            Property::always("an undoing is begun in the log", |_, w: &World| {
                w.stage.log.holds(BEGUN_BEFORE)
            }),
            // I13
            Property::always("no step follows an undoing", |_, w: &World| w.stage.log.holds(NO_STEP_AFTER)),
            // I13
            Property::always("nothing of a completed run is undone", |_, w: &World| {
                w.stage.log.holds(NONE_IF_COMPLETED)
            }),
            // I4
            Property::always("no owner does again what is done", |_, w: &World| !w.repeated),
            // I2, I16
            Property::always("what was acknowledged stays", |_, w: &World| w.stage.keeps_its_word()),
            // I1, I15
            Property::always("nothing is stuck", |m: &Self, w: &World| {
                w.stage.log.is_over() || m.can_move(w)
            }),
            Property::sometimes("it completes", |_, w: &World| w.stage.log.count("run.completed") > 0),
            Property::sometimes("it fails", |_, w: &World| w.stage.log.count("run.failed") > 0),
            Property::sometimes("it is cancelled", |_, w: &World| w.stage.log.count("run.cancelled") > 0),
            Property::sometimes("it is cancelled while it is undone", |_, w: &World| {
                w.stage.log.holds(CANCELLED_MIDWAY) && w.stage.log.is_over()
            }),
            Property::sometimes("an undoing is left to the next owner", |_, w: &World| {
                w.stage.log.holds(TAKEN_OVER_MIDWAY) && w.stage.log.is_over()
            }),
            Property::sometimes("a lost reply is settled", |_, w: &World| w.settled),
            Property::sometimes("a person helps with an undoing", |_, w: &World| {
                w.parks > 0 && w.stage.log.count("run.failed") > 0
            }),
        ];
        if self.scope.takeovers > 0 {
            properties.push(Property::sometimes("a zombie is fenced", |_, w: &World| w.fenced));
            properties.push(Property::sometimes("a zombie's late effect is refused", |_, w: &World| {
                w.repeated_late && w.fenced && w.stage.log.is_over()
            }));
        }
        properties
    }
}
