//! Expected content of the views: computed from the log by `derive`, and from the records of tasks and nodes.

use std::collections::BTreeMap;

use goldseam_core::branch::Lineage;
use goldseam_core::codec::{decode, decode_all};
use goldseam_core::event::Event;
use goldseam_core::state::{OpKind, Outcome, StepOp, StepProgress};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Failure, Hash, Millis, Path, Recorded, RunId, Seq, State, Status, Summary, derive};
use goldseam_store::api::NodeSeen;

use super::Cells;
use crate::Fixture;
use crate::make::{ALL, any_task};

/// The records of tasks and nodes of a store.
pub(super) struct Known {
    tasks: Vec<Task>,
    nodes: Vec<NodeSeen>,
}

/// A run, from its log.
pub(super) struct Derived {
    run: RunId,
    pub(super) history: Vec<Recorded>,
    state: State,
}

impl Derived {
    /// Derives a run; none if its log cannot be derived.
    pub(super) async fn read(fixture: &Fixture, run: &RunId) -> Option<Self> {
        let records = fixture.store.read(run, Seq::ZERO, ALL).await.unwrap();
        let texts = records.iter().map(|record| (record.seq, record.body.as_str()));
        let first = decode(records.first()?.seq, &records.first()?.body).ok()?;
        let (after, prev) = match &first.event {
            Event::RunPruned(_) => (first.seq.before(), first.prev),
            _ => (Seq::ZERO, Hash::ZERO),
        };
        let (history, head) = decode_all(after, prev, texts).ok()?;
        let state = derive(run, &history, head).ok()?;
        Some(Self { run: run.clone(), history, state })
    }

    /// Returns whether the run has a row that agrees with its log. A late row does.
    pub(super) async fn is_cached(&self, fixture: &Fixture) -> bool {
        let head = fixture.store.head(&self.run).await.unwrap();
        let says = |row: &Summary| (row.status, row.owner.clone(), row.finished_at, row.recovered_at);
        head.and_then(|head| head.row).is_some_and(|row| says(&row.summary) == says(&self.state.summary))
    }

    fn lineage(&self) -> Lineage {
        self.state.branches.lineage(self.state.summary.branch)
    }

    /// Returns the last event that changed the progress of this step.
    fn last_event(&self, path: &Path) -> &Recorded {
        let lineage = self.lineage();
        let tells = |recorded: &&Recorded| {
            matches!(&recorded.event, Event::StepStarted(_) | Event::StepCompleted(_) | Event::StepFailed(_))
                && recorded.event.path() == Some(path)
                && lineage.sees(recorded.branch, recorded.seq)
        };
        self.history.iter().rev().find(tells).unwrap()
    }

    pub(super) fn steps(&self) -> BTreeMap<&Path, &StepOp> {
        let mut steps = BTreeMap::new();
        for (path, op) in &self.state.ops {
            if let OpKind::Step(step) = &op.kind {
                steps.insert(path, step);
            }
        }
        steps
    }
}

fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

fn millis(at: Millis) -> Option<String> {
    text(at.0)
}

/// Returns the failure reason in the words of the runbook.
fn reason(failure: &Failure) -> &'static str {
    match failure.code.as_deref() {
        Some("timeout") => "timeout",
        Some("heartbeat-timeout") => "heartbeat-timeout",
        Some("cancelled" | "task-cancelled") => "canceled",
        _ => "error",
    }
}

impl Known {
    pub(super) async fn of(fixture: &Fixture) -> Self {
        let tasks = fixture.store.tasks(any_task()).await.unwrap();
        let nodes = fixture.store.nodes().await.unwrap();
        Self { tasks, nodes }
    }

    fn task(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id.as_str() == id)
    }

    fn beat(&self, node: &str) -> Option<Millis> {
        self.nodes.iter().find(|seen| seen.record.id.as_str() == node).map(|seen| seen.beat_at)
    }

    /// A remote step runs while a worker has its task, a local one while a node owns the run.
    fn status(&self, life: &Derived, step: &StepOp) -> &'static str {
        let state = &life.state;
        let over = state.outcome.is_some() || state.summary.compensating;
        let claimed = |task: &str| self.task(task).is_some_and(|task| task.state == TaskState::Claimed);
        let runs = match (&step.remote, state.awaited(step)) {
            (None, _) => state.summary.owner.is_some(),
            (Some(_), awaited) => awaited.is_some_and(|remote| claimed(remote.sent.task.as_str())),
        };
        match step.progress {
            StepProgress::Completed(_) => "completed",
            StepProgress::Failed(_) => "failed",
            _ if over => "cancelled",
            StepProgress::Started if runs => "running",
            StepProgress::Started | StepProgress::Retry(_) => "pending",
        }
    }

    fn is_at_work(&self, life: &Derived) -> bool {
        life.steps().values().any(|step| self.status(life, step) == "running")
    }

    /// Returns when an attempt last gave a sign of life, and who makes it.
    fn signs(&self, life: &Derived, path: &Path, step: &StepOp) -> (Option<Millis>, Option<String>) {
        let last = life.last_event(path);
        match (self.status(life, step), &last.event, &step.remote) {
            ("completed", ..) => (Some(last.at), None),
            ("failed", Event::StepFailed(failed), _) => {
                (Some(last.at).filter(|_| ["error", "canceled"].contains(&reason(&failed.failure))), None)
            }
            ("running", _, Some(remote)) => {
                let task = self.task(remote.sent.task.as_str()).unwrap();
                (task.heartbeat_at, task.owner.clone())
            }
            ("running", ..) => {
                let node = life.state.summary.owner.as_ref().unwrap().as_str();
                let own = self.tasks.iter().find(|task| {
                    task.queue.as_str() == "goldseam-heartbeat"
                        && task.run.as_ref() == Some(&life.run)
                        && task.kind == format!("heartbeat:{path}")
                });
                let beaten = own.and_then(|task| task.heartbeat_at).filter(|beat| *beat >= last.at);
                (beaten.or_else(|| self.beat(node)), text(node))
            }
            _ => (None, None),
        }
    }

    /// Returns a row of `workflow_run_steps`.
    pub(super) fn step(&self, life: &Derived, path: &Path, step: &StepOp) -> Cells {
        let last = life.last_event(path);
        let status = self.status(life, step);
        let (began, failure) = match &last.event {
            Event::StepCompleted(completed) => (completed.began, None),
            Event::StepFailed(failed) => (failed.began, Some(&failed.failure)),
            _ => (last.at, None),
        };
        let ended = ["completed", "failed"].contains(&status);
        let task = step.remote.as_ref().filter(|_| ended || life.state.awaited(step).is_some());
        let (heartbeat, owner) = self.signs(life, path, step);
        vec![
            text(format!("{}/{path}", life.run)),
            text(path),
            text(status),
            millis(began),
            millis(last.at).filter(|_| ended),
            heartbeat.and_then(millis),
            text(step.attempts),
            text(step.failures - u32::from(status == "failed")),
            if status == "cancelled" { text("canceled") } else { failure.map(reason).and_then(text) },
            failure.map(|failure| failure.message.clone()),
            task.and_then(|remote| text(&remote.sent.task)),
            owner,
        ]
    }

    /// Returns a row of `workflow_runs`.
    pub(super) fn run(&self, life: &Derived) -> Cells {
        let row = &life.state.summary;
        let rests = [Status::Waiting, Status::Sleeping].contains(&row.status);
        let status = if rests && self.is_at_work(life) { Status::Running } else { row.status };
        let failed = match &life.state.outcome {
            Some(Outcome::Failed(failure)) => text(reason(failure)),
            Some(Outcome::Cancelled(_)) => text("canceled"),
            _ => None,
        };
        vec![
            text(&row.run),
            text(&row.workflow),
            text(status),
            text(row.status),
            row.parent.as_ref().and_then(text),
            row.owner.as_ref().and_then(text),
            row.owner.as_ref().and_then(|owner| self.beat(owner.as_str())).and_then(millis),
            millis(row.created_at),
            row.finished_at.and_then(millis),
            row.recovered_at.and_then(millis),
            failed,
            row.trouble.as_ref().map(|trouble| trouble.message.clone()),
        ]
    }
}

/// Returns a row of `workflow_execution_history`.
pub(super) fn event(life: &Derived, recorded: &Recorded) -> Cells {
    let attempt = match &recorded.event {
        Event::StepStarted(e) => text(e.attempt),
        Event::StepCompleted(e) => text(e.attempt),
        Event::StepFailed(e) => text(e.attempt),
        Event::StepRetryScheduled { attempt, .. } | Event::StepTimeout { attempt, .. } => text(attempt),
        Event::RunRecovered(e) => text(e.attempt),
        Event::RunClaimed(e) => text(e.attempt).filter(|_| e.attempt > 0),
        _ => None,
    };
    let path = match &recorded.event {
        Event::InputAnswered { .. } | Event::JumpRequested(_) => None,
        event => event.path().and_then(text),
    };
    let seq = text(recorded.seq);
    let name = text(recorded.event.name());
    let at = millis(recorded.at);
    vec![text(&life.run), seq, name, at, text(recorded.branch.0), path, attempt]
}

/// Returns a row of `workflow_events`, if the event has one.
pub(super) fn happened(life: &Derived, recorded: &Recorded) -> Option<Cells> {
    // A tombstone is not an event of the run's life.
    let kind = recorded.event.name().strip_prefix("run.").filter(|kind| *kind != "pruned")?;
    let kind = if kind == "recovered" { "recovery" } else { kind };
    let reason = match &recorded.event {
        Event::RunRecovered(e) => text(&e.reason),
        Event::RunParked { reason, .. } | Event::RunCancelled { reason, .. } => text(reason),
        Event::RunFailed { failure } => text(&failure.message),
        Event::RunPaused(note) | Event::RunResumed(note) => {
            text(&note.reason).filter(|reason| !reason.is_empty())
        }
        Event::RunCancelRequested(request) => text(&request.reason).filter(|reason| !reason.is_empty()),
        Event::RunReleased { reason } => {
            text(format!("{reason:?}").to_lowercase().replace("handover", "hand_over"))
        }
        _ => None,
    };
    let attempt = event(life, recorded).pop().flatten();
    let workflow = text(&life.state.summary.workflow);
    Some(vec![
        text(&life.run),
        workflow,
        text(format!("workflow.{kind}")),
        attempt,
        reason,
        millis(recorded.at),
    ])
}

/// Returns a row of `job_runs`; none for tasks of the engine itself.
pub(super) fn job(task: &Task) -> Option<Cells> {
    if task.is_advance() || ["goldseam-mail", "goldseam-heartbeat"].contains(&task.queue.as_str()) {
        return None;
    }
    let status = match task.state {
        TaskState::Ready => "pending",
        TaskState::Claimed => "running",
        state => state.as_str(),
    };
    let over = !task.state.is_live();
    let beaten = matches!(task.state, TaskState::Completed | TaskState::Failed).then_some(task.changed_at);
    let retries = match &task.step {
        Some(step) => step.attempt - 1,
        None => task.attempts - u32::from(task.state == TaskState::Failed && task.attempts > 0),
    };
    let shown = matches!(task.state, TaskState::Ready | TaskState::Failed | TaskState::Dead);
    let failure = task.failure.as_ref().filter(|_| shown);
    Some(vec![
        text(&task.id),
        text(&task.kind),
        text(&task.queue),
        text(status),
        task.run.as_ref().and_then(text),
        task.step.as_ref().and_then(|step| text(&step.path)),
        task.owner.clone(),
        millis(task.created_at),
        task.started_at.and_then(millis),
        millis(task.changed_at).filter(|_| over),
        beaten.or(task.heartbeat_at).and_then(millis),
        text(retries),
        text(task.deliveries),
        match task.state {
            TaskState::Cancelled => text("canceled"),
            TaskState::Dead => text("error"),
            _ => failure.map(reason).and_then(text),
        },
        failure.map(|failure| failure.message.clone()),
    ])
}
