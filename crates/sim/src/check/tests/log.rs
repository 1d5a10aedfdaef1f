//! Checks of single logs and their rows: I1 to I3, I6 to I9, I14, I19.

use super::*;

#[test]
fn good_history_passes_every_check() {
    assert_eq!(check_all(&good()), []);
}

#[test]
fn i01_catches_lost_and_stuck_starts() {
    let mut gone = good();
    gone.facts.acks.push(Ack::Started(RunId::new("other").unwrap(), "1".into()));
    caught(i01_no_lost_workflow, &gone);
    let mut stuck = Maker::started().evidence();
    stuck.facts.acks.push(Ack::Started(run(), "1".into()));
    caught(i01_no_lost_workflow, &stuck);
}

#[test]
fn i02_catches_changed_and_missing_events() {
    let mut changed = good();
    let log = changed.logs.get_mut(&run()).unwrap();
    log.records[3].body = log.records[3].body.replace("\"a\"", "\"b\"");
    caught(i02_no_lost_event, &changed);
    let mut missing = good();
    missing.logs.get_mut(&run()).unwrap().records.pop();
    caught(i02_no_lost_event, &missing);
    let mut broken = good();
    let mut records = broken.logs[&run()].records.clone();
    records[3].body = records[4].body.clone();
    broken.facts.executed.clear();
    broken.logs.insert(run(), Log::of(records, None));
    caught(i02_no_lost_event, &broken);
}

#[test]
fn i03_catches_gaps_and_branches_without_a_parent() {
    let mut gap = good();
    gap.logs.get_mut(&run()).unwrap().records.remove(2);
    caught(i03_order, &gap);
    caught(i03_order, &Maker::started().event(opened(3, 2, 2)).evidence());
    caught(i03_order, &Maker::started().event(opened(2, 1, 99)).evidence());
}

#[test]
fn i06_catches_two_ends_and_events_after_the_end() {
    caught(i06_single_terminal, &Maker::started().event(over()).event(failed()).evidence());
    caught(i06_single_terminal, &Maker::started().event(over()).event(signal("late")).evidence());
    let mut none = Maker::started().evidence();
    none.logs.get_mut(&run()).unwrap().row.as_mut().unwrap().status = Status::Completed;
    caught(i06_single_terminal, &none);
    let note = Event::NoteAdded(Note { id: "n".into(), by: None, reason: String::new() });
    assert_eq!(i06_single_terminal(&Maker::started().event(over()).event(note).evidence()), []);
}

#[test]
fn i07_catches_a_row_that_differs_from_the_log() {
    let mut other = good();
    other.logs.get_mut(&run()).unwrap().row.as_mut().unwrap().status = Status::Running;
    caught(i07_status_is_fold, &other);
    let mut none = good();
    none.logs.get_mut(&run()).unwrap().row = None;
    caught(i07_status_is_fold, &none);
}

#[test]
fn i08_catches_a_log_that_cannot_be_replayed() {
    let mut broken = good();
    broken.logs.get_mut(&run()).unwrap().events.remove(0);
    caught(i08_replay, &broken);
    let mut other = good();
    other.logs.get_mut(&run()).unwrap().head = Hash::ZERO;
    caught(i08_replay, &other);
}

#[test]
fn i09_catches_writes_while_idle() {
    let mut busy = good();
    busy.quiet_writes = 1;
    caught(i09_sweep_idempotent, &busy);
}

#[test]
fn i09_catches_an_endless_loop() {
    let mut hot = good();
    hot.facts.call_loops.push("50000 calls at one moment, the last by node 1: now".to_owned());
    caught(i09_no_endless_loop, &hot);
}

#[test]
fn i19_catches_an_inconsistent_task() {
    let mut flawed = good();
    flawed.facts.flaws.push("task t: it has an owner exactly while it is claimed".to_owned());
    caught(i19_records_are_whole, &flawed);
}

#[test]
fn i14_catches_a_second_run_under_one_id() {
    let mut taken = good();
    taken.facts.acks.push(Ack::OtherInput(run(), StartReply::Taken));
    caught(i14_idempotent_start, &taken);
    let mut other = good();
    other.facts.acks.push(Ack::Started(run(), "2".into()));
    caught(i14_idempotent_start, &other);
    caught(i14_idempotent_start, &Maker::started().event(queued()).evidence());
}
