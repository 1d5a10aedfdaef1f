//! Waits until the runs of a stage have passed what they had failed at.

use std::time::Duration;

use goldseam_core::operation::{CanaryVerdict, Chapter, OperationEnd, Progress, Relapse, verdict};
use goldseam_core::{RunId, Status};

use super::OperationWorker;
use crate::ledger::clock::pause;
use crate::ledger::error::EngineError;

/// How long one step waits for changes; a durable sleep follows.
const WINDOW: Duration = Duration::from_secs(2);
/// Pause after a look that found a run pending: a busy store changes all the time.
const PAUSE: Duration = Duration::from_millis(200);
/// Most runs judged in one look. Those before them have passed.
const LOOK: usize = 500;

/// What a look at a stage found.
enum Look {
    /// Every run up to this position has passed, and this one has not.
    Pending(u64, Box<Relapse>),
    Relapsed(Box<Relapse>),
    Passed(u64),
}

impl OperationWorker {
    /// Looks at the runs of the present stage until all have passed, one relapses, or the step has taken long enough.
    pub(super) async fn watch(&self, chapter: &Chapter) -> Result<Progress, EngineError> {
        let clock = &self.client.ledger().clock;
        let mut progress = chapter.progress.clone();
        let timeout = Duration::from_millis(self.spec.canary_timeout_ms());
        let until = *progress.watch_until.get_or_insert(clock.now() + timeout);
        let begun = clock.elapsed();
        let mut mark = 0;
        loop {
            match self.look(chapter, progress.watched).await? {
                Look::Relapsed(relapse) => {
                    progress.end_by(OperationEnd::Relapsed, *relapse);
                    return Ok(progress);
                }
                Look::Passed(position) => {
                    progress.watched = position;
                    if position >= progress.handled {
                        progress.pass_stage();
                        return Ok(progress);
                    }
                }
                Look::Pending(position, relapse) => {
                    progress.watched = position;
                    if clock.now() >= until {
                        progress.end_by(OperationEnd::TimedOut, *relapse);
                        return Ok(progress);
                    }
                    if clock.elapsed().saturating_sub(begun) >= WINDOW {
                        return Ok(progress);
                    }
                    pause(PAUSE).await;
                    mark = self.client.wait_for_change(mark).await?;
                }
            }
        }
    }

    async fn look(&self, chapter: &Chapter, from: u64) -> Result<Look, EngineError> {
        let left = usize::try_from(chapter.progress.handled.saturating_sub(from)).unwrap_or(usize::MAX);
        let targets = self.targets(chapter, from, left.min(LOOK)).await?;
        let mut first: Option<(u64, Box<Relapse>)> = None;
        let mut position = from;
        for run in &targets {
            match self.judge(run).await? {
                CanaryVerdict::Relapsed(relapse) => return Ok(Look::Relapsed(Box::new(relapse))),
                CanaryVerdict::Pending(relapse) => {
                    first.get_or_insert((position, Box::new(relapse)));
                }
                CanaryVerdict::Passed | CanaryVerdict::Untouched => {}
            }
            position += 1;
        }
        Ok(match first {
            Some((position, relapse)) => Look::Pending(position, relapse),
            None => Look::Passed(position),
        })
    }

    /// Judges one target by its log. A target that is gone or unreadable was not acted on, or has ended.
    async fn judge(&self, run: &RunId) -> Result<CanaryVerdict, EngineError> {
        let judged = async {
            let summary = self.client.get(run).await?;
            if summary.status == Status::Completed || summary.pruned.is_some() {
                return Ok(CanaryVerdict::Passed);
            }
            if !self.has_acted_on(run, &summary).await? {
                return Ok(CanaryVerdict::Untouched);
            }
            let history = self.client.history(run).await?;
            let state = self.client.state(run).await?;
            Ok(verdict(&history, &state, &self.id))
        };
        match judged.await {
            Err(EngineError::Refused { .. } | EngineError::Corrupt { .. }) => Ok(CanaryVerdict::Untouched),
            judged => judged,
        }
    }
}
