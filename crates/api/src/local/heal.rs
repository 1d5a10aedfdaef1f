//! Recovering, sweeping, examining, and what was healed.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam::core::reserved::Named;
use goldseam::core::{Command, Event, QueueName, Recorded, argument};
use goldseam::healer::by_hand::{RecoverOptions, Recovery as Made};
use goldseam::healer::doctor::{DoctorOptions, Finding as Found, Subject};
use goldseam::healer::feed::{Healing as Healed, Place};
use goldseam::healer::foreign::{ForeignOptions, ForeignReport, ForeignStalled};
use goldseam::healer::sweeper::{Fate as Became, Stalled, SweepOptions, SweepReport, Sweeper};
use goldseam::recovery::{Code, Reason as Why, Remedy};
use goldseam::{Millis, RunId, Seq, Status, Summary};
use tokio::sync::Mutex;

use super::change::by;
use super::once::{Asked, Landed};
use super::{Local, limit};
use crate::api::{Answer, Tell};
use crate::caller::Caller;
use crate::doc::change::{NewRecovery, Reason, Recovery, Resumed};
use crate::doc::heal::{
    Checkup, Fate, Finding, ForeignSweep, Healing, HealingStats, HealingStatsQuery, NewCheckup, NewSweep,
    RecoveriesQuery, STATS_MAX, Severity, Sweep,
};
use crate::doc::{Items, Page};
use crate::moment::Moment;
use crate::problem::Problem;
use crate::view::spread::Spread;

/// Recoveries of a page unless told otherwise.
const HEALINGS: u32 = 20;
/// Sorts of sweeps that are remembered.
const SWEEPERS_MAX: usize = 8;

/// Sweeps that go on where they ended: a finding must hold for a while before it is healed, so somebody must remember
/// when it was first seen.
#[derive(Debug, Default)]
pub(super) struct Sweepers(Mutex<Vec<(NewSweep, Sweeper)>>);

impl Local {
    pub(super) async fn let_go_on(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Resumed> {
        let Asked { note, keyed } = self.note(caller, ("resume", run), (reason.by, reason.reason))?;
        if let Some(landed) = self.before(run, keyed, &Command::Resume(note.clone())).await? {
            let (recovery, event) = (recovered_before(run, &landed), landed.end);
            return Ok(Resumed { event, recovery, run: run.clone(), warning: None });
        }
        let warning = self.client.get(run).await.ok().and_then(|summary| parks_again(&summary));
        let resumed = self.client.resume(run, by(note.clone())).await?;
        let mut event = resumed.end;
        if keyed && !resumed.rested {
            // It was only recovered, and no event of that names the command.
            event = self.client.annotate(run, by(note)).await?;
        }
        Ok(Resumed { event, recovery: told(&resumed.recovery), run: run.clone(), warning })
    }

    pub(super) async fn mend(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> Answer<Recovery> {
        let NewRecovery { rule, dry_run, compensate, by: who, reason } = new;
        let says_why = !reason.is_empty();
        let Asked { note, keyed } = self.note(caller, ("recover", run), (who, reason))?;
        let done = self.before(run, keyed && !dry_run, &Command::Annotate(note.clone())).await?;
        let recovery = match done {
            Some(landed) => {
                let recovery = recovered_before(run, &landed);
                if rule.is_some() && rule != recovery.rule {
                    return Err(Problem::key_reused(run));
                }
                recovery
            }
            None => {
                let made = self.client.recover(run, RecoverOptions { rule, dry_run, compensate }).await?;
                if made.has_healed() && (says_why || keyed) {
                    self.client.annotate(run, by(note)).await?;
                }
                told(&made)
            }
        };
        Ok(Recovery { run: Some(run.clone()), ..recovery })
    }

    pub(super) async fn sweep_on(&self, new: NewSweep) -> Answer<Sweep> {
        let mut sweepers = self.sweepers.0.lock().await;
        let at = match sweepers.iter().position(|(known, _)| *known == new) {
            Some(at) => at,
            None => {
                if sweepers.len() >= SWEEPERS_MAX {
                    sweepers.remove(0);
                }
                let otherwise = SweepOptions::default();
                let stale_after = new.stale_after_ms.map(Duration::from_millis).or(otherwise.stale_after);
                let foreign = self.foreign_options(&new)?;
                let (dry_run, from_log) = (new.dry_run, new.from_log);
                let options = SweepOptions { stale_after, dry_run, from_log, foreign, ..otherwise };
                sweepers.push((new, self.client.sweeper(options)));
                sweepers.len() - 1
            }
        };
        let report = sweepers[at].1.tick().await?;
        Ok(sweep(self.client.ledger().clock.now(), report))
    }

    /// How states of others are healed, if that is asked for.
    fn foreign_options(&self, new: &NewSweep) -> Answer<Option<ForeignOptions>> {
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

    pub(super) async fn examine_all(&self, new: &NewCheckup, tell: Tell<'_>) -> Answer<Checkup> {
        let options = DoctorOptions { fix: new.fix, rule: new.rule, deep: new.deep };
        let mut checkup = self.client.doctor_telling(options, tell).await?;
        checkup.findings.retain(|found| {
            found.code == Code::U1
                || !matches!(&found.subject, Subject::Lock(name) if limit::is_reserved(name))
        });
        let told = Checkup {
            counts: Vec::new(),
            healthy: checkup.is_healthy(),
            findings: checkup.findings.into_iter().map(finding).collect(),
            healed: checkup.healed,
            rows_rewritten: checkup.rows_rewritten,
            scanned: checkup.scanned,
            total: 0,
        };
        Ok(told.counted(new.limit))
    }

    pub(super) async fn list_recoveries(&self, query: RecoveriesQuery) -> Answer<Page<Healing>> {
        let most = usize::try_from(limit::page(query.limit, HEALINGS)?).unwrap_or(usize::MAX);
        let place = query.after.as_deref().map(place).transpose()?;
        let since = query.since_ms.map(Millis);
        let mut healings = self.client.recoveries_after(since, place.as_ref(), most + 1).await?;
        let more = healings.len() > most;
        healings.truncate(most);
        let cursor = |last: &Healed| format!("{}:{}:{}", last.at.0, last.seq, last.run);
        let next = healings.last().map(cursor).filter(|_| more);
        Ok(Page::new(healings.into_iter().map(healing).collect(), next))
    }

    pub(super) async fn count_recoveries(&self, query: HealingStatsQuery) -> Answer<Items<HealingStats>> {
        let most = query.latest.unwrap_or(STATS_MAX);
        if most == 0 || most > STATS_MAX {
            let words = format!("statistics are made of 1 to {STATS_MAX} recoveries, not {most}");
            return Err(Problem::bad_request(words).limit(u64::from(STATS_MAX)));
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut rules: BTreeMap<(bool, String), Vec<Healing>> = BTreeMap::new();
        for one in self.client.recoveries(query.since_ms.map(Millis), most).await?.into_iter().map(healing) {
            rules.entry((one.ended.is_some(), one.rule.clone())).or_default().push(one);
        }
        let still = |one: &Healing| i64::try_from(one.stalled_ms).unwrap_or(i64::MAX);
        let item = |((ended, rule), of): ((bool, String), Vec<Healing>)| HealingStats {
            count: of.len() as u64,
            ended,
            heal_ms: Spread::of(of.iter().filter_map(|one| one.heal_ms).collect()),
            rule,
            stalled_ms: Spread::of(of.iter().map(still).collect()),
        };
        Ok(rules.into_iter().map(item).collect::<Vec<_>>().into())
    }
}

/// Why a parked run may stop again at once, as far as its row tells.
fn parks_again(summary: &Summary) -> Option<String> {
    let parked = summary.trouble.as_ref().filter(|_| summary.parked)?;
    let words = match parked.code.as_deref()? {
        "V1" => "it parks again at the same difference unless the workers' code has changed",
        "E2" => "it parks again unless a worker has its version now",
        "GS0116" => "it parks again unless the compensation works now",
        _ => return None,
    };
    Some(words.to_owned())
}

/// Reads a cursor of the feed.
fn place(cursor: &str) -> Result<Place, Problem> {
    let wrong = || Problem::bad_request(format!("{cursor:?} is no cursor of this list"));
    let mut parts = cursor.splitn(3, ':');
    let mut next = || parts.next().ok_or_else(wrong);
    let (at, seq, run) = (next()?, next()?, next()?);
    let at = at.parse().map_err(|_| wrong())?;
    let seq = seq.parse().map_err(|_| wrong())?;
    Ok((Millis(at), RunId::new(run)?, Seq(seq)))
}

fn healing(healed: Healed) -> Healing {
    let Healed { run, workflow, seq, at, recovered, moved_at, ended } = healed;
    let heal = moved_at.map(|moved| i64::try_from(moved.since(at).as_millis()).unwrap_or(i64::MAX));
    Healing {
        at: Moment(at),
        at_ms: at,
        attempt: recovered.attempt,
        cutoff: recovered.cutoff,
        ended: ended.map(|ended| ended.as_str().to_owned()),
        event: seq,
        evidence: recovered.evidence,
        heal_ms: heal,
        new_branch: recovered.new_branch.map(|branch| branch.to_string()),
        node: recovered.node,
        previous_branch: recovered.previous_branch.map(|branch| branch.to_string()),
        reason: recovered.reason,
        rule: recovered.rule,
        run,
        stalled_ms: recovered.stale_ms,
        workflow,
    }
}

/// A recovery as a document.
fn told(made: &Made) -> Recovery {
    let diagnosis = made.found.as_ref().map(|found| &found.diagnosis);
    Recovery {
        automatic: diagnosis.map(|diagnosis| diagnosis.remedy.is_automatic()),
        branch: made.branch().map(|branch| branch.to_string()),
        evidence: diagnosis.map(|diagnosis| diagnosis.evidence.clone()),
        healed: made.has_healed(),
        needed: made.was_needed(),
        remedy: diagnosis.map(|diagnosis| diagnosis.remedy.describe()),
        rule: diagnosis.map(|diagnosis| diagnosis.rule),
        run: None,
        standing: made.standing.clone(),
        status: made.status,
    }
}

/// What was recovered by the command whose note landed: the write right before it. The log does not keep the words of
/// a remedy that did not cut.
fn recovered_before(run: &RunId, landed: &Landed) -> Recovery {
    let nothing = |status| Recovery {
        automatic: None,
        branch: None,
        evidence: None,
        healed: false,
        needed: false,
        remedy: None,
        rule: None,
        run: None,
        standing: Vec::new(),
        status,
    };
    let Some(at_note) = landed.state_before(run) else { return nothing(Status::Parked) };
    let history = landed.before.as_deref().unwrap_or_default();
    let write = history.last().map(|last| last.write);
    let start = history.iter().position(|recorded| Some(recorded.write) == write).unwrap_or_default();
    let (before, made) = history.split_at(start);
    let mended = made.iter().find_map(|recorded: &Recorded| match &recorded.event {
        Event::RunRecovered(mended) if mended.reason == Why::Manual.as_str() => Some(mended),
        _ => None,
    });
    let Some(mended) = mended else { return nothing(at_note.summary.status) };
    let state = goldseam::core::derive(run, before, goldseam::core::hash::Hash::ZERO).ok();
    let standing = mended.cutoff.zip(state.as_ref()).map(|(cutoff, state)| state.to_undo(cutoff));
    Recovery {
        automatic: Some(true),
        branch: mended.new_branch.map(|branch| branch.to_string()),
        evidence: Some(mended.evidence.clone()),
        healed: true,
        needed: true,
        remedy: mended.cutoff.map(|cutoff| Remedy::Branch { cutoff }.describe()),
        rule: mended.rule.parse::<Code>().ok(),
        standing: standing.unwrap_or_default(),
        ..nothing(state.map_or(at_note.summary.status, |state| state.summary.status))
    }
}

/// A finding about nothing yet.
fn blank(code: Option<Code>, (evidence, remedy): (String, String), became: &Became) -> Finding {
    let fate = match became {
        Became::Healed => Fate::Healed,
        Became::Young => Fate::Young,
        Became::Told => Fate::Told,
        Became::Moved => Fate::Moved,
        Became::NeedsHelp => Fate::NeedsHelp,
        Became::Waits => Fate::Waits,
        Became::Stopped => Fate::Stopped,
        Became::Failed(_) => Fate::Failed,
    };
    let error = match became {
        Became::Failed(error) => Some(error.clone()),
        _ => None,
    };
    Finding {
        code,
        error,
        event: None,
        evidence,
        fate,
        lock: None,
        node: None,
        record: None,
        remedy,
        run: None,
        severity: Severity::of(code, fate),
        since: None,
        state: None,
        task: None,
    }
}

fn finding(found: Found) -> Finding {
    let blank = blank(Some(found.code), (found.evidence, found.remedy), &found.fate);
    match found.subject {
        Subject::Run(run) => Finding { run: Some(run), ..blank },
        Subject::Task(task) => Finding { task: Some(task), ..blank },
        Subject::Lock(lock) => Finding { lock: Some(lock), ..blank },
        Subject::Node(node) => Finding { node: Some(node), ..blank },
        Subject::Record(record) => Finding { record: Some(record), ..blank },
    }
}

fn stalled(stalled: Stalled) -> Finding {
    let diagnosis = stalled.found.diagnosis;
    Finding {
        event: Some(stalled.found.at),
        run: Some(stalled.found.run.to_string()),
        since: Some(Moment(stalled.since)),
        ..blank(Some(diagnosis.rule), (diagnosis.evidence, diagnosis.remedy.describe()), &stalled.fate)
    }
}

fn foreign(stalled: ForeignStalled) -> Finding {
    let remedy = match stalled.fate {
        Became::NeedsHelp if stalled.evidence.starts_with("it cannot be read") => {
            "put the object right, or remove it; it is passed over"
        }
        Became::NeedsHelp => "see why its task takes its workers down",
        _ => "give it a new task",
    };
    Finding {
        since: Some(Moment(stalled.since)),
        state: Some(stalled.id.to_string()),
        ..blank(None, (stalled.evidence, remedy.to_owned()), &stalled.fate)
    }
}

fn sweep(at: Millis, report: SweepReport) -> Sweep {
    let others = |foreign_report: ForeignReport| ForeignSweep {
        healed: foreign_report.healed,
        healthy: foreign_report.healthy,
        scanned: foreign_report.scanned,
        skipped: foreign_report.skipped,
        stalled: foreign_report.stalled.into_iter().map(foreign).collect(),
        unnamed: foreign_report.unnamed,
    };
    Sweep {
        at: Moment(at),
        foreign: report.foreign.map(others),
        healed: report.healed,
        healthy: report.healthy,
        more: report.more,
        rows_rewritten: report.rows_rewritten,
        scanned: report.scanned,
        stalled: report.stalled.into_iter().map(stalled).collect(),
        terminal: report.terminal,
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn states_of_others_are_told_by_themselves() {
        let stalled = |name: &str, evidence: &str, fate: Became| ForeignStalled {
            id: RunId::new(name).unwrap(),
            evidence: evidence.to_owned(),
            since: Millis(1_700_000_000_000),
            fate,
        };
        let foreign = ForeignReport {
            scanned: 6,
            skipped: 2,
            healthy: 1,
            healed: 1,
            stalled: vec![
                stalled("wf-1", "its task t-1 is missing", Became::Healed),
                stalled("wf-2", "its task t-2 is completed", Became::Young),
                stalled("wf-3", "its task t-3 is dead", Became::NeedsHelp),
            ],
            unnamed: Vec::new(),
        };
        let report = SweepReport { scanned: 3, healthy: 3, foreign: Some(foreign), ..SweepReport::default() };
        let document = serde_json::to_value(sweep(Millis(1_700_000_060_000), report)).unwrap();
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
                "remedy": "see why its task takes its workers down",
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
