//! Healing of runs: collects facts, calls `diagnose`, and applies the remedy by one append.
//!
//! Healing executes no run: a healed run can be claimed, and a node claims it. Concurrent healers do no harm, because
//! a remedy applies only to the log end it was made for.

pub mod claims;
mod examine;
pub mod foreign;
pub mod monitor;
pub mod sweeper;
mod terminate;

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::command::Heal;
use goldseam_core::decide::Refusal;
use goldseam_core::event::Note;
use goldseam_core::recovery::{Code, Diagnosis, Healer as Who, Policy, Reason, Remedy};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{BranchId, Command, Event, RunId, Seq, Summary, WorkflowName};
use goldseam_store::{Expect, Written};

pub use crate::ledger::liveness::Liveness;
pub use examine::{Examined, Found};

use crate::ledger::commit::Ledger;
use crate::ledger::config::{Config, Recovery};
use crate::ledger::error::EngineError;
use crate::ledger::liveness::Thresholds;
use crate::ledger::meter::RecoveryTimes;

/// Diagnoses and repairs runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Healer {
    ledger: Ledger,
    rules: Rules,
    reason: Reason,
}

/// Limits of silence and recovery settings of a healer.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) thresholds: Thresholds,
    pub(crate) recovery: Recovery,
    pub(crate) recovery_of: BTreeMap<WorkflowName, Recovery>,
    /// Silence after which a claimant that is not a node loses its task.
    pub(crate) claim_lease: Duration,
}

impl Rules {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            thresholds: Thresholds::of(config),
            recovery: config.recovery.clone(),
            recovery_of: config.recovery_of.clone(),
            claim_lease: config.claim_lease,
        }
    }

    /// The recovery settings of this process for a workflow.
    fn recovery_for(&self, workflow: &WorkflowName) -> &Recovery {
        self.recovery_of.get(workflow).unwrap_or(&self.recovery)
    }

    /// The recovery policy of a run: from its log, otherwise from this process.
    fn policy_for(&self, summary: &Summary) -> Policy {
        Policy::of(summary, self.recovery_for(&summary.workflow).policy())
    }
}

/// The result of a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Healed {
    /// The remedy was applied.
    Done {
        /// Where the log ends now.
        end: Seq,
        /// The branch that the run is on now, if the remedy opened one.
        branch: Option<BranchId>,
        /// How long nothing had happened, if the log shows it.
        stale: Option<Duration>,
    },
    /// Another healer was faster, or the run progressed.
    Moved,
    /// Only an operator or time can help.
    NeedsOperator,
}

impl Healer {
    pub(crate) fn new(ledger: Ledger, rules: Rules, reason: Reason) -> Self {
        Self { ledger, rules, reason }
    }

    /// Applies the remedy of a diagnosis made at the end `at` of the run's log.
    pub async fn heal(&self, run: &RunId, at: Seq, diagnosis: &Diagnosis) -> Result<Healed, EngineError> {
        self.heal_for(None, run, at, diagnosis).await
    }

    /// Applies a remedy that carries out a request. The log records the request's id with the remedy, so a repeat
    /// changes nothing.
    pub(crate) async fn heal_for(
        &self,
        note: Option<&Note>,
        run: &RunId,
        at: Seq,
        diagnosis: &Diagnosis,
    ) -> Result<Healed, EngineError> {
        let begun = self.ledger.clock.elapsed();
        let healed = self.carry_out(note, run, at, diagnosis).await;
        match &healed {
            Ok(Healed::Done { stale, .. }) => {
                self.count(run, diagnosis, *stale, begun).await;
                let rule = diagnosis.rule;
                let evidence = &diagnosis.evidence;
                match rule {
                    Code::P1 => {
                        tracing::error!(%run, %rule, evidence, "stopped run that crashes its process");
                    }
                    _ => tracing::debug!(%run, %rule, evidence, "healed"),
                }
            }
            Ok(Healed::Moved | Healed::NeedsOperator) => {}
            Err(error) => {
                self.ledger.meter.recovery_failed(diagnosis.rule.as_str());
                tracing::warn!(%run, rule = %diagnosis.rule, %error, "remedy failed");
            }
        }
        healed
    }

    async fn count(&self, run: &RunId, diagnosis: &Diagnosis, stale: Option<Duration>, begun: Duration) {
        let Ok(Some(head)) = self.ledger.store.head(run).await else { return };
        let workflow = head.row.map_or_else(String::new, |row| row.summary.workflow.as_str().to_owned());
        let heal = self.ledger.clock.elapsed().saturating_sub(begun);
        match diagnosis.rule {
            Code::P1 => self.ledger.meter.attempts_exceeded(&workflow),
            rule => {
                self.ledger.meter.recovered(
                    rule.as_str(),
                    &workflow,
                    self.reason.as_str(),
                    RecoveryTimes { stale, heal },
                );
            }
        }
    }

    async fn carry_out(
        &self,
        note: Option<&Note>,
        run: &RunId,
        at: Seq,
        diagnosis: &Diagnosis,
    ) -> Result<Healed, EngineError> {
        match &diagnosis.remedy {
            Remedy::Tell { .. } => return Ok(Healed::NeedsOperator),
            Remedy::Reclaim => return self.reclaim(run, &diagnosis.evidence).await,
            Remedy::GiveUp { task, .. } if !self.reclaim_from_silent(task, &diagnosis.evidence).await? => {
                return Ok(Healed::Moved);
            }
            Remedy::Park { reason } if diagnosis.rule == Code::K1 => {
                return self.park_damaged(run, reason).await;
            }
            _ => {}
        }
        let heal = Heal {
            rule: diagnosis.rule,
            evidence: diagnosis.evidence.clone(),
            remedy: diagnosis.remedy.clone(),
            at,
            healer: self.identity(),
            note: note.cloned(),
        };
        match self.ledger.commit(run, &Command::Heal(heal)).await {
            Ok(committed) => {
                self.ledger.process.poke(run);
                if committed.records.iter().any(|recorded| matches!(recorded.event, Event::RunFailed { .. }))
                {
                    self.cancel_children(run).await;
                }
                let mut branch = None;
                let mut stale = None;
                for recorded in &committed.records {
                    match &recorded.event {
                        Event::BranchOpened(opened) => branch = Some(opened.branch),
                        Event::RunRecovered(recovered) => {
                            stale = Some(Duration::from_millis(recovered.stale_ms));
                        }
                        _ => {}
                    }
                }
                Ok(Healed::Done { end: committed.end, branch, stale })
            }
            Err(EngineError::Refused {
                refusal: Refusal::NothingToDo { .. } | Refusal::Finished { .. },
                ..
            }) => Ok(Healed::Moved),
            Err(error) => Err(error),
        }
    }

    fn identity(&self) -> Who {
        Who { node: self.ledger.process.node().cloned(), reason: self.reason }
    }

    /// Returns the task of a lost node to its queue. Losing the race to another healer is not an error.
    async fn reclaim(&self, run: &RunId, why: &str) -> Result<Healed, EngineError> {
        let Some(task) = self.own_task(run).await?.filter(|task| task.state == TaskState::Claimed) else {
            return Ok(Healed::Moved);
        };
        let now = self.ledger.store.now().await?;
        let expect = Expect::Version(task.version);
        match self.ledger.store.put_task(task.reclaimed(why, u32::MAX, now), expect).await? {
            Written::Done => {
                self.ledger.process.task_ready();
                let end = self.ledger.store.head(run).await?.map_or(Seq::ZERO, |head| head.end);
                Ok(Healed::Done { end, branch: None, stale: None })
            }
            Written::Lost(_) => Ok(Healed::Moved),
        }
    }

    /// Reclaims a task from a silent claimant, unless a heartbeat arrived since the diagnosis. If the rest of the
    /// remedy fails, the task stays ready for another claimant.
    async fn reclaim_from_silent(&self, task: &Task, why: &str) -> Result<bool, EngineError> {
        if task.state != TaskState::Claimed {
            return Ok(true);
        }
        let now = self.ledger.store.now().await?;
        let back = task.clone().reclaimed(why, u32::MAX, now);
        let written = self.ledger.store.put_task(back, Expect::Version(task.version)).await?;
        Ok(written == Written::Done)
    }

    pub(crate) async fn own_task(&self, run: &RunId) -> Result<Option<Task>, EngineError> {
        let row = self.ledger.store.head(run).await?.and_then(|head| head.row);
        match row.and_then(|row| row.task) {
            Some(id) => self.task(id).await,
            None => Ok(None),
        }
    }

    /// Cancels the open children of a run that failed without executing its code.
    async fn cancel_children(&self, run: &RunId) {
        let open = match self.ledger.load(run).await {
            Ok(loaded) => loaded.state.open_children(),
            Err(error) => {
                tracing::warn!(%run, %error, "failed to load children of failed run");
                return;
            }
        };
        for child in open {
            let id = format!("parent-failed:{run}");
            let note = Note { id, by: None, reason: format!("its parent {run} failed") };
            match self.ledger.cancel_child(run, &child, note).await {
                Ok(()) => self.ledger.process.poke(&child),
                Err(EngineError::Refused { .. }) => {}
                Err(error) => tracing::warn!(%run, %child, %error, "failed to cancel child of failed run"),
            }
        }
    }
}

#[cfg(test)]
mod sample {
    use std::sync::Arc;

    use goldseam_core::summary::OpenWait;
    use goldseam_core::task::Task;
    use goldseam_core::{Millis, Path, Payload, RunId};
    use goldseam_store::{MemoryStore, Row, Store, TaskFilter};

    use crate::Client;

    /// A newly started run: its row and its task.
    pub(super) async fn started() -> (Row, Task) {
        let store = Arc::new(MemoryStore::manual().0);
        let client = Client::new(Arc::clone(&store) as Arc<dyn Store>);
        let run = RunId::new("r").unwrap();
        client.start("w", &run, &Payload::null()).await.unwrap();
        let row = store.head(&run).await.unwrap().unwrap().row.unwrap();
        let task = store.tasks(TaskFilter { limit: 1, ..TaskFilter::default() }).await.unwrap().remove(0);
        (row, task)
    }

    /// A wait until this time.
    pub(super) fn wait_until(due: i64) -> OpenWait {
        OpenWait {
            path: Path::new("nap").unwrap(),
            since: Millis(0),
            signals: Vec::new(),
            schemas: std::collections::BTreeMap::new(),
            inputs: Vec::new(),
            children: Vec::new(),
            tasks: Vec::new(),
            due: Some(Millis(due)),
        }
    }
}
