//! Invariants of execution: no run is lost, no completed step is repeated, no run is stuck.

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::codec::decode;
use goldseam_core::recovery::recorded_attempt;
use goldseam_core::{Event, Hash, Millis, NodeId, RunId, Seq, Status, Summary, Why, derive};

use super::{Log, SimEvidence, Violation, before};
use crate::journal::{Ack, Executed, ObservedEffect, Window};
use crate::workflows::{ONCE, POISON, STRIKE};

/// Maximum time after a freeze until the reply to its last call, in milliseconds: the longest delay of a slow node.
const HELD_UP_MAX: i64 = 8_000;

/// I1: every acknowledged start is in the store, and its run has ended or waits for something from outside.
pub fn i01_no_lost_workflow(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for ack in &evidence.facts.acks {
        let Ack::Started(run, _) = ack else { continue };
        let status = evidence.logs.get(run).and_then(|log| log.row.as_ref()).map(|row| row.status);
        let fine = status.is_some_and(|status| {
            status.is_terminal() || matches!(status, Status::Waiting | Status::Sleeping | Status::Paused)
        });
        if !fine {
            found.push(Violation::new("I1", format!("{run} was acknowledged, but is {status:?}")));
        }
    }
    found
}

/// I19 for tasks: no listed record is inconsistent.
pub fn i19_records_are_whole(evidence: &SimEvidence) -> Vec<Violation> {
    evidence.facts.flaws.iter().map(|flaw| Violation::new("I19", flaw)).collect()
}

/// I4: once a step's completion is in the log, the step never begins again with its key, except once per freeze: an
/// owner that froze between reading the log and beginning the step, while another node claimed the run.
pub fn i04_never_again(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = twice(evidence);
    let mut excused = BTreeSet::new();
    let mut late = again(evidence);
    late.retain(|seen| !window_of(evidence, seen).is_some_and(|window| excused.insert((window, &seen.key))));
    if late.len() as u64 > u64::from(evidence.facts.late_max) {
        found.extend(late.into_iter().map(|seen| Violation::new("I4", describe_repeat(seen))));
    }
    found
}

/// Returns the freeze that excuses this effect of a superseded owner, if any.
fn window_of(evidence: &SimEvidence, seen: &ObservedEffect) -> Option<usize> {
    let began = |window: &Window| window.life == seen.life && window.from < seen.order;
    let at = evidence.facts.windows.iter().rposition(began)?;
    let until = evidence.facts.windows.get(at)?.until;
    let soon = until.is_none_or(|until| before(until, seen.at) <= HELD_UP_MAX);
    (soon && is_superseded(evidence, seen)).then_some(at)
}

/// Returns whether the incarnation that began this effect had claimed the run, and another one claimed it later.
fn is_superseded(evidence: &SimEvidence, seen: &ObservedEffect) -> bool {
    let appends = evidence.facts.executed.iter();
    let earlier = appends.filter(|append| append.run == seen.run && append.order < seen.order);
    let claimants: Vec<usize> = earlier.flat_map(|append| claims(evidence, append)).collect();
    claimants.contains(&seen.life) && claimants.last() != Some(&seen.life)
}

/// Returns the incarnations that claim the run in this append.
fn claims(evidence: &SimEvidence, append: &Executed) -> Vec<usize> {
    let claimant =
        |(offset, body): (u64, &String)| match decode(Seq(append.after.0 + offset), body).ok()?.event {
            Event::RunClaimed(claim) => evidence.facts.lives.get(&claim.node).copied(),
            _ => None,
        };
    (1..).zip(&append.bodies).filter_map(claimant).collect()
}

/// Finds `at_most_once` steps that began twice with the same key, even after a freeze.
fn twice(evidence: &SimEvidence) -> Vec<Violation> {
    let mut begun = BTreeSet::new();
    let once = evidence.facts.effects.iter().filter(|seen| seen.step == ONCE);
    let again = once.filter(|seen| !begun.insert(&seen.key));
    again.map(|seen| Violation::new("I4", format!("{}: {ONCE} was begun twice", seen.run))).collect()
}

/// I4 for concurrency: a step or a compensation never runs twice at once on one node. It runs on two nodes at once only
/// if the second node took the run over or the run moved to another branch: a release ends the owner's effects.
pub fn i04_one_execution(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut open: BTreeMap<(&RunId, &str, &str), Vec<&ObservedEffect>> = BTreeMap::new();
    for seen in &evidence.facts.effects {
        let all = open.entry((&seen.run, &seen.step, &seen.key)).or_default();
        all.retain(|other| other.until.is_none_or(|until| until > seen.order));
        for other in all.iter() {
            let here = other.life == seen.life;
            if here || !was_taken(evidence, other, seen) {
                let ObservedEffect { run, step, node, at, .. } = seen;
                let other = other.node;
                let what = format!("{run}: {step} began on n{node} at {} while it ran on n{other}", at.0);
                found.push(Violation::new("I4", what));
            }
        }
        all.push(seen);
    }
    found
}

/// Returns whether the run was recovered or moved to another branch between the two effects.
fn was_taken(evidence: &SimEvidence, first: &ObservedEffect, second: &ObservedEffect) -> bool {
    let appends = evidence.facts.executed.iter().filter(|append| append.run == first.run);
    let mut between = appends.filter(|append| first.order < append.order && append.order < second.order);
    between.any(|append| {
        (1..).zip(&append.bodies).any(|(offset, body)| {
            let event = decode(Seq(append.after.0 + offset), body).map(|recorded| recorded.event);
            matches!(event, Ok(Event::RunRecovered(_) | Event::BranchOpened(_)))
        })
    })
}

/// Counts the effects that began although their completion was in the log.
pub fn late_effects(evidence: &SimEvidence) -> u64 {
    again(evidence).len() as u64
}

fn again(evidence: &SimEvidence) -> Vec<&ObservedEffect> {
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
    let late = |seen: &&ObservedEffect| completed.get(&seen.key).is_some_and(|done| *done < seen.order);
    evidence.facts.effects.iter().filter(late).collect()
}

fn describe_repeat(seen: &ObservedEffect) -> String {
    let ObservedEffect { run, step, node, at, .. } = seen;
    format!("{run}: {step} began again on n{node} at {} after its completion", at.0)
}

/// I9: nodes write nothing while there is nothing to do.
pub fn i09_sweep_idempotent(evidence: &SimEvidence) -> Vec<Violation> {
    let writes = evidence.quiet_writes;
    if writes == 0 || !evidence.unsettled.is_empty() {
        return Vec::new();
    }
    vec![Violation::new("I9", format!("{writes} writes while there was nothing to do"))]
}

/// I9 for loops: no engine calls its store endlessly.
pub fn i09_no_endless_loop(evidence: &SimEvidence) -> Vec<Violation> {
    evidence.facts.call_loops.iter().map(|call_loop| Violation::new("I9", call_loop)).collect()
}

/// I10: recoveries are counted at the claim, reset only by progress, and never exceed the number of dead nodes; a run
/// that only waits counts none. In seeds with crash loops, P1 stops the poisonous run soon, and no other run.
pub fn i10_bounded_recovery(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = blames(evidence);
    for (run, log) in &evidence.logs {
        let mut attempt = 0;
        let mut lived = None;
        let mut owner: Option<&NodeId> = None;
        for (at, recorded) in log.events.iter().enumerate() {
            let seq = recorded.seq.0;
            let mut say =
                |what: String| found.push(Violation::new("I10", format!("{run}: event {seq} {what}")));
            match &recorded.event {
                Event::RunRecovered(recovery) => {
                    let proven = recovery.rule == "O2" && recovery.reason == "infrastructure_restart";
                    let long = |before: u64| recovery.lived_ms.is_some_and(|lived| lived > 2 * before);
                    if proven {
                        let before = derive(run, &log.events[..at], Hash::ZERO).ok();
                        let claim = log.events.get(at + 1).map(|next| &next.event);
                        let waits = before.as_ref().is_some_and(|state| only_waits(&state.summary));
                        // A run that survived twice its previous lifetime did not cause the crash.
                        let innocent = attempt > 0 && lived.is_some_and(long) && recovery.attempt <= attempt;
                        attempt += u32::from(!waits && !innocent);
                        attempt = attempt.min(most(claim, before.map(|state| state.summary)));
                    }
                    lived = recovery.lived_ms.or(lived);
                    if recovery.attempt != recorded_attempt(attempt) {
                        say(format!("counts attempt {} instead of {attempt}", recovery.attempt));
                    }
                    let lives = |owner: &&&NodeId| {
                        evidence.facts.dead.as_ref().is_some_and(|dead| !dead.contains(**owner))
                    };
                    if let Some(owner) = owner.as_ref().filter(lives).filter(|_| proven) {
                        say(format!("blames the run for the death of {owner}, which lives"));
                    }
                    if attempt > evidence.facts.kills {
                        say(format!(
                            "counts {attempt} recoveries, but only {} nodes died",
                            evidence.facts.kills
                        ));
                    }
                }
                Event::RunClaimed(claim) => {
                    owner = Some(&claim.node);
                    if claim.attempt != attempt {
                        say(format!("claims attempt {} instead of {attempt}", claim.attempt));
                    }
                }
                Event::BranchOpened(opened)
                    if matches!(opened.why, Why::Jump { .. } | Why::Retry { .. } | Why::Continue) =>
                {
                    attempt = 0;
                    lived = None;
                }
                _ if recorded.is_progress() => {
                    attempt = 0;
                    lived = None;
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns whether the run only waits and its owner did not keep it in memory after a recovery.
fn only_waits(summary: &Summary) -> bool {
    let failed_seeds = summary.lived_ms.is_some() && summary.recovered_at == summary.claimed_at;
    matches!(summary.status, Status::Waiting | Status::Sleeping)
        && summary.under_way.is_empty()
        && !failed_seeds
}

/// Returns the maximum attempt of a recovery. The last attempt of the policy is allowed only if the run is alone.
fn most(claim: Option<&Event>, before: Option<Summary>) -> u32 {
    let Some(Event::RunClaimed(claim)) = claim else { return u32::MAX };
    let policy = before.and_then(|summary| summary.recovery).or(claim.recovery).unwrap_or_default();
    if claim.alone { policy.attempts_max } else { policy.attempts_max.saturating_sub(1) }
}

/// Maximum number of crashes by a poisonous run after the end of the faults.
const STRIKES_MAX: usize = 8;

/// Checks that P1 stopped the poisonous run and no other.
fn blames(evidence: &SimEvidence) -> Vec<Violation> {
    let stopped = |log: &Log| {
        log.events
            .iter()
            .any(|one| matches!(&one.event, Event::RunRecovered(recovery) if recovery.rule == "P1"))
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
    let strikes = evidence.facts.effects.iter().filter(|seen| seen.step == STRIKE && seen.at > calm).count();
    if strikes > STRIKES_MAX {
        found.push(Violation::new(
            "I10",
            format!("{POISON} crashed {strikes} nodes after the end of the faults"),
        ));
    }
    found
}

/// I15: after the end of the faults, every run ends within the bound, and none is parked.
pub fn i15_liveness(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, status) in &evidence.unsettled {
        found.push(Violation::new("I15", format!("{run} is still {status} long after the last fault")));
    }
    for (run, log) in &evidence.logs {
        for recorded in &log.events {
            let expected = |code: &str| run.as_str() == POISON && code == "P1";
            if let Event::RunParked { code, reason } = &recorded.event
                && !expected(code)
            {
                found.push(Violation::new("I15", format!("{run} was parked: {code} {reason}")));
            }
        }
    }
    found
}
