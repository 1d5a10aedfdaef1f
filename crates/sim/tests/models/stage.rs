//! What three of the models have in common: actors who append to one log by compare-and-append, over a network that
//! delays writes and loses replies, and who crash between sending and hearing.

use std::hash::Hash as HashTrait;

use goldseam_core::decide::TaskMove;
use goldseam_core::{Millis, Refusal};

use crate::book::{Book, Fenced, Log, Order, Outcome, node};

/// The run's advance task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Ready,
    Held,
    Dormant,
    Gone,
}

impl Task {
    /// The task after an append; `claimed`: whoever wrote it has the run now.
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

/// Whoever writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Actor<I> {
    /// How often it crashed: it comes back as another.
    pub(crate) boot: u8,
    /// Its claim, as far as it knows.
    pub(crate) fence: Option<Fenced>,
    /// How far it has read.
    pub(crate) view: u8,
    pub(crate) sent: Option<Sent<I>>,
    writes: u8,
}

/// The log, its task and everybody who writes.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct Stage<I> {
    pub(crate) log: Log,
    pub(crate) actors: Vec<Actor<I>>,
    /// Writes whose senders are gone.
    pub(crate) orphans: Vec<Sent<I>>,
    pub(crate) task: Task,
    /// Writes whose senders know that they were done.
    pub(crate) acked: Vec<u16>,
}

/// What became of a write that was to land.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Landed {
    /// It was done, and its sender knows; what becomes of the task.
    Done(TaskMove),
    /// It was done, and its sender does not know; what becomes of the task.
    Unheard(TaskMove),
    /// It had been done before, and now its sender knows.
    Settled,
    /// Somebody was faster: it is sent again behind that.
    Again,
    /// Somebody was faster, and nothing is left to do.
    Nothing,
    /// Somebody was faster, and now it is refused.
    Refused(Refusal),
}

impl<I: Copy + Eq + HashTrait> Stage<I> {
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

    /// Whether the run's owner is a process that is gone.
    pub(crate) fn is_orphaned(&self) -> bool {
        let living =
            |(who, actor): (usize, &Actor<I>)| node(u8::try_from(who).unwrap_or(u8::MAX), actor.boot);
        match &self.log.now().summary.owner {
            None => false,
            Some(owner) => !self.actors.iter().enumerate().any(|actor| living(actor) == *owner),
        }
    }

    /// An actor decides and sends. An owner decides on what it has read; anybody else looks first. None: it would
    /// do nothing.
    pub(crate) fn send(&mut self, book: &Book<I>, who: usize, intent: I) -> Option<()> {
        let view = if self.actors[who].fence.is_some() { self.actors[who].view } else { self.log.end() };
        let order = self.order(who, intent);
        let outcome = book.outcome(self.log.until(view), order);
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

    /// A write reaches the store. `heard` tells whether its reply comes back; `again` makes the order that is sent
    /// after a conflict. None: nothing would change.
    pub(crate) fn land(
        &mut self,
        book: &Book<I>,
        who: usize,
        heard: bool,
        again: impl Fn(&Log, Sent<I>) -> Order<I>,
    ) -> Option<Landed> {
        let sent = self.actors[who].sent?;
        if self.log.has(sent.order.write) {
            return heard.then(|| {
                self.hear(who, sent);
                Landed::Settled
            });
        }
        if self.log.end() == sent.after {
            let moved = self.append(book, sent)?;
            return Some(if heard {
                self.hear(who, sent);
                Landed::Done(moved)
            } else {
                Landed::Unheard(moved)
            });
        }
        if !heard {
            return None;
        }
        let order = again(&self.log, sent);
        let after = self.log.end();
        let outcome = book.outcome(&self.log, order);
        let actor = &mut self.actors[who];
        (actor.view, actor.sent) = (after, None);
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

    fn append(&mut self, book: &Book<I>, sent: Sent<I>) -> Option<TaskMove> {
        let Outcome::Appended(log, moved) = book.outcome(&self.log, sent.order) else { return None };
        let claimed = log.records[self.log.records.len()..].iter().any(|r| r.event.name() == "run.claimed");
        self.log = log;
        self.task = self.task.after(moved, claimed);
        // Whatever was to stand here cannot land any more.
        self.orphans.retain(|orphan| orphan.after == self.log.end());
        Some(moved)
    }

    /// The sender learns that its write was done.
    fn hear(&mut self, who: usize, Sent { order, .. }: Sent<I>) {
        self.acked.push(order.write);
        self.acked.sort_unstable();
        let (fence, view) = self.log.heard(&order);
        let actor = &mut self.actors[who];
        (actor.fence, actor.view, actor.sent) = (fence, view, None);
    }

    /// An actor's process is gone: what it sent may land yet.
    pub(crate) fn crash(&mut self, who: usize) {
        let actor = &mut self.actors[who];
        let sent = actor.sent.filter(|sent| sent.after == self.log.end());
        *actor = Actor { boot: actor.boot + 1, fence: None, view: 0, sent: None, writes: 0 };
        self.orphans.extend(sent);
    }

    /// A write whose sender is gone reaches the store.
    pub(crate) fn land_orphan(&mut self, book: &Book<I>, index: usize) -> Option<()> {
        let sent = self.orphans[index];
        self.append(book, sent).map(drop)
    }

    /// What was acknowledged stands in the log.
    pub(crate) fn keeps_its_word(&self) -> bool {
        self.acked.iter().all(|write| self.log.has(*write))
    }
}
