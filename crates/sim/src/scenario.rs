//! Scenarios for injected faults: a workflow, the actions of clients meanwhile, and the expected end.

use std::time::Duration;

use goldseam_core::{Path, RunId, Status, Summary};
use goldseam_engine::client::Jump;
use goldseam_engine::{Client, StartOptions};

use crate::clients::{by, payload};
use crate::operator::signalling;
use crate::worker::Worker;

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Its workflow.
    pub flow: &'static str,
    /// The workflow's input.
    pub input: u32,
    /// What clients do.
    pub role: ClientRole,
    /// The expected status at the end.
    pub ends: Status,
}

/// What clients do during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientRole {
    /// Nothing.
    Watch,
    /// Send the signals that the run waits for.
    Signal,
    /// Answer its question.
    Answer,
    /// Cancel the run while it waits.
    Cancel,
    /// Jump back once, with compensations, then signal.
    Jump,
    /// Execute its remote steps.
    Work,
    /// Send the signals that the run waits for, by operations.
    Operate,
    /// Start the run with a deadline that passes while it waits.
    TimeOut,
}

/// All scenarios.
pub const SCENARIOS: &[Scenario] = &[
    scenario("saga", "saga", 1, ClientRole::Watch, Status::Failed),
    scenario("signal", "signals", 1, ClientRole::Signal, Status::Completed),
    scenario("sleep", "sleeper", 1, ClientRole::Watch, Status::Completed),
    scenario("child", "parent", 1, ClientRole::Watch, Status::Completed),
    scenario("jump", "undoing", 1, ClientRole::Jump, Status::Completed),
    scenario("continue_as_new", "rounds", 3, ClientRole::Watch, Status::Completed),
    scenario("parallel", "parallel", 1, ClientRole::Watch, Status::Completed),
    scenario("question", "question", 1, ClientRole::Answer, Status::Completed),
    scenario("cancel", "undoing", 1, ClientRole::Cancel, Status::Cancelled),
    scenario("once", "once", 1, ClientRole::Watch, Status::Completed),
    scenario("remote", "remote", 1, ClientRole::Work, Status::Completed),
    scenario("operation", "signals", 1, ClientRole::Operate, Status::Completed),
    scenario("timeout", "undoing", 1, ClientRole::TimeOut, Status::Failed),
];

const fn scenario(
    name: &'static str,
    flow: &'static str,
    input: u32,
    role: ClientRole,
    ends: Status,
) -> Scenario {
    Scenario { name, flow, input, role, ends }
}

/// Returns the scenario of this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Performs the client actions that are due. Every command has an id, so repeating it is harmless.
    pub async fn act(&self, client: &Client, worker: &Worker, summary: &Summary) {
        let run = &summary.run;
        let waits = summary.waits.iter().any(|wait| !wait.signals.is_empty());
        match self.role {
            ClientRole::Watch | ClientRole::TimeOut => {}
            ClientRole::Work if summary.waits.iter().any(|wait| !wait.tasks.is_empty()) => {
                worker.turn(client).await;
            }
            ClientRole::Signal if waits => self.signal(client, run, summary).await,
            ClientRole::Operate if waits => {
                let step = summary.step.as_ref().map_or("", Path::as_str).replace('#', "-");
                if let Ok(id) = RunId::new(format!("op-{step}")) {
                    drop(client.begin_operation(&id, signalling(&format!("id = \"{run}\""))).await);
                }
            }
            ClientRole::Answer => {
                if let Some(open) = summary.inputs.first() {
                    let answer = payload(&serde_json::json!("yes"));
                    drop(client.answer(run, &open.path, answer, by("a1")).await);
                }
            }
            ClientRole::Cancel if waits => drop(client.cancel(run, by("c1")).await),
            ClientRole::Jump if summary.branch.0 == 1 => {
                let to = Path::new("charge").unwrap_or_else(|_| Path::root());
                let jump = Jump { compensate: true, by: by("j1"), ..Jump::default() };
                if waits {
                    drop(client.jump(run, &to, jump).await);
                }
            }
            ClientRole::Jump if waits => self.signal(client, run, summary).await,
            ClientRole::Signal
            | ClientRole::Cancel
            | ClientRole::Jump
            | ClientRole::Work
            | ClientRole::Operate => {}
        }
    }

    /// Returns the options of the start.
    pub fn options(&self) -> StartOptions {
        match self.role {
            ClientRole::TimeOut => StartOptions::default().timeout(Duration::from_millis(400)),
            _ => StartOptions::default(),
        }
    }

    async fn signal(&self, client: &Client, run: &RunId, summary: &Summary) {
        let step = summary.step.as_ref().map_or("", Path::as_str).replace('#', "-");
        let value = payload(&serde_json::json!(1));
        drop(client.signal(run, "go", value, Some(format!("s-{step}"))).await);
    }
}

/// Maximum duration of a scenario.
pub const LONGEST: Duration = Duration::from_secs(120);
