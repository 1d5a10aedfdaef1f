//! A history builder for tests. Every event goes through [`decide`] and [`seal`]; after every append, the folded row
//! and state are compared with a new derivation.

use std::time::Duration;

use crate::branch::BranchId;
use crate::codec::decode_all;
use crate::command::{Claim, Command, Doing, Fence, Heal, Lost, Owned, Prune, StepEnded};
use crate::decide::{Decision, Refusal, Stamped, View, decide, next_task};
use crate::error::Failure;
use crate::event::{
    ChildStarted, Event, InputRequested, JumpRequested, Note, Recorded, Release, Remote, RunQueued,
    StepCompleted, StepFailed, StepStarted, WaitStarted,
};
use crate::form::Form;
use crate::hash::{Hash, WriteId};
use crate::id::{NodeId, QueueName, RunId, SignalName, TaskId, WorkflowName};
use crate::limits::Limits;
use crate::path::Path;
use crate::payload::Payload;
use crate::recovery::{Code, Healer, Lived, Reason, Remedy};
use crate::retry::{Policy, Retry};
use crate::seal::{Place, Sealed, leaves_branch, place, row_after, seal};
use crate::state::{Applied, OpKind, State, derive};
use crate::summary::Status;
use crate::task::{NewTask, Task};
use crate::time::{Millis, Seq};
use crate::version::UNDECIDED;

/// A run's log under construction.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    pub(crate) run: RunId,
    pub(crate) bodies: Vec<String>,
    pub(crate) records: Vec<Recorded>,
    pub(crate) head: Hash,
    pub(crate) now: Millis,
    pub(crate) limits: Limits,
    state: Option<State>,
}

pub(crate) fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

pub(crate) fn json(text: &str) -> Payload {
    Payload::parse(text, &Limits::default()).unwrap()
}

pub(crate) fn node(text: &str) -> NodeId {
    NodeId::new(text).unwrap()
}

pub(crate) fn note(id: &str) -> Note {
    Note { id: id.into(), by: Some("ada".into()), reason: format!("because of {id}") }
}

pub(crate) fn order(input: &str) -> RunQueued {
    RunQueued {
        workflow: WorkflowName::new("checkout").unwrap(),
        version: 1,
        input: json(input),
        queue: QueueName::new("default").unwrap(),
        priority: 0,
        tags: crate::event::Tags::new(),
        attributes: crate::attribute::Attributes::new(),
        parent: None,
        plan: Vec::new(),
        trace: None,
        start_at: None,
        deadline: None,
        lane: None,
    }
}

/// Returns the command that starts a run without a version.
pub(crate) fn undecided() -> Command {
    Command::Start { queued: RunQueued { version: UNDECIDED, ..order("{}") }, claim: None }
}

pub(crate) fn signal(name: &str, id: &str) -> Command {
    let payload = json(&format!("\"{id}\""));
    Command::Signal { name: SignalName::new(name).unwrap(), id: id.into(), fresh: false, payload }
}

pub(crate) fn answer(question: &str, id: &str, text: &str) -> Command {
    Command::Answer { question: path(question), since: None, id: id.into(), answer: json(text), by: None }
}

pub(crate) fn jump_to(id: &str, to: &str) -> JumpRequested {
    JumpRequested { note: note(id), to: path(to), input: None, drop_mail: false, compensate: false }
}

pub(crate) fn claim(by: &str) -> Command {
    Command::Claim(Claim::by(node(by)))
}

/// Returns the command that prunes a log which ended at `at` when it was archived.
pub(crate) fn prune(at: Seq) -> Command {
    let archive = "/archive/1.jsonl".to_owned();
    let sha256 = "ab".repeat(32);
    Command::Prune(Prune { note: note("prune"), archive, sha256, at })
}

pub(crate) fn take_over(by: &str, from: &str, proven: bool) -> Command {
    let lost =
        Lost { node: node(from), proven, evidence: "its lock was dropped".into(), lived: Lived::default() };
    Command::Claim(Claim { lost: Some(lost), ..Claim::by(node(by)) })
}

/// Returns an ordinary task with this id.
pub(crate) fn a_task(id: TaskId) -> Task {
    let new = NewTask {
        id,
        kind: "resize".into(),
        queue: QueueName::new("gpu").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    new.into_task(Millis(0))
}

impl Log {
    pub(crate) fn new(run: &str) -> Self {
        Self {
            run: RunId::new(run).unwrap(),
            bodies: Vec::new(),
            records: Vec::new(),
            head: Hash::ZERO,
            now: Millis(1_000),
            limits: Limits::default(),
            state: None,
        }
    }

    /// Returns a started run that `n-1` owns.
    pub(crate) fn running() -> Self {
        Self::new("r1").queued().claimed("n-1")
    }

    pub(crate) fn state(&self) -> &State {
        self.state.as_ref().expect("the log has events")
    }

    pub(crate) fn status(&self) -> Status {
        self.state().summary.status
    }

    pub(crate) fn end(&self) -> Seq {
        Seq(self.records.len() as u64)
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.records.iter().map(|recorded| recorded.event.name()).collect()
    }

    pub(crate) fn fence(&self) -> Fence {
        Fence { epoch: self.state().summary.epoch, branch: self.state().summary.branch }
    }

    pub(crate) fn view(&self) -> View<'_> {
        self.state.as_ref().map_or(View::Absent, View::Full)
    }

    /// Decides without writing.
    pub(crate) fn ask(&self, command: &Command) -> Result<Decision, Refusal> {
        decide(self.view(), command, self.now, &self.limits)
    }

    /// Decides and writes; an empty decision writes nothing.
    pub(crate) fn try_act(&mut self, command: &Command) -> Result<Decision, Refusal> {
        let decision = self.ask(command)?;
        let epoch = match command {
            Command::Owned(fence, _) => Some(fence.epoch),
            _ => None,
        };
        self.write(epoch, decision.events.clone());
        Ok(decision)
    }

    /// Writes events without deciding.
    pub(crate) fn write(&mut self, epoch: Option<Seq>, events: Vec<Stamped>) {
        let write = WriteId(self.records.len() as u64 + 1);
        let at = match &self.state {
            Some(state) => place(state, epoch, write),
            None => Place { after: Seq::ZERO, prev: Hash::ZERO, branch: BranchId::ROOT, epoch, write },
        };
        let sealed = seal(at, events);
        self.append(&sealed);
        self.now = Millis(self.now.0 + 10);
    }

    fn append(&mut self, sealed: &Sealed) {
        let Some(head) = sealed.heads.last() else { return };
        self.records.extend(sealed.records.iter().cloned());
        self.bodies.extend(sealed.bodies.iter().cloned());
        self.head = *head;
        let state = derive(&self.run, &self.records, self.head).unwrap();
        if let Some(before) = &self.state {
            folds_on(before, sealed, &state);
        }
        assert_eq!(state.summary.mail_unread as usize, state.unread.len(), "the row counts unread mail");
        self.state = Some(state);
    }

    /// Decides and writes; panics if the command is refused.
    pub(crate) fn act(mut self, command: Command) -> Self {
        if let Err(refusal) = self.try_act(&command) {
            panic!("{command:?} was refused: {refusal}\n{:?}", self.names());
        }
        self
    }

    pub(crate) fn by_owner(&self, doings: Vec<Owned>) -> Command {
        let doings = doings.into_iter().map(|what| Doing { at: self.now, what }).collect();
        Command::Owned(self.fence(), doings)
    }

    /// Appends these actions of the owner in one append.
    pub(crate) fn owned(self, doings: Vec<Owned>) -> Self {
        let command = self.by_owner(doings);
        self.act(command)
    }

    fn ord(&self, path: &Path) -> u32 {
        let ops = &self.state().ops;
        let in_arm = || ops.keys().filter(|other| other.arm() == path.arm()).count();
        ops.get(path).map_or_else(|| u32::try_from(in_arm()).unwrap(), |op| op.ord)
    }

    pub(crate) fn queued(self) -> Self {
        self.act(Command::Start { queued: order("{}"), claim: None })
    }

    pub(crate) fn claimed(self, by: &str) -> Self {
        self.act(claim(by))
    }

    pub(crate) fn completion(&self, step: &str) -> StepCompleted {
        let path = path(step);
        StepCompleted {
            ord: self.ord(&path),
            path,
            attempt: 1,
            began: self.now,
            output: json(&format!("\"{step} done\"")),
            input: None,
            undo: false,
            group: false,
            fence: None,
        }
    }

    pub(crate) fn failure(&self, step: &str) -> StepFailed {
        let path = path(step);
        StepFailed {
            ord: self.ord(&path),
            path,
            attempt: 1,
            began: self.now,
            failure: Failure::retryable("no luck"),
            left: 0,
            input: None,
            group: false,
            fence: None,
            retry: None,
        }
    }

    pub(crate) fn started(self, step: &str, attempt: u32) -> Self {
        let path = path(step);
        let started = StepStarted { ord: self.ord(&path), path, attempt, input: None, remote: None };
        self.owned(vec![Owned::StepStarted(started)])
    }

    /// Returns the start of the next attempt of a remote step that allows three attempts.
    pub(crate) fn remote(&self, step: &str) -> StepStarted {
        let path = path(step);
        let ord = self.ord(&path);
        let state = self.state();
        let attempt = match state.ops.get(&path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => step.attempts + 1,
            _ => 1,
        };
        let (task, delivery) = next_task(state, &path, attempt);
        let remote = Remote {
            task,
            queue: QueueName::new("gpu").unwrap(),
            priority: 5,
            lane: None,
            payload: Some(json(&format!("{{\"for\":\"{step}\"}}"))),
            retry: Policy::from(&Retry::fixed(Duration::from_millis(500)).attempts_max(3)),
            silence_ms: 60_000,
            delivery,
            undo: false,
        };
        StepStarted { path, ord, attempt, input: None, remote: Some(Box::new(remote)) }
    }

    pub(crate) fn hands_out(self, step: &str) -> Self {
        let started = self.remote(step);
        self.owned(vec![Owned::StepStarted(started)])
    }

    pub(crate) fn hands_out_with_undo(self, step: &str) -> Self {
        let mut started = self.remote(step);
        if let Some(remote) = &mut started.remote {
            remote.undo = true;
        }
        self.owned(vec![Owned::StepStarted(started)])
    }

    /// Returns the result that a worker reports for the open attempt of this step, under its `fence`-th claim.
    pub(crate) fn brought(&self, step: &str, fence: u64, result: Result<Payload, Failure>) -> StepEnded {
        let open = self.state().open_remote();
        let open = open.iter().find(|open| open.path.as_str() == step).expect("the step is handed out");
        StepEnded { path: path(step), attempt: open.attempt, task: open.task.clone(), fence, result }
    }

    pub(crate) fn brings(self, step: &str, fence: u64, result: Result<Payload, Failure>) -> Self {
        let ended = self.brought(step, fence, result);
        self.act(Command::StepEnded(ended))
    }

    /// Returns a remedy for the present log end.
    pub(crate) fn heal(&self, rule: Code, evidence: &str, remedy: Remedy) -> Command {
        let healer = Healer { node: Some(node("n-9")), reason: Reason::StaleDetection };
        Command::Heal(Heal { rule, evidence: evidence.into(), remedy, at: self.end(), healer, note: None })
    }

    pub(crate) fn completed(self, step: &str) -> Self {
        let done = self.completion(step);
        self.owned(vec![Owned::StepCompleted(done)])
    }

    pub(crate) fn completed_with_undo(self, step: &str) -> Self {
        let done = StepCompleted { undo: true, ..self.completion(step) };
        self.owned(vec![Owned::StepCompleted(done)])
    }

    pub(crate) fn failed(self, step: &str, retry_at: Option<Millis>) -> Self {
        let failed = self.failure(step);
        self.owned(vec![Owned::StepFailed { failed, retry_at, timeout: None }])
    }

    pub(crate) fn undone(self, step: &str) -> Self {
        let start = Owned::UndoStarted { path: path(step), failure: None };
        self.owned(vec![start, Owned::UndoCompleted(path(step))])
    }

    pub(crate) fn wanted(&self, wait: &str, signals: &[&str]) -> WaitStarted {
        let path = path(wait);
        let signals = signals.iter().map(|name| SignalName::new(name).unwrap()).collect();
        WaitStarted {
            ord: self.ord(&path),
            path,
            signals,
            schemas: std::collections::BTreeMap::new(),
            inputs: vec![],
            children: vec![],
            due: None,
        }
    }

    pub(crate) fn waits(self, wait: &str, signals: &[&str]) -> Self {
        let wanted = self.wanted(wait, signals);
        self.owned(vec![Owned::Wait { wanted, ask: None }])
    }

    pub(crate) fn question(&self, question: &str, form: Form, due: Option<Millis>) -> Owned {
        let wanted = WaitStarted { inputs: vec![path(question)], due, ..self.wanted(question, &[]) };
        let path = wanted.path.clone();
        let ord = wanted.ord;
        Owned::Wait { wanted, ask: Some(InputRequested { path, ord, prompt: "Ship it?".into(), form }) }
    }

    pub(crate) fn asks(self, question: &str, form: Form) -> Self {
        let ask = self.question(question, form, None);
        self.owned(vec![ask])
    }

    pub(crate) fn sleeps(self, sleep: &str, due: Millis) -> Self {
        let path = path(sleep);
        let ord = self.ord(&path);
        self.owned(vec![Owned::Sleep { path, ord, due }])
    }

    pub(crate) fn checks(self, wait: &str) -> Self {
        self.owned(vec![Owned::Check(path(wait))])
    }

    pub(crate) fn child(&self, call: &str, run: &str) -> ChildStarted {
        let path = path(call);
        let run = RunId::new(run).unwrap();
        let workflow = WorkflowName::new("pick").unwrap();
        let start = None;
        let detached = false;
        let undo = false;
        ChildStarted {
            ord: self.ord(&path),
            path,
            run,
            workflow,
            input: Payload::null(),
            start,
            detached,
            undo,
        }
    }

    /// Returns the publication of a value at the next place of the workflow.
    pub(crate) fn publication(&self, call: &str, name: &str, value: &str) -> Owned {
        let path = path(call);
        let name = crate::id::ValueName::new(name).unwrap();
        Owned::Publish(crate::event::ValuePublished { ord: self.ord(&path), path, name, value: json(value) })
    }

    pub(crate) fn publishes(self, call: &str, name: &str, value: &str) -> Self {
        let publication = self.publication(call, name, value);
        self.owned(vec![publication])
    }

    /// Returns the answer to a request at the next place of the workflow.
    pub(crate) fn reply(&self, call: &str, request: &str, answer: Result<&str, &str>) -> Owned {
        let path = path(call);
        let request = request.to_owned();
        let refused = answer.err().map(str::to_owned);
        let answer = answer.ok().map(json);
        let ord = self.ord(&path);
        Owned::AnswerRequest(crate::event::RequestAnswered { path, ord, request, answer, refused })
    }

    pub(crate) fn starts_child(self, call: &str, run: &str) -> Self {
        let child = self.child(call, run);
        self.owned(vec![Owned::Child(child)])
    }

    pub(crate) fn child_ended(self, run: &str, result: Result<Payload, Failure>) -> Self {
        self.act(Command::ChildEnded { child: RunId::new(run).unwrap(), result })
    }

    pub(crate) fn released(self, reason: Release) -> Self {
        self.owned(vec![Owned::Release(reason)])
    }

    pub(crate) fn signalled(self, name: &str, id: &str) -> Self {
        self.act(signal(name, id))
    }

    pub(crate) fn finishes(self) -> Self {
        self.owned(vec![Owned::Complete(json("\"bye\""))])
    }

    /// Returns the history that loads from the last `continue_as_new`: carried mail, then the events from there on.
    pub(crate) fn since_base(&self) -> Vec<Recorded> {
        let base = self.state().summary.base;
        let Event::BranchOpened(opened) = &self.records[base.0 as usize - 1].event else {
            return self.records.clone();
        };
        let carried = opened.carried.as_ref().unwrap();
        let kept = |recorded: &&Recorded| recorded.seq >= base || carried.mail.contains(&recorded.seq);
        self.records.iter().filter(kept).cloned().collect()
    }

    /// Returns the written events, decoded from their bytes.
    pub(crate) fn read_back(&self) -> Vec<Recorded> {
        let texts = self.bodies.iter().enumerate().map(|(at, body)| (Seq(at as u64 + 1), body.as_str()));
        decode_all(Seq::ZERO, Hash::ZERO, texts).unwrap().0
    }
}

/// Asserts that folding gives the same as a new derivation, wherever folding is possible.
fn folds_on(before: &State, sealed: &Sealed, after: &State) {
    if !leaves_branch(sealed) {
        assert_eq!(row_after(&before.summary, sealed).unwrap(), after.summary, "the folded row differs");
    }
    let mut live = before.clone();
    for (recorded, head) in sealed.records.iter().zip(&sealed.heads) {
        match live.apply(recorded, *head).unwrap() {
            Applied::Yes => {}
            Applied::MustDerive => return,
        }
    }
    assert_eq!(live, *after, "the folded state differs");
}
