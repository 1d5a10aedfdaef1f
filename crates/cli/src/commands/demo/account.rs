//! The honest account: what the log says, against what the witness saw and what was acknowledged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use goldseam::client::Outcome;
use goldseam::core::Recorded;
use goldseam::core::event::{Cause, Event};
use goldseam::{Client, Millis, RunId, Status};
use serde::Serialize;

use super::fleet::Kill;
use super::order::{DECLINED, STAGES};
use super::witness::Seen;
use crate::fail::Fail;
use crate::spread::Spread;

/// How far an engine's clock, which follows the store's, may be from the witness's. A takeover takes longer.
const SLACK_MS: i64 = 5;

/// What the demo was told is durable.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// Starts that returned.
    pub(crate) starts: Vec<RunId>,
    /// Answers that returned, by run, with their ids.
    pub(crate) answers: BTreeMap<RunId, String>,
}

/// The account as a program reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Account {
    /// Runs started and acknowledged.
    pub(crate) runs: usize,
    /// Of these, completed.
    pub(crate) completed: usize,
    /// Of these, failed; declined orders fail on purpose.
    pub(crate) failed: usize,
    /// Workers killed.
    pub(crate) kills: usize,
    /// Acknowledged things that the log does not have, or the witness never saw.
    pub(crate) lost: usize,
    /// Completed steps that began again.
    pub(crate) repeated: usize,
    /// From a kill to the first new event in a run that the killed worker had.
    pub(crate) recovery_ms: Spread,
    /// From beginning to end.
    pub(crate) seconds: f64,
}

/// What a person is told besides.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Everything that is not as it should be.
    pub(crate) wrong: Vec<String>,
    /// Declined orders that failed as they should.
    pub(crate) declined: usize,
    /// Steps that the log has as completed.
    pub(crate) steps: usize,
    /// Effects that a kill cut off before they were recorded, and that ran again.
    pub(crate) cut_off: usize,
    /// Kills that took at least one run's owner away.
    pub(crate) hits: usize,
    /// The run that was taken over most often, and how often.
    pub(crate) example: Option<(usize, RunId)>,
}

/// Everything that the account is made of.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// The store.
    pub(crate) client: &'a Client,
    /// What was acknowledged.
    pub(crate) acknowledged: &'a Acknowledged,
    /// What the witness saw.
    pub(crate) seen: &'a [Seen],
    /// Who was killed when.
    pub(crate) kills: &'a [Kill],
}

/// Compares everything with everything.
pub(crate) async fn settle(evidence: Evidence<'_>, seconds: f64) -> Result<(Account, Findings), Fail> {
    let mut findings = Findings::default();
    let mut by_run: HashMap<&str, Vec<&Seen>> = HashMap::new();
    for seen in evidence.seen {
        by_run.entry(&seen.run).or_default().push(seen);
    }
    let (mut completed, mut failed, mut lost, mut repeated) = (0, 0, 0, 0);
    let mut recoveries: Vec<Option<i64>> = vec![None; evidence.kills.len()];
    for run in &evidence.acknowledged.starts {
        let Ok(history) = evidence.client.history(run).await else {
            findings.wrong.push(format!("run {run} was acknowledged and is not in the store"));
            lost += 1;
            continue;
        };
        match ended(evidence.client, run).await? {
            Some(Outcome::Completed(_)) => completed += 1,
            Some(Outcome::Failed(failure)) => {
                failed += 1;
                match failure.code.as_deref() {
                    Some(DECLINED) => findings.declined += 1,
                    _ => findings.wrong.push(format!("run {run} failed: {failure}")),
                }
            }
            _ => findings.wrong.push(format!("run {run} has not ended")),
        }
        let answer = evidence.acknowledged.answers.get(run);
        let seen = by_run.get(run.as_str()).map(Vec::as_slice).unwrap_or_default();
        let mut case = Case { run, history: &history, seen, findings: &mut findings };
        lost += case.lost(answer);
        repeated += case.repeated();
        case.count();
        let recovered = |recorded: &&Recorded| matches!(recorded.event, Event::RunRecovered(_));
        let times = history.iter().filter(recovered).count();
        findings.example = findings.example.max(Some((times, run.clone())));
        for (kill, best) in evidence.kills.iter().zip(&mut recoveries) {
            let took = taken_over(&history, kill);
            *best = [*best, took].into_iter().flatten().min();
        }
    }
    let times: Vec<i64> = recoveries.into_iter().flatten().collect();
    findings.hits = times.len();
    let (runs, kills) = (evidence.acknowledged.starts.len(), evidence.kills.len());
    let recovery_ms = Spread::of(times);
    Ok((Account { runs, completed, failed, kills, lost, repeated, recovery_ms, seconds }, findings))
}

async fn ended(client: &Client, run: &RunId) -> Result<Option<Outcome>, Fail> {
    let terminal = client.get(run).await?.status;
    match terminal {
        Status::Completed | Status::Failed | Status::Cancelled => Ok(client.state(run).await?.outcome),
        _ => Ok(None),
    }
}

/// How long after the kill somebody else had this run, if the killed node had it.
fn taken_over(history: &[Recorded], kill: &Kill) -> Option<i64> {
    let claims = history.iter().filter_map(|recorded| match &recorded.event {
        Event::RunClaimed(claimed) => Some((recorded.at, claimed)),
        _ => None,
    });
    let claims: Vec<_> = claims.collect();
    let pairs = claims.windows(2).filter(|pair| pair[0].1.node == kill.node);
    let recovered = pairs.filter(|pair| pair[1].1.cause == Cause::Recovery).map(|pair| pair[1].0);
    recovered.map(|at| at.0 - kill.at_ms).min()
}

/// One run: its log and what the witness saw of it.
struct Case<'a> {
    run: &'a RunId,
    history: &'a [Recorded],
    seen: &'a [&'a Seen],
    findings: &'a mut Findings,
}

impl Case<'_> {
    /// Completed effects by the witness's name for them, and when.
    fn completions(&self) -> BTreeMap<String, Millis> {
        let of = |recorded: &Recorded| match &recorded.event {
            Event::StepCompleted(step) => Some((step.path.to_string(), recorded.at)),
            Event::CompensationCompleted { path } => Some((format!("undo/{path}"), recorded.at)),
            _ => None,
        };
        self.history.iter().filter_map(of).collect()
    }

    fn lost(&mut self, answer: Option<&String>) -> usize {
        let mut wrong = Vec::new();
        if let Some(wanted) = answer {
            let has = |recorded: &Recorded| matches!(&recorded.event, Event::InputAnswered { id, .. } if id == wanted);
            if !self.history.iter().any(has) {
                wrong.push(format!("run {}: an acknowledged answer is not in the log", self.run));
            }
        }
        let completions = self.completions();
        for path in completions.keys() {
            if !self.seen.iter().any(|seen| seen.ended && seen.path == *path) {
                wrong.push(format!("run {}: {path} is complete, and the witness never saw it end", self.run));
            }
        }
        // A later effect begins only once an earlier result is acknowledged: if the earlier one begins
        // again after that, its result was lost. Judged by the order of the witness alone, without clocks.
        let mut furthest = 0;
        for seen in self.seen.iter().filter(|seen| !seen.ended) {
            let Some(stage) = stage_of(&seen.path) else { continue };
            if stage < furthest {
                wrong.push(format!(
                    "run {}: {} began again after a later step had begun",
                    self.run, seen.path
                ));
            }
            furthest = furthest.max(stage);
        }
        let count = wrong.len();
        self.findings.wrong.append(&mut wrong);
        count
    }

    fn repeated(&mut self) -> usize {
        let completions = self.completions();
        let mut wrong: Vec<String> = Vec::new();
        for seen in self.seen.iter().filter(|seen| !seen.ended) {
            if let Some(at) = completions.get(&seen.path)
                && seen.micros / 1_000 > at.0 + SLACK_MS
            {
                wrong.push(format!("run {}: {} began again after it was complete", self.run, seen.path));
            }
        }
        let twice = self.history.iter().filter_map(|recorded| match &recorded.event {
            Event::StepCompleted(step) => Some((step.path.clone(), recorded.branch)),
            _ => None,
        });
        let mut once = BTreeSet::new();
        for (path, branch) in twice {
            if !once.insert((path.clone(), branch)) {
                wrong.push(format!("run {}: {path} is complete twice in the log", self.run));
            }
        }
        let count = wrong.len();
        self.findings.wrong.append(&mut wrong);
        count
    }

    /// Counts what is right: steps done, and effects that a kill cut off and that began again.
    fn count(&mut self) {
        let completions = self.completions();
        self.findings.steps += completions.len();
        let failed = |recorded: &&Recorded| matches!(recorded.event, Event::StepFailed(_));
        let recorded = completions.len() + self.history.iter().filter(failed).count();
        let begun = self.seen.iter().filter(|seen| !seen.ended).count();
        self.findings.cut_off += begun.saturating_sub(recorded);
    }
}

fn stage_of(path: &str) -> Option<usize> {
    STAGES.iter().position(|stage| path == *stage || (stage.ends_with(':') && path.starts_with(stage)))
}

#[cfg(test)]
mod tests {
    use goldseam::core::event::StepCompleted;
    use goldseam::core::{BranchId, Hash, WriteId};

    use super::*;

    fn completed(seq: u64, path: &str, at: i64) -> Recorded {
        let path = goldseam::Path::new(path).unwrap();
        let (output, began) = (goldseam::Payload::null(), Millis(at - 20));
        let (input, undo, group, fence) = (None, false, false, None);
        let step = StepCompleted { path, ord: 0, attempt: 1, began, output, input, undo, group, fence };
        let (branch, prev) = (BranchId::ROOT, Hash::ZERO);
        let (seq, event) = (goldseam::Seq(seq), Event::StepCompleted(step));
        Recorded { seq, at: Millis(at), branch, epoch: None, write: WriteId(seq.0), prev, event }
    }

    fn seen(path: &str, ended: bool, at: i64) -> Seen {
        let (run, path, key) = ("r".to_owned(), path.to_owned(), "k".to_owned());
        Seen { ended, run, path, attempt: 1, key, pid: 1, micros: at * 1_000 }
    }

    /// What is found about a log with `reserve` done at 100 and `charge` done at 200: lost, repeated.
    fn found(seen: &[Seen]) -> (usize, usize) {
        let history = [completed(1, "reserve", 100), completed(2, "charge", 200)];
        let run = RunId::new("r").unwrap();
        let mut findings = Findings::default();
        let seen: Vec<&Seen> = seen.iter().collect();
        let mut case = Case { run: &run, history: &history, seen: &seen, findings: &mut findings };
        (case.lost(None), case.repeated())
    }

    #[test]
    fn what_is_lost_or_repeated_is_found() {
        let whole = |path: &str, at: i64| [seen(path, false, at - 20), seen(path, true, at)];
        let good = [whole("reserve", 99), whole("charge", 199)].concat();
        assert_eq!(found(&good), (0, 0));
        let cut_off = [&[seen("reserve", false, 40)][..], &good].concat();
        assert_eq!(found(&cut_off), (0, 0), "an effect that a kill cut off may begin again");
        let again = [&good[..], &[seen("charge", false, 230)]].concat();
        assert_eq!(found(&again), (0, 1), "a completed step began again");
        let back = [&good[..3], &whole("reserve", 190), &good[3..]].concat();
        assert_eq!(found(&back), (1, 1), "an earlier step began again after a later one");
        assert_eq!(found(&good[..3]), (1, 0), "a completion that nobody saw");
    }

    #[test]
    fn stages_follow_the_code() {
        assert!(stage_of("reserve") < stage_of("pick:lamp") && stage_of("pick:lamp") < stage_of("ship"));
        assert_eq!(stage_of("undo/reserve"), None);
    }
}
