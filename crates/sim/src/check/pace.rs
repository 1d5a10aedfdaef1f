//! How fast runs go on once the faults have stopped.

use std::collections::BTreeMap;

use goldseam_core::codec::chain;
use goldseam_core::state::{Applied, Mail};
use goldseam_core::{Event, Millis, RunId, Seq, State, Status, derive};

use super::{Evidence, Log, Violation, before};

/// The longest that a run which waits for nobody may stand still in the calm, in milliseconds: a silent owner is waited for
/// (2 s), a finding must hold (2 s) from one sweep to the next but one (3 s each, and a tenth), the step may take 2.5 s;
/// the rest is for what backs off. The longest that was seen is 7.2 s.
const GAP_MAX: i64 = 15_000;

/// After a crash loop suspects wait for their turn, and a poisonous run ends processes in the calm, too.
const LOOPS_TIMES: i64 = 6;

/// A suspect of crashing its process waits for its turn.
const SUSPECT_TIMES: i64 = 2;

/// A stretch in which a run could go on and did not.
struct Gap<'a> {
    run: &'a RunId,
    /// The event that ended it.
    seq: Seq,
    status: Status,
    ms: i64,
}

/// I15 and I12, in the calm: a run that waits for nobody goes on within the bound, and so does one whose time has come.
pub fn i15_pace(evidence: &Evidence) -> Vec<Violation> {
    let most = |gap: &Gap<'_>| match gap {
        _ if evidence.facts.loops => GAP_MAX * LOOPS_TIMES,
        gap if was_suspect(evidence, gap) => GAP_MAX * SUSPECT_TIMES,
        _ => GAP_MAX,
    };
    let slow = gaps(evidence).into_iter().filter(|gap| gap.ms > most(gap));
    slow.map(|Gap { run, seq, status, ms }| {
        let rule = if matches!(status, Status::Sleeping | Status::Waiting) { "I12" } else { "I15" };
        Violation::new(rule, format!("{run}: it was {status} for {ms} ms in the calm before event {}", seq.0))
    })
    .collect()
}

/// Whether the stretch ended with a recovery that was not the first without progress.
fn was_suspect(evidence: &Evidence, gap: &Gap<'_>) -> bool {
    let Some(log) = evidence.logs.get(gap.run) else { return false };
    let ended = log.events.iter().find(|recorded| recorded.seq == gap.seq);
    ended.is_some_and(|ended| matches!(&ended.event, Event::RunRecovered(said) if said.attempt > 1))
}

/// The longest of these stretches in all runs, in milliseconds.
pub fn longest_gap(evidence: &Evidence) -> i64 {
    gaps(evidence).iter().map(|gap| gap.ms).max().unwrap_or(0)
}

/// When each event came into the store, by true time.
pub(super) fn landed(evidence: &Evidence) -> BTreeMap<(&RunId, Seq), Millis> {
    let mut landed = BTreeMap::new();
    for append in &evidence.facts.executed {
        for offset in 1..=append.bodies.len() as u64 {
            landed.insert((&append.run, Seq(append.after.0 + offset)), append.at);
        }
    }
    landed
}

fn gaps(evidence: &Evidence) -> Vec<Gap<'_>> {
    let Some(calm) = evidence.facts.calm_at else { return Vec::new() };
    let landed = landed(evidence);
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut since: Option<(Millis, Status)> = None;
        for Moment { seq, is_mail, status, ready } in moments(run, log) {
            let Some(at) = landed.get(&(run, seq)).copied() else { continue };
            if let Some((since, status)) = since.filter(|_| !is_mail && at > calm) {
                found.push(Gap { run, seq, status, ms: before(since, at) });
            }
            // Mail does not move a run that could go on anyway.
            let still = since.filter(|_| is_mail);
            let now = ready.map(|ready| (ready.max(at).max(calm), status));
            since = still.into_iter().chain(now).min_by_key(|(since, _)| *since);
        }
    }
    found
}

/// Since when the run could go on by itself, if it can; a moment to come if it waits for that.
fn ready_at(state: &State) -> Option<Millis> {
    match state.summary.status {
        Status::Queued | Status::Running | Status::Compensating => Some(Millis(0)),
        Status::Waiting | Status::Sleeping if has_come(state) => Some(Millis(0)),
        Status::Waiting | Status::Sleeping => state.summary.waits.iter().filter_map(|wait| wait.due).min(),
        Status::Paused | Status::Parked | Status::Completed | Status::Failed | Status::Cancelled => None,
    }
}

/// Whether something that it waits for is in its mail.
fn has_come(state: &State) -> bool {
    state.unread.values().any(|mail| {
        state.summary.waits.iter().any(|wait| match mail {
            Mail::Signal { name, .. } => wait.signals.contains(name),
            Mail::Answer { question, .. } => wait.inputs.contains(question),
            _ => false,
        })
    })
}

/// What a run was after one of its events.
struct Moment {
    seq: Seq,
    is_mail: bool,
    status: Status,
    ready: Option<Millis>,
}

/// What the run was after each event; a log that no replay can follow is the matter of another check.
fn moments(run: &RunId, log: &Log) -> Vec<Moment> {
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
        let (seq, is_mail) = (recorded.seq, recorded.event.is_mail());
        all.extend(state.as_ref().map(|state| {
            let (status, ready) = (state.summary.status, ready_at(state));
            Moment { seq, is_mail, status, ready }
        }));
    }
    all
}
