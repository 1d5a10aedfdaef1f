//! How fast runs make progress after the faults have ended.

use std::collections::BTreeMap;

use goldseam_core::codec::chain;
use goldseam_core::state::{Applied, Mail};
use goldseam_core::{Event, LaneName, Millis, RunId, Seq, State, Status, derive};

use super::{Log, SimEvidence, Violation, before};

/// Maximum time without progress of a run that can move, after the end of the faults, in milliseconds: `silence_max`
/// (2 s), the age of a finding (2 s), two sweeps (3 s each, plus 10 %), a step (2.5 s), and backoffs. The observed
/// maximum is
/// 7.2 s.
const GAP_MAX: i64 = 15_000;

/// Factor for seeds with crash loops: suspects wait in quarantine, and a poisonous run still crashes nodes.
const LOOPS_TIMES: i64 = 6;

/// Factor for a suspect, which waits in quarantine.
const SUSPECT_TIMES: i64 = 2;

/// A period in which a run could move and did not.
struct Gap<'a> {
    run: &'a RunId,
    /// The event that ended the period.
    seq: Seq,
    status: Status,
    ms: i64,
}

/// I15 and I12 after the end of the faults: a run that can move, or whose timer is due, makes progress within the
/// bound.
pub fn i15_pace(evidence: &SimEvidence) -> Vec<Violation> {
    let most = |gap: &Gap<'_>| match gap {
        _ if evidence.facts.loops => GAP_MAX * LOOPS_TIMES,
        gap if was_suspect(evidence, gap) => GAP_MAX * SUSPECT_TIMES,
        // Every other run of its lane may go first.
        gap => GAP_MAX * runs_in_lane_of(evidence, gap.run),
    };
    let slow = gaps(evidence).into_iter().filter(|gap| gap.ms > most(gap));
    slow.map(|Gap { run, seq, status, ms }| {
        let rule = if matches!(status, Status::Sleeping | Status::Waiting) { "I12" } else { "I15" };
        Violation::new(
            rule,
            format!("{run}: it was {status} for {ms} ms without faults before event {}", seq.0),
        )
    })
    .collect()
}

/// Returns how many runs share the lane of this run; 1 without a lane.
fn runs_in_lane_of(evidence: &SimEvidence, run: &RunId) -> i64 {
    let Some(lane) = evidence.logs.get(run).and_then(lane) else { return 1 };
    let sharing = evidence.logs.values().filter(|log| self::lane(log) == Some(lane)).count();
    i64::try_from(sharing).unwrap_or(i64::MAX).max(1)
}

fn lane(log: &Log) -> Option<&LaneName> {
    log.events.iter().find_map(|recorded| match &recorded.event {
        Event::RunQueued(queued) => queued.lane.as_ref(),
        _ => None,
    })
}

/// Returns whether the period ended with a second or later recovery without progress.
fn was_suspect(evidence: &SimEvidence, gap: &Gap<'_>) -> bool {
    let Some(log) = evidence.logs.get(gap.run) else { return false };
    let ended = log.events.iter().find(|recorded| recorded.seq == gap.seq);
    ended.is_some_and(|ended| matches!(&ended.event, Event::RunRecovered(recovery) if recovery.attempt > 1))
}

/// Returns the longest of these periods in all runs, in milliseconds.
pub fn longest_gap(evidence: &SimEvidence) -> i64 {
    gaps(evidence).iter().map(|gap| gap.ms).max().unwrap_or(0)
}

/// Returns the true time at which each event reached the store.
pub(super) fn landed(evidence: &SimEvidence) -> BTreeMap<(&RunId, Seq), Millis> {
    let mut landed = BTreeMap::new();
    for append in &evidence.facts.executed {
        for offset in 1..=append.bodies.len() as u64 {
            landed.insert((&append.run, Seq(append.after.0 + offset)), append.at);
        }
    }
    landed
}

fn gaps(evidence: &SimEvidence) -> Vec<Gap<'_>> {
    let Some(calm) = evidence.facts.calm_at else { return Vec::new() };
    let landed = landed(evidence);
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut since: Option<(Millis, Status)> = None;
        for EventState { seq, is_mail, status, ready } in event_states(run, log) {
            let Some(at) = landed.get(&(run, seq)).copied() else { continue };
            if let Some((since, status)) = since.filter(|_| !is_mail && at > calm) {
                found.push(Gap { run, seq, status, ms: before(since, at) });
            }
            // Mail is not progress of a run that could already move.
            let still = since.filter(|_| is_mail);
            let now = ready.map(|ready| (ready.max(at).max(calm), status));
            since = still.into_iter().chain(now).min_by_key(|(since, _)| *since);
        }
    }
    found
}

/// Returns since when the run can move, or when its timer is due. None if it cannot move.
fn ready_at(state: &State) -> Option<Millis> {
    match state.summary.status {
        Status::Queued if state.summary.begins_at().is_some() => state.summary.begins_at(),
        Status::Queued | Status::Running | Status::Compensating => Some(Millis(0)),
        Status::Waiting | Status::Sleeping if has_come(state) => Some(Millis(0)),
        Status::Waiting | Status::Sleeping => state.summary.waits.iter().filter_map(|wait| wait.due).min(),
        Status::Paused | Status::Parked | Status::Completed | Status::Failed | Status::Cancelled => None,
    }
}

/// Returns whether the run's mail contains something that it waits for.
fn has_come(state: &State) -> bool {
    state.unread.values().any(|mail| {
        state.summary.waits.iter().any(|wait| match mail {
            Mail::Signal { name, .. } => wait.signals.contains(name),
            Mail::Answer { question, .. } => wait.inputs.contains(question),
            _ => false,
        })
    })
}

/// The state of a run after one of its events.
struct EventState {
    seq: Seq,
    is_mail: bool,
    status: Status,
    ready: Option<Millis>,
}

/// Returns the state of the run after each event. Another check covers logs that cannot be replayed.
fn event_states(run: &RunId, log: &Log) -> Vec<EventState> {
    let mut all = Vec::new();
    let mut state: Option<State> = None;
    for (count, (recorded, record)) in (1..).zip(log.events.iter().zip(&log.records)) {
        let head = chain(&record.body);
        let applied = match &mut state {
            None => Ok(Applied::MustDerive),
            Some(state) => state.apply(recorded, head),
        };
        match applied {
            Ok(Applied::Yes) => {}
            Ok(Applied::MustDerive) => state = derive(run, &log.events[..count], head).ok(),
            Err(_) => return all,
        }
        all.extend(state.as_ref().map(|state| EventState {
            seq: recorded.seq,
            is_mail: recorded.event.is_mail(),
            status: state.summary.status,
            ready: ready_at(state),
        }));
    }
    all
}
