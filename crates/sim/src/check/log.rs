//! Invariants of logs.

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::codec::chain;
use goldseam_core::state::Applied;
use goldseam_core::{Event, Seq, derive};

use super::{Log, SimEvidence, Violation};

/// I2: every accepted append stays in the log, with the same bytes and positions, chained.
pub fn i02_no_lost_event(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        found.extend(log.flaw.iter().map(|flaw| Violation::new("I2", format!("{run}: {flaw}"))));
    }
    for append in &evidence.facts.executed {
        let log = evidence.logs.get(&append.run);
        for (offset, body) in (1..).zip(&append.bodies) {
            let seq = Seq(append.after.0 + offset);
            let there = log.and_then(|log| log.records.iter().find(|record| record.seq == seq));
            if there.is_none_or(|record| record.body != *body) {
                let run = &append.run;
                let seq = seq.0;
                found.push(Violation::new("I2", format!("{run}: event {seq} is not what was appended")));
            }
        }
    }
    found
}

/// I3: positions are 1, 2, 3 …; a branch is opened once, by its first event, from a parent that contains its cutoff.
pub fn i03_order(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut say = |what: String| found.push(Violation::new("I3", format!("{run}: {what}")));
        for (expected, record) in (1..).zip(&log.records) {
            if record.seq != Seq(expected) {
                say(format!("position {} instead of {expected}", record.seq.0));
            }
        }
        let mut opened = BTreeMap::from([(1u32, Seq(1))]);
        for recorded in &log.events {
            if let Event::BranchOpened(branch) = &recorded.event {
                if opened.insert(branch.branch.0, recorded.seq).is_some() {
                    say(format!("{} is opened twice", branch.branch));
                }
                if branch.cutoff >= recorded.seq {
                    say(format!("{} is cut off after its own start", branch.branch));
                }
                let holds = branch.parent.is_none_or(|parent| {
                    opened.get(&parent.0).is_some_and(|from| *from <= branch.cutoff || branch.cutoff.0 == 0)
                });
                if !holds {
                    say(format!("the parent of {} does not hold its cutoff", branch.branch));
                }
            }
            let newest = opened.keys().next_back().copied().unwrap_or(1);
            if recorded.branch.0 != newest && !recorded.event.is_mail() {
                say(format!("event {} belongs to {}, not to b{newest}", recorded.seq.0, recorded.branch));
            }
        }
    }
    found
}

/// I5: an owner's event carries the epoch of the latest claim, and that claim has not ended; no two appends share a
/// position.
pub fn i05_fencing(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut epoch = Seq::ZERO;
        let mut owned = false;
        for recorded in &log.events {
            let seq = recorded.seq.0;
            let mut say = |what: &str| found.push(Violation::new("I5", format!("{run}: event {seq} {what}")));
            let claim = matches!(recorded.event, Event::RunClaimed(_));
            if claim {
                epoch = recorded.seq;
                owned = true;
            }
            match recorded.epoch {
                Some(named) if named != epoch => say("was written under an old claim"),
                Some(_) if !owned => say("was written by an owner that had released the run"),
                None if claim => say("is a claim without an epoch"),
                _ => {}
            }
            let ends = matches!(
                recorded.event,
                Event::RunReleased { .. } | Event::BranchOpened(_) | Event::RunParked { .. }
            );
            if ends || recorded.event.is_terminal() {
                owned = false;
            }
        }
    }
    let mut taken = BTreeSet::new();
    for append in &evidence.facts.executed {
        for offset in 1..=append.bodies.len() as u64 {
            if !taken.insert((&append.run, append.after.0 + offset)) {
                let what = format!("{}: position {} was taken twice", append.run, append.after.0 + offset);
                found.push(Violation::new("I5", what));
            }
        }
    }
    found
}

/// I6: at most one end per branch, exactly one on the active branch of an ended run, and only notes after it.
pub fn i06_single_terminal(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut say = |what: String| found.push(Violation::new("I6", format!("{run}: {what}")));
        let mut ended = BTreeSet::new();
        for recorded in &log.events {
            let branch = recorded.branch;
            if recorded.event.is_terminal() {
                if !ended.insert(branch) {
                    say(format!("{branch} ended twice, again at {}", recorded.seq.0));
                }
            } else if ended.contains(&branch) {
                let audit = matches!(recorded.event, Event::NoteAdded(_) | Event::JumpRequested(_));
                if !audit {
                    let name = recorded.event.name();
                    say(format!("{name} at {} after the end of {branch}", recorded.seq.0));
                }
            }
        }
        let row_ended = log.row.as_ref().is_some_and(|row| row.status.is_terminal());
        if row_ended && !ended.contains(&log.branches().active().id) {
            say("its row has ended, but its active branch has not".to_owned());
        }
    }
    found
}

/// I7: the cached row, folded up to the end of the log, equals the state of the log.
pub fn i07_status_is_fold(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        let mut say = |what: String| found.push(Violation::new("I7", format!("{run}: {what}")));
        let (Some(row), Ok(state)) = (&log.row, derive(run, &log.events, log.head)) else {
            say("it has no row or no valid state".to_owned());
            continue;
        };
        let mut row = row.clone();
        let mut stuck = None;
        for (recorded, record) in log.events.iter().zip(&log.records) {
            if recorded.seq > row.as_of
                && let Err(why) = row.fold(recorded, chain(&record.body))
            {
                stuck = Some(why);
                break;
            }
        }
        match stuck {
            Some(why) => say(format!("its row cannot be folded: {why:?}")),
            None if row != state.summary => {
                say(format!("its row says {}, its log {}: {}", row.status, state.summary.status, {
                    let left = format!("{row:?}");
                    let right = format!("{:?}", state.summary);
                    let at = left.bytes().zip(right.bytes()).position(|(l, r)| l != r).unwrap_or(0);
                    let from = at.saturating_sub(40);
                    let show = |text: &str| text.chars().skip(from).take(140).collect::<String>();
                    format!("…{}… / …{}…", show(&left), show(&right))
                }));
            }
            None => {}
        }
    }
    found
}

/// I8: deriving the state is repeatable, and gives the same event by event as in one pass.
pub fn i08_replay(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        if let Err(what) = replay(run, log) {
            found.push(Violation::new("I8", format!("{run}: {what}")));
        }
    }
    found
}

fn replay(run: &goldseam_core::RunId, log: &Log) -> Result<(), String> {
    let whole = derive(run, &log.events, log.head).map_err(|corrupt| corrupt.to_string())?;
    if derive(run, &log.events, log.head).as_ref() != Ok(&whole) {
        return Err("two derivations differ".to_owned());
    }
    let mut state = None;
    for (count, (recorded, record)) in (1..).zip(log.events.iter().zip(&log.records)) {
        let head = chain(&record.body);
        let applied = match &mut state {
            None => Applied::MustDerive,
            Some(state) => goldseam_core::State::apply(state, recorded, head).map_err(|c| c.to_string())?,
        };
        if applied == Applied::MustDerive {
            let prefix = derive(run, &log.events[..count], head).map_err(|corrupt| corrupt.to_string())?;
            state = Some(prefix);
        }
    }
    if state.as_ref() == Some(&whole) {
        Ok(())
    } else {
        Err("deriving event by event differs from one pass".to_owned())
    }
}
