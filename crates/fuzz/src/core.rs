//! Targets for the core and for the tokens of the store.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use goldseam_core::codec::{chain, decode, decode_all, encode, size};
use goldseam_core::form::Form;
use goldseam_core::id::{
    LaneName, LockName, NodeId, QueueName, RunId, SignalName, StepName, TagKey, TaskId, WorkflowName,
};
use goldseam_core::recovery::foreign::Foreign;
use goldseam_core::redact::{MARK, Names};
use goldseam_core::retry::Policy;
use goldseam_core::state::Applied;
use goldseam_core::{
    Failure, Hash, Limits, Millis, Path, Payload, Recorded, Redactor, Retry, Seq, State, Status,
    TraceContext, WriteId, derive,
};
use goldseam_store::{Cursor, shown_url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// Checks that parsing and printing round-trip, as text and as JSON.
fn round<T>(text: &str)
where
    T: FromStr + Display + PartialEq + Debug + Serialize + DeserializeOwned,
{
    let Ok(id) = text.parse::<T>() else {
        let quoted = serde_json::to_string(text).unwrap_or_default();
        assert!(
            serde_json::from_str::<T>(&quoted).is_err(),
            "{text:?} is refused as text but accepted as JSON"
        );
        return;
    };
    assert_eq!(id.to_string(), text);
    let json = serde_json::to_string(&id).unwrap_or_default();
    assert_eq!(serde_json::from_str::<T>(&json).ok(), Some(id));
}

/// Parses ids of every kind.
pub(crate) fn ids(data: &[u8]) {
    let Some(text) = text(data) else { return };
    round::<RunId>(text);
    round::<WorkflowName>(text);
    round::<NodeId>(text);
    round::<TaskId>(text);
    round::<QueueName>(text);
    round::<LaneName>(text);
    round::<LockName>(text);
    round::<SignalName>(text);
    round::<StepName>(text);
    round::<TagKey>(text);
}

/// Parses paths of operations.
pub(crate) fn paths(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(path) = Path::new(text) else { return };
    assert_eq!(path.as_str(), text);
    assert!(
        text.ends_with(path.leaf()) && text.starts_with(path.arm()) && path.leaf().starts_with(path.name())
    );
    let json = serde_json::to_string(&path).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Path>(&json).ok().as_ref(), Some(&path));
}

/// Parses trace contexts. The text is a `traceparent` and, after a newline, a `tracestate`.
pub(crate) fn traces(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let (parent, state) = text.split_once('\n').unwrap_or((text, ""));
    let Some(context) = TraceContext::read(parent, Some(state)) else { return };
    assert_eq!(context.traceparent().len(), 55);
    assert!(context.trace_id().bytes().chain(context.parent_id().bytes()).all(|b| b.is_ascii_hexdigit()));
    assert!(context.tracestate().is_none_or(|state| (1..=512).contains(&state.len())));
    let again = TraceContext::read(context.traceparent(), context.tracestate());
    assert_eq!(again.as_ref(), Some(&context));
    let inside = context.within("key");
    assert_eq!((inside.trace_id(), inside.is_sampled()), (context.trace_id(), context.is_sampled()));
}

/// Decodes one event.
pub(crate) fn event(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(recorded) = decode(Seq(1), text) else { return };
    let encoded = encode(&recorded);
    let written = Recorded { bytes: size(&encoded), ..recorded.clone() };
    assert_eq!(decode(Seq(1), &encoded).as_ref(), Ok(&written));
    let _ = (recorded.event.path(), recorded.event.is_mail(), recorded.is_progress());
}

/// Decodes a log with one event per line, and derives its state.
pub(crate) fn history(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(run) = RunId::new("fuzzed") else { return };
    let texts = || (1..).map(Seq).zip(text.lines());
    drop(decode_all(Seq::ZERO, Hash::ZERO, texts()).map(|(events, head)| derive(&run, &events, head)));
    // Rebuild the chain, so that derivation does not stop at a wrong hash.
    let mut head = Hash::ZERO;
    let mut events = Vec::new();
    let mut heads = Vec::new();
    for line in text.lines() {
        let seq = Seq(events.len() as u64 + 1);
        let Ok(recorded) = decode(seq, line) else { continue };
        let recorded = Recorded { prev: head, ..recorded };
        head = chain(&encode(&recorded));
        events.push(recorded);
        heads.push(head);
    }
    let mut state: Option<State> = None;
    for (count, (recorded, head)) in (1..).zip(events.iter().zip(&heads)) {
        let applied = match &mut state {
            Some(state) => {
                let mut row = state.summary.clone();
                drop(row.fold(recorded, *head));
                match state.apply(recorded, *head) {
                    Ok(applied) => applied,
                    Err(_) => return,
                }
            }
            None => Applied::MustDerive,
        };
        if applied == Applied::MustDerive {
            state = derive(&run, &events[..count], *head).ok();
        }
    }
}

/// Checks an answer against a form: the form is the first line, the answer is the rest.
pub(crate) fn answers(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let (form, answer) = text.split_once('\n').unwrap_or((text, "null"));
    let limits = Limits::default();
    let Ok(answer) = Payload::parse(answer, &limits) else { return };
    assert_eq!(Payload::parse(answer.as_str(), &limits).as_ref(), Ok(&answer));
    let Ok(form) = serde_json::from_str::<Form>(form) else { return };
    if form.check_itself().is_ok() {
        drop(form.check(&answer));
    }
}

/// Reads a retry policy from its stored form, and checks its pauses.
pub(crate) fn policy(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(policy) = serde_json::from_str::<Policy>(text) else { return };
    let longest = Duration::from_millis(policy.pause_max_ms);
    let retry = Retry::from(policy);
    for attempt in [1, 2, 3, 100, u32::MAX] {
        if let Some(pause) = retry.pause(attempt, &Failure::retryable("again"), text) {
            assert!(pause <= longest.saturating_mul(2), "{pause:?} exceeds twice {longest:?}");
        }
    }
}

/// Parses cursors, statuses, hashes and write-ids, and redacts URLs.
pub(crate) fn tokens(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse::<Cursor>().ok(), Some(cursor));
    }
    if let Ok(status) = text.parse::<Status>() {
        assert_eq!(status.as_str(), text);
    }
    if let Ok(hash) = text.parse::<Hash>() {
        assert_eq!(hash.to_string().parse::<Hash>().ok(), Some(hash));
    }
    if let Ok(write) = text.parse::<WriteId>() {
        assert_eq!(write.to_string().parse::<WriteId>().ok(), Some(write));
    }
    let shown = shown_url(text);
    assert_eq!(shown_url(&shown), shown, "redaction is idempotent");
}

/// Redacts a secret in a text: the secret disappears, and a JSON document stays valid.
pub(crate) fn secrets(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let mut redactor = Redactor::new(Names::usual());
    let (secret, text) = text.split_once('\n').unwrap_or(("opensesame", text));
    let is_hidden = redactor.hide(secret).is_ok();
    let shown = redactor.text(text);
    assert!(!is_hidden || !text.contains(secret.trim()) || shown.contains(MARK));
    assert!(!redactor.finds(text) || shown != text);
    let document = redactor.json(text);
    if serde_json::from_str::<Value>(text).is_ok() {
        assert!(serde_json::from_str::<Value>(&document).is_ok(), "{text} became {document}");
    }
}

/// Parses a foreign workflow state.
pub(crate) fn foreign(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(id) = RunId::new("fuzzed") else { return };
    let Ok(state) = Foreign::parse(&id, text) else { return };
    let _ = (state.standing(None, None), state.task_id());
    let (Ok(queue), Ok(task)) = (QueueName::new("default"), TaskId::new("task-1")) else { return };
    let _ = state.new_task(queue, "workflow.orchestrate", Millis(1));
    if state.task().is_none() {
        return;
    }
    let Ok(swapped) = Foreign::parse(&id, &state.with_task(&task)) else {
        panic!("a foreign state with another task is invalid");
    };
    assert_eq!(swapped.task(), Some(task.as_str()));
    assert_eq!(swapped.is_active(), state.is_active());
}
