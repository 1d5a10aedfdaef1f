//! Two owners, a healer and a client on one log, every interleaving: writes are delayed, replies are
//! lost. `decide`, `seal` and `derive` are the real ones; only store and network are modelled. The
//! twin without the epoch fence must be caught, or the model proves nothing.

use std::hash::{Hash as HashTrait, Hasher};
use std::sync::Arc;

use goldseam_core::command::{Claim, Lost};
use goldseam_core::decide::{Stamped, TaskMove};
use goldseam_core::event::{Release, RunQueued, StepCompleted, Tags, WaitStarted};
use goldseam_core::recovery::Lived;
use goldseam_core::seal::{Place, seal};
use goldseam_core::state::{OpKind, WaitOp};
use goldseam_core::{
    BranchId, Command, Decision, Doing, Event, Fence, Hash, Limits, Millis, NodeId, Owned, Path, Payload,
    QueueName, Recorded, Refusal, RunId, Seq, SignalName, State, View, WorkflowName, WriteId, decide, derive,
};
use stateright::{Checker, HasDiscoveries, Model, Property};

const NOW: Millis = Millis(1);
const CLIENT: usize = 2;

/// What one append is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Intent {
    Claim,
    TakeOver,
    Step,
    Park,
    Check,
    Finish,
    Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent {
    intent: Intent,
    after: Seq,
    write: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Actor {
    fence: Option<(Seq, u32)>,
    sent: Option<Sent>,
    writes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Task {
    Ready,
    Held,
    Dormant,
    Gone,
}

/// The log; its last fingerprint stands for all of it.
#[derive(Clone)]
struct Log(Arc<Vec<Recorded>>, Hash);

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|r| (r.event.name(), r.write.0))).finish()
    }
}
impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}
impl HashTrait for Log {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.hash(state);
    }
}

#[derive(Debug, Clone, PartialEq, Hash)]
struct World {
    log: Log,
    actors: [Actor; 3],
    task: Task,
    acked: Vec<u64>,
    takeovers: u8,
    losses: u8,
    fenced: bool,
    settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Send(usize, Intent),
    Land(usize),
    LandAndLoseTheReply(usize),
}

/// Whether a retry after a conflict still names the owner's own claim.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Retry {
    Fenced,
    Broken,
}

struct Ownership(Retry);

fn id<T: for<'a> TryFrom<&'a str>>(text: &str) -> T {
    T::try_from(text).unwrap_or_else(|_| panic!("{text}"))
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap_or_else(|e| panic!("{e}"))
}

impl World {
    fn state(&self, until: Seq) -> State {
        let until = usize::try_from(until.0).unwrap_or(usize::MAX);
        let head = if until == self.log.0.len() { self.log.1 } else { Hash::ZERO };
        derive(&id::<RunId>("r1"), &self.log.0[..until], head).unwrap_or_else(|e| panic!("{e}"))
    }

    fn end(&self) -> Seq {
        Seq(self.log.0.len() as u64)
    }

    fn decide(&self, who: usize, intent: Intent, fence: Option<(Seq, u32)>) -> Result<Decision, Refusal> {
        let state = self.state(self.end());
        let command = command(&state, who, intent, fence).ok_or(Refusal::Fenced)?;
        decide(View::Full(&state), &command, NOW, &Limits::default())
    }

    fn append(&mut self, sent: Sent, epoch: Option<Seq>, decision: Decision) {
        let place = Place {
            after: sent.after,
            prev: self.log.1,
            branch: BranchId::ROOT,
            epoch,
            write: WriteId(sent.write),
        };
        let sealed = seal(place, decision.events);
        let mut log = Vec::clone(&self.log.0);
        log.extend(sealed.records);
        self.log = Log(Arc::new(log), sealed.heads.last().copied().unwrap_or(self.log.1));
        self.task = match (decision.task, self.task) {
            (TaskMove::Rest(Millis::NEVER), _) => Task::Dormant,
            (TaskMove::Rest(_) | TaskMove::Ready, _) | (TaskMove::Wake, Task::Dormant) => Task::Ready,
            (TaskMove::Remove, _) => Task::Gone,
            _ if matches!(sent.intent, Intent::Claim | Intent::TakeOver) => Task::Held,
            (_, task) => task,
        };
    }

    fn has_write(&self, write: u64) -> bool {
        self.log.0.iter().any(|recorded| recorded.write.0 == write)
    }

    fn count(&self, name: &str) -> usize {
        self.log.0.iter().filter(|recorded| recorded.event.name() == name).count()
    }

    /// A write reaches the store; `heard` tells whether its reply comes back.
    fn land(&mut self, who: usize, retry: Retry, heard: bool) -> Option<()> {
        let sent = self.actors[who].sent?;
        if self.end() == sent.after && !self.has_write(sent.write) {
            let fence = self.fence_for(who, retry);
            let decision = self.decide(who, sent.intent, fence).ok()?;
            self.append(sent, fence.map(|fence| fence.0), decision);
            if !heard {
                self.losses += 1;
                return Some(());
            }
        } else if !heard {
            return None;
        } else if self.has_write(sent.write) {
            self.settled = true;
        } else {
            // Somebody was faster: read on, decide again.
            let fence = self.fence_for(who, retry);
            match self.decide(who, sent.intent, fence) {
                Ok(decision) if !decision.events.is_empty() => {
                    self.actors[who].sent = Some(Sent { after: self.end(), ..sent });
                }
                refused => {
                    self.fenced |= refused == Err(Refusal::Fenced);
                    self.actors[who] = Actor { writes: self.actors[who].writes, ..Actor::default() };
                }
            }
            return Some(());
        }
        self.acked.push(sent.write);
        self.acked.sort_unstable();
        self.actors[who].sent = None;
        if matches!(sent.intent, Intent::Claim | Intent::TakeOver) {
            let claim =
                self.log.0.iter().find(|r| r.write.0 == sent.write && r.event.name() == "run.claimed")?;
            self.actors[who].fence = Some((claim.seq, claim.branch.0));
        }
        Some(())
    }

    fn fence_for(&self, who: usize, retry: Retry) -> Option<(Seq, u32)> {
        let own = self.actors[who].fence?;
        let epoch = self.state(self.end()).summary.epoch;
        Some(if retry == Retry::Broken { (epoch, own.1) } else { own })
    }
}

fn command(state: &State, who: usize, intent: Intent, fence: Option<(Seq, u32)>) -> Option<Command> {
    let node = id::<NodeId>(["n-0", "n-1", "client"][who]);
    let owned = |doings: Vec<Owned>| {
        let (epoch, branch) = fence?;
        let doings = doings.into_iter().map(|what| Doing { at: NOW, what }).collect();
        Some(Command::Owned(Fence { epoch, branch: BranchId(branch) }, doings))
    };
    match intent {
        Intent::Claim => Some(Command::Claim(Claim { node, lost: None, alone: false })),
        Intent::TakeOver => {
            let lost = Lost {
                node: state.summary.owner.clone()?,
                proven: true,
                evidence: String::new(),
                lived: Lived::default(),
            };
            Some(Command::Claim(Claim { node, lost: Some(lost), alone: false }))
        }
        Intent::Signal => {
            let (name, id) = (id::<SignalName>("go"), "s1".to_owned());
            Some(Command::Signal { name, id, payload: Payload::null() })
        }
        Intent::Step => owned(vec![Owned::StepCompleted(StepCompleted {
            path: path("step"),
            ord: 0,
            attempt: 1,
            began: NOW,
            output: Payload::null(),
            input: None,
            undo: false,
            group: false,
            fence: None,
        })]),
        Intent::Park => {
            let signals = vec![id::<SignalName>("go")];
            let (path, inputs, children) = (path("wait"), vec![], vec![]);
            let wanted = WaitStarted { path, ord: 1, signals, inputs, children, due: None };
            owned(vec![Owned::Wait { wanted, ask: None }, Owned::Release(Release::Unload)])
        }
        Intent::Check => owned(vec![Owned::Check(path("wait")), Owned::Release(Release::Unload)]),
        Intent::Finish => owned(vec![Owned::Complete(Payload::null())]),
    }
}

/// What the workflow's code does next, by what its owner can read.
fn next(state: &State) -> Intent {
    match state.ops.get(&path("wait")).map(|op| &op.kind) {
        _ if !state.ops.contains_key(&path("step")) => Intent::Step,
        Some(OpKind::Wait(WaitOp { found: Some(_), .. })) => Intent::Finish,
        Some(_) => Intent::Check,
        None => Intent::Park,
    }
}

/// Signalled, waiting, nobody has it, and nothing will ever wake it.
fn overslept(world: &World) -> bool {
    let state = world.state(world.end());
    let waiting = state.summary.waits.iter().any(|wait| wait.signals.contains(&id::<SignalName>("go")));
    waiting && !state.unread.is_empty() && state.summary.owner.is_none() && world.task == Task::Dormant
}

/// Every event under a claim was written by whoever wrote the claim.
fn one_writer_per_epoch(world: &World) -> bool {
    world.log.0.iter().all(|recorded| match recorded.epoch {
        None => true,
        Some(epoch) => match world.log.0.get(usize::try_from(epoch.0).unwrap_or(0).wrapping_sub(1)) {
            Some(claim) => claim.write.0 / 100 == recorded.write.0 / 100,
            None => false,
        },
    })
}

impl Model for Ownership {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        let queued = RunQueued {
            workflow: id::<WorkflowName>("w"),
            version: 1,
            input: Payload::null(),
            queue: id::<QueueName>("q"),
            priority: 0,
            tags: Tags::new(),
            parent: None,
            plan: Vec::new(),
        };
        let mut world = World {
            log: Log(Arc::default(), Hash::ZERO),
            actors: Default::default(),
            task: Task::Ready,
            acked: vec![],
            takeovers: 0,
            losses: 0,
            fenced: false,
            settled: false,
        };
        let events = vec![Stamped { at: NOW, event: Event::RunQueued(queued) }];
        let sent = Sent { intent: Intent::Signal, after: Seq::ZERO, write: 900 };
        world.append(sent, None, Decision { events, task: TaskMove::Ready, ..Decision::default() });
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Act>) {
        let state = world.state(world.end());
        for (who, actor) in world.actors.iter().enumerate() {
            if actor.sent.is_some() {
                actions.push(Act::Land(who));
                actions.extend((world.losses < 1).then_some(Act::LandAndLoseTheReply(who)));
            } else if who == CLIENT {
                actions.extend((actor.writes == 0).then_some(Act::Send(who, Intent::Signal)));
            } else if actor.fence.is_some() {
                actions.push(Act::Send(who, next(&state)));
            } else {
                actions.extend((world.task == Task::Ready).then_some(Act::Send(who, Intent::Claim)));
                let healing = world.takeovers < 1 && state.summary.owner.is_some();
                actions.extend(healing.then_some(Act::Send(who, Intent::TakeOver)));
            }
        }
    }

    fn next_state(&self, world: &World, action: Act) -> Option<World> {
        let mut world = world.clone();
        match action {
            Act::Land(who) => world.land(who, self.0, true)?,
            Act::LandAndLoseTheReply(who) => world.land(who, self.0, false)?,
            Act::Send(who, intent) => {
                world.takeovers += u8::from(intent == Intent::TakeOver);
                let fence = world.actors[who].fence;
                match world.decide(who, intent, fence) {
                    Ok(decision) if decision.events.is_empty() => return None,
                    Ok(_) => {
                        let after = world.end();
                        let actor = &mut world.actors[who];
                        actor.writes += 1;
                        actor.sent = Some(Sent { intent, after, write: who as u64 * 100 + actor.writes });
                    }
                    Err(_) if fence.is_some() => world.actors[who].fence = None,
                    Err(_) => return None,
                }
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one owner's appends per epoch", |_, world| one_writer_per_epoch(world)),
            Property::always("a step completes once", |_, world: &World| world.count("step.completed") <= 1),
            Property::always("a run ends once", |_, world: &World| world.count("run.completed") <= 1),
            Property::always("a signal is taken once", |_, world: &World| {
                world.count("signal.received") <= 1
            }),
            Property::always("what was acknowledged stays", |_, world: &World| {
                world.acked.iter().all(|write| world.has_write(*write))
            }),
            Property::always("nobody oversleeps", |_, world| !overslept(world)),
            Property::sometimes("it completes", |_, world: &World| world.count("run.completed") == 1),
            Property::sometimes("it is taken over", |_, world: &World| world.count("run.recovered") == 1),
            Property::sometimes("a zombie is fenced", |_, world: &World| world.fenced),
            Property::sometimes("a lost reply is settled", |_, world: &World| world.settled),
            Property::sometimes("it sleeps", |_, world: &World| world.task == Task::Dormant),
        ]
    }
}

#[test]
fn no_interleaving_breaks_ownership() {
    let checker = Ownership(Retry::Fenced).checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000, "{} states", checker.unique_state_count());
}

#[test]
fn a_retry_without_the_fence_is_caught() {
    let checker = Ownership(Retry::Broken)
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .threads(2)
        .spawn_bfs()
        .join();
    assert!(checker.discovery("one owner's appends per epoch").is_some());
}
