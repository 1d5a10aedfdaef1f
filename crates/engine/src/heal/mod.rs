//! Finding out what is wrong with a run, and mending it: facts, `diagnose`, one append.
//!
//! Nothing here executes a run: a healed run is claimable, and some node claims it. Any number of
//! healers at once do no more than one, because a remedy lands only at the log end it was made for.

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

/// Mends runs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Healer {
    ledger: Ledger,
    rules: Rules,
    reason: Reason,
}

/// What a healer goes by: limits of silence and bounds of recovery.
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

    /// How this process recovers runs of this workflow.
    fn recovery_for(&self, workflow: &WorkflowName) -> &Recovery {
        self.recovery_of.get(workflow).unwrap_or(&self.recovery)
    }

    /// How this run is recovered: as its log says, else as this process is configured.
    fn policy_for(&self, summary: &Summary) -> Policy {
        Policy::of(summary, self.recovery_for(&summary.workflow).policy())
    }
}

/// What became of a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Healed {
    /// It was carried out.
    Done {
        /// Where the log ends now.
        end: Seq,
        /// The branch that the run is on now, if the remedy opened one.
        branch: Option<BranchId>,
        /// For how long nothing had happened, where its log tells.
        stale: Option<Duration>,
    },
    /// Somebody else was faster, or the run moved on by itself.
    Moved,
    /// Only a person, or time, can help.
    NotByItself,
}

impl Healer {
    pub(crate) fn new(ledger: Ledger, rules: Rules, reason: Reason) -> Self {
        Self { ledger, rules, reason }
    }

    /// Carries out the remedy of a diagnosis made at the end `at` of the run's log.
    pub async fn heal(&self, run: &RunId, at: Seq, diagnosis: &Diagnosis) -> Result<Healed, EngineError> {
        let begun = self.ledger.clock.elapsed();
        let healed = self.carry_out(run, at, diagnosis).await;
        match &healed {
            Ok(Healed::Done { stale, .. }) => {
                self.count(run, diagnosis, *stale, begun).await;
                let (rule, evidence) = (diagnosis.rule, &diagnosis.evidence);
                match rule {
                    Code::P1 => {
                        tracing::error!(%run, %rule, evidence, "stopped a run that takes its process down");
                    }
                    _ => tracing::info!(%run, %rule, evidence, "healed"),
                }
            }
            Ok(Healed::Moved | Healed::NotByItself) => {}
            Err(error) => {
                self.ledger.meter.recovery_failed(diagnosis.rule.as_str());
                tracing::warn!(%run, rule = %diagnosis.rule, %error, "a remedy failed");
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
                self.ledger.meter.recovered(rule.as_str(), &workflow, self.reason.as_str(), (stale, heal));
            }
        }
    }

    async fn carry_out(&self, run: &RunId, at: Seq, diagnosis: &Diagnosis) -> Result<Healed, EngineError> {
        match &diagnosis.remedy {
            Remedy::Tell { .. } => return Ok(Healed::NotByItself),
            Remedy::Reclaim => return self.reclaim(run, &diagnosis.evidence).await,
            Remedy::GiveUp { task, .. } if !self.deprive(task, &diagnosis.evidence).await? => {
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
            healer: self.who(),
        };
        match self.ledger.commit(run, &Command::Heal(heal)).await {
            Ok(committed) => {
                self.ledger.process.poke(run);
                if committed.records.iter().any(|recorded| matches!(recorded.event, Event::RunFailed { .. }))
                {
                    self.cancel_children(run).await;
                }
                let (mut branch, mut stale) = (None, None);
                for recorded in &committed.records {
                    match &recorded.event {
                        Event::BranchOpened(opened) => branch = Some(opened.branch),
                        Event::RunRecovered(said) => stale = Some(Duration::from_millis(said.stale_ms)),
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

    fn who(&self) -> Who {
        Who { node: self.ledger.process.node().cloned(), reason: self.reason }
    }

    /// The task of a lost node goes back to its queue. Losing the race to another healer is no error.
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

    /// Takes a task from whoever was silent; any heartbeat since it was seen defeats this. What is not carried
    /// out then leaves it ready for somebody else.
    async fn deprive(&self, task: &Task, why: &str) -> Result<bool, EngineError> {
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

    /// A run that failed without its code being asked leaves no child running for nobody.
    async fn cancel_children(&self, run: &RunId) {
        let open = match self.ledger.load(run).await {
            Ok(loaded) => loaded.state.open_children(),
            Err(error) => {
                tracing::warn!(%run, %error, "children of a failed run could not be found");
                return;
            }
        };
        for child in open {
            let id = format!("parent-failed:{run}");
            let note = Note { id, by: None, reason: format!("its parent {run} failed") };
            match self.ledger.commit(&child, &Command::Cancel(note)).await {
                Ok(_) => self.ledger.process.poke(&child),
                Err(EngineError::Refused { .. }) => {}
                Err(error) => tracing::warn!(%run, %child, %error, "a child could not be cancelled"),
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

    use crate::{Client, StartOptions};

    /// A run that was just started: its row and its task.
    pub(super) async fn started() -> (Row, Task) {
        let store = Arc::new(MemoryStore::manual().0);
        let client = Client::new(Arc::clone(&store) as Arc<dyn Store>);
        let run = RunId::new("r").unwrap();
        client.start("w", &run, Payload::null(), StartOptions::default()).await.unwrap();
        let row = store.head(&run).await.unwrap().unwrap().row.unwrap();
        let task = store.tasks(TaskFilter { limit: 1, ..TaskFilter::default() }).await.unwrap().remove(0);
        (row, task)
    }

    /// Waits until this moment.
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
