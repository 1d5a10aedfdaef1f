//! The objects of one run, and the requests of processes, one at a time.

use goldseam_core::BranchId;

use super::{Bug, Intent, ObjectModel};
use crate::decisions::{Fenced, Log, Order, Outcome, node};

/// The cached row as an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Row {
    /// Number of the batch from which it was computed.
    pub(super) batch: u8,
    /// The end of the log with that batch.
    pub(super) end: u8,
    pub(super) over: bool,
    pub(super) branch: u32,
    /// The position after which the current life of the run began, as named by its marker.
    pub(super) active: u8,
    /// The unique tag of this content.
    pub(super) tag: u16,
}

/// The next request of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Mark(u8),
    Put,
    Row,
    Unmark(u8),
}

/// An append and its follow-up requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) order: Order<Intent>,
    /// The end of the log at the decision.
    pub(super) base: u8,
    pub(super) phase: Phase,
    /// The row as last read.
    pub(super) known: Option<Row>,
    /// The marker that this job wrote.
    pub(super) active: Option<u8>,
    /// The tag of the row that it writes.
    pub(super) tag: u16,
}

/// A process with its own store client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) boot: u8,
    pub(super) fence: Option<Fenced>,
    pub(super) view: u8,
    pub(super) job: Option<Job>,
    pub(super) writes: u8,
    /// Number of intents that were answered.
    pub(super) answered: u8,
}

/// A copy of a request that arrives later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Late {
    Put(Order<Intent>, u8),
    Row(Option<Row>, Row),
    Unmark(u8),
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct World {
    pub(super) log: Log,
    pub(super) row: Option<Row>,
    /// One bit per marker, by the position that it names.
    pub(super) markers: u64,
    pub(super) processes: Vec<Process>,
    pub(super) late: Vec<Late>,
    pub(super) acked: Vec<u16>,
    pub(super) losses: u8,
    pub(super) delays: u8,
    pub(super) busy: u8,
    pub(super) crashes: u8,
    pub(super) repeated: bool,
    pub(super) seen: u8,
}

/// Expected situations, one bit each.
pub(super) const SETTLED: u8 = 1;
pub(super) const ROW_SETTLED: u8 = 2;
pub(super) const BUSY: u8 = 4;
pub(super) const PUT_LATE: u8 = 8;
pub(super) const UNMARKED_LATE: u8 = 16;
pub(super) const SWEPT: u8 = 32;
pub(super) const REFUSED: u8 = 64;
pub(super) const KNOWN: u8 = 128;

impl World {
    pub(super) fn see(&mut self, what: u8) {
        self.seen |= what;
    }

    pub(super) fn has_marker(&self) -> bool {
        self.markers != 0
    }

    /// Returns whether the row is behind the log.
    pub(super) fn row_is_late(&self) -> bool {
        self.log.appends > 0 && self.row.is_none_or(|row| row.batch < self.log.appends)
    }

    /// Returns whether a node or a sweep must find this run: it has not ended, or its row does not show the end.
    pub(super) fn must_be_found(&self) -> bool {
        self.log.appends > 0 && !(self.log.is_over() && self.row.is_some_and(|row| row.over))
    }

    pub(super) fn is_orphaned(&self) -> bool {
        let Some(owner) = self.log.state.as_ref().and_then(|state| state.summary.owner.as_ref()) else {
            return false;
        };
        let small = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        !self.processes.iter().enumerate().any(|(who, process)| node(small(who), process.boot) == *owner)
    }

    /// Removes copies that can no longer change anything.
    pub(super) fn forget_copies(&mut self) {
        let end = self.log.end();
        let row = self.row;
        self.late.retain(|late| match late {
            Late::Put(_, base) => *base == end,
            Late::Row(before, _) => *before == row,
            Late::Unmark(_) => true,
        });
    }

    /// Returns whether the run has ended, its row is current, and no marker is left.
    pub(super) fn is_tidy(&self) -> bool {
        self.log.is_over() && !self.row_is_late() && !self.has_marker()
    }
}

impl ObjectModel {
    fn marker(&self, after: u8) -> u64 {
        1 << if self.bug == Bug::OneMarkerForAllLives { 0 } else { after }
    }

    /// Lets a process read, decide, and prepare its first request.
    pub(super) fn begin(&self, world: &mut World, who: usize, intent: Intent) -> Option<()> {
        let process = &world.processes[who];
        let base = if process.fence.is_some() { process.view } else { world.log.end() };
        let number = u8::try_from(who).unwrap_or(u8::MAX);
        let tag = u16::from(number) * 1_000 + u16::from(process.boot) * 100 + u16::from(process.writes) + 1;
        let order = Order { who: number, boot: process.boot, intent, fence: process.fence, write: tag };
        let job = Job { order, base, phase: Phase::Row, known: world.row, active: None, tag };
        if intent == Intent::Sweep {
            let goes_on = world.row.is_some_and(|row| row.over) && !world.log.is_over();
            let phase = if goes_on { Phase::Mark(base) } else { Phase::Row };
            let active = goes_on.then_some(base);
            world.processes[who].job = Some(Job { phase, active, ..job });
        } else if !self.decide(world, who, job) {
            return None;
        }
        world.processes[who].writes += 1;
        Some(())
    }

    /// Decides by the log that the job has read. Returns whether anything changed.
    fn decide(&self, world: &mut World, who: usize, job: Job) -> bool {
        let outcome = self.decisions.outcome(world.log.until(job.base), job.order);
        let is_client = who >= self.scope.nodes;
        let process = &mut world.processes[who];
        match outcome {
            Outcome::Appended(after, _) => {
                let marks = job.base == 0 || self.goes_on(job.known, &after);
                let phase = if marks { Phase::Mark(job.base) } else { Phase::Put };
                process.job = Some(Job { phase, active: marks.then_some(job.base), ..job });
                return true;
            }
            Outcome::Nothing => {
                process.answered += u8::from(is_client);
                world.see(KNOWN);
            }
            Outcome::Refused(_) => {
                process.answered += u8::from(is_client);
                let had = process.fence.take().is_some() || process.job.is_some();
                if !is_client && !had {
                    return false;
                }
                world.see(REFUSED);
            }
        }
        world.processes[who].job = None;
        true
    }

    /// Returns whether an ended run continues. A late row may not show the end yet, but it cannot name the branch on
    /// which the run continues.
    fn goes_on(&self, known: Option<Row>, after: &Log) -> bool {
        let summary = &after.now().summary;
        let is_elsewhere =
            known.map_or(BranchId::ROOT.0, |row| row.branch) != summary.branch.0 && summary.owner.is_none();
        let by_branch = is_elsewhere && self.bug != Bug::ContinuesByTheRow;
        !after.is_over() && (known.is_some_and(|row| row.over) || by_branch)
    }

    pub(super) fn request(&self, world: &mut World, who: usize, replied: bool) -> Option<()> {
        let job = world.processes[who].job?;
        match job.phase {
            Phase::Mark(after) if replied => {
                world.markers |= self.marker(after);
                let phase = if job.order.intent == Intent::Sweep { Phase::Row } else { Phase::Put };
                world.processes[who].job = Some(Job { phase, ..job });
            }
            Phase::Put => self.put(world, who, job, replied)?,
            Phase::Row => self.write_row(world, who, job, replied)?,
            Phase::Unmark(after) if replied => {
                world.markers &= !self.marker(after);
                let row_is_left = self.bug == Bug::UnmarksFirst;
                world.processes[who].job = row_is_left.then_some(Job { phase: Phase::Row, ..job });
            }
            Phase::Mark(_) | Phase::Unmark(_) => return None,
        }
        world.forget_copies();
        Some(())
    }

    fn put(&self, world: &mut World, who: usize, job: Job, replied: bool) -> Option<()> {
        let order = job.order;
        if world.log.has(order.write) {
            if !replied {
                return None;
            }
            if self.bug == Bug::MistakesItsOwnObject {
                let intent = match order.intent {
                    Intent::Signal(k, again) => Intent::Signal(k, again + 1),
                    other => other,
                };
                self.conflict(
                    world,
                    who,
                    Job { order: Order { intent, write: order.write + 50, ..order }, ..job },
                );
                return Some(());
            }
            world.see(SETTLED);
            self.appended(world, who, job);
        } else if world.log.end() == job.base || self.bug == Bug::WritesBlindly {
            let base = world.log.until(job.base).clone();
            let Outcome::Appended(log, _) = self.decisions.outcome(&base, order) else { return None };
            world.log = log;
            if replied {
                self.appended(world, who, job);
            }
        } else if replied {
            self.conflict(world, who, job);
        } else {
            return None;
        }
        Some(())
    }

    /// Handles a conflict: the process reads the log and decides again.
    fn conflict(&self, world: &mut World, who: usize, job: Job) {
        let base = world.log.end();
        let known = world.row;
        self.decide(world, who, Job { base, known, active: None, ..job });
    }

    /// Handles the acknowledgement of a batch.
    fn appended(&self, world: &mut World, who: usize, job: Job) {
        world.acked.push(job.order.write);
        world.acked.sort_unstable();
        let (fence, view) = world.log.view_after(&job.order);
        let over = world.log.until(view).is_over();
        let process = &mut world.processes[who];
        process.fence = fence;
        process.view = view;
        process.answered += u8::from(who >= self.scope.nodes);
        let phase = match (self.bug, over) {
            (Bug::UnmarksFirst, true) => Phase::Unmark(job.known.map_or(0, |row| row.active)),
            _ => Phase::Row,
        };
        // A completed step does not change the row.
        process.job = (job.order.intent != Intent::Step).then_some(Job { phase, ..job });
    }

    /// Returns the row that a job writes over `known`.
    fn row_of(world: &World, job: Job) -> Row {
        let log = match job.order.intent {
            Intent::Sweep => world.log.until(job.base),
            _ => world.log.until(world.log.view_after(&job.order).1),
        };
        let active = job.active.or(job.known.map(|row| row.active)).unwrap_or(0);
        let branch = log.state.as_ref().map_or(0, |state| state.summary.branch.0);
        Row { batch: log.appends, end: log.end(), over: log.is_over(), branch, active, tag: job.tag }
    }

    fn write_row(&self, world: &mut World, who: usize, job: Job, replied: bool) -> Option<()> {
        let row = Self::row_of(world, job);
        let there = world.row;
        let is_ours = there.is_some_and(|there| there.tag == job.tag);
        let unmarks = |row: &Row| row.over && self.bug != Bug::UnmarksFirst;
        let unmark =
            |row: Row| Some(Job { phase: Phase::Unmark(row.active), ..job }).filter(|_| unmarks(&row));
        if is_ours {
            if !replied {
                return None;
            }
            world.see(ROW_SETTLED);
            world.processes[who].job = unmark(row);
        } else if there.is_some_and(|there| there.batch > row.batch) {
            // Another process has written a later row.
            if !replied {
                return None;
            }
            world.processes[who].job = there.and_then(unmark);
        } else if there == job.known {
            self.mark_for(world, job, row);
            world.row = Some(row);
            if replied {
                world.processes[who].job = unmark(row);
            }
            if job.order.intent == Intent::Sweep {
                world.see(SWEPT);
            }
        } else if replied {
            world.processes[who].job = Some(Job { known: there, ..job });
        } else {
            return None;
        }
        Some(())
    }

    /// Writes the marker of a row whose predecessor needed none.
    fn mark_for(&self, world: &mut World, job: Job, row: Row) {
        if job.known.is_none_or(|known| known.over) && job.active.is_none() && !row.over {
            world.markers |= self.marker(row.active);
        }
    }

    /// Creates a copy of the request that arrives after its sender gave up.
    pub(super) fn delay(&self, world: &mut World, who: usize) -> Option<()> {
        let job = world.processes[who].job?;
        let late = match job.phase {
            Phase::Put if job.base == world.log.end() => Late::Put(job.order, job.base),
            Phase::Row => {
                let row = Self::row_of(world, job);
                let is_later = world.row.is_some_and(|there| there.batch > row.batch);
                if job.known != world.row || is_later {
                    return None;
                }
                self.mark_for(world, job, row);
                Late::Row(job.known, row)
            }
            Phase::Unmark(after) => Late::Unmark(after),
            Phase::Mark(_) | Phase::Put => return None,
        };
        world.late.push(late);
        Some(())
    }

    pub(super) fn arrive(&self, world: &mut World, index: usize) -> Option<()> {
        match world.late.remove(index) {
            Late::Put(order, _) => {
                let Outcome::Appended(log, _) = self.decisions.outcome(&world.log, order) else {
                    return None;
                };
                world.log = log;
                world.see(PUT_LATE);
            }
            Late::Row(_, row) => world.row = Some(row),
            Late::Unmark(after) => {
                world.markers &= !self.marker(after);
                if !world.log.is_over() {
                    world.see(UNMARKED_LATE);
                }
            }
        }
        world.forget_copies();
        Some(())
    }
}
