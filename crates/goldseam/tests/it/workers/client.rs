//! A worker in another process, like an SDK: written against `docs/protocol.md` only. It uses JSON documents and no
//! code of the engine.
//!
//! Its workflows are lists of operations; an interpreter replays them from the history and continues.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, String>> + Send + 'a>>;

/// A connection to the server. An error is its code.
pub(crate) trait Server: Send + Sync {
    fn call<'a>(&'a self, method: &'a str, path: &'a str, body: Value) -> Answer<'a>;
}

/// One operation of a workflow.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A step; its output is its name.
    Step(&'static str),
    /// A step with a compensation.
    Undoable(&'static str),
    /// A step that fails this many times before it completes.
    Flaky(&'static str, u32),
    /// Waits for a signal.
    Signal(&'static str),
    /// Sleeps for a number of milliseconds.
    Sleep(&'static str, u64),
    /// Starts a child of this workflow and waits for its end.
    Child(&'static str, &'static str),
    /// A remote step.
    Remote(&'static str),
    /// Continues as new with this input, unless the run already has it.
    ContinueAsNew(i64),
    /// Fails for good.
    Fail,
}

/// Counts executed effects by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects(Arc<Mutex<BTreeMap<String, u32>>>);

impl Effects {
    fn add(&self, what: String) -> u32 {
        let mut all = self.0.lock().unwrap();
        let count = all.entry(what).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn all(&self) -> BTreeMap<String, u32> {
        self.0.lock().unwrap().clone()
    }
}

/// When a worker dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    Never,
    /// After the response to this many appends.
    AfterAppends(u32),
    /// After it sent the append of this number, before the response.
    BeforeAnswer(u32),
}

/// Why this worker no longer has an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// The run ended, was released, or is parked.
    Over,
    /// The server refused with this code.
    Refused(String),
    /// The worker died.
    Dead,
}

pub(crate) struct Worker<S> {
    pub(crate) server: Arc<S>,
    pub(crate) id: String,
    pub(crate) effects: Effects,
    pub(crate) death: Death,
    /// Sends every append twice, as after a lost reply.
    pub(crate) repeats_appends: bool,
    pub(crate) appends: u32,
    pub(crate) workflows: BTreeMap<String, Vec<Op>>,
}

/// The execution of a run, from its claim to its end.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) token: String,
    pub(crate) run: String,
    workflow: String,
    input: Value,
    after: u64,
    cancelled: bool,
    events: Vec<Value>,
}

/// A step to execute.
struct StepOp<'a> {
    name: &'a str,
    ord: usize,
    undo: bool,
    /// Number of attempts that fail.
    fails: u32,
}

/// Why the code of a workflow stops.
enum Stop {
    Left(Left),
    /// The run failed or is cancelled: compensate, then end it.
    Unwind(Value),
}

impl From<Left> for Stop {
    fn from(left: Left) -> Self {
        Self::Left(left)
    }
}

impl Execution {
    pub(crate) fn of(document: &Value) -> Self {
        let text = |key: &str| document[key].as_str().unwrap().to_owned();
        Self {
            token: text("token"),
            run: text("run"),
            workflow: text("workflow"),
            input: document["input"].clone(),
            after: document["end"].as_u64().unwrap(),
            cancelled: document["cancel_requested"] == true,
            events: document["events"].as_array().unwrap().clone(),
        }
    }

    fn learn(&mut self, answer: &Value) {
        self.events.extend(answer["events"].as_array().unwrap().iter().cloned());
        self.after = answer["end"].as_u64().unwrap();
        self.cancelled |= self.events.iter().any(|e| e["event"]["type"] == "run.cancel_requested");
    }

    /// Returns the last event of these types with this path.
    fn last(&self, path: &str, types: &[&str]) -> Option<&Value> {
        let about = |e: &&Value| {
            e["event"]["data"]["path"] == path && types.iter().any(|name| e["event"]["type"] == *name)
        };
        self.events.iter().rev().find(about).map(|e| &e["event"])
    }

    fn attempts(&self, path: &str) -> u64 {
        let of_step = |e: &&Value| {
            e["event"]["data"]["path"] == path
                && (e["event"]["type"] == "step.started" || e["event"]["type"] == "step.failed")
        };
        let attempt = |e: &Value| e["event"]["data"]["attempt"].as_u64().unwrap();
        self.events.iter().filter(of_step).map(attempt).max().unwrap_or(0)
    }

    fn mail(&self, seq: &Value) -> &Value {
        &self.events.iter().find(|e| e["seq"] == *seq).unwrap()["event"]
    }

    fn holding(&self) -> Value {
        json!({ "token": self.token, "after": self.after })
    }
}

impl<S: Server> Worker<S> {
    pub(crate) async fn register(
        server: &Arc<S>,
        name: &str,
        workflows: &[(&str, Vec<Op>)],
        lease: Duration,
    ) -> Self {
        let labels: Vec<String> = workflows.iter().map(|(name, _)| format!("{name}@1")).collect();
        let lease_ms = u64::try_from(lease.as_millis()).unwrap();
        let body = json!({ "name": name, "workflows": labels, "slots": 4, "lease_ms": lease_ms });
        let response = server.call("POST", "/v1/workers", body).await.unwrap();
        Self {
            server: Arc::clone(server),
            id: response["worker"].as_str().unwrap().to_owned(),
            effects: Effects::default(),
            death: Death::Never,
            repeats_appends: false,
            appends: 0,
            workflows: workflows.iter().map(|(name, ops)| ((*name).to_owned(), ops.clone())).collect(),
        }
    }

    pub(crate) async fn leave(&self) {
        let path = format!("/v1/workers/{}", self.id);
        self.server.call("DELETE", &path, Value::Null).await.unwrap();
    }

    pub(crate) async fn claim(&self, limit: u32, holding: &[&str]) -> Result<Vec<Execution>, String> {
        let path = format!("/v1/workers/{}/claim", self.id);
        let body = json!({ "limit": limit, "holding": holding, "wait_ms": 5_000 });
        let response = self.server.call("POST", &path, body).await?;
        Ok(response["executions"].as_array().unwrap().iter().map(Execution::of).collect())
    }

    /// Claims until there is an execution.
    pub(crate) async fn next(&self) -> Execution {
        for _ in 0..200 {
            if let Some(execution) = self.claim(1, &[]).await.unwrap().pop() {
                return execution;
            }
        }
        panic!("timed out: no execution");
    }

    pub(crate) async fn heartbeat(&self, of: &[&Execution], wait_ms: u64) -> Result<Value, String> {
        let path = format!("/v1/workers/{}/heartbeat", self.id);
        let holding: Vec<Value> = of.iter().map(|execution| execution.holding()).collect();
        self.server.call("POST", &path, json!({ "holding": holding, "wait_ms": wait_ms })).await
    }

    /// Executes until this worker no longer has the run.
    pub(crate) async fn execute(&mut self, mut execution: Execution) -> Left {
        loop {
            let ops = self.workflows[&execution.workflow].clone();
            let stop = match self.walk(&mut execution, &ops).await {
                Ok(()) => match self.finish(&mut execution).await {
                    Err(stop) => stop,
                    Ok(()) => Stop::Left(Left::Over),
                },
                Err(stop) => stop,
            };
            match stop {
                // Call the code again with the current log.
                Stop::Left(Left::Refused(code)) if code == "again" => {}
                Stop::Left(left) => return left,
                Stop::Unwind(failure) => match self.unwind(&mut execution, failure).await {
                    Err(Stop::Left(Left::Refused(code))) if code == "again" => {}
                    Err(Stop::Left(left)) => return left,
                    _ => return Left::Over,
                },
            }
        }
    }

    /// Appends actions and adds the response to the history.
    async fn append(&mut self, execution: &mut Execution, doings: Value) -> Result<(), Stop> {
        if self.death == Death::AfterAppends(self.appends) {
            return Err(Left::Dead.into());
        }
        self.appends += 1;
        let id = format!("a-{}", self.appends);
        let body = json!({ "token": execution.token, "id": id, "after": execution.after, "doings": doings });
        let call = || self.server.call("POST", "/v1/executions/append", body.clone());
        let mut result = call().await;
        if self.death == Death::BeforeAnswer(self.appends) {
            return Err(Left::Dead.into());
        }
        if self.repeats_appends {
            let first = result.unwrap();
            let second = call().await.unwrap();
            for same in ["outcome", "events", "end"] {
                assert_eq!(first[same], second[same], "{same} of {doings}");
            }
            result = Ok(second);
        }
        let response = result.map_err(Left::Refused)?;
        match response["outcome"].as_str().unwrap() {
            "held" => execution.learn(&response),
            "again" => {
                execution.learn(&response);
                return Err(Left::Refused("again".to_owned()).into());
            }
            "continued" => {
                *execution = Execution::of(&response["next"]);
                return Err(Left::Refused("again".to_owned()).into());
            }
            _ => return Err(Left::Over.into()),
        }
        Ok(())
    }

    async fn walk(&mut self, execution: &mut Execution, ops: &[Op]) -> Result<(), Stop> {
        for (ord, op) in ops.iter().enumerate() {
            match op {
                Op::Step(name) => self.step(execution, StepOp { name, ord, undo: false, fails: 0 }).await?,
                Op::Undoable(name) => {
                    self.step(execution, StepOp { name, ord, undo: true, fails: 0 }).await?;
                }
                Op::Flaky(name, fails) => {
                    self.step(execution, StepOp { name, ord, undo: false, fails: *fails }).await?;
                }
                Op::Signal(name) => {
                    let wait = json!({ "wait": { "path": name, "ord": ord, "signals": [name] } });
                    let resolved = self.wait(execution, name, wait).await?;
                    let mail = execution.mail(&resolved["data"]["by"]["mail"]);
                    self.effects.add(format!("{}:{name}={}", execution.run, mail["data"]["payload"]));
                }
                Op::Sleep(name, span) => {
                    let sleep = json!({ "sleep": { "path": name, "ord": ord, "span_ms": span } });
                    self.wait(execution, name, sleep).await?;
                }
                Op::Child(name, workflow) => self.child(execution, name, ord, workflow).await?,
                Op::Remote(name) => self.remote(execution, name, ord).await?,
                Op::ContinueAsNew(input) => {
                    if execution.input != *input {
                        self.append(execution, json!([{ "continue_as_new": { "input": input } }])).await?;
                    }
                }
                Op::Fail => {
                    return Err(Stop::Unwind(json!({ "class": "terminal", "message": "it had to fail" })));
                }
            }
        }
        Ok(())
    }

    async fn finish(&mut self, execution: &mut Execution) -> Result<(), Stop> {
        let output = json!({ "by": self.id });
        self.append(execution, json!([{ "complete": { "output": output } }])).await
    }

    /// Checks before an effect that the run is not to be cancelled.
    fn check_cancelled(execution: &Execution) -> Result<(), Stop> {
        if !execution.cancelled {
            return Ok(());
        }
        let failure = json!({ "class": "terminal", "message": "cancelled", "code": "cancelled" });
        Err(Stop::Unwind(failure))
    }

    async fn step(&mut self, execution: &mut Execution, step: StepOp<'_>) -> Result<(), Stop> {
        let StepOp { name, ord, undo, fails } = step;
        loop {
            let types = ["step.completed", "step.failed", "step.retry_scheduled"];
            match execution.last(name, &types).map(|e| e["type"].as_str().unwrap()) {
                Some("step.completed") => return Ok(()),
                Some("step.failed") => {
                    let failure = execution.last(name, &types).unwrap()["data"]["failure"].clone();
                    return Err(Stop::Unwind(failure));
                }
                _ => {}
            }
            Self::check_cancelled(execution)?;
            let attempt = execution.attempts(name) + 1;
            let count = self.effects.add(format!("{}:{name}", execution.run));
            let doing = if count <= fails {
                let retry = json!({ "attempts_max": 5, "initial_ms": 1, "factor_permille": 1000,
                    "pause_max_ms": 1, "jitter_permille": 0 });
                let failure = json!({ "class": "retryable", "message": "not yet" });
                json!({ "step_failed": { "path": name, "ord": ord, "attempt": attempt, "failure": failure,
                    "retry": retry } })
            } else {
                json!({ "step_completed": { "path": name, "ord": ord, "attempt": attempt, "output": name,
                    "undo": undo } })
            };
            self.append(execution, json!([doing])).await?;
        }
    }

    /// Opens a wait unless it is in the log, and releases the run until it is resolved.
    async fn wait(&mut self, execution: &mut Execution, name: &str, open: Value) -> Result<Value, Stop> {
        loop {
            if let Some(found) = execution.last(name, &["wait.resolved", "timer.fired"]) {
                return Ok(found.clone());
            }
            Self::check_cancelled(execution)?;
            let look = match execution.last(name, &["wait.started", "timer.set"]) {
                Some(_) => json!({ "check": { "path": name } }),
                None => open.clone(),
            };
            let release = json!({ "release": { "reason": "unload" } });
            self.append(execution, json!([look, release])).await?;
        }
    }

    async fn child(
        &mut self,
        execution: &mut Execution,
        name: &str,
        ord: usize,
        workflow: &str,
    ) -> Result<(), Stop> {
        if execution.last(name, &["child.started"]).is_none() {
            Self::check_cancelled(execution)?;
            let child = json!({ "path": name, "ord": ord, "workflow": workflow, "input": null });
            self.append(execution, json!([{ "child": child }])).await?;
        }
        let run = execution.last(name, &["child.started"]).unwrap()["data"]["run"].clone();
        let wait = json!({ "wait": { "path": name, "ord": ord, "children": [run] } });
        self.wait(execution, name, wait).await?;
        Ok(())
    }

    async fn remote(&mut self, execution: &mut Execution, name: &str, ord: usize) -> Result<(), Stop> {
        loop {
            if execution.last(name, &["step.completed"]).is_some() {
                return Ok(());
            }
            Self::check_cancelled(execution)?;
            if execution.last(name, &["step.started"]).is_none() {
                let step = json!({ "path": name, "ord": ord, "attempt": 1, "payload": execution.run });
                self.append(execution, json!([{ "step_handed_out": step }])).await?;
                continue;
            }
            self.append(execution, json!([{ "release": { "reason": "unload" } }])).await?;
        }
    }

    /// Compensates completed steps in reverse order, then ends the run.
    async fn unwind(&mut self, execution: &mut Execution, failure: Value) -> Result<(), Stop> {
        loop {
            let undone =
                |path: &Value| execution.last(path.as_str().unwrap(), &["compensation.completed"]).is_some();
            let left = execution.events.iter().rev().map(|e| &e["event"]).find(|e| {
                e["type"] == "step.completed" && e["data"]["undo"] == true && !undone(&e["data"]["path"])
            });
            let Some(path) = left.map(|e| e["data"]["path"].as_str().unwrap().to_owned()) else { break };
            if execution.last(&path, &["compensation.started"]).is_none() {
                let started = json!({ "undo_started": { "path": path, "failure": failure } });
                self.append(execution, json!([started])).await?;
                continue;
            }
            self.effects.add(format!("{}:undo {path}", execution.run));
            self.append(execution, json!([{ "undo_completed": { "path": path } }])).await?;
        }
        let last = if failure["code"] == "cancelled" {
            json!({ "cancelled": {} })
        } else {
            json!({ "fail": { "failure": failure } })
        };
        self.append(execution, json!([last])).await
    }
}
