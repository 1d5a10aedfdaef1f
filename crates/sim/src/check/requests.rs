//! Invariants of requests and published values.

use std::collections::BTreeMap;

use goldseam_core::event::RequestAnswered;
use goldseam_core::state::requested_name;
use goldseam_core::{Event, RunId, Seq, derive};
use goldseam_engine::client::Reply;

use super::{Log, SimEvidence, Violation};
use crate::journal::Ack;

/// I25: a request is answered at most once and only after it arrived; every requester gets the answer that the log
/// has; the row names the latest published values of the active branch.
pub fn i25_requests(evidence: &SimEvidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for (run, log) in &evidence.logs {
        found.extend(answered_once(run, log));
        found.extend(published(run, log));
    }
    for ack in &evidence.facts.acks {
        let Ack::Replied(run, id, reply) = ack else { continue };
        let answers = evidence.logs.get(run).map(answers).unwrap_or_default();
        let logged = answers.get(id.as_str()).map(|answered| reply_of(answered));
        let agrees = match reply {
            // It may be answered later.
            Reply::Pending | Reply::Unanswered(_) => true,
            Reply::Answered(_) | Reply::Refused(_) => logged.as_ref() == Some(reply),
        };
        if !agrees {
            let what = format!("{run}: request {id} was replied {reply:?}, but the log has {logged:?}");
            found.push(Violation::new("I25", what));
        }
    }
    found
}

fn reply_of(answered: &RequestAnswered) -> Reply {
    match &answered.answer {
        Some(answer) => Reply::Answered(answer.clone()),
        None => Reply::Refused(answered.refused.clone().unwrap_or_default()),
    }
}

/// The first answer to each request.
fn answers(log: &Log) -> BTreeMap<&str, &RequestAnswered> {
    let mut answers = BTreeMap::new();
    for recorded in &log.events {
        if let Event::RequestAnswered(answered) = &recorded.event {
            answers.entry(answered.request.as_str()).or_insert(answered);
        }
    }
    answers
}

fn answered_once(run: &RunId, log: &Log) -> Vec<Violation> {
    let mut came: BTreeMap<&str, Option<Seq>> = BTreeMap::new();
    let mut found = Vec::new();
    for recorded in &log.events {
        match &recorded.event {
            Event::SignalReceived { name, id, .. } if requested_name(name).is_some() => {
                came.insert(id, None);
            }
            Event::RequestAnswered(answered) => {
                let what = match came.get_mut(answered.request.as_str()) {
                    None => "before it arrived".to_owned(),
                    Some(Some(first)) => format!("again, first at {}", first.0),
                    Some(open) => {
                        *open = Some(recorded.seq);
                        continue;
                    }
                };
                let id = &answered.request;
                let seq = recorded.seq.0;
                found.push(Violation::new("I25", format!("{run}: request {id} is answered at {seq} {what}")));
            }
            _ => {}
        }
    }
    found
}

/// Finds published values that the derived row does not name.
fn published(run: &RunId, log: &Log) -> Vec<Violation> {
    let mut latest = BTreeMap::new();
    if log.events.iter().any(|recorded| matches!(recorded.event, Event::BranchOpened(_))) {
        // Branches are checked against the fold of the lineage.
        let branches = log.branches();
        let lineage = branches.lineage(branches.active().id);
        for recorded in log.events.iter().filter(|r| lineage.sees(r.branch, r.seq)) {
            note(&mut latest, recorded);
        }
        if branches.active().parent.is_none() {
            return Vec::new();
        }
    } else {
        log.events.iter().for_each(|recorded| note(&mut latest, recorded));
    }
    let Ok(state) = derive(run, &log.events, goldseam_core::Hash::ZERO) else { return Vec::new() };
    let row: BTreeMap<String, Seq> =
        state.summary.published.iter().map(|(name, at)| (name.to_string(), at.seq)).collect();
    match row == latest || state.summary.pruned.is_some() {
        true => Vec::new(),
        false => vec![Violation::new("I25", format!("{run}: published {latest:?}, the row has {row:?}"))],
    }
}

fn note(latest: &mut BTreeMap<String, Seq>, recorded: &goldseam_core::Recorded) {
    if let Event::ValuePublished(published) = &recorded.event {
        latest.insert(published.name.to_string(), recorded.seq);
    }
}
