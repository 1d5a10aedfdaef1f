//! The stories whose every call is made to fail: a workflow, what people do meanwhile, how it must end.

use std::time::Duration;

use goldseam_core::{Path, RunId, Status, Summary};
use goldseam_engine::Client;
use goldseam_engine::client::Jump;

use crate::crowd::{by, payload};
use crate::worker::Worker;

/// A story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// Its workflow.
    pub flow: &'static str,
    /// The workflow's input.
    pub input: u32,
    /// What people do.
    pub part: Part,
    /// How it ends.
    pub ends: Status,
}

/// What people do while the run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    Watch,
    /// Send the signals that it waits for.
    Signal,
    /// Answer its question.
    Answer,
    /// Cancel it while it waits.
    Cancel,
    /// Jump back once, with compensations, then signal.
    Jump,
    /// Do its remote steps.
    Work,
}

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    story("saga", ("saga", 1), Part::Watch, Status::Failed),
    story("signal", ("signals", 1), Part::Signal, Status::Completed),
    story("sleep", ("sleeper", 1), Part::Watch, Status::Completed),
    story("child", ("parent", 1), Part::Watch, Status::Completed),
    story("jump", ("undoing", 1), Part::Jump, Status::Completed),
    story("continue_as_new", ("rounds", 3), Part::Watch, Status::Completed),
    story("parallel", ("parallel", 1), Part::Watch, Status::Completed),
    story("question", ("question", 1), Part::Answer, Status::Completed),
    story("cancel", ("undoing", 1), Part::Cancel, Status::Cancelled),
    story("once", ("once", 1), Part::Watch, Status::Completed),
    story("remote", ("remote", 1), Part::Work, Status::Completed),
];

const fn story(name: &'static str, (flow, input): (&'static str, u32), part: Part, ends: Status) -> Scenario {
    Scenario { name, flow, input, part, ends }
}

/// The story of this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Does what people would do now. Every command has an id, so doing it again is harmless.
    pub async fn act(&self, client: &Client, worker: &Worker, summary: &Summary) {
        let run = &summary.run;
        let waits = summary.waits.iter().any(|wait| !wait.signals.is_empty());
        match self.part {
            Part::Watch => {}
            Part::Work if summary.waits.iter().any(|wait| !wait.tasks.is_empty()) => {
                worker.turn(client).await;
            }
            Part::Signal if waits => self.signal(client, run, summary).await,
            Part::Answer => {
                if let Some(open) = summary.inputs.first() {
                    let answer = payload(&serde_json::json!("yes"));
                    drop(client.answer(run, &open.path, answer, by("a1")).await);
                }
            }
            Part::Cancel if waits => drop(client.cancel(run, by("c1")).await),
            Part::Jump if summary.branch.0 == 1 => {
                let to = Path::new("charge").unwrap_or_else(|_| Path::root());
                let jump = Jump { compensate: true, by: by("j1"), ..Jump::default() };
                if waits {
                    drop(client.jump(run, &to, jump).await);
                }
            }
            Part::Jump if waits => self.signal(client, run, summary).await,
            Part::Signal | Part::Cancel | Part::Jump | Part::Work => {}
        }
    }

    async fn signal(&self, client: &Client, run: &RunId, summary: &Summary) {
        let step = summary.step.as_ref().map_or("", Path::as_str).replace('#', "-");
        let value = payload(&serde_json::json!(1));
        drop(client.signal(run, "go", value, Some(format!("s-{step}"))).await);
    }
}

/// How long a story may take once the fault is over.
pub const LONGEST: Duration = Duration::from_secs(120);
