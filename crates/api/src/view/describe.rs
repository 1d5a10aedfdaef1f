//! One-line descriptions of events.

use goldseam::Payload;
use goldseam::unstable::core::branch::Why;
use goldseam::unstable::core::event::{
    AttributesChanged, By, CancelRequested, Cause, Note, Release, RunRecovered, Terminated,
};
use goldseam::unstable::core::moment::iso;
use goldseam::unstable::core::state::requested_name;
use goldseam::unstable::core::{Event, SignalName, version};

use super::text::{cut, form, one_line};
use crate::timestamp;

/// How much of a payload a description shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadLength {
    /// The beginning, for a terminal.
    Short,
    /// All, for a program.
    Full,
}

/// Characters of a payload that [`PayloadLength::Short`] shows.
const PAYLOAD_SHOWN: usize = 60;

/// Describes an event, without its name.
pub fn describe(event: &Event, much: PayloadLength) -> String {
    let short = |payload: &Payload| short(payload, much);
    match event {
        Event::RunQueued(run) => {
            let what = version::describe(&run.workflow, run.version);
            let lane = run.lane.as_ref().map_or_else(String::new, |lane| format!(", lane {lane}"));
            let begins = run.start_at.map_or_else(String::new, |at| format!(", begins {}", iso(at)));
            let ends = run.deadline.map_or_else(String::new, |at| format!(", deadline {}", iso(at)));
            format!("{what} in queue {}{lane}{begins}{ends}, input {}", run.queue, short(&run.input))
        }
        Event::RunStarted => String::new(),
        Event::RunClaimed(claim) => {
            let on = claim.version.map_or_else(String::new, |version| format!(", on version {version}"));
            match claim.cause {
                Cause::Recovery => {
                    format!("by {}, recovery {} without progress{on}", claim.node, claim.attempt)
                }
                Cause::Start | Cause::Wake => format!("by {}{on}", claim.node),
            }
        }
        Event::RunReleased { reason } => released(*reason).to_owned(),
        Event::RunCancelRequested(CancelRequested { id, by, reason, .. }) => {
            actor_and_reason(&Note { id: id.clone(), by: by.clone(), reason: reason.clone() })
        }
        Event::RunResumed(note) | Event::RunPaused(note) | Event::NoteAdded(note) => actor_and_reason(note),
        Event::RunRecovered(event) => recovered(event),
        Event::RunParked { code, reason } => format!("{code}: {reason}"),
        Event::RunCompleted { output } => format!("→ {}", short(output)),
        Event::RunFailed { failure } => one_line(&failure.message),
        Event::RunCancelled { terminated: Some(left), .. } => terminated(left),
        Event::RunCancelled { reason, .. } => reason.clone(),
        Event::RequestWithdrawn(withdrawn) => {
            format!("{} {}", withdrawn.what.as_str(), actor_and_reason(&withdrawn.note))
        }
        Event::RunPruned(pruned) => format!("{} events archived to {}", pruned.events, pruned.archive),
        Event::SignalReceived { name, id, payload } => match requested_name(name) {
            Some(request) => format!("request {request} ({id}) {}", short(payload)),
            None => format!("{name} {}", short(payload)),
        },
        Event::InputAnswered { question, answer, by, .. } => match by {
            Some(who) => format!("{question} → {} by {who}", short(answer)),
            None => format!("{question} → {}", short(answer)),
        },
        Event::ChildCompleted { run, output } => format!("{run} → {}", short(output)),
        Event::ChildFailed { run, failure, .. } => format!("{run}: {}", one_line(&failure.message)),
        Event::BranchOpened(opened) => match opened.parent {
            Some(parent) => {
                format!("{} from {parent} at {}: {}", opened.branch, opened.cutoff, why(&opened.why))
            }
            None => format!("{}: {}", opened.branch, why(&opened.why)),
        },
        Event::VersionChanged { from, to, note: Some(note), .. } => {
            format!("{from} → {to} {}", actor_and_reason(note))
        }
        Event::VersionChanged { from, to, reason, note: None } => format!("{from} → {to}: {reason}"),
        _ => operation(event, much),
    }
}

/// Describes an event of a step, wait, timer, question or child.
fn operation(event: &Event, much: PayloadLength) -> String {
    let short = |payload: &Payload| short(payload, much);
    match event {
        Event::StepStarted(step) => match &step.remote {
            Some(remote) => {
                format!("{} attempt {} in queue {} as {}", step.path, step.attempt, remote.queue, remote.task)
            }
            None => format!("{} attempt {}", step.path, step.attempt),
        },
        Event::StepCompleted(step) => format!("{} → {}", step.path, short(&step.output)),
        Event::StepFailed(step) => {
            format!("{} attempt {}: {}", step.path, step.attempt, one_line(&step.failure.message))
        }
        Event::StepRetryScheduled { path, attempt, due } => {
            format!("{path} attempt {attempt} at {}", timestamp::clock(*due))
        }
        Event::StepTimeout { path, attempt, reason } => format!("{path} attempt {attempt}: {reason}"),
        Event::WaitStarted(wait) => {
            let mail = |name: &SignalName| match requested_name(name) {
                Some(request) => format!("request {request}"),
                None => format!("signal {name}"),
            };
            let mut things: Vec<String> = wait.signals.iter().map(mail).collect();
            things.extend(wait.inputs.iter().map(|path| format!("answer {path}")));
            things.extend(wait.children.iter().map(|run| format!("child {run}")));
            things.extend(wait.due.map(timestamp::iso));
            format!("{} for {}", wait.path, things.join(" or "))
        }
        Event::WaitResolved { path, by: By::Mail(seq) } => format!("{path} by event {seq}"),
        Event::WaitResolved { path, by: By::Timer } => format!("{path} by its timer"),
        Event::InputRequested(input) => {
            format!("{}: {} ({})", input.path, one_line(&input.prompt), form(&input.form))
        }
        Event::TimerSet { path, due, .. } => format!("{path} until {}", timestamp::iso(*due)),
        Event::TimerFired { path } | Event::CompensationCompleted { path } => path.to_string(),
        Event::ChildStarted(child) => format!("{}: {} as {}", child.path, child.workflow, child.run),
        Event::JumpRequested(jump) => format!("to {} {}", jump.to, actor_and_reason(&jump.note)),
        Event::CompensationStarted { path, failure: Some(failure) } => {
            format!("{path}, because: {}", one_line(&failure.message))
        }
        Event::CompensationStarted { path, failure: None } => path.to_string(),
        Event::CompensationFailed { path, failure } => format!("{path}: {}", one_line(&failure.message)),
        Event::ProgressEmitted { message, .. } => one_line(message),
        Event::AttributesChanged(changed) => attributes(changed),
        Event::ValuePublished(published) => format!("{} = {}", published.name, short(&published.value)),
        Event::RequestAnswered(answered) => match (&answered.answer, &answered.refused) {
            (Some(answer), _) => format!("{} → {}", answered.request, short(answer)),
            (None, reason) => {
                format!("{} refused: {}", answered.request, one_line(reason.as_deref().unwrap_or_default()))
            }
        },
        Event::ChangeMarked { path, .. } => path.to_string(),
        _ => String::new(),
    }
}

/// Describes a change of attributes: `stage = "paid", removed lot`.
fn attributes(changed: &AttributesChanged) -> String {
    let set = changed.set.iter().map(|(name, value)| format!("{name} = {value}"));
    let removed = changed.removed.iter().map(|name| format!("removed {name}"));
    one_line(&set.chain(removed).collect::<Vec<String>>().join(", "))
}

/// Describes why a branch was opened.
pub fn why(why: &Why) -> String {
    match why {
        Why::Recovery { rule, evidence } => format!("rule {}: {evidence}", super::text::rule(rule)),
        Why::Jump { to } => format!("jump to {to}"),
        Why::Retry { from: Some(from) } => format!("retry from {from}"),
        Why::Retry { from: None } => "retry".to_owned(),
        Why::Continue => "continued as new".to_owned(),
        Why::Reset => "reset to the last stable event".to_owned(),
        Why::Undo { seam } => format!("back to the other side of {seam}"),
    }
}

fn recovered(event: &RunRecovered) -> String {
    let by = event.node.as_ref().map_or_else(String::new, |node| format!("by {node}, "));
    let cut = match (event.previous_branch, event.new_branch, event.cutoff) {
        (Some(old), Some(new), Some(cutoff)) => format!("{old} → {new} after event {cutoff}, "),
        _ => String::new(),
    };
    format!("{by}{cut}rule {}: {}", super::text::rule(&event.rule), event.evidence)
}

/// Describes a termination and what it left standing.
fn terminated(left: &Terminated) -> String {
    let list = |names: Vec<&str>| names.join(", ");
    let paths = |paths: &[goldseam::Path]| list(paths.iter().map(goldseam::Path::as_str).collect());
    let mut parts = vec![format!("terminated {}", actor_and_reason(&left.note)).trim_end().to_owned()];
    let mut add = |words: &str, names: String| {
        if !names.is_empty() {
            parts.push(format!("{words} {names}"));
        }
    };
    add("left standing:", paths(&left.standing));
    add("compensation interrupted:", paths(&left.undoing));
    add("tasks cancelled:", paths(&left.remote));
    add("children with a cancel request:", list(left.children.iter().map(goldseam::RunId::as_str).collect()));
    add("may be incomplete:", left.unknown.clone().unwrap_or_default());
    parts.join("; ")
}

fn released(reason: Release) -> &'static str {
    match reason {
        Release::HandOver => "its node shuts down",
        Release::Unload => "it only waits",
        Release::Paused => "it is paused",
        Release::Unfit => "its node does not have the code",
    }
}

fn actor_and_reason(note: &Note) -> String {
    match (&note.by, note.reason.as_str()) {
        (Some(by), "") => format!("by {by}"),
        (Some(by), reason) => format!("by {by}: {reason}"),
        (None, reason) => reason.to_owned(),
    }
}

/// Returns a payload as text, or its beginning.
pub fn short(payload: &Payload, much: PayloadLength) -> String {
    match much {
        PayloadLength::Short => cut(&one_line(payload.as_str()), PAYLOAD_SHOWN),
        PayloadLength::Full => payload.as_str().to_owned(),
    }
}
