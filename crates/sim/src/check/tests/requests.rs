//! Checks of requests and published values: I25.

use goldseam_core::SignalName;
use goldseam_core::event::{RequestAnswered, ValuePublished};
use goldseam_engine::client::Reply;

use super::*;

fn asked(id: &str) -> Event {
    let name = SignalName::new("request.add").unwrap();
    Event::SignalReceived { name, id: id.to_owned(), payload: payload() }
}

fn answers(call: &str, id: &str) -> Event {
    let path = path(call);
    let request = id.to_owned();
    Event::RequestAnswered(RequestAnswered { path, ord: 0, request, answer: Some(payload()), refused: None })
}

#[test]
fn i25_catches_answers_that_are_early_or_repeated() {
    assert_eq!(i25_requests(&Maker::started().event(asked("r1")).event(answers("a", "r1")).evidence()), []);
    caught(i25_requests, &Maker::started().event(answers("a", "r1")).event(asked("r1")).evidence());
    let twice = Maker::started().event(asked("r1")).event(answers("a", "r1")).event(answers("b", "r1"));
    caught(i25_requests, &twice.evidence());
}

#[test]
fn i25_catches_replies_that_the_log_does_not_have() {
    let replied = |reply: Reply, answer: bool| {
        let maker = Maker::started().event(asked("r1"));
        let maker = if answer { maker.event(answers("a", "r1")) } else { maker };
        let mut evidence = maker.evidence();
        evidence.facts.acks.push(Ack::Replied(run(), "r1".to_owned(), reply));
        evidence
    };
    assert_eq!(i25_requests(&replied(Reply::Answered(payload()), true)), []);
    assert_eq!(i25_requests(&replied(Reply::Pending, false)), []);
    caught(i25_requests, &replied(Reply::Answered(payload()), false));
    caught(i25_requests, &replied(Reply::Refused("no".to_owned()), true));
}

#[test]
fn i25_accepts_published_values_of_the_active_branch() {
    let publishes = |call: &str, name: &str| {
        let name = goldseam_core::ValueName::new(name).unwrap();
        Event::ValuePublished(ValuePublished { path: path(call), ord: 0, name, value: payload() })
    };
    let log = Maker::started().event(publishes("a", "x")).event(publishes("b", "y"));
    assert_eq!(i25_requests(&log.event(opened(2, 1, 4)).evidence()), []);
}
