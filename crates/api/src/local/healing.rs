//! Recovering, sweeping, examining, and the list of recoveries.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use goldseam::client::doctor::{DoctorOptions, Finding as EngineFinding, Subject};
use goldseam::client::feed::{HealedSubject, Healing as EngineHealing, HealingFilter, Place};
use goldseam::client::recover::{RecoverOptions, Recovery as EngineRecovery};
use goldseam::recovery::{Code, Reason as RecoveryReason, Remedy, recorded_attempt};
use goldseam::unstable::core::reserved::Named;
use goldseam::unstable::core::{Command, Event, QueueName, Recorded, argument};
use goldseam::unstable::engine::heal::foreign::{ForeignOptions, ForeignReport, ForeignStalled};
use goldseam::unstable::engine::heal::sweeper::{
    Fate as EngineFate, Stalled, SweepOptions, SweepReport, Sweeper,
};
use goldseam::unstable::store::AuditKind;
use goldseam::{Millis, RunId, Seq, Status};
use tokio::sync::Mutex;

use super::commands::by;
use super::idempotency::{AppliedCommand, KeyedNote};
use super::{LocalApi, limit};
use crate::api::{ApiResult, HealingApi, OnProgress};
use crate::caller::Caller;
use crate::doc::change::{BranchedDoc, NewNote, NewRecovery, RecoveryDoc};
use crate::doc::heal::{
    CheckupDoc, FateDoc, FindingDoc, ForeignSweepDoc, HealingDoc, HealingStatsDoc, HealingStatsQuery,
    NewCheckup, NewSweep, RecoveriesQuery, STATS_MAX, Severity, SweepDoc,
};
use crate::doc::{ItemsDoc, PageDoc};
use crate::next_step::with_commands;
use crate::problem::Problem;
use crate::timestamp::Timestamp;
use crate::view::percentiles::Percentiles;

/// Default number of recoveries in a page.
const RECOVERIES_DEFAULT: u32 = 20;
/// Maximum number of sweepers kept, one for each set of options.
const SWEEPERS_MAX: usize = 8;

/// Sweepers kept between requests. A finding must have held for a while before it is healed, so a sweeper remembers
/// when it first saw the finding.
#[derive(Debug, Default)]
pub(super) struct Sweepers(Mutex<Vec<(NewSweep, Sweeper)>>);

#[async_trait]
impl HealingApi for LocalApi {
    async fn recover(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> ApiResult<RecoveryDoc> {
        let NewRecovery { rule, dry_run, compensate, by: who, reason } = new;
        let has_reason = !reason.is_empty();
        let KeyedNote { note, keyed } = self.note(caller, "recover", run, NewNote { by: who, reason })?;
        let earlier = self.find_repeat(run, keyed && !dry_run, &Command::Annotate(note.clone())).await?;
        let recovery = match earlier {
            Some(applied) => {
                let recovery = earlier_recovery(run, &applied);
                if rule.is_some() && rule != recovery.rule {
                    return Err(Problem::key_reused(run));
                }
                recovery
            }
            None => {
                let options = RecoverOptions { rule, dry_run, compensate, by: None };
                let recovery = self.client.recover(run, options).await?;
                if recovery.has_healed() && (has_reason || keyed) {
                    self.client.annotate(run, by(note)).await?;
                }
                recovery_document(&recovery)
            }
        };
        Ok(RecoveryDoc { run: Some(run.clone()), ..recovery })
    }

    async fn remedies(&self, run: &RunId) -> ApiResult<ItemsDoc<RecoveryDoc>> {
        let plans = self.client.remedies(run).await?;
        let document = |plan| RecoveryDoc { run: Some(run.clone()), ..recovery_document(plan) };
        Ok(plans.iter().map(document).collect::<Vec<_>>().into())
    }

    async fn undo_recovery(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<BranchedDoc> {
        let KeyedNote { note, keyed } = self.note(caller, "undo-recovery", run, reason)?;
        let applied = self.carry_out_once(run, keyed, Command::UndoSeam(note)).await?;
        self.branched(run, &applied).await
    }

    async fn sweep(&self, _: &Caller, new: NewSweep) -> ApiResult<SweepDoc> {
        let mut sweepers = self.sweepers.0.lock().await;
        let at = match sweepers.iter().position(|(known, _)| *known == new) {
            Some(at) => at,
            None => {
                if sweepers.len() >= SWEEPERS_MAX {
                    sweepers.remove(0);
                }
                let defaults = SweepOptions::default();
                let options = SweepOptions {
                    stale_after: new.stale_after_ms.map(Duration::from_millis).or(defaults.stale_after),
                    dry_run: new.dry_run,
                    from_log: new.from_log,
                    foreign: self.foreign_options(&new)?,
                    walk: self.client.config().walk.unwrap_or(defaults.walk),
                    ..defaults
                };
                sweepers.push((new, self.client.sweeper(options)));
                sweepers.len() - 1
            }
        };
        let report = sweepers[at].1.tick().await?;
        Ok(sweep_document(self.client.ledger().clock.now(), report))
    }

    async fn doctor(&self, _: &Caller, new: NewCheckup, progress: OnProgress<'_>) -> ApiResult<CheckupDoc> {
        let options = DoctorOptions { fix: new.fix, rule: new.rule, deep: new.deep };
        let (mut checkup, next) = match new.page || new.after.is_some() {
            true => self.client.doctor_part(options, new.after.as_deref()).await?,
            false => (self.client.doctor_telling(options, progress).await?, None),
        };
        checkup.findings.retain(|found| {
            found.code == Code::U1
                || !matches!(&found.subject, Subject::Lock(name) if limit::is_reserved(name))
        });
        let document = CheckupDoc {
            counts: Vec::new(),
            healthy: checkup.is_healthy(),
            findings: checkup.findings.into_iter().map(finding_document).collect(),
            healed: checkup.healed,
            rows_rewritten: checkup.rows_rewritten,
            scanned: checkup.scanned,
            total: 0,
            next,
        };
        Ok(document.counted(new.limit))
    }

    async fn recoveries(&self, query: RecoveriesQuery) -> ApiResult<PageDoc<HealingDoc>> {
        let most = usize::try_from(limit::page(query.limit, RECOVERIES_DEFAULT)?).unwrap_or(usize::MAX);
        let after = query.after.as_deref().map(place).transpose()?;
        let RecoveriesQuery { since_ms, ended, rule, .. } = query;
        let filter = HealingFilter { since: since_ms.map(Millis), after, ended, rule };
        let mut healings = self.client.recoveries_by(&filter, most + 1).await?;
        let more = healings.len() > most;
        healings.truncate(most);
        let next = healings.last().map(|last| cursor(&last.place())).filter(|_| more);
        healings.retain(is_shown);
        Ok(PageDoc::new(healings.into_iter().map(healing_document).collect(), next))
    }

    async fn recovery_stats(&self, query: HealingStatsQuery) -> ApiResult<ItemsDoc<HealingStatsDoc>> {
        let most = query.latest.unwrap_or(STATS_MAX);
        if most == 0 || most > STATS_MAX {
            let detail = format!("`latest` must be between 1 and {STATS_MAX}, not {most}");
            return Err(Problem::bad_request(detail).limit(u64::from(STATS_MAX)));
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut rules: BTreeMap<(bool, String), Vec<HealingDoc>> = BTreeMap::new();
        let healings = self.client.recoveries(query.since_ms.map(Millis), most).await?;
        for healing in healings.into_iter().filter(is_shown) {
            let healing = healing_document(healing);
            rules.entry((healing.ended.is_some(), healing.rule.clone())).or_default().push(healing);
        }
        let stalled = |one: &HealingDoc| i64::try_from(one.stalled_ms).unwrap_or(i64::MAX);
        let item = |((ended, rule), of): ((bool, String), Vec<HealingDoc>)| HealingStatsDoc {
            count: of.len() as u64,
            ended,
            heal_ms: Percentiles::of(of.iter().filter_map(|one| one.heal_ms).collect()),
            rule_name: Code::from_code(&rule).map(name),
            rule,
            stalled_ms: Percentiles::of(of.iter().map(stalled).collect()),
        };
        Ok(rules.into_iter().map(item).collect::<Vec<_>>().into())
    }
}

impl LocalApi {
    /// How a sweep heals foreign states, if the request asks for it.
    fn foreign_options(&self, new: &NewSweep) -> ApiResult<Option<ForeignOptions>> {
        let NewSweep { foreign, foreign_queue, foreign_kind, .. } = new;
        if !foreign {
            return match foreign_queue.is_some() || foreign_kind.is_some() {
                true => Err(Problem::bad_request("foreign_queue and foreign_kind need foreign: true")),
                false => Ok(None),
            };
        }
        let mut options = ForeignOptions::default();
        if let Some(queue) = foreign_queue {
            options.queue = QueueName::new(queue)?;
            limit::open_queue(&options.queue)?;
        }
        if let Some(kind) = foreign_kind {
            self.check_text("the kind", kind)?;
            argument::name("the kind", kind)?;
            limit::open(Named::Kind, kind)?;
            options.kind = kind.clone();
        }
        Ok(Some(options))
    }
}

/// The word in the cursor after an entry of the audit, in place of a position in a log.
const IN_AUDIT: &str = "audit";

/// Writes a cursor of the list of recoveries.
fn cursor(place: &Place) -> String {
    match place {
        Place::Run(at, run, seq) => format!("{}:{seq}:{run}", at.0),
        Place::Record(at, place) => format!("{}:{IN_AUDIT}:{place}", at.0),
    }
}

/// Parses a cursor of the list of recoveries.
fn place(cursor: &str) -> Result<Place, Problem> {
    let invalid = || {
        Problem::bad_request(format!("invalid cursor {cursor:?}"))
            .hint("pass the previous page's `next` unchanged, or omit it")
    };
    let mut parts = cursor.splitn(3, ':');
    let mut next = || parts.next().ok_or_else(invalid);
    let at = Millis(next()?.parse().map_err(|_| invalid())?);
    match (next()?, next()?) {
        (IN_AUDIT, place) => Ok(Place::Record(at, place.to_owned())),
        (seq, run) => Ok(Place::Run(at, RunId::new(run)?, Seq(seq.parse().map_err(|_| invalid())?))),
    }
}

/// Whether a list shows the recovery: records of the server itself are not shown.
fn is_shown(healing: &EngineHealing) -> bool {
    match &healing.subject {
        HealedSubject::Record(entry) => entry.kind != AuditKind::Lock || !limit::is_reserved(&entry.subject),
        HealedSubject::Run { .. } => true,
    }
}

fn healing_document(healing: EngineHealing) -> HealingDoc {
    let EngineHealing { subject, at, recovered, moved_at, ended } = healing;
    let heal = moved_at.map(|moved| i64::try_from(moved.since(at).as_millis()).unwrap_or(i64::MAX));
    let document = HealingDoc {
        at: Timestamp(at),
        at_ms: at,
        attempt: recorded_attempt(recovered.attempt),
        cutoff: recovered.cutoff,
        ended: ended.map(|ended| ended.as_str().to_owned()),
        event: None,
        evidence: recovered.evidence,
        heal_ms: heal,
        holder: None,
        lock: None,
        new_branch: recovered.new_branch.map(|branch| branch.to_string()),
        node: recovered.node,
        previous_branch: recovered.previous_branch.map(|branch| branch.to_string()),
        reason: recovered.reason,
        rule_name: Code::from_code(&recovered.rule).map(name),
        rule: recovered.rule,
        run: None,
        stalled_ms: recovered.stale_ms,
        state: None,
        task: None,
        workflow: None,
    };
    match subject {
        HealedSubject::Run { run, workflow, seq } => {
            HealingDoc { event: Some(seq), run: Some(run), workflow: Some(workflow), ..document }
        }
        HealedSubject::Record(entry) => {
            let holder = entry.heal.holder;
            let state = entry.heal.state.map(|state| state.to_string());
            let (task, lock) = match entry.kind {
                AuditKind::Task => (Some(entry.subject), None),
                AuditKind::Lock => (None, Some(entry.subject)),
            };
            HealingDoc { holder, lock, state, task, ..document }
        }
    }
}

pub(super) fn recovery_document(recovery: &EngineRecovery) -> RecoveryDoc {
    let diagnosis = recovery.found.as_ref().map(|found| &found.diagnosis);
    RecoveryDoc {
        automatic: diagnosis.map(|diagnosis| diagnosis.remedy.is_automatic()),
        branch: recovery.branch().map(|branch| branch.to_string()),
        evidence: diagnosis.map(|diagnosis| diagnosis.evidence.clone()),
        healed: recovery.has_healed(),
        needed: recovery.was_needed(),
        remedy: diagnosis.map(|diagnosis| with_commands(&diagnosis.remedy.describe())),
        rule: diagnosis.map(|diagnosis| diagnosis.rule),
        rule_name: diagnosis.map(|diagnosis| name(diagnosis.rule)),
        run: None,
        standing: recovery.standing.clone(),
        status: recovery.status,
    }
}

/// Rebuilds the response to an earlier request from the log: the recovery is the write right before the request's note.
/// The log keeps the description of a remedy only if the remedy opened a branch.
pub(super) fn earlier_recovery(run: &RunId, applied: &AppliedCommand) -> RecoveryDoc {
    let nothing = |status| RecoveryDoc {
        automatic: None,
        branch: None,
        evidence: None,
        healed: false,
        needed: false,
        remedy: None,
        rule: None,
        rule_name: None,
        run: None,
        standing: Vec::new(),
        status,
    };
    let Some(at_note) = applied.state_before(run) else { return nothing(Status::Parked) };
    let history = applied.before.as_deref().unwrap_or_default();
    let write = history.last().map(|last| last.write);
    let start = history.iter().position(|recorded| Some(recorded.write) == write).unwrap_or_default();
    let (before, written) = history.split_at(start);
    let manual = RecoveryReason::Manual.as_str();
    let recovered = written.iter().find_map(|recorded: &Recorded| match &recorded.event {
        Event::RunRecovered(recovered) if recovered.reason == manual => Some(recovered),
        _ => None,
    });
    let Some(recovered) = recovered else { return nothing(at_note.summary.status) };
    let state =
        goldseam::unstable::core::derive(run, before, goldseam::unstable::core::hash::Hash::ZERO).ok();
    let standing = recovered.cutoff.zip(state.as_ref()).map(|(cutoff, state)| state.to_undo(cutoff));
    RecoveryDoc {
        automatic: Some(true),
        branch: recovered.new_branch.map(|branch| branch.to_string()),
        evidence: Some(recovered.evidence.clone()),
        healed: true,
        needed: true,
        remedy: recovered.cutoff.map(|cutoff| Remedy::Branch { cutoff }.describe().to_string()),
        rule: Code::from_code(&recovered.rule),
        rule_name: Code::from_code(&recovered.rule).map(name),
        standing: standing.unwrap_or_default(),
        ..nothing(state.map_or(at_note.summary.status, |state| state.summary.status))
    }
}

/// The name of a rule, for a document.
pub(super) fn name(rule: Code) -> String {
    rule.name().to_owned()
}

/// A finding whose subject is still to be filled in.
fn without_subject(
    code: Option<Code>,
    evidence: String,
    remedy: String,
    engine_fate: &EngineFate,
) -> FindingDoc {
    let fate = match engine_fate {
        EngineFate::Healed => FateDoc::Healed,
        EngineFate::Young => FateDoc::Young,
        EngineFate::Reported => FateDoc::Reported,
        EngineFate::Moved => FateDoc::Moved,
        EngineFate::NeedsHelp => FateDoc::NeedsHelp,
        EngineFate::Waits => FateDoc::Waits,
        EngineFate::Stopped => FateDoc::Stopped,
        EngineFate::Failed(_) => FateDoc::Failed,
    };
    let error = match engine_fate {
        EngineFate::Failed(error) => Some(error.clone()),
        _ => None,
    };
    FindingDoc {
        code,
        error,
        event: None,
        evidence,
        fate,
        lock: None,
        node: None,
        record: None,
        remedy,
        rule_name: code.map(name),
        run: None,
        severity: Severity::of(code, fate),
        since: None,
        state: None,
        task: None,
    }
}

fn finding_document(finding: EngineFinding) -> FindingDoc {
    let blank =
        without_subject(Some(finding.code), finding.evidence, with_commands(&finding.remedy), &finding.fate);
    match finding.subject {
        Subject::Run(run) => FindingDoc { run: Some(run), ..blank },
        Subject::Task(task) => FindingDoc { task: Some(task), ..blank },
        Subject::Lock(lock) => FindingDoc { lock: Some(lock), ..blank },
        Subject::Node(node) => FindingDoc { node: Some(node), ..blank },
        Subject::Record(record) => FindingDoc { record: Some(record), ..blank },
    }
}

fn stalled_run(stalled: Stalled) -> FindingDoc {
    let diagnosis = stalled.found.diagnosis;
    FindingDoc {
        event: Some(stalled.found.at),
        run: Some(stalled.found.run.to_string()),
        since: Some(Timestamp(stalled.since)),
        ..without_subject(
            Some(diagnosis.rule),
            diagnosis.evidence,
            with_commands(&diagnosis.remedy.describe()),
            &stalled.fate,
        )
    }
}

fn stalled_state(stalled: ForeignStalled) -> FindingDoc {
    let remedy = match stalled.fate {
        _ if stalled.is_unreadable => "repair or remove the object; sweeps skip it until then",
        EngineFate::NeedsHelp => "find out why its task crashes its workers",
        _ => "give it a new task",
    };
    FindingDoc {
        since: Some(Timestamp(stalled.since)),
        state: Some(stalled.id.to_string()),
        ..without_subject(None, stalled.evidence, remedy.to_owned(), &stalled.fate)
    }
}

fn sweep_document(at: Millis, report: SweepReport) -> SweepDoc {
    let foreign = |foreign: ForeignReport| ForeignSweepDoc {
        healed: foreign.healed,
        healthy: foreign.healthy,
        scanned: foreign.scanned,
        skipped: foreign.skipped,
        stalled: foreign.stalled.into_iter().map(stalled_state).collect(),
        unnamed: foreign.unnamed,
    };
    SweepDoc {
        at: Timestamp(at),
        foreign: report.foreign.map(foreign),
        healed: report.healed,
        healthy: report.healthy,
        more: report.more,
        rows_rewritten: report.rows_rewritten,
        scanned: report.scanned,
        stalled: report.stalled.into_iter().map(stalled_run).collect(),
        terminal: report.terminal,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn foreign_states_are_reported_apart_from_runs() {
        let stalled = |name: &str, evidence: &str, fate: EngineFate| ForeignStalled {
            id: RunId::new(name).unwrap(),
            evidence: evidence.to_owned(),
            is_unreadable: false,
            since: Millis(1_700_000_000_000),
            fate,
        };
        let foreign = ForeignReport {
            scanned: 6,
            skipped: 2,
            healthy: 1,
            healed: 1,
            stalled: vec![
                stalled("wf-1", "its task t-1 is missing", EngineFate::Healed),
                stalled("wf-2", "its task t-2 is completed", EngineFate::Young),
                stalled("wf-3", "its task t-3 is dead", EngineFate::NeedsHelp),
            ],
            unnamed: Vec::new(),
        };
        let report = SweepReport { scanned: 3, healthy: 3, foreign: Some(foreign), ..SweepReport::default() };
        let document = serde_json::to_value(sweep_document(Millis(1_700_000_060_000), report)).unwrap();
        assert_snapshot!(serde_json::to_string_pretty(&document).unwrap(), @r#"
        {
          "at": 1700000060000,
          "foreign": {
            "healed": 1,
            "healthy": 1,
            "scanned": 6,
            "skipped": 2,
            "stalled": [
              {
                "evidence": "its task t-1 is missing",
                "fate": "healed",
                "remedy": "give it a new task",
                "severity": "info",
                "since": 1700000000000,
                "state": "wf-1"
              },
              {
                "evidence": "its task t-2 is completed",
                "fate": "young",
                "remedy": "give it a new task",
                "severity": "warning",
                "since": 1700000000000,
                "state": "wf-2"
              },
              {
                "evidence": "its task t-3 is dead",
                "fate": "needs_help",
                "remedy": "find out why its task crashes its workers",
                "severity": "error",
                "since": 1700000000000,
                "state": "wf-3"
              }
            ]
          },
          "healed": 0,
          "healthy": 3,
          "rows_rewritten": 0,
          "scanned": 3,
          "stalled": [],
          "terminal": 0
        }
        "#);
    }
}
