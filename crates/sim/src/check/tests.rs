//! Each check catches a hand-made bad history and passes the good one.

use goldseam_core::decide::Stamped;
use goldseam_core::event::{
    BranchOpened, By, Cause, Note, Release, Request, RequestWithdrawn, RunClaimed, RunQueued, RunRecovered,
    StepCompleted, Terminated, WaitStarted,
};
use goldseam_core::seal::{Place, seal};
use goldseam_core::{
    BranchId, Event, Failure, Hash, Limits, Millis, NodeId, Path, Payload, QueueName, RunId, Seq, SignalName,
    Status, Why, WorkflowName, WriteId, derive,
};
use goldseam_store::Record;

use super::*;
use crate::journal::{Ack, Executed, ObservedEffect, StartReply, Window};

const RUN: &str = "r";

fn run() -> RunId {
    RunId::new(RUN).unwrap()
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

/// Builds the log of a run event by event.
struct Maker {
    place: Place,
    bodies: Vec<String>,
    facts: crate::journal::JournalFacts,
}

impl Maker {
    fn new() -> Self {
        let place = Place {
            after: Seq::ZERO,
            prev: Hash::ZERO,
            branch: BranchId::ROOT,
            epoch: None,
            write: WriteId(1),
        };
        Self {
            place,
            bodies: Vec::new(),
            facts: crate::journal::JournalFacts { kills: 9, ..Default::default() },
        }
    }

    /// A run that was queued, claimed and started.
    fn started() -> Self {
        Self::new().event(queued()).event(claimed(0)).event(Event::RunStarted)
    }

    fn event(mut self, event: Event) -> Self {
        let at = Millis(1_000 + 1_000 * self.place.after.0 as i64);
        let epoch = self.place.epoch;
        let mail = event.is_mail();
        if mail {
            self.place.epoch = None;
        }
        let sealed = seal(self.place, vec![Stamped { at, event }]);
        let recorded = &sealed.records[0];
        let order = self.place.after.0 * 10 + 10;
        self.facts.executed.push(Executed {
            order,
            run: run(),
            after: self.place.after,
            bodies: sealed.bodies.clone(),
            at,
            by: 0,
        });
        self.place.after = recorded.seq;
        self.place.prev = sealed.heads[0];
        self.place.branch = recorded.branch;
        self.place.epoch = if mail { epoch } else { recorded.epoch };
        self.bodies.extend(sealed.bodies);
        self
    }

    fn epoch(mut self, epoch: u64) -> Self {
        self.place.epoch = Some(Seq(epoch));
        self
    }

    fn evidence(self) -> SimEvidence {
        let records: Vec<Record> =
            (1..).zip(self.bodies).map(|(seq, body)| Record { seq: Seq(seq), body }).collect();
        let mut log = Log::of(records, None);
        log.row = derive(&run(), &log.events, log.head).ok().map(|state| state.summary);
        let mut evidence = SimEvidence { facts: self.facts, ..SimEvidence::default() };
        evidence.logs.insert(run(), log);
        evidence
    }
}

fn payload() -> Payload {
    Payload::parse("1", &Limits::default()).unwrap()
}

fn queued() -> Event {
    Event::RunQueued(RunQueued {
        workflow: WorkflowName::new("w").unwrap(),
        version: 1,
        input: payload(),
        queue: QueueName::new("default").unwrap(),
        priority: 0,
        tags: Default::default(),
        parent: None,
        plan: Vec::new(),
    })
}

fn claimed(attempt: u32) -> Event {
    let node = NodeId::new("n1").unwrap();
    Event::RunClaimed(RunClaimed {
        node,
        cause: Cause::Start,
        attempt,
        alone: false,
        version: None,
        plan: Vec::new(),
        recovery: None,
    })
}

fn claimed_by(node: &str) -> Event {
    let node = NodeId::new(node).unwrap();
    Event::RunClaimed(RunClaimed {
        node,
        cause: Cause::Start,
        attempt: 0,
        alone: false,
        version: None,
        plan: Vec::new(),
        recovery: None,
    })
}

fn done(name: &str, ord: u32, undo: bool) -> Event {
    Event::StepCompleted(StepCompleted {
        path: path(name),
        ord,
        attempt: 1,
        began: Millis(0),
        output: payload(),
        input: None,
        undo,
        group: false,
        fence: None,
    })
}

fn brought_done(name: &str, fence: u64) -> Event {
    match done(name, 0, false) {
        Event::StepCompleted(step) => Event::StepCompleted(StepCompleted { fence: Some(fence), ..step }),
        other => other,
    }
}

fn over() -> Event {
    Event::RunCompleted { output: payload() }
}

fn failed() -> Event {
    Event::RunFailed { failure: Failure::terminal("x") }
}

fn signal(id: &str) -> Event {
    Event::SignalReceived { name: SignalName::new("go").unwrap(), id: id.to_owned(), payload: payload() }
}

fn waits(name: &str, due: Option<i64>) -> Event {
    let signals = vec![SignalName::new("go").unwrap()];
    let due = due.map(Millis);
    Event::WaitStarted(WaitStarted {
        path: path(name),
        ord: 0,
        signals,
        schemas: std::collections::BTreeMap::new(),
        inputs: vec![],
        children: vec![],
        due,
    })
}

fn takes(name: &str, seq: u64) -> Event {
    Event::WaitResolved { path: path(name), by: By::Mail(Seq(seq)) }
}

fn undone(name: &str) -> Event {
    Event::CompensationCompleted { path: path(name) }
}

fn recovered(attempt: u32) -> Event {
    Event::RunRecovered(RunRecovered {
        rule: "O2".into(),
        reason: "infrastructure_restart".into(),
        attempt,
        evidence: String::new(),
        node: None,
        stale_ms: 0,
        lived_ms: None,
        previous_branch: None,
        new_branch: None,
        cutoff: None,
    })
}

fn opened(branch: u32, parent: u32, cutoff: u64) -> Event {
    Event::BranchOpened(BranchOpened {
        branch: BranchId(branch),
        parent: Some(BranchId(parent)),
        cutoff: Seq(cutoff),
        why: Why::Jump { to: path("a") },
        input: None,
        dropped_mail: vec![],
        carried: None,
    })
}

fn good() -> SimEvidence {
    let maker = Maker::started().event(done("a", 0, false)).event(signal("s1")).event(waits("w", None));
    maker.event(takes("w", 5)).event(over()).evidence()
}

fn caught(check: fn(&SimEvidence) -> Vec<Violation>, bad: &SimEvidence) {
    assert_eq!(check(&good()), [], "the good history must pass");
    assert!(!check(bad).is_empty(), "the bad history must be caught");
}

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
fn i11_catches_lost_repeated_and_reordered_signals() {
    let mut lost = good();
    lost.facts.acks.push(Ack::Mail(run(), "s2".into()));
    caught(i11_signal, &lost);
    caught(i11_signal, &Maker::started().event(signal("s1")).event(signal("s1")).evidence());
    let two = || Maker::started().event(signal("s1")).event(signal("s2")).event(waits("w", None));
    caught(i11_signal, &two().event(takes("w", 5)).event(waits("v", None)).event(takes("v", 4)).evidence());
    caught(i11_signal, &two().event(takes("w", 4)).event(waits("v", None)).event(takes("v", 4)).evidence());
}

#[test]
fn i11_catches_a_skipped_signal() {
    let two = || Maker::started().event(signal("s1")).event(signal("s2")).event(waits("w", None));
    assert_eq!(i11_signal(&two().event(takes("w", 4)).evidence()), []);
    caught(i11_signal, &two().event(takes("w", 5)).evidence());
    // Mail that was consumed after the cutoff is delivered again, first.
    let back = || two().event(takes("w", 4)).event(opened(2, 1, 5)).event(waits("v", None));
    assert_eq!(i11_signal(&back().event(takes("v", 4)).evidence()), []);
    caught(i11_signal, &back().event(takes("v", 5)).evidence());
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
fn i17_catches_skipped_repeated_and_missing_events() {
    let shown = |seqs: &[&[u64]]| {
        let mut evidence = good();
        let end = evidence.logs.values().map(|log| log.records.len() as u64).max().unwrap();
        let all: Vec<u64> = (1..=end).collect();
        let parts = if seqs.is_empty() { vec![&all[..2], &all[2..]] } else { seqs.to_vec() };
        for part in parts {
            let part = part.iter().map(|seq| Seq(*seq)).collect();
            evidence.facts.acks.push(Ack::Followed(0, run(), part));
        }
        evidence
    };
    assert_eq!(i17_stream(&shown(&[])), []);
    caught(i17_stream, &shown(&[&[1, 3]]));
    caught(i17_stream, &shown(&[&[1, 2], &[2, 3]]));
    caught(i17_stream, &shown(&[&[1, 2]]));
}

#[test]
fn i12_catches_timers_that_fire_early_or_twice() {
    let set = |due| Event::TimerSet { path: path("t"), ord: 0, due: Millis(due) };
    let fired = || Event::TimerFired { path: path("t") };
    assert_eq!(i12_timer(&Maker::started().event(set(4_500)).event(fired()).evidence()), []);
    caught(i12_timer, &Maker::started().event(set(90_000)).event(fired()).evidence());
    caught(i12_timer, &Maker::started().event(set(0)).event(fired()).event(fired()).evidence());
    caught(i12_timer, &Maker::started().event(fired()).evidence());
    let timeout = Event::WaitResolved { path: path("w"), by: By::Timer };
    caught(i12_timer, &Maker::started().event(waits("w", Some(90_000))).event(timeout).evidence());
}

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
fn i14_catches_a_second_run_under_one_id() {
    let mut taken = good();
    taken.facts.acks.push(Ack::OtherInput(run(), StartReply::Taken));
    caught(i14_idempotent_start, &taken);
    let mut other = good();
    other.facts.acks.push(Ack::Started(run(), "2".into()));
    caught(i14_idempotent_start, &other);
    caught(i14_idempotent_start, &Maker::started().event(queued()).evidence());
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
fn i16_catches_an_acknowledged_write_that_is_not_readable() {
    let mut unread = good();
    unread.facts.acks.push(Ack::Read(run(), "s9".into(), false));
    caught(i16_read_your_ack, &unread);
    let brought = |fence| {
        let mut evidence = Maker::started().event(brought_done("a", 2)).evidence();
        evidence.facts.acks.push(Ack::Brought(run(), path("a"), 1, fence));
        evidence
    };
    assert_eq!(i16_read_your_ack(&brought(2)), []);
    caught(i16_read_your_ack, &brought(1));
}

#[test]
fn i21_catches_events_after_termination_and_lost_cancels() {
    let note = |id: &str| Note { id: id.to_owned(), by: None, reason: String::new() };
    let asked = |id: &str| Event::RunCancelRequested(note(id));
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
