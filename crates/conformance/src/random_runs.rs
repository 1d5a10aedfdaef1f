//! Random runs: every command goes through `decide`, and every append is what an engine would make of it.
//! Owners do steps and hand them out, workers and nodes come and go, rules heal, operators pause, jump and reset.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::command::{Claim, Command, Doing, Fence, Heal, Lost, Owned, StepEnded, Withdraw};
use goldseam_core::decide::{Stamped, View, decide, next_task};
use goldseam_core::event::{
    JumpRequested, Note, Release, Remote, Request, RunQueued, StepCompleted, StepFailed,
};
use goldseam_core::event::{StepStarted, WaitStarted};
use goldseam_core::recovery::{Code, Healer, Lived, Reason, Remedy, last_stable};
use goldseam_core::retry::Policy;
use goldseam_core::seal::{Place, place, seal};
use goldseam_core::state::{OpKind, StepProgress};
use goldseam_core::task::{NewTask, Task, TaskState};
use goldseam_core::{
    BranchId, Class, Failure, Hash, LaneName, Limits, Millis, NodeId, Path, Payload, QueueName, Recorded,
    Retry,
};
use goldseam_core::{RunId, Seq, SignalName, State, TaskId, WorkflowName, WriteId, derive};
use goldseam_store::api::{Append, Expect, NodeRecord, NodeState, TaskChange, TaskFilter};
use goldseam_store::splitmix::SplitMix;

use super::Fixture;
use super::make::{self, any_task, at, run};

/// A run whose log grows by random commands.
pub(super) struct RandomRun<'a> {
    pub(super) run: RunId,
    pub(super) fixture: &'a Fixture,
    history: Vec<Recorded>,
    state: Option<State>,
    head: Hash,
    now: Millis,
    fences: BTreeMap<u64, Fence>,
    dice: SplitMix,
}

pub(super) fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

pub(super) fn json(text: &str) -> Payload {
    Payload::parse(text, &Limits::default()).unwrap()
}

fn node(number: u64) -> NodeId {
    NodeId::new(format!("n-{number}")).unwrap()
}

/// Returns a node record as an engine writes it.
pub(super) fn record(number: u64) -> NodeRecord {
    let id = node(number);
    let workflows = vec!["checkout@1".to_owned()];
    let state = NodeState::Up;
    NodeRecord { name: id.to_string(), id, started_at: make::T, workflows, slots: 4, timing: None, state }
}

/// Returns the command that jumps to a step.
pub(super) fn jump_to(id: &str, to: &str) -> Command {
    let to = path(to);
    let input = None;
    let drop_mail = false;
    let compensate = false;
    Command::Jump(JumpRequested { note: note(id), to, input, drop_mail, compensate })
}

/// Returns the command that resets a run.
pub(super) fn reset(id: &str) -> Command {
    Command::Reset(note(id))
}

fn note(id: &str) -> Note {
    Note { id: id.to_owned(), by: Some("ada".into()), reason: "because".into() }
}

/// Returns a completion with another output.
pub(super) fn local(done: Owned, output: Payload) -> Owned {
    match done {
        Owned::StepCompleted(completed) => Owned::StepCompleted(StepCompleted { output, ..completed }),
        other => other,
    }
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

impl<'a> RandomRun<'a> {
    /// Creates a queued run.
    pub(super) async fn begin(fixture: &'a Fixture, name: &str, seed: u64) -> Self {
        let history = Vec::new();
        let head = Hash::ZERO;
        let fences = BTreeMap::new();
        let dice = SplitMix::new(seed);
        let run = run(name);
        let now = at(0);
        let state = None;
        let mut life = Self { run, fixture, history, state, head, now, fences, dice };
        let queued = RunQueued {
            workflow: WorkflowName::new("checkout").unwrap(),
            version: 1,
            input: json("{}"),
            queue: queue("main"),
            priority: 0,
            tags: Default::default(),
            attributes: Default::default(),
            parent: None,
            plan: Vec::new(),
            trace: None,
            // Every third run has a deadline, which passes in the middle of its life.
            deadline: seed.is_multiple_of(3).then(|| now + Duration::from_secs(1)),
            start_at: None,
            lane: None,
        };
        assert!(life.act(&Command::Start { queued, claim: None }).await);
        life
    }

    pub(super) fn state(&self) -> &State {
        self.state.as_ref().unwrap()
    }

    /// Decides and appends. Returns whether the command was accepted.
    pub(super) async fn act(&mut self, command: &Command) -> bool {
        self.now = self.now + Duration::from_millis(10);
        self.fixture.clock.set(self.now);
        let view = self.state.as_ref().map_or(View::Absent, View::Full);
        let Ok(decision) = decide(view, command, self.now, &Limits::default()) else { return false };
        let epoch = match command {
            Command::Owned(fence, _) => Some(fence.epoch),
            _ => None,
        };
        let mut tasks: Vec<_> = decision.handed.into_iter().map(make::create).collect();
        tasks.extend(decision.dropped.into_iter().map(|task| TaskChange::Cancel { task }));
        self.append(epoch, decision.events, tasks).await;
        true
    }

    async fn append(&mut self, epoch: Option<Seq>, events: Vec<Stamped>, tasks: Vec<TaskChange>) {
        let write = WriteId(self.end().0 + 1);
        let first = Place { after: Seq::ZERO, prev: Hash::ZERO, branch: BranchId::ROOT, epoch, write };
        let sealed = seal(self.state.as_ref().map_or(first, |state| place(state, epoch, write)), events);
        let Some(head) = sealed.heads.last() else { return };
        let after = self.end();
        self.history.extend(sealed.records);
        self.head = *head;
        let state = derive(&self.run, &self.history, self.head).unwrap();
        let row = Some(Box::new(state.summary.clone()));
        self.state = Some(state);
        self.fixture.append(Append { run: self.run.clone(), after, bodies: sealed.bodies, row, tasks }).await;
    }

    /// Makes a random change.
    pub(super) async fn step(&mut self) {
        let n = self.dice.below(4);
        if !self.state().summary.status.is_active() && self.dice.one_in(3) {
            return self.bring_back().await;
        }
        match self.dice.below(40) {
            0..=4 => self.claim(n % 3).await,
            5..=20 => self.own().await,
            21..=26 => self.work().await,
            27..=29 => self.bring().await,
            30 => self.beat(n).await,
            31 => self.heal(n).await,
            32 | 33 => self.operate().await,
            34 => self.jump(n).await,
            35 => self.tell(n).await,
            36 => self.keep_details(n).await,
            _ => self.now = self.now + Duration::from_millis(self.dice.below(200)),
        }
    }

    pub(super) async fn claim(&mut self, by: u64) {
        let proven = self.dice.one_in(2);
        if self.act(&self.claiming(by, proven)).await {
            let row = &self.state().summary;
            self.fences.insert(by, Fence { epoch: row.epoch, branch: row.branch });
        }
    }

    /// Returns a claim that believes the present owner to be lost.
    fn claiming(&self, by: u64, proven: bool) -> Command {
        let evidence = "its lock was dropped".to_owned();
        let lost = self.state().summary.owner.clone();
        let lost = lost.map(|node| Lost { node, proven, evidence, lived: Lived::default() });
        Command::Claim(Claim { lost, ..Claim::by(node(by)) })
    }

    /// Takes over the run from an owner whose process died.
    pub(super) async fn takes_over(&mut self, by: u64) {
        assert!(self.act(&self.claiming(by, true)).await, "the claim was refused");
    }

    /// Makes a random action of the owner or of a former owner.
    async fn own(&mut self) {
        let row = &self.state().summary;
        let current = Fence { epoch: row.epoch, branch: row.branch };
        let who = self.dice.below(3);
        let stale = self.dice.one_in(10).then(|| self.fences.get(&who).copied()).flatten();
        let count = 1 + self.dice.below(2);
        let doings: Vec<Doing> = (0..count).map(|_| Doing { at: self.now, what: self.doing() }).collect();
        self.act(&Command::Owned(stale.unwrap_or(current), doings)).await;
    }

    fn ord(&self, path: &Path) -> u32 {
        let ops = &self.state().ops;
        let in_arm = ops.keys().filter(|other| other.arm() == path.arm()).count();
        ops.get(path).map_or_else(|| u32::try_from(in_arm).unwrap(), |op| op.ord)
    }

    fn attempts(&self, path: &Path) -> u32 {
        match self.state().ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) if step.progress == StepProgress::Started => step.attempts.max(1),
            Some(OpKind::Step(step)) => step.attempts + 1,
            _ => 1,
        }
    }

    fn doing(&mut self) -> Owned {
        let n = self.dice.below(4);
        let step = path(&format!("s{n}"));
        let ord = self.ord(&step);
        let attempt = self.attempts(&step);
        let began = Millis(self.now.0 - 5);
        let wait = path(&format!("w{n}"));
        match self.dice.below(26) {
            0..=4 => Owned::StepStarted(StepStarted { path: step, ord, attempt, input: None, remote: None }),
            5..=8 => {
                let undo = n > 1;
                let group = self.dice.one_in(8);
                let output = json("\"done\\u0000\"");
                let input = None;
                let fence = None;
                Owned::StepCompleted(StepCompleted {
                    path: step,
                    ord,
                    attempt,
                    began,
                    output,
                    input,
                    undo,
                    group,
                    fence,
                })
            }
            9..=12 => self.failing(step, ord, attempt),
            13..=16 => Owned::StepStarted(self.remote(n)),
            17 => {
                let signals = vec![SignalName::new("go").unwrap()];
                let ord = self.ord(&wait);
                let wanted = WaitStarted {
                    path: wait,
                    ord,
                    signals,
                    schemas: std::collections::BTreeMap::new(),
                    inputs: vec![],
                    children: vec![],
                    due: None,
                };
                Owned::Wait { wanted, ask: None }
            }
            18 => Owned::Sleep {
                path: path(&format!("z{n}")),
                ord: 90,
                due: self.now + Duration::from_millis(300),
            },
            19 => Owned::UndoCompleted(step),
            20 | 21 => Owned::Release(
                [Release::Unload, Release::HandOver, Release::Paused, Release::Unfit][n as usize],
            ),
            _ => self.ending(step),
        }
    }

    /// Returns an action that ends a run, or is near its end.
    fn ending(&mut self, path: Path) -> Owned {
        match self.dice.below(7) {
            0 => Owned::Complete(json("0")),
            1 => Owned::Fail(self.failure()),
            2 => Owned::FinishJump,
            3 => Owned::EndCancelled,
            4 => Owned::ContinueAsNew(json("1")),
            5 => Owned::UndoStarted { path, failure: None },
            _ => Owned::Park { code: "V1", reason: "it diverged".into() },
        }
    }

    fn failure(&mut self) -> Failure {
        let codes = [None, Some("oom"), Some("timeout"), Some("heartbeat-timeout"), Some("cancelled")];
        let class = if self.dice.one_in(3) { Class::Terminal } else { Class::Retryable };
        let failure = Failure::new(class, "no luck");
        match codes[usize::try_from(self.dice.below(5)).unwrap()] {
            Some(code) => failure.with_code(code),
            None => failure,
        }
    }

    fn failing(&mut self, path: Path, ord: u32, attempt: u32) -> Owned {
        let began = Millis(self.now.0 - 7);
        let failure = self.failure();
        let left = 0;
        let timeout = match failure.code.as_deref() {
            Some("timeout") => Some("timeout"),
            Some("heartbeat-timeout") => Some("heartbeat-timeout"),
            _ => None,
        };
        let retry_at = (!self.dice.one_in(3)).then(|| self.now + Duration::from_millis(50));
        let input = None;
        let group = false;
        let fence = None;
        let retry = None;
        let failed = StepFailed { path, ord, attempt, began, failure, left, input, group, fence, retry };
        Owned::StepFailed { failed, retry_at, timeout }
    }

    pub(super) fn remote(&mut self, n: u64) -> StepStarted {
        let path = path(&format!("r{n}"));
        let attempt = match self.state().ops.get(&path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => step.attempts + 1,
            _ => 1,
        };
        let (task, delivery) = next_task(self.state(), &path, attempt);
        let retry = Policy::from(&Retry::fixed(Duration::from_millis(50)).attempts_max(3));
        let queue = queue("gpu");
        let priority = 0;
        let lane = (n > 1).then(|| LaneName::new(format!("lane-{}-{n}", self.state().summary.run)).unwrap());
        let payload = Some(json("{\"x\":1}"));
        let silence_ms = 60_000;
        let undo = n > 1;
        let remote = Remote { task, queue, priority, lane, payload, retry, silence_ms, delivery, undo };
        StepStarted { ord: self.ord(&path), path, attempt, input: None, remote: Some(Box::new(remote)) }
    }

    async fn tasks(&self, state: TaskState) -> Vec<Task> {
        let filter = TaskFilter { run: Some(self.run.clone()), state: Some(state), ..any_task() };
        let tasks = self.fixture.store.tasks(filter).await.unwrap();
        tasks.into_iter().filter(|task| task.step.is_some()).collect()
    }

    /// Returns a random task in this state.
    async fn pick(&mut self, state: TaskState) -> Option<Task> {
        let mut tasks = self.tasks(state).await;
        let n = self.dice.below(tasks.len().max(1) as u64);
        (!tasks.is_empty()).then(|| tasks.swap_remove(usize::try_from(n).unwrap()))
    }

    /// Claims a random task, sends a heartbeat, or loses its worker.
    async fn work(&mut self) {
        let what = self.dice.below(4);
        let state = if what < 2 { TaskState::Ready } else { TaskState::Claimed };
        let Some(task) = self.pick(state).await else { return };
        let version = task.version;
        let fence = task.fence;
        let next = match what {
            0 | 1 => task.claimed("w-1", self.now),
            2 => task.beaten(fence, self.now).unwrap(),
            _ => task.reclaimed("its worker is gone", 9, self.now),
        };
        self.fixture.replace(next, version).await;
    }

    /// Reports a worker's result: first to the log, then to the task.
    async fn bring(&mut self) {
        let Some(task) = self.pick(TaskState::Claimed).await else { return };
        let step = task.step.clone().unwrap();
        let fence = task.fence;
        let result = if self.dice.one_in(2) { Ok(json("1")) } else { Err(self.failure()) };
        let ended = StepEnded {
            path: step.path,
            attempt: step.attempt,
            task: task.id.clone(),
            fence,
            result: result.clone(),
        };
        if self.act(&Command::StepEnded(ended)).await {
            let version = task.version;
            self.fixture.replace(task.settled(result, self.now), version).await;
        }
    }

    async fn beat(&mut self, n: u64) {
        self.now = self.now + Duration::from_millis(1);
        self.fixture.clock.set(self.now);
        self.fixture.store.beat(&record(n % 3)).await.unwrap();
    }

    /// Records heartbeat details of a step that a node executes.
    pub(super) async fn keep_details(&mut self, n: u64) {
        let id = TaskId::new(format!("h-{}-s{n}", self.run)).unwrap();
        let found = self.fixture.find(id.as_str()).await;
        let (task, expect) = match found {
            Some(task) => {
                let version = task.version;
                let fence = task.fence;
                (task.beaten(fence, self.now).unwrap(), Expect::Version(version))
            }
            None => {
                let task = NewTask {
                    id,
                    kind: format!("heartbeat:s{n}"),
                    queue: queue("goldseam-heartbeat"),
                    lane: None,
                    priority: 0,
                    key: None,
                    run_at: self.now,
                    payload: json("7"),
                    attempts_max: 1,
                    silence_max: None,
                };
                let task = task.into_task(self.now).claimed("n-1", self.now);
                (Task { run: Some(self.run.clone()), ..task }, Expect::Absent)
            }
        };
        self.fixture.store.put_task(task, expect).await.unwrap();
    }

    async fn heal(&mut self, n: u64) {
        let open = self.state().open_remote();
        let remote = open.get(usize::try_from(n).unwrap()).cloned();
        let failed = self.state().ops.iter().find_map(|(path, op)| match &op.kind {
            OpKind::Step(step) if matches!(step.progress, StepProgress::Failed(_)) => {
                Some((path.clone(), step.attempts + 1))
            }
            _ => None,
        });
        let (rule, remedy) = match (remote, failed) {
            (Some(open), _) if n == 0 => {
                (Code::O3, Remedy::SendAgain { path: open.path, attempt: open.attempt })
            }
            (Some(open), _) => {
                let Some(task) = self.fixture.find(open.task.as_str()).await else { return };
                (Code::H1, Remedy::GiveUp { path: open.path, attempt: open.attempt, task: Box::new(task) })
            }
            (None, Some((path, attempt))) if n < 2 => (Code::A4, Remedy::Retry { path, attempt }),
            _ => {
                let Some(cutoff) = last_stable(self.state()) else { return };
                (Code::A1, Remedy::Branch { cutoff })
            }
        };
        self.apply_remedy(rule, remedy).await;
    }

    async fn apply_remedy(&mut self, rule: Code, remedy: Remedy) -> bool {
        let healer = Healer { node: Some(node(9)), reason: Reason::StaleDetection };
        let at = self.end();
        let evidence = "x".to_owned();
        self.act(&Command::Heal(Heal { rule, evidence, remedy, at, healer, note: None })).await
    }

    fn note(&self) -> Note {
        note(&format!("o{}", self.history.len()))
    }

    /// Continues a run that rests or has ended.
    async fn bring_back(&mut self) {
        let note = self.note();
        let n = self.dice.below(4);
        match self.dice.below(3) {
            0 => drop(self.act(&Command::Retry(note)).await),
            1 => drop(self.act(&Command::Resume(note)).await),
            _ => self.jump(n).await,
        }
    }

    async fn operate(&mut self) {
        let note = self.note();
        let command = match self.dice.below(13) {
            0 => Command::Pause(note),
            1 => Command::Resume(note),
            2 => Command::Cancel(note),
            3 => Command::Retry(note),
            4 => Command::Reset(note),
            5 => Command::UndoSeam(note),
            6 if self.dice.one_in(3) => Command::Terminate(note),
            7 => Command::DropCancel(Box::new(Command::Retry(note))),
            8 | 9 => {
                let what = if self.dice.one_in(2) { Request::Jump } else { Request::Cancel };
                Command::Withdraw(Withdraw { note, what, lost: self.state().summary.owner.clone() })
            }
            10 => Command::CancelUnmanned { note, lost: self.state().summary.owner.clone() },
            11 => Command::TimeOut,
            _ => Command::Annotate(note),
        };
        self.act(&command).await;
    }

    async fn jump(&mut self, n: u64) {
        let note = self.note();
        let to = path(&format!("{}{n}", if self.dice.one_in(2) { "s" } else { "r" }));
        let drop_mail = self.dice.one_in(2);
        let compensate = self.dice.one_in(2);
        let input = None;
        self.act(&Command::Jump(JumpRequested { note, to, input, drop_mail, compensate })).await;
    }

    async fn tell(&mut self, n: u64) {
        let id = format!("m{}", self.history.len());
        let name = SignalName::new("go").unwrap();
        self.act(&Command::Signal { name, id, fresh: false, payload: json(&n.to_string()) }).await;
        if self.state().summary.owner.is_some() {
            let row = &self.state().summary;
            let fence = Fence { epoch: row.epoch, branch: row.branch };
            let check = Doing { at: self.now, what: Owned::Check(path(&format!("w{n}"))) };
            self.act(&Command::Owned(fence, vec![check])).await;
        }
    }

    /// Appends these actions of the owner in one append.
    pub(super) async fn owned(&mut self, doings: Vec<Owned>) {
        let row = &self.state().summary;
        let fence = Fence { epoch: row.epoch, branch: row.branch };
        let doings = doings.into_iter().map(|what| Doing { at: self.now, what }).collect();
        assert!(self.act(&Command::Owned(fence, doings)).await, "the owner was refused");
    }

    pub(super) fn started(&self, step: &str) -> Owned {
        let path = path(step);
        let ord = self.ord(&path);
        let attempt = self.attempts(&path);
        Owned::StepStarted(StepStarted { path, ord, attempt, input: None, remote: None })
    }

    pub(super) fn completed(&self, step: &str) -> Owned {
        let path = path(step);
        let ord = self.ord(&path);
        let attempt = self.attempts(&path);
        let began = self.now;
        let output = json("0");
        let input = None;
        let undo = false;
        let group = false;
        let fence = None;
        Owned::StepCompleted(StepCompleted { path, ord, attempt, began, output, input, undo, group, fence })
    }

    /// Reports this result under the present claim of the task.
    pub(super) async fn brings(&mut self, task: &str, result: Result<Payload, Failure>) {
        let task = self.fixture.find(task).await.unwrap();
        let step = task.step.clone().unwrap();
        let fence = task.fence;
        let version = task.version;
        let path = step.path;
        let attempt = step.attempt;
        let id = task.id.clone();
        let ended = StepEnded { path, attempt, task: id, fence, result: result.clone() };
        assert!(self.act(&Command::StepEnded(ended)).await, "the result was refused");
        self.fixture.replace(task.settled(result, self.now), version).await;
    }

    /// Gives up the attempt of this task, by rule H1.
    pub(super) async fn given_up(&mut self, task: &TaskId) {
        let task = self.fixture.find(task.as_str()).await.unwrap();
        let step = task.step.clone().unwrap();
        let remedy = Remedy::GiveUp { path: step.path, attempt: step.attempt, task: Box::new(task) };
        assert!(self.apply_remedy(Code::H1, remedy).await, "the remedy was refused");
    }

    pub(super) fn now(&self) -> Millis {
        self.now
    }

    pub(super) fn end(&self) -> Seq {
        Seq(self.history.len() as u64)
    }

    /// Advances the time.
    pub(super) async fn wait(&mut self, span: Duration) {
        self.now = self.fixture.clock.now().max(self.now) + span;
        self.fixture.clock.set(self.now);
    }
}
