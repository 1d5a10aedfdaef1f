//! Checks of children and of signals between runs: I26.

use goldseam_core::event::ChildStarted;

use super::*;

const CHILD: &str = "c";

fn child() -> RunId {
    RunId::new(CHILD).unwrap()
}

fn asks(detached: bool) -> Event {
    let workflow = WorkflowName::new("w").unwrap();
    let path = path("kid");
    let run = child();
    let input = payload();
    Event::ChildStarted(ChildStarted {
        path,
        ord: 0,
        run,
        workflow,
        input,
        start: None,
        detached,
        undo: false,
    })
}

fn ended() -> Event {
    Event::ChildCompleted { run: child(), output: payload() }
}

fn refused() -> Event {
    Event::ChildFailed { run: child(), failure: Failure::terminal("taken"), refused: true }
}

/// A parent, and a child that names `parent` as its own.
fn family(events: Vec<Event>, parent: Option<&str>) -> SimEvidence {
    let log = events.into_iter().fold(Maker::started(), Maker::event);
    let mut evidence = log.evidence();
    let Event::RunQueued(start) = queued() else { return evidence };
    let parent = parent.map(|parent| RunId::new(parent).unwrap());
    let kid = Maker::new().event(Event::RunQueued(RunQueued { parent, ..start })).evidence();
    evidence.logs.extend(kid.logs.into_values().map(|log| (child(), log)));
    evidence
}

#[test]
fn i26_catches_children_of_other_runs_and_ends_that_do_not_belong() {
    assert_eq!(i26_kin(&family(vec![asks(false), ended()], Some(RUN))), []);
    assert_eq!(i26_kin(&family(vec![asks(false), refused()], None)), []);
    assert_eq!(i26_kin(&family(vec![asks(true)], Some(RUN))), []);
    caught(i26_kin, &family(vec![], Some(RUN)));
    caught(i26_kin, &family(vec![asks(false), ended()], None));
    caught(i26_kin, &family(vec![asks(true), ended()], Some(RUN)));
    caught(i26_kin, &family(vec![asks(false), refused()], Some(RUN)));
}

#[test]
fn i26_catches_signals_that_are_lost_or_repeated() {
    let sends = || Maker::started().event(done("signal_run:go", 0, false));
    let evidence = sends().evidence();
    let log = &evidence.logs[&run()];
    let id = format!("signal-{}", log.key(&run(), &log.events[3], &path("signal_run:go")));
    caught(i26_kin, &evidence);
    assert_eq!(i26_kin(&sends().event(signal(&id)).evidence()), []);
    caught(i26_kin, &sends().event(signal(&id)).event(signal(&id)).evidence());
}
