//! Each check catches a hand-made bad history and passes the good one.

mod ending;
mod kin;
mod log;
mod mail;
mod ownership;
mod requests;

use goldseam_core::decide::Stamped;
use goldseam_core::event::{
    BranchOpened, By, CancelRequested, Cause, Note, Release, Request, RequestWithdrawn, RunClaimed,
    RunQueued, RunRecovered, StepCompleted, StepStarted, Terminated, WaitStarted,
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
        attributes: Default::default(),
        parent: None,
        plan: Vec::new(),
        trace: None,
        start_at: None,
        deadline: None,
        lane: None,
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

fn begins(name: &str, ord: u32) -> Event {
    Event::StepStarted(StepStarted { path: path(name), ord, attempt: 1, input: None, remote: None })
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
fn i23_catches_a_canary_that_goes_on_too_early() {
    let returns = |name: &str, ord: u32, output: serde_json::Value| match done(name, ord, false) {
        Event::StepCompleted(step) => {
            let output = Payload::parse(&output.to_string(), &Limits::default()).unwrap();
            Event::StepCompleted(StepCompleted { output, ..step })
        }
        other => other,
    };
    let operation = || match queued() {
        Event::RunQueued(queued) => Event::RunQueued(RunQueued {
            workflow: WorkflowName::new("goldseam.operation").unwrap(),
            ..queued
        }),
        other => other,
    };
    let note =
        Event::NoteAdded(Note { id: "goldseam.operation:op1".into(), by: None, reason: String::new() });
    let with_operation = |mut evidence: SimEvidence, stages_passed: u64| {
        let progress = serde_json::json!({ "phase": "acting", "planned": 2, "handled": 1, "acted": 1,
            "stages": [1, 2], "stages_passed": stages_passed });
        let maker = Maker::new().event(operation()).event(claimed(0)).event(Event::RunStarted);
        let maker = maker.event(returns("plan", 0, serde_json::json!({ "runs": [run()], "unreadable": 0 })));
        let log = maker.event(returns("watch", 1, progress)).evidence().logs.remove(&run()).unwrap();
        evidence.logs.insert(RunId::new("op1").unwrap(), log);
        evidence
    };
    let acted = || Maker::started().event(note.clone());
    caught(i23_operations, &with_operation(acted().evidence(), 1));
    assert_eq!(i23_operations(&with_operation(acted().evidence(), 0)), [], "the stage has not passed");
    let mut later = acted();
    later.place.write = WriteId(2);
    assert_eq!(i23_operations(&with_operation(later.event(done("a", 0, false)).evidence(), 1)), []);
}

#[test]
fn i23_catches_an_operation_that_acts_twice() {
    let note = |id: &str| Event::NoteAdded(Note { id: id.into(), by: None, reason: String::new() });
    let twice = Maker::started().event(note("goldseam.operation:op1")).event(note("goldseam.operation:op1"));
    caught(i23_operations, &twice.evidence());
    let two = Maker::started().event(note("goldseam.operation:op1")).event(note("goldseam.operation:op2"));
    assert_eq!(i23_operations(&two.evidence()), []);
}
