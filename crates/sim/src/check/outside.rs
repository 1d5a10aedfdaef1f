//! Invariants of what others see: locks and streams.

use std::collections::BTreeMap;

use goldseam_core::{Millis, RunId, Seq};

use super::{Evidence, Violation};
use crate::book::Ack;

/// One hold of a lock, as its holder knows it.
#[derive(Debug, Clone, Copy)]
struct Hold {
    from: Millis,
    until: Millis,
}

/// I5, of locks: a fence is given once, and a hold begins only when the one before it is over or was let go.
pub fn i05_one_holder(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut holds: BTreeMap<(&str, u64), Hold> = BTreeMap::new();
    for ack in &evidence.facts.acks {
        match ack {
            Ack::Held { lock, fence, from, until } => {
                let (from, until) = (*from, *until);
                let hold = holds.entry((lock, *fence)).or_insert(Hold { from, until });
                if hold.from != from {
                    found.push(Violation::new("I5", format!("fence {fence} of lock {lock} was given twice")));
                }
                hold.until = until;
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
            let what = format!("lock {lock}: hold {after} began {early} ms before hold {fence} was over");
            found.push(Violation::new("I5", what));
        }
    }
    found
}

/// I17: a follower is shown every event once and in order, over any number of connections, and all of them in the end.
pub fn i17_stream(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last: BTreeMap<(usize, &RunId), Seq> = BTreeMap::new();
    for ack in &evidence.facts.acks {
        let Ack::Followed(reader, run, seqs) = ack else { continue };
        let last = last.entry((*reader, run)).or_insert(Seq::ZERO);
        for seq in seqs {
            if seq.0 != last.0 + 1 {
                let what = format!("{run}: follower {reader} was shown {} after {}", seq.0, last.0);
                found.push(Violation::new("I17", what));
            }
            *last = *seq;
        }
    }
    for ((reader, run), last) in last {
        let end = evidence.logs.get(run).map_or(0, |log| log.records.len() as u64);
        if last.0 != end {
            let what = format!("{run}: follower {reader} was shown {} of {end} events", last.0);
            found.push(Violation::new("I17", what));
        }
    }
    found
}
