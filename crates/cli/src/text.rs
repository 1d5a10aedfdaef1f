//! Short texts that several commands share.

use goldseam::unstable::core::SignalName;
use goldseam::unstable::core::state::requested_name;
use goldseam::unstable::core::summary::OpenWait;
use goldseam::{Millis, Status, Summary};

pub(crate) use goldseam_api::next_step::{quoted, signal_command};
pub(crate) use goldseam_api::view::text::{form, one_line, rule};

use crate::time;

/// The NOTE column: what the run waits for, or what went wrong.
pub(crate) fn note(summary: &Summary, now: Millis) -> String {
    if summary.terminated {
        return "terminated".to_owned();
    }
    if summary.is_cancel_pending() && summary.timed_out {
        return "its deadline has passed; its end is pending".to_owned();
    }
    if summary.is_cancel_pending() {
        return "a cancel request is pending".to_owned();
    }
    if let Some(begin) = summary.begins_at().filter(|begin| *begin > now) {
        return format!("begins in {}", time::span(begin.since(now)));
    }
    let noted = progress(summary, now);
    let limit = summary.times_out_at().map(|deadline| time_limit(deadline, now));
    match limit {
        Some(limit) if noted.is_empty() => limit,
        Some(limit) => format!("{noted}; {limit}"),
        None => noted,
    }
}

/// The note about the deadline of a run that has not ended.
fn time_limit(deadline: Millis, now: Millis) -> String {
    match deadline > now {
        true => format!("times out in {}", time::span(deadline.since(now))),
        false => "its deadline has passed".to_owned(),
    }
}

/// What the run does or waits for.
fn progress(summary: &Summary, now: Millis) -> String {
    if let Some(jump) = &summary.jump {
        return format!("a jump to {} is pending", jump.to);
    }
    if let Some(trouble) = &summary.trouble {
        return format!("{} (cause {})", one_line(&trouble.message), trouble.cause);
    }
    if let Some(input) = summary.inputs.first() {
        return format!("asks: {}", one_line(&input.prompt));
    }
    match summary.waits.first() {
        Some(wait) => waits_for(wait, now),
        None => done(summary),
    }
}

/// Whether a run may be between two attempts of a step, or in a later one: only its log records which.
pub(crate) fn may_retry(summary: &Summary) -> bool {
    let Some(step) = &summary.step else { return false };
    match summary.status {
        Status::Sleeping => summary.waits.iter().any(|wait| wait.is_sleep() && wait.path == *step),
        Status::Running | Status::Compensating => summary.under_way.contains(step),
        _ => false,
    }
}

fn done(summary: &Summary) -> String {
    match (summary.steps, summary.recoveries) {
        (0, _) => String::new(),
        (steps, 0) => format!("{steps} steps"),
        (steps, 1) => format!("{steps} steps, recovered once"),
        (steps, recoveries) => format!("{steps} steps, recovered {recoveries} times"),
    }
}

/// Describes what ends a wait.
pub(crate) fn waits_for(wait: &OpenWait, now: Millis) -> String {
    let mail = |name: &SignalName| match requested_name(name) {
        Some(request) => format!("request {request}"),
        None => format!("signal {name}"),
    };
    let mut things: Vec<String> = wait.signals.iter().map(mail).collect();
    things.extend(wait.inputs.iter().map(|path| format!("an answer to {path}")));
    things.extend(wait.children.iter().map(|run| format!("child {run}")));
    things.extend(wait.tasks.iter().map(|task| format!("a worker for {} (task {task})", wait.path)));
    if let Some(due) = wait.due {
        things.push(match due > now {
            true => format!("{} ({} left)", time::iso(due), time::span(due.since(now))),
            false => format!("{} (due)", time::iso(due)),
        });
    }
    match things.is_empty() {
        true => "nothing".to_owned(),
        false => things.join(" or "),
    }
}

/// `12,345`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 run`, `2 runs`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_deadline_is_not_called_a_time_left() {
        let note = |deadline| time_limit(Millis(deadline), Millis(10_000));
        assert_eq!(note(15_000), format!("times out in {}", time::span(std::time::Duration::from_secs(5))));
        assert_eq!(
            (note(10_000).as_str(), note(9_000).as_str()),
            ("its deadline has passed", "its deadline has passed")
        );
    }

    #[test]
    fn formats_thousands_and_plurals() {
        assert_eq!(
            [0, 999, 1_000, 12_345, 1_234_567].map(thousands),
            ["0", "999", "1,000", "12,345", "1,234,567"]
        );
        assert_eq!((count(1, "run"), count(2_000, "run")), ("1 run".to_owned(), "2,000 runs".to_owned()));
    }
}
