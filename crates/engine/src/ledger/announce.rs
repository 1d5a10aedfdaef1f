//! Log lines about runs: one for each notable event that this process appends.
//!
//! A line is written after its event is durable, at most once: it is missing if the store's reply to the append was
//! lost. All lines have the target `goldseam` and the fields `run`, `workflow`, `version` and `branch`.

use goldseam_core::seal::Sealed;
use goldseam_core::{Event, Path, Recorded, RunId, Summary, WorkflowName};
use tracing::{debug, info, warn};

/// The run of an append with notable events.
#[derive(Debug)]
pub(crate) struct Announcement {
    run: RunId,
    workflow: WorkflowName,
    version: u32,
}

impl Announcement {
    /// Returns the run of an append if it has notable events.
    pub(crate) fn of(sealed: &Sealed, summary: &Summary) -> Option<Self> {
        let notable = sealed.records.iter().any(|recorded| is_notable(&recorded.event));
        let Summary { run, workflow, version, .. } = summary;
        notable.then(|| Self { run: run.clone(), workflow: workflow.clone(), version: *version })
    }

    /// Writes the lines of an append that landed.
    pub(crate) fn announce(&self, records: &[Recorded]) {
        for recorded in records {
            match &recorded.event {
                Event::StepFailed(_) | Event::StepRetryScheduled { .. } | Event::StepTimeout { .. } => {
                    self.announce_step(recorded, records);
                }
                _ => self.announce_run(recorded),
            }
        }
    }

    fn announce_run(&self, Recorded { event, branch, .. }: &Recorded) {
        let Self { run, workflow, version } = self;
        match event {
            Event::RunStarted => {
                debug!(target: "goldseam", %run, %workflow, version, %branch, "run started");
            }
            Event::RunCompleted { .. } => {
                debug!(target: "goldseam", %run, %workflow, version, %branch, "run completed");
            }
            Event::RunFailed { failure } => {
                let error = &failure.message;
                let code = failure.code.as_deref();
                warn!(target: "goldseam", %run, %workflow, version, %branch, code, error, "run failed");
            }
            Event::RunCancelled { reason, terminated } => {
                let terminated = terminated.is_some();
                info!(target: "goldseam", %run, %workflow, version, %branch, terminated, reason, "run cancelled");
            }
            Event::RunParked { code, reason } => {
                warn!(target: "goldseam", %run, %workflow, version, %branch, code, reason, "run parked");
            }
            Event::RunRecovered(recovered) => {
                let rule = &recovered.rule;
                let reason = &recovered.reason;
                let attempt = recovered.attempt;
                let evidence = &recovered.evidence;
                info!(
                    target: "goldseam",
                    %run, %workflow, version, %branch, rule, reason, attempt, evidence, "run recovered"
                );
            }
            _ => {}
        }
    }

    fn announce_step(&self, Recorded { event, branch, .. }: &Recorded, records: &[Recorded]) {
        let Self { run, workflow, version } = self;
        match event {
            Event::StepFailed(failed) if !is_retried(&failed.path, records) => {
                let path = &failed.path;
                let attempt = failed.attempt;
                let error = &failed.failure.message;
                let code = failed.failure.code.as_deref();
                debug!(
                    target: "goldseam",
                    %run, %workflow, version, %branch, %path, attempt, code, error, "step failed"
                );
            }
            Event::StepRetryScheduled { path, attempt, due } => {
                let error = error_of(path, records);
                debug!(
                    target: "goldseam",
                    %run, %workflow, version, %branch, %path, attempt, due = due.0, error, "step retried"
                );
            }
            Event::StepTimeout { path, attempt, reason } => {
                debug!(
                    target: "goldseam",
                    %run, %workflow, version, %branch, %path, attempt, reason, "step timed out"
                );
            }
            _ => {}
        }
    }
}

fn is_notable(event: &Event) -> bool {
    matches!(
        event,
        Event::RunStarted
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. }
            | Event::RunParked { .. }
            | Event::RunRecovered(_)
            | Event::StepFailed(_)
            | Event::StepRetryScheduled { .. }
            | Event::StepTimeout { .. }
    )
}

fn is_retried(path: &Path, records: &[Recorded]) -> bool {
    let retried = |recorded: &Recorded| matches!(&recorded.event, Event::StepRetryScheduled { path: other, .. } if other == path);
    records.iter().any(retried)
}

/// Why the attempt before a retry failed.
fn error_of<'a>(path: &Path, records: &'a [Recorded]) -> Option<&'a str> {
    records.iter().find_map(|recorded| match &recorded.event {
        Event::StepFailed(failed) if failed.path == *path => Some(failed.failure.message.as_str()),
        _ => None,
    })
}
