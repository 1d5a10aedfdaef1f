//! The feed of recoveries: what was healed, when and by which rule. Heals of runs are in their logs, heals of tasks,
//! locks and foreign states in the store's audit.

use goldseam_core::audit::AuditHeal;
use goldseam_core::event::{Event, RunRecovered};
use goldseam_core::{Millis, RunId, Seq, WorkflowName};
use goldseam_store::{AuditEntry, AuditFilter, RunFilter, RunOrder};

use crate::client::Client;
use crate::ledger::error::EngineError;

/// Runs per read of the store.
const PAGE: u32 = 200;

/// One recovery of a run, a task, a lock or a foreign state.
#[derive(Debug, Clone, PartialEq)]
pub struct Healing {
    /// The healed subject.
    pub subject: HealedSubject,
    /// When it happened.
    pub at: Millis,
    /// The rule, the reason and the evidence.
    pub recovered: RunRecovered,
    /// When the run first progressed after it; none: not yet, or not a run.
    pub moved_at: Option<Millis>,
    /// How the rule stopped the subject, if it did not heal it.
    pub ended: Option<Ending>,
}

/// The subject of a recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealedSubject {
    /// A run.
    Run {
        /// The run.
        run: RunId,
        /// Its workflow.
        workflow: WorkflowName,
        /// The position of the recovery in its log.
        seq: Seq,
    },
    /// A task, a lock or a foreign state, by its entry in the store's audit.
    Record(Box<AuditEntry>),
}

/// How a rule stopped a run or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Parked until an operator acts.
    Parked,
    /// Failed.
    Failed,
    /// Fails after its compensations.
    Undoing,
    /// A task whose claimants crashed too often.
    Dead,
}

impl Ending {
    /// The name in JSON and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Failed => "failed",
            Self::Undoing => "undoing",
            Self::Dead => "dead",
        }
    }

    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::RunParked { .. } => Some(Self::Parked),
            Event::RunFailed { .. } => Some(Self::Failed),
            Event::CompensationStarted { .. } => Some(Self::Undoing),
            _ => None,
        }
    }
}

/// A position in the feed. Recoveries of runs come before those of records at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// After a recovery of a run: its time, the run, and its position in the log.
    Run(Millis, RunId, Seq),
    /// After an entry of the audit: its time and its place.
    Record(Millis, String),
}

/// Selects recoveries.
#[derive(Debug, Clone, Default)]
pub struct HealingFilter {
    /// None older than this.
    pub since: Option<Millis>,
    /// Only after this position in the feed.
    pub after: Option<Place>,
    /// Only recoveries that stopped their subject (true) or healed it (false).
    pub ended: Option<bool>,
    /// Only this rule.
    pub rule: Option<String>,
}

impl HealingFilter {
    fn selects(&self, healing: &Healing) -> bool {
        let run_is_after = |place: &Place| match (place, &healing.subject) {
            (Place::Run(at, run, seq), HealedSubject::Run { run: of, seq: position, .. }) => {
                (healing.at, of, position) < (*at, run, seq)
            }
            (Place::Record(at, _), HealedSubject::Run { .. }) => healing.at < *at,
            (Place::Run(at, ..), HealedSubject::Record(_)) => healing.at <= *at,
            // The store continues after the place of an entry.
            (Place::Record(..), HealedSubject::Record(_)) => true,
        };
        self.since.is_none_or(|since| healing.at >= since)
            && self.after.as_ref().is_none_or(run_is_after)
            && self.ended.is_none_or(|ended| ended == healing.ended.is_some())
            && self.rule.as_ref().is_none_or(|rule| *rule == healing.recovered.rule)
    }
}

impl Healing {
    /// The position in the feed.
    pub fn place(&self) -> Place {
        match &self.subject {
            HealedSubject::Run { run, seq, .. } => Place::Run(self.at, run.clone(), *seq),
            HealedSubject::Record(entry) => Place::Record(self.at, entry.place()),
        }
    }

    /// The run, if a run was healed.
    pub fn run(&self) -> Option<&RunId> {
        match &self.subject {
            HealedSubject::Run { run, .. } => Some(run),
            HealedSubject::Record(_) => None,
        }
    }

    fn of_record(entry: AuditEntry) -> Self {
        let AuditHeal { rule, reason, attempt, stale_ms, node, ended, .. } = entry.heal.clone();
        let recovered = RunRecovered {
            rule,
            reason,
            attempt,
            evidence: entry.what.clone(),
            node,
            stale_ms,
            lived_ms: None,
            previous_branch: None,
            new_branch: None,
            cutoff: None,
        };
        let ended = ended.map(|_| Ending::Dead);
        Self {
            at: entry.at,
            subject: HealedSubject::Record(Box::new(entry)),
            recovered,
            moved_at: None,
            ended,
        }
    }
}

/// Sorts the newest first; at the same time runs before records, and these in the order of the audit.
fn newest_first(healings: &mut [Healing]) {
    healings.sort_by(|a, b| {
        let by_subject = match (&a.subject, &b.subject) {
            (HealedSubject::Run { run, seq, .. }, HealedSubject::Run { run: other, seq: than, .. }) => {
                (other, than).cmp(&(run, seq))
            }
            (HealedSubject::Run { .. }, HealedSubject::Record(_)) => std::cmp::Ordering::Less,
            (HealedSubject::Record(_), HealedSubject::Run { .. }) => std::cmp::Ordering::Greater,
            (HealedSubject::Record(one), HealedSubject::Record(other)) => one.place().cmp(&other.place()),
        };
        b.at.cmp(&a.at).then(by_subject)
    });
}

impl Client {
    /// Lists the latest recoveries of runs, tasks, locks and foreign states, newest first: at most `limit`, none
    /// older than `since`.
    pub async fn recoveries(&self, since: Option<Millis>, limit: usize) -> Result<Vec<Healing>, EngineError> {
        self.recoveries_by(&HealingFilter { since, ..HealingFilter::default() }, limit).await
    }

    /// Like [`Client::recoveries`], starting after a position in the feed.
    pub async fn recoveries_after(
        &self,
        since: Option<Millis>,
        place: Option<&Place>,
        limit: usize,
    ) -> Result<Vec<Healing>, EngineError> {
        let filter = HealingFilter { since, after: place.cloned(), ..HealingFilter::default() };
        self.recoveries_by(&filter, limit).await
    }

    /// Like [`Client::recoveries`], by a filter.
    pub async fn recoveries_by(
        &self,
        filter: &HealingFilter,
        limit: usize,
    ) -> Result<Vec<Healing>, EngineError> {
        let mut healings = self.healed_runs(filter, limit).await?;
        healings.extend(self.healed_records(filter, limit).await?);
        newest_first(&mut healings);
        healings.truncate(limit);
        Ok(healings)
    }

    /// Lists the store's audit, newest first. Unlike logs, it is trimmed by age ([`Config::audit_retention`]).
    ///
    /// [`Config::audit_retention`]: crate::Config::audit_retention
    pub async fn audit_entries(
        &self,
        filter: AuditFilter,
    ) -> Result<goldseam_store::Page<AuditEntry>, EngineError> {
        match self.store().audit() {
            Some(audit) => Ok(audit.audit_entries(filter).await?),
            None => Ok(goldseam_store::Page::default()),
        }
    }

    async fn healed_records(
        &self,
        filter: &HealingFilter,
        limit: usize,
    ) -> Result<Vec<Healing>, EngineError> {
        let mut healings = Vec::new();
        let after = match &filter.after {
            Some(Place::Record(_, place)) => Some(place.clone()),
            // Entries at this time come after the runs at this time.
            Some(Place::Run(at, ..)) => Some(goldseam_store::audit::place_bound(Millis(at.0 + 1))),
            None => None,
        };
        let since = filter.since;
        let rule = filter.rule.clone();
        let mut audit = AuditFilter { rule, since, after, limit: PAGE };
        while healings.len() < limit {
            let page = self.audit_entries(audit.clone()).await?;
            let new = page.items.into_iter().map(Healing::of_record);
            healings.extend(new.filter(|healing| filter.selects(healing)));
            match page.next {
                Some(next) => audit.after = Some(next),
                None => break,
            }
        }
        healings.truncate(limit);
        Ok(healings)
    }

    async fn healed_runs(&self, filter: &HealingFilter, limit: usize) -> Result<Vec<Healing>, EngineError> {
        let mut healings: Vec<Healing> = Vec::new();
        let mut after = None;
        'pages: loop {
            let rows = RunFilter {
                order: RunOrder::Recovered,
                after: after.take(),
                limit: PAGE,
                ..RunFilter::default()
            };
            let page = self.store().runs(rows).await?;
            for row in page.items {
                let latest = row.summary.recovered_at.unwrap_or_default();
                let full = healings.len() >= limit && healings.last().is_some_and(|last| last.at > latest);
                if full || filter.since.is_some_and(|since| latest < since) {
                    break 'pages;
                }
                let more = self.healings_of(&row.summary.run, &row.summary.workflow).await?;
                healings.extend(more.into_iter().filter(|healing| filter.selects(healing)));
                if healings.len() >= limit {
                    newest_first(&mut healings);
                    healings.truncate(limit);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        newest_first(&mut healings);
        Ok(healings)
    }

    async fn healings_of(&self, run: &RunId, workflow: &WorkflowName) -> Result<Vec<Healing>, EngineError> {
        let history = match self.history(run).await {
            Ok(history) => history,
            // A damaged log still has the record of its recovery.
            Err(EngineError::Corrupt { .. }) => self.readable(run).await?,
            Err(error) => return Err(error),
        };
        let mut healings: Vec<Healing> = Vec::new();
        let mut write = None;
        for recorded in history {
            // A rule writes its evidence and its effect in one append.
            if write == Some(recorded.write)
                && let Some(healing) = healings.last_mut()
            {
                healing.ended = healing.ended.or(Ending::of(&recorded.event));
            }
            if matches!(recorded.event, Event::RunRecovered(_)) {
                write = Some(recorded.write);
            }
            match recorded.event {
                Event::RunRecovered(recovered) => healings.push(Healing {
                    subject: HealedSubject::Run {
                        run: run.clone(),
                        workflow: workflow.clone(),
                        seq: recorded.seq,
                    },
                    at: recorded.at,
                    recovered,
                    moved_at: None,
                    ended: None,
                }),
                event if event.path().is_some() || event.is_terminal() => {
                    for healing in healings.iter_mut().filter(|healing| healing.moved_at.is_none()) {
                        healing.moved_at = Some(recorded.at);
                    }
                }
                _ => {}
            }
        }
        Ok(healings)
    }
}
