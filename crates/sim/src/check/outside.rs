//! Invariants of locks and streams.

use std::collections::BTreeMap;

use goldseam_core::{Millis, RunId, Seq};

use super::{SimEvidence, Violation};
use crate::journal::Ack;

/// One hold of a lock, as acknowledged to its holder.
#[derive(Debug, Clone, Copy)]
struct LockHold {
    from: Millis,
    until: Millis,
}

/// I5 for locks: a fence is given once, and a hold begins only after the previous one expired or was released.
pub fn i05_one_holder(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut holds: BTreeMap<(&str, u64), LockHold> = BTreeMap::new();
    for ack in &evidence.facts.acks {
        match ack {
            Ack::Held { lock, fence, from, until } => {
                let hold = holds.entry((lock, *fence)).or_insert(LockHold { from: *from, until: *until });
                if hold.from != *from {
                    found.push(Violation::new("I5", format!("fence {fence} of lock {lock} was given twice")));
                }
                hold.until = *until;
            }
            Ack::LetGo { lock, fence, at } => {
                if let Some(hold) = holds.get_mut(&(lock.as_str(), *fence)) {
                    hold.until = hold.until.min(*at);
                }
            }
            _ => {}
        }
    }
    let holds: Vec<_> = holds.into_iter().collect();
    for pair in holds.windows(2) {
        let [((lock, fence), first), ((next, after), second)] = pair else { continue };
        if lock == next && second.from < first.until {
            let early = first.until.0 - second.from.0;
            let what = format!("lock {lock}: hold {after} began {early} ms before the end of hold {fence}");
            found.push(Violation::new("I5", what));
        }
    }
    found
}

/// I17: a follower receives every event once and in order, over any number of connections, and finally all of them.
pub fn i17_stream(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last: BTreeMap<(usize, &RunId), Seq> = BTreeMap::new();
    for ack in &evidence.facts.acks {
        let Ack::Followed(follower, run, seqs) = ack else { continue };
        let last = last.entry((*follower, run)).or_insert(Seq::ZERO);
        for seq in seqs {
            if seq.0 != last.0 + 1 {
                let what = format!("{run}: follower {follower} received {} after {}", seq.0, last.0);
                found.push(Violation::new("I17", what));
            }
            *last = *seq;
        }
    }
    for ((follower, run), last) in last {
        let end = evidence.logs.get(run).map_or(0, |log| log.records.len() as u64);
        if last.0 != end {
            let what = format!("{run}: follower {follower} received {} of {end} events", last.0);
            found.push(Violation::new("I17", what));
        }
    }
    found
}
