//! Checks of claims, effects and locks: I4, I5, I10, I22.

use super::*;

/// The start of step `a` by this incarnation, at this position in the journal.
fn begun(life: usize, order: u64, key: &str) -> ObservedEffect {
    ObservedEffect {
        order,
        run: run(),
        step: "a".to_owned(),
        attempt: 1,
        key: key.to_owned(),
        at: Millis(0),
        node: life,
        life,
        until: Some(order),
    }
}

/// Incarnation 1 has claimed the run, incarnation 2 has taken it over and completed `a` at 50.
fn taken_over(seen: &[(usize, u64)], frozen: &[usize]) -> SimEvidence {
    let mut evidence = Maker::started().event(claimed_by("n2")).event(done("a", 0, false)).evidence();
    let log = &evidence.logs[&run()];
    let key = log.key(&run(), &log.events[4], &path("a"));
    evidence.facts.lives = [("n1", 1), ("n2", 2)].map(|(id, life)| (NodeId::new(id).unwrap(), life)).into();
    evidence.facts.effects = seen.iter().map(|(life, order)| begun(*life, *order, &key)).collect();
    evidence.facts.windows =
        frozen.iter().map(|life| Window { life: *life, from: 30, until: Some(Millis(0)) }).collect();
    evidence
}

#[test]
fn i04_catches_a_step_that_begins_after_completion() {
    assert_eq!(i04_never_again(&taken_over(&[(1, 49)], &[])), [], "it began before its completion");
    caught(i04_never_again, &taken_over(&[(1, 51)], &[]));
}

#[test]
fn i04_excuses_one_start_by_a_frozen_superseded_owner() {
    let frozen = taken_over(&[(1, 51)], &[1]);
    assert_eq!(i04_never_again(&frozen), [], "one per freeze is counted, but allowed");
    assert_eq!(late_effects(&frozen), 1);
    // Another incarnation was frozen.
    caught(i04_never_again, &taken_over(&[(1, 51)], &[2]));
    // Twice in one freeze.
    caught(i04_never_again, &taken_over(&[(1, 51), (1, 52)], &[1]));
    // The latest owner has read the log that it took over, frozen or not.
    caught(i04_never_again, &taken_over(&[(2, 51)], &[2]));
    // Long after the freeze.
    let mut long_after = taken_over(&[(1, 51)], &[1]);
    long_after.facts.effects[0].at = Millis(60_000);
    caught(i04_never_again, &long_after);
    // Before the freeze.
    let mut before = taken_over(&[(1, 51)], &[1]);
    before.facts.windows[0].from = 51;
    caught(i04_never_again, &before);
}

#[test]
fn i04_catches_two_executions_at_once() {
    let going = |first: (usize, Option<u64>), second: usize| {
        let mut evidence = taken_over(&[(first.0, 20), (second, 40)], &[]);
        evidence.facts.effects[0].until = first.1;
        evidence
    };
    assert_eq!(i04_one_execution(&going((1, Some(39)), 1)), [], "the first had ended");
    // On one node.
    caught(i04_one_execution, &going((1, Some(41)), 1));
    caught(i04_one_execution, &going((1, None), 1));
    // On two nodes without a takeover.
    caught(i04_one_execution, &going((1, Some(41)), 2));
    let lost = recovered(0);
    let taken = |order| {
        let mut evidence = going((1, Some(41)), 2);
        let mut maker = Maker::started().event(lost.clone()).evidence();
        let mut append = maker.facts.executed.pop().unwrap();
        append.order = order;
        evidence.facts.executed.push(append);
        evidence
    };
    assert_eq!(i04_one_execution(&taken(30)), [], "the second node took over");
    caught(i04_one_execution, &taken(45));
}

#[test]
fn i05_catches_writes_under_an_old_claim() {
    let stale = Maker::started().event(claimed(0)).epoch(2).event(done("a", 0, false));
    caught(i05_fencing, &stale.evidence());
    let released = Event::RunReleased { reason: Release::Unload };
    caught(i05_fencing, &Maker::started().event(released).event(done("a", 0, false)).evidence());
    let mut twice = good();
    let again = twice.facts.executed[2].clone();
    twice.facts.executed.push(again);
    caught(i05_fencing, &twice);
}

#[test]
fn i10_catches_uncounted_and_reset_attempts() {
    let fine = Maker::started().event(recovered(1)).event(claimed(1)).event(done("a", 0, false));
    assert_eq!(i10_bounded_recovery(&fine.event(recovered(1)).event(claimed(1)).evidence()), []);
    caught(i10_bounded_recovery, &Maker::started().event(recovered(0)).event(claimed(0)).evidence());
    let reset = Maker::started().event(recovered(1)).event(claimed(1)).event(recovered(1)).event(claimed(1));
    caught(i10_bounded_recovery, &reset.evidence());
    let mut free = Maker::started().event(recovered(1)).event(claimed(1)).evidence();
    free.facts.kills = 0;
    caught(i10_bounded_recovery, &free);
}

#[test]
fn i04_catches_a_repeated_at_most_once_step() {
    let seen = |order| ObservedEffect {
        order,
        run: run(),
        step: crate::workflows::ONCE.to_owned(),
        attempt: 1,
        key: "k".to_owned(),
        at: Millis(1),
        node: 0,
        life: 1,
        until: Some(order),
    };
    let mut twice = good();
    twice.facts.effects.push(seen(1));
    assert_eq!(i04_never_again(&twice), []);
    twice.facts.windows.push(Window { life: 1, from: 0, until: None });
    twice.facts.effects.push(seen(2));
    caught(i04_never_again, &twice);
}

#[test]
fn i05_catches_two_holders_of_one_lock() {
    let held = |fence, from, until| Ack::Held {
        lock: "till".into(),
        fence,
        from: Millis(from),
        until: Millis(until),
    };
    let after = |acks: Vec<Ack>| {
        let mut evidence = good();
        evidence.facts.acks.extend(acks);
        evidence
    };
    let let_go = Ack::LetGo { lock: "till".into(), fence: 1, at: Millis(5) };
    assert_eq!(i05_one_holder(&after(vec![held(1, 0, 10), held(2, 10, 20)])), []);
    assert_eq!(i05_one_holder(&after(vec![held(1, 0, 10), let_go, held(2, 5, 20)])), []);
    caught(i05_one_holder, &after(vec![held(1, 0, 10), held(2, 9, 20)]));
    caught(i05_one_holder, &after(vec![held(1, 0, 10), held(1, 0, 30), held(2, 20, 40)]));
    caught(i05_one_holder, &after(vec![held(1, 0, 10), held(1, 10, 20)]));
}

#[test]
fn i22_catches_a_node_that_lacks_the_version_of_its_run() {
    let log = || Maker::new().event(queued()).event(claimed_by("n1"));
    let with = |versions: Vec<u32>| {
        let mut evidence = log().evidence();
        evidence.facts.versions.insert(NodeId::new("n1").unwrap(), versions);
        i22_versions(&evidence)
    };
    assert_eq!(with(vec![1, 2]), []);
    assert_eq!(with(vec![2]).len(), 1);
    let parked = Event::RunParked { code: "E2".to_owned(), reason: "unknown".to_owned() };
    assert_eq!(i22_versions(&log().event(parked).evidence()).len(), 1);
    let changed = Event::VersionChanged { from: 1, to: 2, reason: "unknown".to_owned(), note: None };
    assert_eq!(i22_versions(&log().event(changed).evidence()).len(), 1);
}
