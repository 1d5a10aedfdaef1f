//! Shared by three of the models: actors that append to one log by compare-and-append, over a network that delays
//! writes and loses replies. Actors may crash between a write and its reply.

use std::hash::Hash as HashTrait;

use goldseam_core::decide::TaskMove;
use goldseam_core::{Millis, Refusal};

use crate::decisions::{Decisions, Fenced, Log, Order, Outcome, node};

/// The run's advance task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Ready,
    Held,
    Dormant,
    Gone,
}

impl Task {
    /// Returns the task after an append; `claimed` means that the append contains a claim.
    pub(crate) fn after(self, moved: TaskMove, claimed: bool) -> Self {
        match (moved, self) {
            (TaskMove::Rest(Millis::NEVER), _) => Self::Dormant,
            (TaskMove::Rest(_) | TaskMove::Ready | TaskMove::Renew(_), _)
            | (TaskMove::Wake, Self::Dormant) => Self::Ready,
            (TaskMove::Remove, _) => Self::Gone,
            _ if claimed => Self::Held,
            (_, task) => task,
        }
    }
}

/// A write on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sent<I> {
    pub(crate) order: Order<I>,
    pub(crate) after: u8,
}

/// A process that writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Actor<I> {
    /// Number of crashes. After each crash it is another node.
    pub(crate) boot: u8,
    /// The claim that it believes to have.
    pub(crate) fence: Option<Fenced>,
    /// The end of the log that it has read.
    pub(crate) view: u8,
    pub(crate) sent: Option<Sent<I>>,
    writes: u8,
}

/// The log, its task and all writers.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct Cluster<I> {
    pub(crate) log: Log,
    pub(crate) actors: Vec<Actor<I>>,
    /// Writes of crashed senders.
    pub(crate) orphans: Vec<Sent<I>>,
    pub(crate) task: Task,
    /// Acknowledged writes.
    pub(crate) acked: Vec<u16>,
}

/// The result of a write that reached the store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Landed {
    /// Appended and acknowledged, with this change of the task.
    Done(TaskMove),
    /// Appended but not acknowledged, with this change of the task.
    ReplyLost(TaskMove),
    /// Appended earlier, and now acknowledged.
    Settled,
    /// A conflict: sent again after the new end.
    Again,
    /// A conflict, after which nothing is left to do.
    Nothing,
    /// A conflict, after which the order is refused.
    Refused(Refusal),
}

impl<I: Copy + Eq + HashTrait> Cluster<I> {
    pub(crate) fn new(log: Log, actors: usize) -> Self {
        let actor = Actor { boot: 0, fence: None, view: 0, sent: None, writes: 0 };
        Self { log, actors: vec![actor; actors], orphans: vec![], task: Task::Ready, acked: vec![] }
    }

    fn order(&self, who: usize, intent: I) -> Order<I> {
        let Actor { boot, fence, writes, .. } = self.actors[who];
        let index = u8::try_from(who).unwrap_or(u8::MAX);
        let write = u16::from(index) * 1_000 + u16::from(boot) * 100 + u16::from(writes) + 1;
        Order { who: index, boot, intent, fence, write }
    }

    /// Returns whether the owner of the run has crashed.
    pub(crate) fn is_orphaned(&self) -> bool {
        let living =
            |(who, actor): (usize, &Actor<I>)| node(u8::try_from(who).unwrap_or(u8::MAX), actor.boot);
        match &self.log.now().summary.owner {
            None => false,
            Some(owner) => !self.actors.iter().enumerate().any(|actor| living(actor) == *owner),
        }
    }

    /// Lets an actor decide and send. An owner decides by the log that it has read; other actors read it first. None if
    /// there is nothing to do.
    pub(crate) fn send(&mut self, decisions: &Decisions<I>, who: usize, intent: I) -> Option<()> {
        let view = if self.actors[who].fence.is_some() { self.actors[who].view } else { self.log.end() };
        let order = self.order(who, intent);
        let outcome = decisions.outcome(self.log.until(view), order);
        let actor = &mut self.actors[who];
        actor.view = view;
        match outcome {
            Outcome::Appended(..) => {
                actor.writes += 1;
                actor.sent = Some(Sent { order, after: view });
            }
            Outcome::Refused(_) if actor.fence.is_some() => actor.fence = None,
            Outcome::Refused(_) | Outcome::Nothing => return None,
        }
        Some(())
    }

    /// Lets a write reach the store. `replied` says whether the reply arrives; `again` returns the order to send
    /// after a conflict. None if nothing changes.
    pub(crate) fn land(
        &mut self,
        decisions: &Decisions<I>,
        who: usize,
        replied: bool,
        again: impl Fn(&Log, Sent<I>) -> Order<I>,
    ) -> Option<Landed> {
        let sent = self.actors[who].sent?;
        if self.log.has(sent.order.write) {
            return replied.then(|| {
                self.acknowledge(who, sent);
                Landed::Settled
            });
        }
        if self.log.end() == sent.after {
            let moved = self.append(decisions, sent)?;
            return Some(if replied {
                self.acknowledge(who, sent);
                Landed::Done(moved)
            } else {
                Landed::ReplyLost(moved)
            });
        }
        if !replied {
            return None;
        }
        let order = again(&self.log, sent);
        let after = self.log.end();
        let outcome = decisions.outcome(&self.log, order);
        let actor = &mut self.actors[who];
        actor.view = after;
        actor.sent = None;
        Some(match outcome {
            Outcome::Appended(..) => {
                actor.sent = Some(Sent { order, after });
                Landed::Again
            }
            Outcome::Nothing => Landed::Nothing,
            Outcome::Refused(refusal) => {
                actor.fence = None;
                Landed::Refused(refusal)
            }
        })
    }

    fn append(&mut self, decisions: &Decisions<I>, sent: Sent<I>) -> Option<TaskMove> {
        let Outcome::Appended(log, moved) = decisions.outcome(&self.log, sent.order) else { return None };
        let claimed = log.records[self.log.records.len()..].iter().any(|r| r.event.name() == "run.claimed");
        self.log = log;
        self.task = self.task.after(moved, claimed);
        // Other writes for this position can no longer succeed.
        self.orphans.retain(|orphan| orphan.after == self.log.end());
        Some(moved)
    }

    /// Records that the sender received the reply to its write.
    fn acknowledge(&mut self, who: usize, Sent { order, .. }: Sent<I>) {
        self.acked.push(order.write);
        self.acked.sort_unstable();
        let (fence, view) = self.log.view_after(&order);
        let actor = &mut self.actors[who];
        actor.fence = fence;
        actor.view = view;
        actor.sent = None;
    }

    /// Crashes an actor. Its last write may still reach the store.
    pub(crate) fn crash(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        let sent = actor.sent.filter(|sent| sent.after == self.log.end());
        *actor = Actor { boot: actor.boot + 1, fence: None, view: 0, sent: None, writes: 0 };
        self.orphans.extend(sent);
    }

    /// Lets the write of a crashed sender reach the store.
    pub(crate) fn land_orphan(&mut self, decisions: &Decisions<I>, index: usize) -> Option<()> {
        let sent = self.orphans[index];
        self.append(decisions, sent).map(drop)
    }

    /// Returns whether all acknowledged writes are in the log.
    pub(crate) fn keeps_acknowledged_writes(&self) -> bool {
        self.acked.iter().all(|write| self.log.has(*write))
    }
}
