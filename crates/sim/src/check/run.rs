//! Invariants of execution: nothing lost, nothing done again, nothing stuck.

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::codec::decode;
use goldseam_core::{Event, Hash, Millis, NodeId, RunId, Seq, Status, Summary, Why, derive};

use super::{Evidence, Log, Violation, before};
use crate::book::{Ack, Executed, Seen, Window};
use crate::flows::{ONCE, POISON, STRIKE};

/// How long after a freeze its last call may still be answered, in milliseconds: a slow node waits so long at the most.
const HELD_UP_MAX: i64 = 8_000;

/// I1: every start that was acknowledged is there, and has ended or waits for somebody.
pub fn i01_no_lost_workflow(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for ack in &evidence.facts.acks {
        let Ack::Started(run, _) = ack else { continue };
        let status = evidence.logs.get(run).and_then(|log| log.row.as_ref()).map(|row| row.status);
        let fine = status.is_some_and(|status| {
            status.is_terminal() || matches!(status, Status::Waiting | Status::Sleeping | Status::Paused)
        });
        if !fine {
            found.push(Violation::new("I1", format!("{run} was acknowledged and is {status:?}")));
        }
    }
    found
}

/// I19, of tasks: no record that was ever listed contradicts itself.
pub fn i19_records_are_whole(evidence: &Evidence) -> Vec<Violation> {
    evidence.facts.flaws.iter().map(|flaw| Violation::new("I19", flaw)).collect()
}

/// I4: once a step's completion is in the log, the step never begins again under its key, except once per freeze by
/// an owner that stood still between its look at the log and the call, while somebody else claimed the run.
pub fn i04_never_again(evidence: &Evidence) -> Vec<Violation> {
    let mut found = twice(evidence);
    let mut excused = BTreeSet::new();
    let mut late = again(evidence);
    late.retain(|seen| !window_of(evidence, seen).is_some_and(|window| excused.insert((window, &seen.key))));
    if late.len() as u64 > u64::from(evidence.facts.late_max) {
        found.extend(late.into_iter().map(|seen| Violation::new("I4", began_again(seen))));
    }
    found
}

/// The freeze that lets an owner which was superseded begin this effect, if there is one.
fn window_of(evidence: &Evidence, seen: &Seen) -> Option<usize> {
    let began = |window: &Window| window.life == seen.life && window.from < seen.order;
    let at = evidence.facts.windows.iter().rposition(began)?;
    let until = evidence.facts.windows.get(at)?.until;
    let soon = until.is_none_or(|until| before(until, seen.at) <= HELD_UP_MAX);
    (soon && is_superseded(evidence, seen)).then_some(at)
}

/// Whether the one who began this effect had claimed the run, and another one after it.
fn is_superseded(evidence: &Evidence, seen: &Seen) -> bool {
    let appends = evidence.facts.executed.iter();
    let earlier = appends.filter(|append| append.run == seen.run && append.order < seen.order);
    let claimants: Vec<usize> = earlier.flat_map(|append| claims(evidence, append)).collect();
    claimants.contains(&seen.life) && claimants.last() != Some(&seen.life)
}

/// Who claims the run in this append.
fn claims(evidence: &Evidence, append: &Executed) -> Vec<usize> {
    let claimant =
        |(offset, body): (u64, &String)| match decode(Seq(append.after.0 + offset), body).ok()?.event {
            Event::RunClaimed(claim) => evidence.facts.lives.get(&claim.node).copied(),
            _ => None,
        };
    (1..).zip(&append.bodies).filter_map(claimant).collect()
}

/// A step that is to be done at most once is never begun twice under its key, frozen owners or not.
fn twice(evidence: &Evidence) -> Vec<Violation> {
    let mut begun = BTreeSet::new();
    let once = evidence.facts.seen.iter().filter(|seen| seen.step == ONCE);
    let again = once.filter(|seen| !begun.insert(&seen.key));
    again.map(|seen| Violation::new("I4", format!("{}: {ONCE} was begun twice", seen.run))).collect()
}

/// I4, while it lasts: a step or a compensation never goes on twice at once in one node. On two nodes it may only if the
/// second took the run over, or the run went to another branch: an owner that gave the run back has ended its effects.
pub fn i04_one_execution(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut open: BTreeMap<(&RunId, &str, &str), Vec<&Seen>> = BTreeMap::new();
    for seen in &evidence.facts.seen {
        let all = open.entry((&seen.run, &seen.step, &seen.key)).or_default();
        all.retain(|other| other.until.is_none_or(|until| until > seen.order));
        for other in all.iter() {
            let here = other.life == seen.life;
            if here || !was_taken(evidence, other, seen) {
                let Seen { run, step, node, at, .. } = seen;
                let whose = if here { "there".to_owned() } else { format!("on n{}", other.node) };
                let what =
                    format!("{run}: {step} began on n{node} at {} while it was going on {whose}", at.0);
                found.push(Violation::new("I4", what));
            }
        }
        all.push(seen);
    }
    found
}

/// Whether the run passed to another owner or branch between the two, without the consent of the first.
fn was_taken(evidence: &Evidence, first: &Seen, second: &Seen) -> bool {
    let appends = evidence.facts.executed.iter().filter(|append| append.run == first.run);
    let mut between = appends.filter(|append| first.order < append.order && append.order < second.order);
    between.any(|append| {
        (1..).zip(&append.bodies).any(|(offset, body)| {
            let event = decode(Seq(append.after.0 + offset), body).map(|recorded| recorded.event);
            matches!(event, Ok(Event::RunRecovered(_) | Event::BranchOpened(_)))
        })
    })
}

/// Effects that began once more although their completion was in the log.
pub fn late_effects(evidence: &Evidence) -> u64 {
    again(evidence).len() as u64
}

fn again(evidence: &Evidence) -> Vec<&Seen> {
    let mut completed: BTreeMap<String, u64> = BTreeMap::new();
    for append in &evidence.facts.executed {
        let Some(log) = evidence.logs.get(&append.run) else { continue };
        for (offset, body) in (1..).zip(&append.bodies) {
            let Ok(recorded) = decode(Seq(append.after.0 + offset), body) else { continue };
            if let Event::StepCompleted(step) = &recorded.event {
                let key = log.key(&append.run, &recorded, &step.path);
                completed.entry(key).or_insert(append.order);
            }
        }
    }
    let late = |seen: &&Seen| completed.get(&seen.key).is_some_and(|done| *done < seen.order);
    evidence.facts.seen.iter().filter(late).collect()
}

fn began_again(seen: &Seen) -> String {
    let Seen { run, step, node, at, .. } = seen;
    format!("{run}: {step} began again on n{node} at {} after it was complete", at.0)
}

/// I9: several nodes that look after each other write nothing while there is nothing to do.
pub fn i09_sweep_idempotent(evidence: &Evidence) -> Vec<Violation> {
    let writes = evidence.quiet_writes;
    if writes == 0 || !evidence.unsettled.is_empty() {
        return Vec::new();
    }
    vec![Violation::new("I9", format!("{writes} writes while there was nothing to do"))]
}

/// I9, of loops: no engine calls its store without an end.
pub fn i09_no_endless_loop(evidence: &Evidence) -> Vec<Violation> {
    evidence.facts.rushes.iter().map(|rush| Violation::new("I9", rush)).collect()
}

/// I10: recoveries are counted at the claim, reset by progress only, and never more than nodes died; a run that only waits
/// is not charged. In seeds of crash loops P1 stops the poisonous run, soon, and no other.
pub fn i10_bounded_recovery(evidence: &Evidence) -> Vec<Violation> {
    let mut found = blames(evidence);
    for (run, log) in &evidence.logs {
        let (mut attempt, mut lived) = (0, None);
        let mut owner: Option<&NodeId> = None;
        for (at, recorded) in log.events.iter().enumerate() {
            let seq = recorded.seq.0;
            let mut say =
                |what: String| found.push(Violation::new("I10", format!("{run}: event {seq} {what}")));
            match &recorded.event {
                Event::RunRecovered(mended) => {
                    let proven = mended.rule == "O2" && mended.reason == "infrastructure_restart";
                    let long = |before: u64| mended.lived_ms.is_some_and(|lived| lived > 2 * before);
                    if proven {
                        let before = derive(run, &log.events[..at], Hash::ZERO).ok();
                        let claim = log.events.get(at + 1).map(|next| &next.event);
                        let waits = before.as_ref().is_some_and(|state| only_waits(&state.summary));
                        // A run that lived for more than twice as long as before did not cause the crash.
                        let innocent = attempt > 0 && lived.is_some_and(long) && mended.attempt <= attempt;
                        attempt += u32::from(!waits && !innocent);
                        attempt = attempt.min(most(claim, before.map(|state| state.summary)));
                    }
                    lived = mended.lived_ms.or(lived);
                    if mended.attempt != attempt {
                        say(format!("counts attempt {}, it is {attempt}", mended.attempt));
                    }
                    let lives = |owner: &&&NodeId| {
                        evidence.facts.dead.as_ref().is_some_and(|dead| !dead.contains(**owner))
                    };
                    if let Some(owner) = owner.as_ref().filter(lives).filter(|_| proven) {
                        say(format!("charges the run with the death of {owner}, which lives"));
                    }
                    if attempt > evidence.facts.kills {
                        say(format!("counts {attempt} recoveries, only {} nodes died", evidence.facts.kills));
                    }
                }
                Event::RunClaimed(claim) => {
                    owner = Some(&claim.node);
                    if claim.attempt != attempt {
                        say(format!("claims attempt {}, it is {attempt}", claim.attempt));
                    }
                }
                Event::BranchOpened(opened)
                    if matches!(opened.why, Why::Jump { .. } | Why::Retry { .. } | Why::Continue) =>
                {
                    (attempt, lived) = (0, None);
                }
                _ if recorded.is_progress() => (attempt, lived) = (0, None),
                _ => {}
            }
        }
    }
    found
}

/// Whether the log shows nothing of the run but waits, and its owner had not kept it after a recovery.
fn only_waits(summary: &Summary) -> bool {
    let kept = summary.lived_ms.is_some() && summary.recovered_at == summary.claimed_at;
    matches!(summary.status, Status::Waiting | Status::Sleeping) && summary.under_way.is_empty() && !kept
}

/// The most that a recovery counts: the last that the policy allows only if the run is alone.
fn most(claim: Option<&Event>, before: Option<Summary>) -> u32 {
    let Some(Event::RunClaimed(claim)) = claim else { return u32::MAX };
    let policy = before.and_then(|summary| summary.recovery).or(claim.recovery).unwrap_or_default();
    if claim.alone { policy.attempts_max } else { policy.attempts_max.saturating_sub(1) }
}

/// Strikes of a poisonous run in the calm before it must be stopped.
const STRIKES_MAX: usize = 8;

/// Whom P1 stopped, and whom it did not.
fn blames(evidence: &Evidence) -> Vec<Violation> {
    let stopped = |log: &Log| {
        log.events.iter().any(|one| matches!(&one.event, Event::RunRecovered(said) if said.rule == "P1"))
    };
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let poisonous = run.as_str() == POISON;
        if stopped(log) != poisonous {
            let verb = if poisonous { "does not stop" } else { "blames" };
            found.push(Violation::new("I10", format!("P1 {verb} {run}")));
        }
    }
    let calm = evidence.facts.calm_at.unwrap_or(Millis::NEVER);
    let strikes = evidence.facts.seen.iter().filter(|seen| seen.step == STRIKE && seen.at > calm).count();
    if strikes > STRIKES_MAX {
        found.push(Violation::new("I10", format!("{POISON} took {strikes} nodes down in the calm")));
    }
    found
}

/// I15: once the faults stop, every run ends within the bound; none needs a person's mending.
pub fn i15_liveness(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, status) in &evidence.unsettled {
        found.push(Violation::new("I15", format!("{run} is still {status} long after the last fault")));
    }
    for (run, log) in &evidence.logs {
        for recorded in &log.events {
            let meant = |code: &str| run.as_str() == POISON && code == "P1";
            if let Event::RunParked { code, reason } = &recorded.event
                && !meant(code)
            {
                found.push(Violation::new("I15", format!("{run} was parked: {code} {reason}")));
            }
        }
    }
    found
}
