//! The verdict: one line that sums up an explanation.

use goldseam_core::moment::iso;
use goldseam_core::recovery::Code;
use goldseam_core::{Hint, Status, Summary};

use super::why::{Explanation, Link, LinkKind};
use crate::heal::Found;

/// Returns the verdict on a run: fine, waits, stalled, needs you or failed, with the reason.
pub(super) fn verdict(explained: &Explanation, summary: &Summary) -> Hint {
    let trouble = summary.trouble.as_ref().map(|trouble| trouble.message.as_str());
    let because = |text: &str| trouble.map_or_else(|| text.to_owned(), |why| format!("{text} because {why}"));
    let text = match explained.status {
        Status::Completed => "fine: it is completed".to_owned(),
        Status::Failed => because("failed"),
        Status::Cancelled if summary.terminated => "ended: it was terminated".to_owned(),
        Status::Cancelled => "ended: it was cancelled".to_owned(),
        Status::Parked => with_deadline(because("needs you: parked"), summary),
        Status::Paused => with_deadline("needs you: an operator paused it".to_owned(), summary),
        _ => return with_requests(explained, of_active(explained)),
    };
    text.into()
}

/// Adds the deadline of a run that an operator or a rule stopped: it ends then, although it is stopped.
fn with_deadline(text: String, summary: &Summary) -> String {
    match summary.times_out_at() {
        Some(deadline) => format!("{text}; it times out at {}", iso(deadline)),
        None => text,
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

/// The verdict on a run that has not ended and is neither paused nor parked.
fn of_active(explained: &Explanation) -> Hint {
    let own = || of_run(explained).filter(|link| link.kind != LinkKind::Request);
    if let Some(held) = own().find(|link| link.kind == LinkKind::Quarantine) {
        return held.brief.as_str().into();
    }
    if !explained.found.is_empty() {
        let mut reasons: Vec<&str> = Vec::new();
        for found in &explained.found {
            if !reasons.contains(&found.diagnosis.evidence.as_str()) {
                reasons.push(&found.diagnosis.evidence);
            }
        }
        let needs_operator = explained.found.iter().any(|found| !found.diagnosis.remedy.is_automatic());
        let word = if needs_operator { "stalled, needs you" } else { "stalled" };
        return format!("{word}: {}", reasons.join("; and ")).into();
    }
    let is_waiting = own().next().is_some_and(|link| link.kind == LinkKind::Wait);
    let child = explained.links.iter().find(|link| link.depth == 1).map(|link| link.what.clone());
    let words = Hint::join(own().take(2).map(|link| link.brief.as_str().into()).chain(child), "; ");
    match explained.status {
        Status::Queued | Status::Running | Status::Compensating if words.is_empty() => {
            "fine: a node will claim it soon".into()
        }
        Status::Queued | Status::Running | Status::Compensating if !is_waiting => {
            Hint::from("fine: ").hint(&words)
        }
        _ => words,
    }
}

/// The links of the run itself.
fn of_run(explained: &Explanation) -> impl Iterator<Item = &Link> {
    explained.links.iter().filter(|link| link.depth == 0)
}

/// Adds the pending requests of operators.
fn with_requests(explained: &Explanation, verdict: Hint) -> Hint {
    let pending = of_run(explained).filter(|link| link.kind == LinkKind::Request);
    Hint::join(std::iter::once(verdict).chain(pending.map(|link| link.brief.as_str().into())), "; ")
}
