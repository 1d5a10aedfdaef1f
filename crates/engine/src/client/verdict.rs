//! The one line that everything known about a run comes down to.

use goldseam_core::recovery::Code;
use goldseam_core::{Status, Summary};

use super::why::{Explanation, Link};
use crate::heal::Found;

/// How a link begins that tells where a run waits although nothing is wrong with it.
const QUARANTINE: &str = "it waits in quarantine";
/// How links begin that tell of a request that no worker has carried out yet.
const REQUESTS: [&str; 2] = ["a jump to ", "a request to cancel it"];

/// The verdict on a run: fine, waits, stalled, needs you, failed; and why.
pub(super) fn verdict(explained: &Explanation, summary: &Summary) -> String {
    let trouble = summary.trouble.as_ref().map(|trouble| trouble.message.as_str());
    let because =
        |words: &str| trouble.map_or_else(|| words.to_owned(), |why| format!("{words} because {why}"));
    match explained.status {
        Status::Completed => "fine: it is completed".to_owned(),
        Status::Failed => because("failed"),
        Status::Cancelled if summary.terminated => "ended: it was terminated".to_owned(),
        Status::Cancelled => "ended: it was cancelled".to_owned(),
        Status::Parked => because("needs you: parked"),
        Status::Paused => "needs you: an operator paused it".to_owned(),
        _ => with_requests(explained, of_active(explained)),
    }
}

/// The verdict on a run whose log cannot be read.
pub(super) fn of_unreadable(found: &[Found], status: Status, rule: Code) -> String {
    let evidence = found.first().map_or("", |found| &found.diagnosis.evidence);
    match (status, rule) {
        (Status::Cancelled, _) => "ended: it was terminated, and its log is damaged".to_owned(),
        (_, Code::K1) => format!("needs you: its log is damaged: {evidence}"),
        _ => format!("needs a newer release of goldseam: {evidence}"),
    }
}

/// The verdict on a run that is neither over nor at rest by decision.
fn of_active(explained: &Explanation) -> String {
    let own = || explained.links.iter().filter(|link| link.depth == 0 && !is_request(link));
    if let Some(held) = own().find(|link| link.what.starts_with(QUARANTINE)) {
        return shortened(&held.what);
    }
    if !explained.found.is_empty() {
        let mut reasons: Vec<&str> = Vec::new();
        for found in &explained.found {
            if !reasons.contains(&found.diagnosis.evidence.as_str()) {
                reasons.push(&found.diagnosis.evidence);
            }
        }
        let helpless = explained.found.iter().any(|found| !found.diagnosis.remedy.is_automatic());
        let word = if helpless { "stalled, needs you" } else { "stalled" };
        return format!("{word}: {}", reasons.join("; and "));
    }
    let words: Vec<String> = own().take(2).map(|link| shortened(&link.what)).collect();
    let child = explained.links.iter().find(|link| link.depth == 1).map(|link| link.what.clone());
    let words = words.into_iter().chain(child).collect::<Vec<_>>().join("; ");
    match explained.status {
        Status::Queued | Status::Running | Status::Compensating if words.is_empty() => {
            "fine: a node takes it soon".to_owned()
        }
        Status::Queued | Status::Running | Status::Compensating if !words.starts_with("waits for") => {
            format!("fine: {words}")
        }
        _ => words,
    }
}

fn is_request(link: &Link) -> bool {
    REQUESTS.iter().any(|head| link.what.starts_with(head))
}

/// With the requests of operators that no worker has carried out yet.
fn with_requests(explained: &Explanation, words: String) -> String {
    let pending = explained.links.iter().filter(|link| link.depth == 0 && is_request(link));
    let head = |what: &str| what.split(": it waits").next().unwrap_or(what).to_owned();
    std::iter::once(words).chain(pending.map(|link| head(&link.what))).collect::<Vec<_>>().join("; ")
}

/// `it waits for x` as `waits for x`.
fn shortened(what: &str) -> String {
    what.strip_prefix("it ").unwrap_or(what).to_owned()
}
