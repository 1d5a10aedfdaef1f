//! One poisonous run must not condemn its neighbours: suspects of crashing their process are let in
//! a few at a time, and the attempt that decides is made alone.
//!
//! A run is a suspect if it was executing when its process died, from its second such death without progress on. It
//! leaves by progress, by its end, or by outliving twice the time that it took to crash. Each suspect that leaves makes
//! room for two, so a crowd of innocent ones is through in a few rounds. Before suspects are let in, the process has
//! lived long enough without them (the *control*): a process that is killed from outside again and again does not.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::command::Lost;
use goldseam_core::recovery::{Lived, Pace, Policy, control, pace, probation};
use goldseam_core::task::Task;
use goldseam_core::{Millis, NodeId, RunId, Summary};
use goldseam_store::{Expect, Written};

use super::Node;
use crate::ledger::spawn::spawn;

/// Suspects that wait in memory; the others wait in the queue.
const HELD_BACK_MAX: usize = 64;
/// Nothing else begins beside a run that is let in alone if it is watched for at most this many times the doubt. One
/// that takes longer to crash is alone among suspects only, or it would keep the node from its work.
const SECLUDED_DOUBTS_MAX: u32 = 20;
/// Lost nodes that are remembered; past it the memory begins again.
const DEATHS_MAX: usize = 1_024;

/// The suspects of one node.
#[derive(Debug)]
pub(super) struct Quarantine {
    /// When the node began.
    begun: Duration,
    inside: HashMap<RunId, Suspect>,
    held_back: VecDeque<HeldBack>,
    /// Suspects let in at once.
    width: usize,
    /// Since when nothing new begins on this node, if it makes room for a run that must be alone.
    secluded: Option<Duration>,
    /// Lost nodes whose suspects came here.
    deaths: HashSet<NodeId>,
}

#[derive(Debug, Clone, Copy)]
struct Suspect {
    until: Duration,
    alone: bool,
    /// Its place is kept, it has not claimed its run yet.
    expected: bool,
}

/// A suspect that waits for its turn.
#[derive(Debug, Clone)]
pub(super) struct HeldBack {
    pace: Pace,
    lived: Lived,
    /// When its lost owner had claimed it.
    claimed_at: Option<Millis>,
    owner: NodeId,
    task: Option<Task>,
}

impl HeldBack {
    /// The most suspect goes first: one that must be alone, then those of the latest crash.
    fn turn(&self) -> (bool, std::cmp::Reverse<Option<Millis>>) {
        (self.pace != Pace::Alone, std::cmp::Reverse(self.claimed_at))
    }

    fn run(&self) -> Option<&RunId> {
        self.task.as_ref().and_then(|task| task.run.as_ref())
    }
}

/// Whether the next suspect may come in.
#[derive(Debug, PartialEq, Eq)]
enum Gate {
    Closed,
    Open,
    /// Alone.
    Alone,
}

impl Quarantine {
    /// The quarantine of a node that began at this moment of its clock.
    pub(super) fn new(begun: Duration) -> Self {
        let (inside, held_back, deaths) = (HashMap::new(), VecDeque::new(), HashSet::new());
        Self { begun, inside, held_back, width: 1, secluded: None, deaths }
    }

    /// How the suspect would be let in now: alone only while nothing has shown yet that others survive.
    fn pace_of(&self, held: &HeldBack) -> Pace {
        if held.pace == Pace::Alone && self.width == 1 { Pace::Alone } else { Pace::Cohort }
    }

    fn gate(&self, held: &HeldBack, now: Duration) -> Gate {
        let pace = self.pace_of(held);
        let controlled = now.saturating_sub(self.begun) >= control(held.lived, pace);
        let occupied = self.inside.values().any(|suspect| suspect.alone);
        match pace {
            Pace::Alone if controlled && self.inside.is_empty() => Gate::Alone,
            Pace::Cohort if controlled && !occupied && self.inside.len() < self.width => Gate::Open,
            _ => Gate::Closed,
        }
    }

    /// When a suspect with this many before it is let in at the latest, if those survive: each round lets in as many
    /// as all rounds before it.
    fn at_the_latest(&self, held: &HeldBack, before: usize, now: Duration) -> Duration {
        let begins = (self.begun + control(held.lived, self.pace_of(held))).max(now);
        let rounds = (before / self.width + 1).ilog2() + 1;
        begins + probation(held.lived).saturating_mul(rounds)
    }
}

/// Whether a run may be taken over now.
pub(super) enum Admission {
    /// Yes.
    In {
        /// Alone.
        alone: bool,
    },
    /// It waits for its turn.
    HeldBack(Box<HeldBack>),
    /// It is the one.
    Never,
}

impl Node {
    fn quarantine(&self) -> MutexGuard<'_, Quarantine> {
        self.quarantine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the run is recovered: as its log says, else as this node is configured.
    pub(super) fn policy_for(&self, summary: &Summary) -> Policy {
        Policy::of(summary, self.config.recovery_for(&summary.workflow).policy())
    }

    /// Removes suspects that progressed, ended or outlived their time; each of them makes room for two.
    fn let_out(&self, quarantine: &mut Quarantine) {
        // Beats tell others how long a run lived: one must have told that it outlived its time.
        let told = self.live_runs().told_alive();
        let left =
            quarantine.inside.extract_if(|run, suspect| suspect.until <= told || !self.is_suspect(run));
        let survivors = left.filter(|(_, suspect)| !suspect.expected).count();
        let most = usize::try_from(self.config.slots).unwrap_or(usize::MAX).max(1);
        quarantine.width = quarantine.width.saturating_add(survivors).min(most);
    }

    /// Sends a beat that says that suspects have outlived their time, if none has said so yet.
    pub(super) async fn tell_alive(&self) {
        let (now, told) = (self.ledger.clock.elapsed(), self.live_runs().told_alive());
        let due = |suspect: &Suspect| suspect.until > told && suspect.until <= now;
        let wanted = self.quarantine().inside.values().any(due);
        if wanted && let Err(error) = self.beat().await {
            tracing::debug!(node = %self.id, %error, "a beat failed");
        }
    }

    /// Whether the run is still executing here without progress since it was recovered.
    fn is_suspect(&self, run: &RunId) -> bool {
        match self.live_runs().live(run) {
            Some(live) => live.lock().state.summary.lived_ms.is_some(),
            None => self.taking().contains_key(run),
        }
    }

    /// Decides how a run whose owner is lost is let in.
    pub(super) fn admit(&self, summary: &Summary, lost: &Lost) -> Admission {
        if !lost.proven {
            return Admission::In { alone: false };
        }
        let pace = match pace(summary, lost.lived, self.policy_for(summary).bounds()) {
            Pace::Crowd => return Admission::In { alone: false },
            Pace::Never => return Admission::Never,
            pace @ (Pace::Cohort | Pace::Alone) => pace,
        };
        let until = self.ledger.clock.elapsed() + probation(lost.lived);
        let mut quarantine = self.quarantine();
        let expected = quarantine.inside.get_mut(&summary.run).filter(|suspect| suspect.expected);
        if let Some(place) = expected {
            *place = Suspect { until, expected: false, ..*place };
            return Admission::In { alone: place.alone };
        }
        let (owner, claimed_at) = (lost.node.clone(), summary.claimed_at);
        Admission::HeldBack(Box::new(HeldBack { pace, lived: lost.lived, claimed_at, owner, task: None }))
    }

    /// How many wait in memory for their turn.
    pub(super) fn held_back_count(&self) -> usize {
        self.quarantine().held_back.len()
    }

    /// Whether the run waits in memory for its turn.
    pub(super) fn is_held_back(&self, run: &RunId) -> bool {
        self.quarantine().held_back.iter().any(|held| held.run() == Some(run))
    }

    /// Lets a suspect wait: those whose turn is near in memory, the others in the queue. Its task says so, for other
    /// processes to read.
    pub(super) async fn hold_back(&self, task: Task, held: HeldBack) {
        let now = self.ledger.clock.elapsed();
        let (before, until, far) = {
            let mut quarantine = self.quarantine();
            // A suspect of a crash that came after this node began: it may be one of those that were let in.
            let began_at = self.ledger.clock.now() - now.saturating_sub(quarantine.begun);
            let later = held.claimed_at.is_some_and(|at| at > began_at);
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
            tracing::info!(%run, node = %self.id, before, wait_max_s = wait, "the run waits in quarantine");
        }
        let at = self.ledger.clock.now();
        let noted = task.clone().quarantined(&self.id, before, at + wait, at);
        if far {
            return self.send_back(Task { audit: noted.audit, ..task }).await;
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
            self.send_back(task).await;
        }
    }

    /// A suspect whose turn is far waits in the queue.
    async fn send_back(&self, task: Task) {
        if let Some(run) = &task.run {
            self.taking().remove(run);
        }
        let spread = Duration::from_millis(self.ledger.entropy.next() % 500);
        self.put_aside(task, self.config.recovery.delay * 10 + spread).await;
    }

    /// Lets the next suspects in, as far as there is room.
    pub(super) fn let_in(self: &Arc<Self>) {
        let now = self.ledger.clock.elapsed();
        let mut quarantine = self.quarantine();
        self.let_out(&mut quarantine);
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
            let Some(HeldBack { task: Some(task), .. }) = quarantine.held_back.pop_front() else { break };
            if let Some(run) = task.run.clone() {
                tracing::info!(%run, node = %self.id, alone, "the run is let in from quarantine");
                let until = now + self.config.silence_max;
                quarantine.inside.insert(run, Suspect { until, alone, expected: true });
            }
            let node = Arc::clone(self);
            self.adopt(spawn(async move { node.take(task).await }));
        }
        if !wanted && quarantine.secluded.take().is_some() {
            self.live_runs().seclude(false);
            self.live_runs().ready.notify_one();
        }
    }

    /// Whether the first that waits would be alone: nothing has begun here for as long as it will be watched. From the
    /// first question on, nothing new begins.
    fn is_secluded_for(&self, quarantine: &mut Quarantine, now: Duration) -> bool {
        let Some(held) = quarantine.held_back.front() else { return false };
        let span = probation(held.lived);
        if span > held.lived.doubt.saturating_mul(SECLUDED_DOUBTS_MAX) {
            return true;
        }
        let waiting = quarantine.held_back.len();
        let since = *quarantine.secluded.get_or_insert_with(|| {
            self.live_runs().seclude(true);
            now
        });
        let empty = self.live_runs().hot_count() == 0 && self.taking().len() <= waiting;
        empty || now.saturating_sub(since) >= span
    }

    /// A node that leaves keeps no suspect waiting.
    pub(super) async fn send_away(&self) {
        let held = std::mem::take(&mut self.quarantine().held_back);
        for task in held.into_iter().filter_map(|held| held.task) {
            self.put_aside(task, Duration::ZERO).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn held(pace: Pace, lived_ms: u32, claimed_at: i64) -> HeldBack {
        let lived = Lived { least: MS * lived_ms, most: MS * lived_ms, doubt: MS * 100, process: MS };
        let (owner, task) = (NodeId::new("n").unwrap(), None);
        HeldBack { pace, lived, claimed_at: Some(Millis(claimed_at)), owner, task }
    }

    fn suspect(alone: bool) -> Suspect {
        Suspect { until: Duration::MAX, alone, expected: false }
    }

    #[test]
    fn no_suspect_comes_in_before_its_control() {
        let quarantine = Quarantine::new(MS * 1_000);
        let cohort = held(Pace::Cohort, 200, 0);
        let gates = [1_000, 1_499, 1_500].map(|now| quarantine.gate(&cohort, MS * now));
        assert_eq!(gates, [Gate::Closed, Gate::Closed, Gate::Open]);
        let alone = held(Pace::Alone, 200, 0);
        let gates = [1_500, 4_999, 5_000].map(|now| quarantine.gate(&alone, MS * now));
        assert_eq!(gates, [Gate::Closed, Gate::Closed, Gate::Alone]);
    }

    #[test]
    fn a_run_that_is_alone_has_no_suspect_beside_it() {
        let mut quarantine = Quarantine::new(Duration::ZERO);
        let now = MS * 1_000_000;
        let [alone, cohort] = [Pace::Alone, Pace::Cohort].map(|pace| held(pace, 200, 0));
        quarantine.inside.insert(RunId::new("a").unwrap(), suspect(true));
        assert_eq!([&alone, &cohort].map(|held| quarantine.gate(held, now)), [Gate::Closed, Gate::Closed]);
        quarantine.width = 2;
        assert_eq!(quarantine.gate(&cohort, now), Gate::Closed);
        quarantine.inside = HashMap::from([(RunId::new("a").unwrap(), suspect(false))]);
        assert_eq!([&alone, &cohort].map(|held| quarantine.gate(held, now)), [Gate::Open, Gate::Open]);
        quarantine.width = 1;
        assert_eq!([&alone, &cohort].map(|held| quarantine.gate(held, now)), [Gate::Closed, Gate::Closed]);
    }

    #[test]
    fn the_most_suspect_and_the_latest_crash_go_first() {
        let mut all = [
            held(Pace::Cohort, 9, 5),
            held(Pace::Alone, 9, 1),
            held(Pace::Cohort, 9, 7),
            held(Pace::Alone, 9, 3),
        ];
        all.sort_by_key(HeldBack::turn);
        let order = all.map(|held| (held.pace, held.claimed_at.unwrap().0));
        assert_eq!(order, [(Pace::Alone, 3), (Pace::Alone, 1), (Pace::Cohort, 7), (Pace::Cohort, 5)]);
    }

    #[test]
    fn a_crowd_is_let_in_after_a_few_rounds() {
        let quarantine = Quarantine::new(Duration::ZERO);
        let cohort = held(Pace::Cohort, 200, 0);
        let rounds =
            |before| (quarantine.at_the_latest(&cohort, before, MS * 500) - MS * 500).as_millis() / 500;
        assert_eq!([0, 1, 2, 6, 7, 1_000].map(rounds), [1, 2, 2, 3, 4, 10]);
    }
}
