//! Published values, and requests with their answers.

use crate::command::{Command, Owned};
use crate::decide::Refusal;
use crate::event::Event;
use crate::id::ValueName;
use crate::seal::changes_row;
use crate::state::{request_signal, requested_name};
use crate::testing::*;
use crate::time::Seq;

fn latest(log: &Log, name: &str) -> Option<Seq> {
    log.state().summary.published.get(&ValueName::new(name).unwrap()).map(|at| at.seq)
}

fn count(log: &Log, event: &str) -> usize {
    log.names().iter().filter(|name| **name == event).count()
}

#[test]
fn an_equal_value_leaves_no_event() {
    let log = Log::running().publishes("publish:p", "p", "1");
    let at = latest(&log, "p");
    assert_eq!(at, Some(log.end()));
    let again = log.publication("publish:p#2", "p", "1");
    assert_eq!(log.ask(&log.by_owner(vec![again])).unwrap().events, []);
    let both = vec![
        log.publication("publish:p#2", "p", "2"),
        log.publication("publish:p#3", "p", "2"),
        log.publication("publish:q", "q", "1"),
        log.publication("publish:p#4", "p", "1"),
    ];
    let log = log.owned(both);
    assert_eq!(count(&log, "value.published"), 4);
    assert_eq!((latest(&log, "p"), latest(&log, "q")), (Some(log.end()), Some(Seq(log.end().0 - 1))));
}

#[test]
fn a_jump_restores_the_published_value() {
    let log = Log::running().publishes("publish:p", "p", "1").completed("a");
    let before = latest(&log, "p");
    let log = log.publishes("publish:p#2", "p", "2").publishes("publish:q", "q", "1");
    let log = log.act(Command::Jump(jump_to("j1", "a"))).claimed("n-2");
    assert_eq!((latest(&log, "p"), latest(&log, "q")), (before, None));
}

#[test]
fn continue_as_new_keeps_published_values() {
    let log = Log::running().publishes("publish:p", "p", "1").completed("a");
    let doings = vec![log.publication("publish:q", "q", "2"), Owned::ContinueAsNew(json("2"))];
    let at = (latest(&log, "p"), Some(log.end().next()));
    let log = log.owned(doings);
    assert_eq!((latest(&log, "p"), latest(&log, "q")), at);
    let event = &log.records.iter().find(|recorded| Some(recorded.seq) == at.1).unwrap().event;
    assert!(matches!(event, Event::ValuePublished(published) if published.name.as_str() == "q"));
    // The value is the same after the restart, and costs nothing.
    let again = log.publication("publish:q", "q", "2");
    assert_eq!(log.ask(&log.by_owner(vec![again])).unwrap().events, []);
}

#[test]
fn the_row_follows_a_published_value() {
    let log = Log::running().completed("a");
    let decision = log.ask(&log.by_owner(vec![log.publication("publish:p", "p", "1")])).unwrap();
    let place = crate::seal::place(log.state(), None, crate::hash::WriteId(7));
    assert!(changes_row(&log.state().summary, &crate::seal::seal(place, decision.events)));
}

#[test]
fn the_first_answer_to_a_request_is_the_only_one() {
    let log = Log::running().signalled("request.add", "r1").waits("add", &["request.add"]);
    let answers = vec![log.reply("answer:add", "r1", Ok("7")), log.reply("answer:add#2", "r1", Err("no"))];
    let log = log.owned(answers);
    assert_eq!(count(&log, "request.answered"), 1);
    let answered = log.state().summary.answered.last().unwrap();
    assert_eq!((answered.request.as_str(), answered.seq), ("r1", log.end()));
    let later = log.reply("answer:add#2", "r1", Ok("8"));
    assert_eq!(log.ask(&log.by_owner(vec![later])).unwrap().events, []);
}

#[test]
fn an_answer_of_a_left_branch_stays() {
    let log = Log::running().completed("a").signalled("request.add", "r1").waits("add", &["request.add"]);
    let answer = log.reply("answer:add", "r1", Ok("7"));
    let log = log.owned(vec![answer]).act(Command::Jump(jump_to("j1", "a"))).claimed("n-2");
    assert_eq!(log.state().unread_requests(), [("add", "r1")], "the new branch receives it again");
    let log = log.completed("a").waits("add", &["request.add"]);
    let again = log.reply("answer:add", "r1", Ok("8"));
    assert_eq!(log.ask(&log.by_owner(vec![again])).unwrap().events, []);
    assert_eq!(log.state().summary.answered.len(), 1);
}

#[test]
fn a_request_obeys_the_rules_of_mail() {
    let log = Log::running().finishes();
    let refusal = log.ask(&signal("request.add", "r1")).unwrap_err();
    assert!(matches!(refusal, Refusal::Finished { .. }));
    let log = Log::running().signalled("request.add", "r1").finishes();
    assert_eq!(log.ask(&signal("request.add", "r1")).unwrap().events, [], "a repeat is recognised");
    let mut log = Log::running();
    log.limits.mail_unread_max = 1;
    let log = log.signalled("request.add", "r1");
    assert!(matches!(log.ask(&signal("request.add", "r2")).unwrap_err(), Refusal::TooMuchMail { .. }));
}

#[test]
fn the_row_keeps_the_latest_answers() {
    let mut log = Log::running();
    for number in 0..40 {
        let answer = log.reply(&format!("answer:add#{number}"), &format!("r{number}"), Ok("1"));
        log = log.owned(vec![answer]);
    }
    let kept: Vec<&str> = log.state().summary.answered.iter().map(|at| at.request.as_str()).collect();
    assert_eq!((kept.len(), kept[0], kept[31]), (32, "r8", "r39"));
    assert_eq!(log.state().answered.len(), 40);
}

#[test]
fn request_names_are_ids_with_a_prefix() {
    let name = request_signal("add_line").unwrap();
    assert_eq!((name.as_str(), requested_name(&name)), ("request.add_line", Some("add_line")));
    let refusal = |name: &str| request_signal(name).unwrap_err().to_string();
    let rule = "only letters, digits, `.`, `_` and `-` are allowed";
    assert_eq!(refusal("a b"), format!("\"a b\" is not a valid request name: {rule}"));
    assert_eq!(refusal(""), "\"\" is not a valid request name: it is empty");
    assert!(refusal(&"x".repeat(121)).ends_with("it is longer than 120 bytes"), "the prefix must fit, too");
    assert!(request_signal(&"x".repeat(120)).is_ok());
    assert_eq!(requested_name(&crate::SignalName::new("go").unwrap()), None);
}

#[test]
fn nothing_is_published_or_answered_while_undoing() {
    let log = Log::running().completed_with_undo("a");
    let undo = Owned::UndoStarted { path: path("a"), failure: Some(crate::Failure::terminal("x")) };
    let log = log.owned(vec![undo]);
    for doing in [log.publication("publish:p", "p", "1"), log.reply("answer:add", "r1", Ok("1"))] {
        assert_eq!(log.ask(&log.by_owner(vec![doing])).unwrap_err(), Refusal::BeingUndone);
    }
}
