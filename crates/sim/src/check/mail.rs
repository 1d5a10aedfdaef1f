//! Invariants of mail, timers, sagas and acknowledgements.

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::codec::decode;
use goldseam_core::event::By;
use goldseam_core::{Event, Millis, Path, RunId, Seq, Why};

use super::pace::landed;
use super::{Log, SKEW_MAX, SimEvidence, Violation, before};
use crate::journal::{Ack, StartReply};

/// I11: an acknowledged signal is in the log exactly once; a lineage consumes each mail once, and each name in order.
pub fn i11_signal(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
        for recorded in &log.events {
            if let Event::SignalReceived { id, .. } | Event::InputAnswered { id, .. } = &recorded.event {
                *ids.entry(id).or_default() += 1;
            }
        }
        for (id, count) in ids.iter().filter(|(_, count)| **count > 1) {
            found.push(Violation::new("I11", format!("{run}: mail {id} is in the log {count} times")));
        }
        found.extend(consumed(run, log));
        found.extend(passed_over(run, log));
    }
    for ack in &evidence.facts.acks {
        let Ack::Mail(run, id) = ack else { continue };
        let needle = format!("\"{id}\"");
        let there =
            evidence.logs.get(run).is_some_and(|log| log.records.iter().any(|r| r.body.contains(&needle)));
        if !there {
            found.push(Violation::new("I11", format!("{run}: acknowledged mail {id} is not in the log")));
        }
    }
    found
}

fn consumed(run: &RunId, log: &Log) -> Vec<Violation> {
    let mut found = Vec::new();
    let branches = log.branches();
    for branch in branches.iter() {
        let lineage = branches.lineage(branch.id);
        let mut names: BTreeMap<Seq, &str> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        let mut last = BTreeMap::new();
        for recorded in log.events.iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()) {
            let seq = recorded.seq.0;
            match &recorded.event {
                Event::SignalReceived { name, .. } => {
                    names.insert(recorded.seq, name.as_str());
                }
                Event::WaitResolved { by: By::Mail(mail), .. } => {
                    if *mail >= recorded.seq || !taken.insert(*mail) {
                        let what =
                            format!("{run}: event {seq} consumes mail {} twice or before it arrived", mail.0);
                        found.push(Violation::new("I11", what));
                    }
                    if let Some(name) = names.get(mail)
                        && last.insert(*name, *mail).is_some_and(|last| last > *mail)
                    {
                        found.push(Violation::new(
                            "I11",
                            format!("{run}: event {seq} consumes {name} out of order"),
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Finds waits that did not consume the oldest mail of a name that their lineage neither consumed nor dropped, also
/// across `continue_as_new`.
fn passed_over(run: &RunId, log: &Log) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut came: BTreeMap<&str, Vec<Seq>> = BTreeMap::new();
    let mut names: BTreeMap<Seq, &str> = BTreeMap::new();
    // Per branch: the positions at which mail was consumed, and the mail.
    let mut takes: BTreeMap<u32, Vec<(Seq, Seq)>> = BTreeMap::new();
    // Dropped mail is dropped for all later branches.
    let mut dropped: BTreeSet<Seq> = BTreeSet::new();
    let mut active = 1;
    for recorded in &log.events {
        match &recorded.event {
            // A signal that is not a number does not fit the schema of any wait.
            Event::SignalReceived { payload, .. } if payload.as_str().starts_with('"') => {}
            Event::SignalReceived { name, .. } => {
                came.entry(name.as_str()).or_default().push(recorded.seq);
                names.insert(recorded.seq, name.as_str());
            }
            Event::BranchOpened(opened) => {
                let of = opened.parent.map_or(active, |parent| parent.0);
                let failed_seeds = |take: &&(Seq, Seq)| opened.parent.is_none() || take.0 <= opened.cutoff;
                let taken = takes.get(&of).into_iter().flatten().filter(failed_seeds).copied().collect();
                dropped.extend(&opened.dropped_mail);
                active = opened.branch.0;
                takes.insert(active, taken);
            }
            Event::WaitResolved { by: By::Mail(mail), .. } => {
                let taken = takes.entry(recorded.branch.0).or_default();
                let is_taken = |seq: &Seq| dropped.contains(seq) || taken.iter().any(|(_, mail)| mail == seq);
                let name = names.get(mail).copied().unwrap_or_default();
                let older = came.get(name).into_iter().flatten().filter(|seq| *seq < mail);
                for seq in older.filter(|seq| !is_taken(seq)) {
                    let what =
                        format!("{run}: event {} consumes {name} {}, not {}", recorded.seq.0, mail.0, seq.0);
                    found.push(Violation::new("I11", what));
                }
                taken.push((recorded.seq, *mail));
            }
            _ => {}
        }
    }
    found
}

/// I12: a timer fires once per lineage, and never before its due time by the store's clock.
pub fn i12_timer(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let landed = landed(evidence);
    for (run, log) in &evidence.logs {
        let mut due_at: BTreeMap<&Path, Millis> = BTreeMap::new();
        let mut fired = BTreeSet::new();
        for recorded in log.active() {
            match &recorded.event {
                Event::TimerSet { path, due, .. } => {
                    due_at.insert(path, *due);
                }
                Event::WaitStarted(wait) => due_at.extend(wait.due.map(|due| (&wait.path, due))),
                Event::TimerFired { path } | Event::WaitResolved { path, by: By::Timer } => {
                    let mut say =
                        |what: &str| found.push(Violation::new("I12", format!("{run}: {path} {what}")));
                    if !fired.insert(path) {
                        say("fired twice");
                    }
                    let Some(due) = due_at.get(path) else {
                        say("fired but was never set");
                        continue;
                    };
                    let at = landed.get(&(run, recorded.seq)).copied().unwrap_or(recorded.at);
                    if before(at, *due) > SKEW_MAX {
                        say(&format!("fired {} ms too early", before(at, *due)));
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// I13: a failed or cancelled run has compensated exactly its completed steps with a compensation, in reverse order.
pub fn i13_saga(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut to_undo = Vec::new();
        let mut undone = Vec::new();
        let mut ended = None;
        for recorded in log.active() {
            match &recorded.event {
                Event::StepCompleted(step) if step.undo => to_undo.push(&step.path),
                Event::CompensationCompleted { path } => undone.push(path),
                event if event.is_terminal() => ended = Some(event),
                _ => {}
            }
        }
        to_undo.reverse();
        let mut say = |what: String| found.push(Violation::new("I13", format!("{run}: {what}")));
        match ended {
            Some(Event::RunCompleted { .. }) if !undone.is_empty() => {
                say(format!("completed, but undid {undone:?}"));
            }
            // A terminated run is not compensated, but its event lists the completed steps.
            Some(Event::RunCancelled { terminated: Some(left), .. }) => {
                let standing: Vec<_> = to_undo.into_iter().filter(|path| !undone.contains(path)).collect();
                let listed = |path: &&Path| left.standing.contains(*path) || left.undoing.contains(*path);
                if !standing.iter().all(listed) {
                    say(format!("left {standing:?} standing, but lists {:?}", left.standing));
                }
            }
            Some(Event::RunFailed { .. } | Event::RunCancelled { .. }) => {
                // A child may complete while steps are undone, so its place among them is open.
                let children = completed_children(log);
                let (of_children, of_steps): (Vec<&Path>, Vec<&Path>) =
                    undone.iter().copied().partition(|path| children.contains(path));
                if of_steps != to_undo || of_children.len() != children.len() {
                    say(format!("undid {undone:?}, had to undo {to_undo:?} and {children:?}"));
                }
            }
            _ => {}
        }
        found.extend(stands_undone(run, log));
        found.extend(begins_while_undoing(run, log));
    }
    found
}

/// The calls of the active branch whose child has completed and has a compensation.
fn completed_children(log: &Log) -> BTreeSet<&Path> {
    let has_completed = |child: &RunId| {
        let is_end = |event: &Event| matches!(event, Event::ChildCompleted { run, .. } if run == child);
        log.events.iter().any(|recorded| is_end(&recorded.event))
    };
    let calls = log.active().into_iter().filter_map(|recorded| match &recorded.event {
        Event::ChildStarted(child) if child.undo && has_completed(&child.run) => Some(&child.path),
        _ => None,
    });
    calls.collect()
}

/// Finds operations that begin, waits that end and results that are returned on a compensating branch.
fn begins_while_undoing(run: &RunId, log: &Log) -> Vec<Violation> {
    let branches = log.branches();
    let mut undoing = BTreeMap::new();
    let mut found = Vec::new();
    for (at, recorded) in log.events.iter().enumerate() {
        let branch = recorded.branch;
        let event = &recorded.event;
        let begun = |path: &Path| {
            let lineage = branches.lineage(branch);
            log.events[..at].iter().any(|earlier| {
                let starts = matches!(&earlier.event, Event::StepStarted(started) if started.path == *path);
                starts && lineage.sees(earlier.branch, earlier.seq)
            })
        };
        let forward = match event {
            Event::StepStarted(_)
            | Event::WaitStarted(_)
            | Event::WaitResolved { .. }
            | Event::InputRequested(_)
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::ChildStarted(_)
            | Event::ProgressEmitted { .. }
            | Event::AttributesChanged(_)
            | Event::ValuePublished(_)
            | Event::RequestAnswered(_)
            | Event::RunCompleted { .. } => true,
            // The end of an attempt that began earlier is allowed.
            Event::StepCompleted(_) | Event::StepFailed(_) => {
                undoing.contains_key(&branch) && !event.path().is_some_and(begun)
            }
            Event::BranchOpened(opened) => opened.why == Why::Continue,
            _ => false,
        };
        if let (true, Some(since)) = (forward, undoing.get(&branch)) {
            let what = format!("{run}: {} at {}, undone since {since}", event.name(), recorded.seq.0);
            found.push(Violation::new("I13", what));
        }
        if let Event::CompensationStarted { failure: Some(_), .. } = event {
            undoing.insert(branch, recorded.seq.0);
        }
    }
    found
}

/// Finds steps that the active branch uses as completed although an abandoned branch compensated them.
fn stands_undone(run: &RunId, log: &Log) -> Vec<Violation> {
    let branches = log.branches();
    let active = branches.lineage(branches.active().id);
    let mut found = Vec::new();
    for undone in &log.events {
        let Event::CompensationCompleted { path } = &undone.event else { continue };
        let lineage = branches.lineage(undone.branch);
        let done = log.events.iter().find(|recorded| {
            let this = matches!(&recorded.event, Event::StepCompleted(step) if step.path == *path);
            this && lineage.sees(recorded.branch, recorded.seq)
        });
        let stands = done.is_some_and(|done| active.sees(done.branch, done.seq));
        if stands && !active.sees(undone.branch, undone.seq) {
            let what = format!("{run}: {path} was compensated at {}, but counts as completed", undone.seq.0);
            found.push(Violation::new("I13", what));
        }
    }
    found
}

/// I14: an id belongs to one run with one input; a start with the same id and other input is refused.
pub fn i14_idempotent_start(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let queued = log.records.iter().filter_map(|record| decode(record.seq, &record.body).ok());
        let queued = queued.filter(|recorded| matches!(recorded.event, Event::RunQueued(_))).count();
        if queued != 1 {
            found.push(Violation::new("I14", format!("{run} was queued {queued} times")));
        }
    }
    for ack in &evidence.facts.acks {
        match ack {
            Ack::OtherInput(run, StartReply::Taken) => {
                found.push(Violation::new("I14", format!("{run} was started again with other input")));
            }
            Ack::Started(run, input) => {
                let first = evidence.logs.get(run).and_then(|log| log.events.first());
                let same = first.is_some_and(
                    |first| matches!(&first.event, Event::RunQueued(queued) if queued.input.as_str() == input),
                );
                if !same {
                    found.push(Violation::new(
                        "I14",
                        format!("{run} was acknowledged with {input}, but has other input"),
                    ));
                }
            }
            _ => {}
        }
    }
    found
}

/// I16: every later read reflects an acknowledged write, including the results of workers.
pub fn i16_read_your_ack(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for ack in &evidence.facts.acks {
        if let Ack::Brought(run, path, attempt, fence) = ack
            && !evidence.logs.get(run).is_some_and(|log| has_result(log, path, *attempt, *fence))
        {
            let what = format!("{run}: the accepted result of {path}, attempt {attempt}, is not in the log");
            found.push(Violation::new("I16", what));
        }
        if let Ack::Read(run, id, false) = ack {
            found.push(Violation::new(
                "I16",
                format!("{run}: {id} was acknowledged but not readable right after"),
            ));
        }
    }
    found
}

fn has_result(log: &Log, path: &Path, attempt: u32, fence: u64) -> bool {
    log.events.iter().any(|recorded| match &recorded.event {
        Event::StepCompleted(e) => e.path == *path && e.attempt == attempt && e.fence == Some(fence),
        Event::StepFailed(e) => e.path == *path && e.attempt == attempt && e.fence == Some(fence),
        _ => false,
    })
}
