//! Carries out the verb of an operation, on one batch of its targets.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use goldseam_core::decide::Refusal;
use goldseam_core::event::Note;
use goldseam_core::operation::{ActionRate, Chapter, Progress, TargetResult, Verb};
use goldseam_core::{Command, RunId, Seq, Summary};
use goldseam_store::StoreError;

use super::{OperationWorker, SLOW};
use crate::client::By;
use crate::client::recover::RecoverOptions;
use crate::heal::Healed;
use crate::ledger::clock::pause;
use crate::ledger::error::EngineError;

/// Most targets of a batch.
pub(super) const BATCH: usize = 200;
/// How long a batch takes at most, apart from its last actions: progress is recorded after every batch.
const BATCH_SPAN: Duration = Duration::from_secs(1);
/// Targets of a batch that are acted on at once, if the operation has no rate.
const CONCURRENCY: usize = 8;
/// The reason of a run that another operator or the run itself has changed since the plan.
const MOVED_ON: &str = "it no longer matches the condition";

/// Returns how many targets one step acts on: as many as fit into a second, and at least one.
fn batch_size(interval: Option<Duration>) -> usize {
    let Some(interval) = interval else { return BATCH };
    let fits = BATCH_SPAN.as_micros() / interval.as_micros().max(1);
    usize::try_from(fits).unwrap_or(BATCH).clamp(1, BATCH)
}

impl OperationWorker {
    /// Acts on the next targets, until the batch has taken long enough.
    pub(super) async fn act(&self, chapter: &Chapter) -> Result<Progress, EngineError> {
        let mut progress = chapter.progress.clone();
        let clock = &self.client.ledger().clock;
        let begun = clock.elapsed();
        let has_time = || clock.elapsed().saturating_sub(begun) < BATCH_SPAN;
        let interval = self.spec.rate.map(ActionRate::interval);
        let wanted = usize::try_from(progress.wanted()).unwrap_or(usize::MAX);
        let most = batch_size(interval).min(wanted);
        let targets = self.targets(chapter, progress.handled, most).await?;
        match interval {
            None => {
                // The next target is taken when an action has ended, and not once the time is over.
                let acting = targets.clone().into_iter().take_while(|_| has_time()).map(|run| {
                    let worker = self.clone();
                    async move { worker.act_on(&run).await }
                });
                let results: Vec<_> = stream::iter(acting).buffered(CONCURRENCY).collect().await;
                for (run, result) in targets.iter().zip(results) {
                    progress.count(run, result?);
                }
            }
            Some(interval) => {
                for run in &targets {
                    progress.count(run, self.act_on(run).await?);
                    if interval <= SLOW {
                        pause(interval).await;
                    }
                    if !has_time() {
                        break;
                    }
                }
            }
        }
        progress.settle();
        Ok(progress)
    }

    /// Acts on one target, unless it was acted on before or has moved on since the plan. Returns an error only if the
    /// store failed: then the whole batch is tried again.
    async fn act_on(&self, run: &RunId) -> Result<TargetResult, EngineError> {
        match self.try_act_on(run).await {
            Ok(result) => Ok(result),
            Err(EngineError::Refused { refusal, .. }) => Ok(refused(&refusal)),
            Err(
                error @ (EngineError::Corrupt { .. }
                | EngineError::NoStableEvent { .. }
                | EngineError::RuleDoesNotApply { .. }
                | EngineError::Payload(_)
                | EngineError::Contended { .. }
                | EngineError::Store(StoreError::Damaged { .. })),
            ) => Ok(TargetResult::Refused(error.code().to_owned())),
            Err(error) => Err(error),
        }
    }

    async fn try_act_on(&self, run: &RunId) -> Result<TargetResult, EngineError> {
        let summary = self.client.get(run).await?;
        // A batch that a crash repeats finds its own actions.
        if self.has_acted_on(run, &summary).await? {
            return Ok(TargetResult::Acted);
        }
        if let Some(reason) = self.spec.verb.skips(&summary) {
            return Ok(TargetResult::Skipped(reason));
        }
        if !self.condition.matches(&summary) {
            return Ok(TargetResult::Skipped(MOVED_ON.to_owned()));
        }
        let command = match self.spec.verb {
            Verb::Retry => Command::Retry(self.note()),
            Verb::Resume => Command::Resume(self.note()),
            Verb::Pause => Command::Pause(self.note()),
            Verb::Cancel => self.client.cancel_command(run, self.note()).await?,
            Verb::Signal => match &self.spec.signal {
                Some(signal) => Command::Signal {
                    name: signal.name.clone(),
                    id: self.id.clone(),
                    fresh: false,
                    payload: signal.payload.clone(),
                },
                None => return Ok(TargetResult::Skipped("the operation names no signal".to_owned())),
            },
            Verb::Recover => return self.recover(run).await,
        };
        self.client.carry_out(run, &command).await?;
        Ok(TargetResult::Acted)
    }

    async fn recover(&self, run: &RunId) -> Result<TargetResult, EngineError> {
        let by = By { who: self.spec.by.clone(), reason: self.reason(), id: Some(self.id.clone()) };
        let options = RecoverOptions { by: Some(by), ..RecoverOptions::default() };
        let recovery = self.client.recover(run, options).await?;
        Ok(match recovery.healed {
            Some(Healed::Done { .. }) => TargetResult::Acted,
            Some(Healed::Moved) => TargetResult::Skipped("it changed while it was examined".to_owned()),
            Some(Healed::NeedsOperator) => TargetResult::Skipped("no rule can repair it".to_owned()),
            None => TargetResult::Skipped("it needs no recovery".to_owned()),
        })
    }

    /// Whether the log of a target records the action of this operation.
    pub(super) async fn has_acted_on(&self, run: &RunId, summary: &Summary) -> Result<bool, EngineError> {
        match summary.has_seen(&self.id) {
            Some(seen) => Ok(seen),
            None => self.client.ledger().was_taken(run, &self.id, Seq(u64::MAX)).await,
        }
    }

    fn note(&self) -> Note {
        Note { id: self.id.clone(), by: self.spec.by.clone(), reason: self.reason() }
    }

    fn reason(&self) -> String {
        match self.spec.reason.trim() {
            "" => format!("operation {}", self.operation),
            reason => format!("{reason} (operation {})", self.operation),
        }
    }
}

/// What became of a target that refused the verb: a run that moved on is skipped, any other refusal is counted by code.
fn refused(refusal: &Refusal) -> TargetResult {
    match refusal {
        Refusal::NoSuchRun => TargetResult::Skipped("it no longer exists".to_owned()),
        Refusal::Finished { .. } | Refusal::Archived { .. } | Refusal::NothingToDo { .. } => {
            TargetResult::Skipped(refusal.to_string())
        }
        refusal => TargetResult::Refused(refusal.code().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_takes_about_a_second_at_most() {
        let at = |rate: &str| batch_size(Some(rate.parse::<ActionRate>().unwrap().interval()));
        assert_eq!([at("1/s"), at("10/s"), at("1000/s"), at("1/m"), at("1000000/s")], [1, 10, 200, 1, 200]);
        assert_eq!(batch_size(None), BATCH);
    }
}
