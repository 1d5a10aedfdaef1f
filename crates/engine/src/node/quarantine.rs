//! Quarantine: admits runs suspected of crashing their process a few at a time, so that one poisonous run does not
//! condemn its neighbours. The attempt that decides runs alone.
//!
//! A run is a suspect from the second death of its process during its execution without progress. It leaves by
//! progress, by its end, or by outliving twice the time to its last crash. Each suspect that leaves makes room for
//! two, so a crowd of innocent suspects passes in a few rounds. The suspects of the latest crash go first, with no
//! other suspect beside them, so each crash halves them. Before the first suspect is admitted, the process
//! must have lived long enough without suspects (the *control*): a process that is killed from outside again and
//! again does not.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use goldseam_core::command::Lost;
use goldseam_core::recovery::{Lived, Pace, Policy, control, is_charged, pace, probation};
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Summary};
use goldseam_store::{Expect, Written};

use super::Node;
use crate::ledger::spawn::spawn;
use crate::ledger::sync::lock;

/// Maximum number of suspects that wait in memory; the others wait in the queue.
const HELD_BACK_MAX: usize = 64;
/// While a run that must be alone is watched for at most this many times the tolerance, nothing else begins. A run
/// that takes longer to crash is alone only among suspects, or it would block the node. Nor do unlikelier suspects wait
/// for its end.
const SECLUDED_DOUBTS_MAX: u32 = 20;
/// How much longer than its probation a suspect is watched: a lifetime of exactly the probation is still charged, and
/// the store counts in milliseconds.
const MARGIN: Duration = Duration::from_millis(1);
/// Maximum number of lost nodes remembered. Beyond it, the memory is cleared.
const DEATHS_MAX: usize = 1_024;

/// The suspects of one node.
#[derive(Debug)]
pub(super) struct Quarantine {
    /// When the node started.
    begun: Duration,
    inside: HashMap<RunId, Suspect>,
    held_back: VecDeque<HeldBack>,
    /// Maximum number of suspects admitted at once.
    width: usize,
    /// Since when nothing new begins on this node because a run must be alone.
    secluded: Option<Duration>,
    /// Lost nodes whose suspects were held back here.
    deaths: HashSet<NodeId>,
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    until: Duration,
    alone: bool,
    /// Whether its place is reserved but it has not claimed its run yet.
    expected: bool,
    death: Death,
}

/// How a suspect lost its last owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Death {
    /// Whether it counts against the suspect.
    charged: bool,
    /// When the lost owner claimed the run.
    claimed_at: Option<Millis>,
    lived: Lived,
}

/// Whether nothing else begins while a suspect that lived like this is watched.
fn is_brief(lived: Lived) -> bool {
    probation(lived) <= lived.doubt.saturating_mul(SECLUDED_DOUBTS_MAX)
}

impl Death {
    /// Whether a run that died like this cannot have caused the crash that a run which died like `other` is suspected
    /// of: it outlived its suspicion, or it was lost before the other run was claimed.
    fn excludes_cause_of(self, other: Self) -> bool {
        let lost_before =
            self.claimed_at.zip(other.claimed_at).is_some_and(|(own, others)| own + self.lived.most < others);
        other.charged && is_brief(other.lived) && (!self.charged || lost_before)
    }
}

/// A suspect that waits to be admitted.
#[derive(Debug, Clone)]
pub(super) struct HeldBack {
    pace: Pace,
    death: Death,
    owner: NodeId,
    task: Option<Task>,
}

impl HeldBack {
    /// Sort key: runs that must be alone first, then those that may have caused their crash, then those of the latest
    /// crash.
    fn turn(&self) -> (bool, bool, std::cmp::Reverse<Option<Millis>>) {
        (self.pace != Pace::Alone, !self.death.charged, std::cmp::Reverse(self.death.claimed_at))
    }

    fn run(&self) -> Option<&RunId> {
        self.task.as_ref().and_then(|task| task.run.as_ref())
    }
}

/// Whether the next suspect may be admitted.
#[derive(Debug, PartialEq, Eq)]
enum Gate {
    Closed,
    Open,
    /// Open for a run that must be alone.
    Alone,
}

impl Quarantine {
    /// Creates the quarantine of a node that started at `begun`, by its clock.
    pub(super) fn new(begun: Duration) -> Self {
        let inside = HashMap::new();
        let held_back = VecDeque::new();
        let deaths = HashSet::new();
        Self { begun, inside, held_back, width: 1, secluded: None, deaths }
    }

    /// How the suspect would be admitted now: alone only until another suspect has survived.
    fn pace_of(&self, held: &HeldBack) -> Pace {
        if held.pace == Pace::Alone && self.width == 1 { Pace::Alone } else { Pace::Cohort }
    }

    fn gate(&self, held: &HeldBack, now: Duration) -> Gate {
        let pace = self.pace_of(held);
        let controlled = now.saturating_sub(self.begun) >= control(held.death.lived, pace);
        // Beside a likelier cause, the crash would make it as likely, and the search would not narrow.
        let must_wait = |suspect: &Suspect| suspect.alone || held.death.excludes_cause_of(suspect.death);
        let occupied = self.inside.values().any(must_wait);
        match pace {
            Pace::Alone if controlled && self.inside.is_empty() => Gate::Alone,
            Pace::Cohort if controlled && !occupied && self.inside.len() < self.width => Gate::Open,
            _ => Gate::Closed,
        }
    }

    /// When a suspect with `before` suspects ahead is admitted at the latest, if those survive: each round admits as
    /// many as all rounds before it, and the suspects of one crash end theirs before others begin.
    fn at_the_latest(&self, held: &HeldBack, before: usize, now: Duration) -> Duration {
        let begins = (self.begun + control(held.death.lived, self.pace_of(held))).max(now);
        let ahead = self.held_back.iter().take_while(|other| other.turn() <= held.turn());
        let next = ahead.clone().skip(1).chain([held]);
        let crashes =
            ahead.zip(next).filter(|(first, then)| then.death.excludes_cause_of(first.death)).count();
        let rounds = (before / self.width + 1).ilog2() + 1 + u32::try_from(crashes).unwrap_or(u32::MAX);
        begins + probation(held.death.lived).saturating_mul(rounds)
    }

    /// Removes suspects that progressed, ended, or outlived their probation at the last beat. Each makes room for two,
    /// up to `width_max`.
    fn remove_survivors(
        &mut self,
        last_beat: Duration,
        width_max: usize,
        is_suspect: impl Fn(&RunId) -> bool,
    ) {
        let left = self.inside.extract_if(|run, suspect| suspect.until <= last_beat || !is_suspect(run));
        let survivors = left.filter(|(_, suspect)| !suspect.expected).count();
        self.width = self.width.saturating_add(survivors).min(width_max);
    }
}

/// Whether a run may be taken over now.
pub(super) enum Admission {
    /// Admitted.
    In {
        /// Whether it runs alone.
        alone: bool,
    },
    /// Must wait.
    HeldBack(Box<HeldBack>),
    /// Must be stopped by rule P1.
    Never,
}

impl Node {
    fn quarantine(&self) -> MutexGuard<'_, Quarantine> {
        lock(&self.quarantine)
    }

    /// The recovery policy of a run: from its log, otherwise from this node.
    pub(super) fn policy_for(&self, summary: &Summary) -> Policy {
        Policy::of(summary, self.config.recovery_for(&summary.workflow).policy())
    }

    /// Beats if a suspect has outlived its probation since the last beat.
    pub(super) async fn beat_for_suspects(&self) {
        let now = self.ledger.clock.elapsed();
        let last_beat = self.live_runs().last_beat();
        let due = |suspect: &Suspect| suspect.until > last_beat && suspect.until <= now;
        let wanted = self.quarantine().inside.values().any(due);
        if wanted && let Err(error) = self.beat().await {
            tracing::debug!(node = %self.id, %error, "beat failed");
        }
    }

    /// Whether the run executes here without progress since its recovery.
    fn is_suspect(&self, run: &RunId) -> bool {
        match self.live_runs().live(run) {
            Some(live) => live.lock().state.summary.lived_ms.is_some(),
            None => self.taking().contains_key(run),
        }
    }

    /// Decides whether a run with a lost owner is admitted.
    pub(super) fn admit(&self, summary: &Summary, lost: &Lost) -> Admission {
        if !lost.proven {
            return Admission::In { alone: false };
        }
        let pace = match pace(summary, lost.lived, self.policy_for(summary).bounds()) {
            Pace::Crowd => return Admission::In { alone: false },
            Pace::Never => return Admission::Never,
            pace @ (Pace::Cohort | Pace::Alone) => pace,
        };
        if let Some(place) = self.quarantine().inside.get(&summary.run).filter(|suspect| suspect.expected) {
            return Admission::In { alone: place.alone };
        }
        let charged = is_charged(summary, lost.lived);
        let death = Death { charged, claimed_at: summary.claimed_at, lived: lost.lived };
        Admission::HeldBack(Box::new(HeldBack { pace, death, owner: lost.node.clone(), task: None }))
    }

    /// Begins the probation of a suspect that has claimed its run. Not earlier: the next owner counts its lifetime
    /// from the claim, and would charge a run that this node has let go.
    pub(super) fn begin_probation(&self, run: &RunId, lived: Lived) {
        let until = self.ledger.clock.elapsed() + probation(lived) + MARGIN;
        if let Some(place) = self.quarantine().inside.get_mut(run).filter(|suspect| suspect.expected) {
            *place = Suspect { until, expected: false, ..*place };
        }
    }

    /// Number of suspects that wait in memory.
    pub(super) fn held_back_count(&self) -> usize {
        self.quarantine().held_back.len()
    }

    /// Whether the run waits in memory.
    pub(super) fn is_held_back(&self, run: &RunId) -> bool {
        self.quarantine().held_back.iter().any(|held| held.run() == Some(run))
    }

    /// Holds a suspect back: in memory if its turn is near, otherwise in the queue. Its task records it, for other
    /// processes.
    pub(super) async fn hold_back(&self, task: Task, held: HeldBack) {
        let now = self.ledger.clock.elapsed();
        let (before, until, far) = {
            let mut quarantine = self.quarantine();
            // If the crash came after this node started, the suspect may be one of those that were admitted.
            let began_at = self.ledger.clock.now() - now.saturating_sub(quarantine.begun);
            let later = held.death.claimed_at.is_some_and(|at| at > began_at);
            if quarantine.deaths.len() >= DEATHS_MAX {
                quarantine.deaths.clear();
            }
            if quarantine.deaths.insert(held.owner.clone()) && later {
                quarantine.width = 1;
            }
            let before = quarantine.held_back.partition_point(|other| other.turn() <= held.turn());
            let until = quarantine.at_the_latest(&held, before + quarantine.inside.len(), now);
            (before, until, before >= HELD_BACK_MAX)
        };
        let wait = until.saturating_sub(now);
        if let Some(run) = &task.run {
            let wait = wait.as_secs_f64();
            tracing::info!(%run, node = %self.id, before, wait_max_s = wait, "run waits in quarantine");
        }
        let at = self.ledger.clock.now();
        let noted = task.clone().quarantined(&self.id, before, at + wait, at);
        if far {
            return self.return_to_queue(Task { audit: noted.audit, ..task }).await;
        }
        let task = match self.ledger.store.put_task(noted.clone(), Expect::Version(task.version)).await {
            Ok(Written::Done) => noted,
            Ok(Written::Lost(_)) | Err(_) => task,
        };
        let last = {
            let mut quarantine = self.quarantine();
            let place = quarantine.held_back.partition_point(|other| other.turn() <= held.turn());
            quarantine.held_back.insert(place, HeldBack { task: Some(task), ..held });
            self.suspects.notify_one();
            let full = quarantine.held_back.len() > HELD_BACK_MAX;
            if full { quarantine.held_back.pop_back() } else { None }
        };
        if let Some(task) = last.and_then(|last| last.task) {
            self.return_to_queue(task).await;
        }
    }

    /// Returns a suspect whose turn is far to the queue.
    async fn return_to_queue(&self, task: Task) {
        if let Some(run) = &task.run {
            self.taking().remove(run);
        }
        let spread = Duration::from_millis(self.ledger.entropy.next() % 500);
        self.postpone(task, self.config.recovery.delay * 10 + spread).await;
    }

    /// Admits the next suspects while there is room.
    pub(super) fn admit_suspects(self: &Arc<Self>) {
        let now = self.ledger.clock.elapsed();
        let mut quarantine = self.quarantine();
        // Other nodes learn from beats how long a run lived, so a beat after the probation is needed.
        let last_beat = self.live_runs().last_beat();
        let width_max = usize::try_from(self.config.slots).unwrap_or(usize::MAX).max(1);
        quarantine.remove_survivors(last_beat, width_max, |run| self.is_suspect(run));
        let mut wanted = quarantine.inside.values().any(|suspect| suspect.alone);
        while let Some(held) = quarantine.held_back.front() {
            let gate = quarantine.gate(held, now);
            if gate == Gate::Closed {
                break;
            }
            let alone = gate == Gate::Alone;
            wanted |= alone;
            if alone && !self.is_secluded_for(&mut quarantine, now) {
                break;
            }
            let Some(HeldBack { task: Some(task), death, .. }) = quarantine.held_back.pop_front() else {
                break;
            };
            if let Some(run) = task.run.clone() {
                tracing::info!(%run, node = %self.id, alone, "admitted run from quarantine");
                let until = now + self.config.silence_max;
                quarantine.inside.insert(run, Suspect { until, alone, expected: true, death });
            }
            let node = Arc::clone(self);
            self.adopt(spawn(async move { node.take(task).await }));
        }
        if !wanted && quarantine.secluded.take().is_some() {
            self.live_runs().seclude(false);
            self.live_runs().ready.notify_one();
        }
    }

    /// Whether the first suspect would be alone: nothing has begun here for as long as it will be watched. From the
    /// first call on, nothing new begins.
    fn is_secluded_for(&self, quarantine: &mut Quarantine, now: Duration) -> bool {
        let Some(held) = quarantine.held_back.front() else { return false };
        let span = probation(held.death.lived);
        if !is_brief(held.death.lived) {
            return true;
        }
        let waiting = quarantine.held_back.len();
        let since = *quarantine.secluded.get_or_insert_with(|| {
            self.live_runs().seclude(true);
            now
        });
        let empty = self.live_runs().live_count() == 0 && self.taking().len() <= waiting;
        empty || now.saturating_sub(since) >= span
    }

    /// Returns all waiting suspects to the queue because the node leaves.
    pub(super) async fn release_suspects(&self) {
        let held = std::mem::take(&mut self.quarantine().held_back);
        for task in held.into_iter().filter_map(|held| held.task) {
            self.postpone(task, Duration::ZERO).await;
        }
    }
}

#[cfg(test)]
mod tests;
