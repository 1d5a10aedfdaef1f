//! Size limits of a history.

use crate::codec::size;
use crate::command::{Command, Owned};
use crate::decide::{Refusal, TooLong};
use crate::event::Event;
use crate::form::Form;
use crate::summary::Summary;
use crate::testing::{Log, answer, json, signal};

fn letter(id: &str, bytes: usize) -> Command {
    let payload = json(&format!("{:?}", "x".repeat(bytes - 2)));
    match signal("go", id) {
        Command::Signal { name, id, fresh, .. } => Command::Signal { name, id, payload, fresh },
        other => other,
    }
}

#[test]
fn the_row_counts_the_bytes_of_the_log() {
    let log = Log::running().completed("a").signalled("go", "s1").finishes();
    let bytes = log.bodies.iter().map(|body| size(body)).sum::<u64>();
    assert_eq!(log.state().summary.bytes, Some(bytes));
    let mail: u64 = log.records.iter().filter(|r| r.event.is_mail()).map(|r| r.bytes).sum();
    assert_eq!((log.state().mail_bytes, log.state().own_bytes()), (mail, bytes - mail));
}

#[test]
fn a_history_of_too_many_bytes_may_only_end() {
    let mut log = Log::running().completed("a");
    let bytes = log.state().own_bytes();
    let more = log.by_owner(vec![Owned::StepCompleted(log.completion("b"))]);
    log.limits.history_bytes_max = bytes;
    assert!(log.ask(&more).is_ok(), "just the limit");
    log.limits.history_bytes_max = bytes - 1;
    assert_eq!(
        log.ask(&more),
        Err(Refusal::HistoryTooLong(TooLong { what: "bytes", has: bytes, max: bytes - 1 }))
    );
    for end in [Owned::Complete(json("1")), Owned::ContinueAsNew(json("1"))] {
        assert!(log.ask(&log.by_owner(vec![end])).is_ok());
    }
}

#[test]
fn mail_over_the_size_limit_is_refused() {
    let mut log = Log::running().asks("q", Form::Text).signalled("go", "s1");
    log.limits.history_bytes_max = log.state().summary.bytes.unwrap();
    assert!(log.ask(&signal("go", "s2")).is_ok(), "just the limit");
    assert!(log.ask(&answer("q", "a1", "\"yes\"")).is_ok(), "just the limit");
    log.limits.history_bytes_max -= 1;
    for mail in [signal("go", "s2"), answer("q", "a1", "\"yes\"")] {
        let refusal = log.ask(&mail).unwrap_err();
        assert_eq!(refusal.code(), "GS0112", "{refusal}");
    }
    assert!(log.ask(&signal("go", "s1")).is_ok(), "a repeat is accepted");
}

#[test]
fn a_run_may_read_any_amount_of_mail() {
    let mut log = Log::running();
    log.limits.history_bytes_max = log.state().own_bytes();
    let log = log.act(letter("s1", 90_000));
    assert_eq!(log.ask(&signal("go", "s2")).unwrap_err().code(), "GS0112");
    assert!(log.ask(&log.by_owner(vec![Owned::StepCompleted(log.completion("a"))])).is_ok());
    assert!(log.waits("w", &["go"]).state().unread.is_empty());
}

#[test]
fn carried_mail_counts_for_new_mail_only() {
    let log = Log::running().act(letter("s1", 3_000)).act(letter("s2", 2_000));
    let mut log = log.waits("w", &["go"]).owned(vec![Owned::ContinueAsNew(json("1"))]);
    let Some(Event::BranchOpened(opened)) =
        log.records.iter().map(|r| &r.event).find(|e| matches!(e, Event::BranchOpened(_)))
    else {
        panic!("no continue_as_new")
    };
    // The first one was read.
    assert_eq!(opened.carried.as_ref().map(|carried| carried.mail_bytes), Some(2_000));
    let all = log.state().summary.bytes.unwrap();
    let own = log.state().own_bytes();
    assert_eq!(all - own, 2_000);
    assert_eq!(own, log.records[log.records.len() - 2..].iter().map(|r| r.bytes).sum::<u64>());
    log.limits.history_bytes_max = own;
    assert_eq!(log.ask(&signal("go", "s3")).unwrap_err().code(), "GS0112");
    let log = log.waits("w", &["go"]);
    assert_eq!(log.state().unread.len(), 0);
}

#[test]
fn a_row_of_an_older_release_needs_no_size() {
    let log = Log::running().completed("a");
    let derived = &log.state().summary;
    let old = Summary { bytes: None, ..derived.clone() };
    assert!(old.agrees_with(derived));
    assert!(!Summary { steps: 7, ..old.clone() }.agrees_with(derived));
    assert!(!Summary { bytes: Some(1), ..old.clone() }.agrees_with(derived));
    let later = log.clone().signalled("go", "s1");
    let mut row = old;
    row.fold(later.records.last().unwrap(), later.head).unwrap();
    assert_eq!(row.bytes, None);
    assert!(row.agrees_with(&later.state().summary));
}
