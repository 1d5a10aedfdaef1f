//! Checks of compensations and ends: I13, I15, I21.

use super::*;

#[test]
fn i13_catches_missing_repeated_and_reordered_compensations() {
    let two = || Maker::started().event(done("a", 0, true)).event(done("b", 1, true));
    assert_eq!(i13_saga(&two().event(undone("b")).event(undone("a")).event(failed()).evidence()), []);
    caught(i13_saga, &two().event(undone("b")).event(failed()).evidence());
    caught(i13_saga, &two().event(undone("a")).event(undone("b")).event(failed()).evidence());
    let doubled = two().event(undone("b")).event(undone("b")).event(undone("a")).event(failed());
    caught(i13_saga, &doubled.evidence());
    caught(i13_saga, &two().event(undone("b")).event(over()).evidence());
    let stands = two().event(undone("b")).event(undone("a")).event(failed()).event(opened(2, 1, 5));
    caught(i13_saga, &stands.event(over()).evidence());
}

#[test]
fn i13_catches_operations_that_begin_during_compensation() {
    let failure = Some(Failure::terminal("x"));
    let begun = |failure| Event::CompensationStarted { path: path("a"), failure };
    let undoing = |failure| Maker::started().event(done("a", 0, true)).event(begun(failure));
    assert_eq!(i13_saga(&undoing(failure.clone()).event(undone("a")).event(failed()).evidence()), []);
    for forward in [done("b", 1, false), waits("w", None), over()] {
        caught(i13_saga, &undoing(failure.clone()).event(forward).evidence());
    }
    assert_eq!(i13_saga(&undoing(None).event(done("b", 1, false)).evidence()), [], "a jump undoes, too");
}

#[test]
fn i13_allows_the_end_of_a_step_begun_on_the_parent_branch() {
    let failure = || Some(Failure::terminal("x"));
    let undo = || Event::CompensationStarted { path: path("a"), failure: failure() };
    let reset = |maker: Maker| maker.event(opened(2, 1, 5)).event(undo()).event(done("b", 1, false));
    let first = || Maker::started().event(done("a", 0, true));
    let ended = reset(first().event(begins("b", 1))).event(undone("a")).event(failed());
    assert_eq!(i13_saga(&ended.evidence()), []);
    caught(i13_saga, &reset(first().event(signal("s1"))).event(undone("a")).event(failed()).evidence());
}

#[test]
fn i15_catches_runs_that_never_end_or_are_parked() {
    let mut stuck = good();
    stuck.unsettled.push((run(), Status::Running));
    caught(i15_liveness, &stuck);
    let parked = Event::RunParked { code: "V1".into(), reason: "x".into() };
    caught(i15_liveness, &Maker::started().event(parked).evidence());
}

#[test]
fn i15_catches_a_run_without_progress_after_the_faults() {
    // Events are one second apart; the last one is at `ms`.
    let late = |maker: Maker, ms: i64| {
        let mut evidence = maker.evidence();
        evidence.facts.calm_at = Some(Millis(0));
        evidence.facts.executed.last_mut().unwrap().at = Millis(ms);
        evidence
    };
    let running = || Maker::started().event(done("a", 0, false)).event(over());
    assert_eq!(i15_pace(&late(running(), 15_000)), []);
    caught(i15_pace, &late(running(), 90_000));
    // A run may wait long for a signal, but not past its due time.
    let waiting = |due| Maker::started().event(waits("w", due)).event(signal("s1")).event(takes("w", 5));
    assert_eq!(i15_pace(&late(Maker::started().event(waits("w", None)).event(signal("s1")), 90_000)), []);
    caught(i15_pace, &late(waiting(None), 90_000));
    let timer = |due| {
        let set = Event::TimerSet { path: path("t"), ord: 0, due: Millis(due) };
        Maker::started().event(set).event(Event::TimerFired { path: path("t") })
    };
    assert_eq!(i15_pace(&late(timer(80_000), 90_000)), []);
    caught(i15_pace, &late(timer(5_000), 90_000));
    // Mail does not count as progress.
    caught(i15_pace, &late(Maker::started().event(signal("s1")).event(done("a", 0, false)), 90_000));
}

#[test]
fn i24_catches_early_late_and_cancelled_timeouts() {
    let asked = |deadline: i64| {
        let id = "deadline".to_owned();
        let by = None;
        let reason = String::new();
        Event::RunCancelRequested(CancelRequested { id, by, reason, deadline: Some(Millis(deadline)) })
    };
    let cancelled = || Event::RunCancelled { reason: String::new(), terminated: None };
    assert_eq!(i24_deadlines(&Maker::started().event(asked(2_000)).event(failed()).evidence()), []);
    caught(i24_deadlines, &Maker::started().event(asked(9_000)).event(failed()).evidence());
    caught(i24_deadlines, &Maker::started().event(asked(2_000)).event(cancelled()).evidence());
    let Event::RunQueued(first) = queued() else { unreachable!("a run is queued") };
    let with = |deadline: i64| {
        let first = RunQueued { deadline: Some(Millis(deadline)), ..first.clone() };
        let mut late = Maker::new().event(Event::RunQueued(first)).event(claimed(0));
        late.facts.calm_at = Some(Millis(0));
        late.facts.executed.iter_mut().for_each(|append| append.at = Millis(90_000));
        late.evidence()
    };
    assert_eq!(i24_deadlines(&with(80_000)), []);
    caught(i24_deadlines, &with(5_000));
}

#[test]
fn i21_catches_events_after_termination_and_lost_cancels() {
    let note = |id: &str| Note { id: id.to_owned(), by: None, reason: String::new() };
    let asked = |id: &str| Event::RunCancelRequested(note(id).into());
    let terminated = || {
        let left = Terminated {
            note: note("t"),
            standing: vec![path("a")],
            undoing: Vec::new(),
            children: Vec::new(),
            remote: Vec::new(),
            unknown: None,
        };
        Event::RunCancelled { reason: String::new(), terminated: Some(Box::new(left)) }
    };
    let withdrawn = || Event::RequestWithdrawn(RequestWithdrawn { note: note("w"), what: Request::Cancel });
    let one = || Maker::started().event(done("a", 0, true));
    let noted = one().event(terminated()).event(Event::NoteAdded(note("n"))).evidence();
    assert_eq!((i21_endings(&noted), i13_saga(&noted)), (Vec::new(), Vec::new()));
    caught(i21_endings, &one().event(terminated()).event(done("b", 1, false)).evidence());
    caught(i21_endings, &one().event(terminated()).event(failed()).evidence());
    let two = Maker::started().event(done("a", 0, true)).event(done("b", 1, true));
    caught(i13_saga, &two.event(terminated()).evidence());
    assert_eq!(i21_endings(&one().event(asked("c")).event(failed()).evidence()), []);
    assert_eq!(i21_endings(&one().event(asked("c")).event(withdrawn()).evidence()), []);
    caught(i21_endings, &one().event(asked("c")).evidence());
    caught(i21_endings, &one().event(asked("c")).event(withdrawn()).event(asked("d")).evidence());
    let jumped = one().event(asked("c")).event(opened(2, 1, 3)).event(over());
    caught(i21_endings, &jumped.evidence());
}
