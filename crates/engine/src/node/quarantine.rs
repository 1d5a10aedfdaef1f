//! One poisonous run must not condemn its neighbours: suspects of crashing their process are let in
//! a few at a time, then alone.
//!
//! A run is a suspect from its second recovery without progress. It leaves by progress, by its end, or
//! by outliving twice the time that it took to crash. Whoever dies alone has proven what it is.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::command::Lost;
use goldseam_core::recovery::{Pace, next_attempt, pace, probation};
use goldseam_core::task::Task;
use goldseam_core::{RunId, Summary};

use super::Node;
use crate::spawn::spawn;

/// Suspects let in at once.
const COHORT_MAX: usize = 16;
/// Suspects that wait in memory; the others wait in the queue.
const HELD_BACK_MAX: usize = 64;

/// The suspects of one node.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    inside: HashMap<RunId, Suspect>,
    held_back: VecDeque<HeldBack>,
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    until: Duration,
    alone: bool,
    /// Its place is kept, it has not claimed its run yet.
    expected: bool,
}

/// A suspect that waits for its turn.
#[derive(Debug)]
struct HeldBack {
    task: Task,
    alone: bool,
    lived: Duration,
}

impl HeldBack {
    /// Who is most suspect goes first: who must be alone, then who died soonest.
    fn turn(&self) -> (bool, Duration) {
        (!self.alone, self.lived)
    }
}

impl Quarantine {
    fn has_room(&self, alone: bool) -> bool {
        match alone {
            true => self.inside.is_empty(),
            false => self.inside.len() < COHORT_MAX && !self.inside.values().any(|suspect| suspect.alone),
        }
    }
}

/// Whether a run may be taken over now.
pub(super) enum Admission {
    /// Yes.
    In {
        /// With no other suspect.
        alone: bool,
    },
    /// Others are first.
    HeldBack {
        /// It must be let in alone.
        alone: bool,
        /// How long it lived.
        lived: Duration,
    },
    /// It is the one: after so many attempts.
    Never(u32),
}

impl Node {
    fn quarantine(&self) -> MutexGuard<'_, Quarantine> {
        self.quarantine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those who progressed, ended or outlived their time are no suspects any more.
    fn let_out(&self, quarantine: &mut Quarantine) {
        // Beats tell others how long a run lived: one must have told that it outlived its time.
        let told = self.hub().told_alive();
        quarantine.inside.retain(|run, suspect| suspect.until > told && self.is_suspect(run));
    }

    /// A beat that says that suspects have outlived their time, if none has said so yet.
    pub(super) async fn tell_alive(&self) {
        let (now, told) = (self.ledger.clock.elapsed(), self.hub().told_alive());
        let due = |suspect: &Suspect| suspect.until > told && suspect.until <= now;
        let wanted = self.quarantine().inside.values().any(due);
        if wanted && let Err(error) = self.beat().await {
            tracing::debug!(node = %self.id, %error, "a beat failed");
        }
    }

    /// Whether the run is still executing here without progress since it was recovered.
    fn is_suspect(&self, run: &RunId) -> bool {
        match self.hub().cell(run) {
            Some(cell) => cell.lock().state.summary.attempt > 0,
            None => self.taking().contains_key(run),
        }
    }

    /// Decides how a run whose owner is lost is let in.
    pub(super) fn admit(&self, summary: &Summary, lost: &Lost) -> Admission {
        if !lost.proven {
            return Admission::In { alone: false };
        }
        let bounds = self.config.recovery_for(&summary.workflow).bounds();
        let alone = match pace(summary, next_attempt(summary, lost.lived), bounds) {
            Pace::Crowd => return Admission::In { alone: false },
            Pace::Never => return Admission::Never(summary.attempt),
            Pace::Cohort => false,
            Pace::Alone => true,
        };
        let until = self.ledger.clock.elapsed() + probation(lost.lived);
        let mut quarantine = self.quarantine();
        let expected = quarantine.inside.remove(&summary.run).is_some_and(|suspect| suspect.expected);
        self.let_out(&mut quarantine);
        let turn = expected || quarantine.held_back.is_empty();
        if !turn || !quarantine.has_room(alone) {
            return Admission::HeldBack { alone, lived: lost.lived.most };
        }
        quarantine.inside.insert(summary.run.clone(), Suspect { until, alone, expected: false });
        Admission::In { alone }
    }

    /// How many wait in memory for their turn.
    pub(super) fn held_back_count(&self) -> usize {
        self.quarantine().held_back.len()
    }

    /// Whether the run waits in memory for its turn.
    pub(super) fn is_held_back(&self, run: &RunId) -> bool {
        self.quarantine().held_back.iter().any(|held| held.task.run.as_ref() == Some(run))
    }

    /// Lets a suspect wait: those whose turn is near in memory, the others in the queue.
    pub(super) async fn hold_back(&self, task: Task, alone: bool, lived: Duration) {
        let held = HeldBack { task, alone, lived };
        let far = {
            let mut quarantine = self.quarantine();
            let place = quarantine.held_back.partition_point(|other| other.turn() <= held.turn());
            quarantine.held_back.insert(place, held);
            let full = quarantine.held_back.len() > HELD_BACK_MAX;
            if full { quarantine.held_back.pop_back() } else { None }
        };
        let Some(HeldBack { task, .. }) = far else { return };
        if let Some(run) = &task.run {
            self.taking().remove(run);
        }
        let spread = Duration::from_millis(self.ledger.entropy.next() % 500);
        self.put_aside(task, self.config.recovery.delay * 2 + spread).await;
    }

    /// Lets the next suspects in, as far as there is room.
    pub(super) fn let_in(self: &Arc<Self>) {
        let mut quarantine = self.quarantine();
        self.let_out(&mut quarantine);
        while let Some(held) = quarantine.held_back.front() {
            if !quarantine.has_room(held.alone) {
                return;
            }
            let Some(HeldBack { task, alone, .. }) = quarantine.held_back.pop_front() else { return };
            if let Some(run) = task.run.clone() {
                let until = self.ledger.clock.elapsed() + self.config.silence_max;
                quarantine.inside.insert(run, Suspect { until, alone, expected: true });
            }
            let node = Arc::clone(self);
            self.adopt(spawn(async move { node.take(task).await }));
        }
    }

    /// A node that leaves keeps nobody waiting.
    pub(super) async fn send_away(&self) {
        let held = std::mem::take(&mut self.quarantine().held_back);
        for HeldBack { task, .. } in held {
            self.put_aside(task, Duration::ZERO).await;
        }
    }
}
