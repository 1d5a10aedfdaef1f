//! The account of the demo: compares the log with the witness file and with what was acknowledged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use goldseam::unstable::core::NodeId;
use goldseam::unstable::core::Recorded;
use goldseam::unstable::core::decide::Refusal;
use goldseam::unstable::core::event::{Cause, Event};
use goldseam::{Client, EngineError, RunId};
use goldseam_api::view::percentiles::Percentiles;
use serde::Serialize;

use super::drive::if_available;
use super::fleet::{Freeze, Kill};
use super::order::{DECLINED, STAGES};
use super::witness::WitnessLine;
use crate::error::CliError;

/// What the store acknowledged as durable.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// Acknowledged starts.
    pub(crate) starts: Vec<RunId>,
    /// Acknowledged answers, by run, with their ids.
    pub(crate) answers: BTreeMap<RunId, String>,
    /// The process of each node.
    pub(crate) pids: HashMap<NodeId, u32>,
}

/// The account as a document.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Account {
    /// Runs started and acknowledged.
    pub(crate) runs: usize,
    pub(crate) completed: usize,
    /// Failed runs; declined orders fail on purpose.
    pub(crate) failed: usize,
    pub(crate) kills: usize,
    pub(crate) freezes: usize,
    /// Acknowledged results that the log or the witness does not have.
    pub(crate) lost: usize,
    /// Completed steps that began again.
    pub(crate) repeated: usize,
    /// Steps begun again by a worker that was frozen just before the call and lost the run meanwhile: at most one for
    /// each freeze and arm.
    pub(crate) superseded: usize,
    /// Completed steps in the log.
    pub(crate) steps: usize,
    /// Effects that a kill or a freeze interrupted before they were recorded, and that ran again.
    pub(crate) cut_off: usize,
    /// From a kill to the first new event in a run of the killed worker.
    pub(crate) recovery_ms: Percentiles,
    /// The duration of the demo.
    pub(crate) seconds: f64,
}

/// Details for the text output.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Every violation.
    pub(crate) wrong: Vec<String>,
    /// Declined orders that failed as they should.
    pub(crate) declined: usize,
    /// Kills of a worker that owned a run.
    pub(crate) hits: usize,
    /// The run with the most recoveries, and their number.
    pub(crate) example: Option<(usize, RunId)>,
}

/// The evidence for the account.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) client: &'a Client,
    pub(crate) acknowledged: &'a Acknowledged,
    /// The lines of the witness.
    pub(crate) seen: &'a [WitnessLine],
    pub(crate) kills: &'a [Kill],
    pub(crate) freezes: &'a [Freeze],
}

/// Attempts to read from an unavailable store, and the pause between two.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// Compares the logs with the witness and with what was acknowledged.
pub(crate) async fn settle(evidence: Evidence<'_>, seconds: f64) -> Result<(Account, Findings), CliError> {
    let mut findings = Findings::default();
    let mut by_run: HashMap<&str, Vec<&WitnessLine>> = HashMap::new();
    for seen in evidence.seen {
        by_run.entry(&seen.run).or_default().push(seen);
    }
    let mut account = Account {
        runs: evidence.acknowledged.starts.len(),
        kills: evidence.kills.len(),
        freezes: evidence.freezes.len(),
        seconds,
        ..Account::default()
    };
    let mut recoveries: Vec<Option<i64>> = vec![None; evidence.kills.len()];
    for run in &evidence.acknowledged.starts {
        let Some(history) = history(evidence.client, run).await? else {
            findings.wrong.push(format!("run {run} was acknowledged and is not in the store"));
            account.lost += 1;
            continue;
        };
        ending(run, &history, &mut account, &mut findings);
        let answer = evidence.acknowledged.answers.get(run);
        let seen = by_run.get(run.as_str()).map(Vec::as_slice).unwrap_or_default();
        let mut case = Case {
            run,
            history: &history,
            seen,
            pids: &evidence.acknowledged.pids,
            freezes: evidence.freezes,
            excused: BTreeSet::new(),
            findings: &mut findings,
        };
        account.lost += case.lost(answer);
        account.repeated += case.repeated();
        account.superseded += case.excused.len();
        case.count(&mut account);
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
    account.recovery_ms = Percentiles::of(times);
    Ok((account, findings))
}

/// Reads the log of a run; `None` if the run does not exist.
async fn history(client: &Client, run: &RunId) -> Result<Option<Vec<Recorded>>, CliError> {
    for _ in 0..TRIES {
        let outcome = match client.history(run).await {
            Err(EngineError::Refused { refusal: Refusal::NoSuchRun, .. }) => return Ok(None),
            outcome => if_available(outcome)?,
        };
        if outcome.is_some() {
            return Ok(outcome);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(CliError::plain(format!("cannot read the log of {run}: the store is not available")))
}

/// Counts how a run ended.
fn ending(run: &RunId, history: &[Recorded], account: &mut Account, findings: &mut Findings) {
    match history.iter().rev().map(|recorded| &recorded.event).find(|event| event.is_terminal()) {
        Some(Event::RunCompleted { .. }) => account.completed += 1,
        Some(Event::RunFailed { failure }) => {
            account.failed += 1;
            match failure.code.as_deref() {
                Some(DECLINED) => findings.declined += 1,
                _ => findings.wrong.push(format!("run {run} failed: {failure}")),
            }
        }
        _ => findings.wrong.push(format!("run {run} has not ended")),
    }
}

/// The time from the kill to the next claim of this run, if the killed node owned it.
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

/// The completion of an effect.
struct Completion<'a> {
    node: Option<&'a NodeId>,
    /// The number of claims of that node so far.
    claims: usize,
    /// The attempt, if the log records it.
    attempt: Option<u32>,
}

/// One run: its log, and its lines of the witness.
struct Case<'a> {
    run: &'a RunId,
    history: &'a [Recorded],
    seen: &'a [&'a WitnessLine],
    pids: &'a HashMap<NodeId, u32>,
    freezes: &'a [Freeze],
    /// Lines of the witness that a freeze explains.
    excused: BTreeSet<usize>,
    findings: &'a mut Findings,
}

impl Case<'_> {
    /// Completed effects, by their path in the witness.
    fn completions(&self) -> BTreeMap<String, Completion<'_>> {
        let mut claimants: Vec<&NodeId> = Vec::new();
        let mut completions = BTreeMap::new();
        for recorded in self.history {
            let (path, attempt) = match &recorded.event {
                Event::RunClaimed(claimed) => {
                    claimants.push(&claimed.node);
                    continue;
                }
                Event::StepCompleted(step) => (step.path.to_string(), Some(step.attempt)),
                Event::CompensationCompleted { path } => (format!("undo/{path}"), None),
                _ => continue,
            };
            let node = claimants.last().copied();
            let claims = claimants.iter().filter(|claimant| Some(**claimant) == node).count();
            completions.insert(path, Completion { node, claims, attempt });
        }
        completions
    }

    /// The line of the witness at which the completed execution ended.
    fn end_of(&self, path: &str, done: &Completion<'_>) -> Option<usize> {
        let pid = self.pids.get(done.node?)?;
        let mut ends = self.seen.iter().enumerate().filter_map(|(at, seen)| {
            let same = seen.ended && seen.path == path && seen.pid == *pid;
            (same && done.attempt.is_none_or(|attempt| attempt == seen.attempt)).then_some(at)
        });
        // If the node lost the run and claimed it again, its first result may have been refused.
        if done.claims > 1 { ends.next_back() } else { ends.next() }
    }

    /// Whether a freeze explains an unexpected start: the worker was frozen between reading the log and calling the
    /// step, while another node claimed the run. Allowed once for each freeze and effect.
    fn is_excused(&mut self, at: usize) -> bool {
        let seen = self.seen[at];
        let freeze_of = |seen: &WitnessLine| {
            self.freezes.iter().rposition(|freeze| freeze.pid == seen.pid && freeze.at_us <= seen.at_us)
        };
        let Some(freeze) = freeze_of(seen) else { return false };
        let is_same = |other: &usize| {
            *other != at
                && self.seen[*other].path == seen.path
                && freeze_of(self.seen[*other]) == Some(freeze)
        };
        let claims = self.history.iter().filter_map(|recorded| match &recorded.event {
            Event::RunClaimed(claimed) => Some((recorded.at.0 * 1_000, self.pids.get(&claimed.node))),
            _ => None,
        });
        let before: Vec<_> = claims.filter(|(at_us, _)| *at_us <= seen.at_us).map(|(_, pid)| pid).collect();
        let was_owner = before.contains(&Some(&seen.pid));
        let is_superseded = was_owner && before.last() != Some(&Some(&seen.pid));
        let excused = is_superseded && !self.excused.iter().any(is_same);
        if excused {
            self.excused.insert(at);
        }
        excused
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
                wrong
                    .push(format!("run {}: {path} is complete in the log, but not in the witness", self.run));
            }
        }
        // A later effect begins only after the earlier result is acknowledged. If the earlier one begins again after
        // that, its result was lost. The order in the witness decides, not clocks.
        let mut furthest = 0;
        for (at, seen) in self.seen.iter().enumerate().filter(|(_, seen)| !seen.ended) {
            let Some(stage) = stage_of(&seen.path) else { continue };
            if stage < furthest && !self.is_excused(at) {
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

    /// Counts completed steps that began again. The order in the witness decides, because engines use the store's
    /// clock.
    fn repeated(&mut self) -> usize {
        let mut wrong: Vec<String> = Vec::new();
        let completions = self.completions();
        let ends: Vec<_> = completions
            .iter()
            .filter_map(|(path, done)| Some((path.clone(), self.end_of(path, done)?)))
            .collect();
        for (path, end) in ends {
            for at in end..self.seen.len() {
                let is_again = !self.seen[at].ended && self.seen[at].path == path;
                if is_again && !self.is_excused(at) {
                    wrong.push(format!("run {}: {path} began again after it was complete", self.run));
                }
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

    /// Counts completed steps, and effects that a kill interrupted and that began again.
    fn count(&self, account: &mut Account) {
        let completions = self.completions().len();
        account.steps += completions;
        let failed = |recorded: &&Recorded| matches!(recorded.event, Event::StepFailed(_));
        let recorded = completions + self.history.iter().filter(failed).count();
        let begun = self.seen.iter().filter(|seen| !seen.ended).count();
        account.cut_off += begun.saturating_sub(recorded + self.excused.len());
    }
}

fn stage_of(path: &str) -> Option<usize> {
    STAGES.iter().position(|stage| path == *stage || (stage.ends_with(':') && path.starts_with(stage)))
}

#[cfg(test)]
mod tests {
    use goldseam::Millis;
    use goldseam::unstable::core::event::{RunClaimed, StepCompleted};
    use goldseam::unstable::core::{BranchId, Hash, WriteId};

    use super::*;

    fn recorded(seq: u64, event: Event) -> Recorded {
        Recorded {
            seq: goldseam::Seq(seq),
            at: Millis(1),
            branch: BranchId::ROOT,
            epoch: None,
            write: WriteId(seq),
            prev: Hash::ZERO,
            bytes: 0,
            event,
        }
    }

    fn node(pid: u32) -> NodeId {
        NodeId::new(format!("n-{pid}")).unwrap()
    }

    fn claimed(seq: u64, pid: u32) -> Recorded {
        let claimed = RunClaimed {
            node: node(pid),
            cause: Cause::Start,
            attempt: 0,
            alone: false,
            version: None,
            plan: Vec::new(),
            recovery: None,
        };
        recorded(seq, Event::RunClaimed(claimed))
    }

    fn completed(seq: u64, path: &str) -> Recorded {
        let step = StepCompleted {
            path: goldseam::Path::new(path).unwrap(),
            ord: 0,
            attempt: 1,
            began: Millis(1),
            output: goldseam::Payload::null(),
            input: None,
            undo: false,
            group: false,
            fence: None,
        };
        recorded(seq, Event::StepCompleted(step))
    }

    fn seen(path: &str, ended: bool, pid: u32) -> WitnessLine {
        WitnessLine {
            ended,
            run: "r".to_owned(),
            path: path.to_owned(),
            attempt: 1,
            key: "k".to_owned(),
            pid,
            at_us: 5_000,
        }
    }

    /// The lost and repeated effects for a log with `reserve` by process 1 and `charge` by process 2.
    fn found(seen: &[WitnessLine]) -> (usize, usize) {
        let (lost, repeated, _) = found_after(seen, &[]);
        (lost, repeated)
    }

    /// The lost, repeated and excused effects for the same log, with frozen processes.
    #[expect(clippy::disallowed_methods, reason = "the end of a freeze does not matter here")]
    fn found_after(seen: &[WitnessLine], frozen: &[u32]) -> (usize, usize, usize) {
        let history = [claimed(1, 1), completed(2, "reserve"), claimed(3, 2), completed(4, "charge")];
        let run = RunId::new("r").unwrap();
        let mut findings = Findings::default();
        let seen: Vec<&WitnessLine> = seen.iter().collect();
        let pids = HashMap::from([(node(1), 1), (node(2), 2)]);
        let freeze = |pid: &u32| Freeze { pid: *pid, at_us: 4_000, until: std::time::Instant::now() };
        let freezes: Vec<Freeze> = frozen.iter().map(freeze).collect();
        let mut case = Case {
            run: &run,
            history: &history,
            seen: &seen,
            pids: &pids,
            freezes: &freezes,
            excused: BTreeSet::new(),
            findings: &mut findings,
        };
        (case.lost(None), case.repeated(), case.excused.len())
    }

    #[test]
    fn a_freeze_excuses_one_repeated_start_of_a_superseded_owner() {
        let whole = |path: &str, pid: u32| [seen(path, false, pid), seen(path, true, pid)];
        let good = [whole("reserve", 1), whole("charge", 2)].concat();
        let late = [&good[..], &whole("reserve", 1)].concat();
        assert_eq!(found_after(&late, &[1]), (0, 0, 1));
        assert_eq!(found_after(&late, &[2]), (1, 1, 0), "another process was frozen");
        let twice = [&late[..], &whole("reserve", 1)].concat();
        assert_eq!(found_after(&twice, &[1]), (1, 1, 1), "a freeze excuses only one start");
        assert_eq!(found_after(&twice, &[1, 1]), (1, 1, 1), "both starts came after the second freeze");
        let owner = [&good[..], &whole("charge", 2)].concat();
        assert_eq!(found_after(&owner, &[2]), (0, 1, 0), "the owner was not superseded");
    }

    #[test]
    fn lost_and_repeated_effects_are_found() {
        let whole = |path: &str, pid: u32| [seen(path, false, pid), seen(path, true, pid)];
        let good = [whole("reserve", 1), whole("charge", 2)].concat();
        assert_eq!(found(&good), (0, 0));
        let cut_off = [&[seen("reserve", false, 3)][..], &good].concat();
        assert_eq!(found(&cut_off), (0, 0), "an interrupted effect may begin again");
        let unrecorded = [&good[..2], &whole("charge", 1), &good[2..]].concat();
        assert_eq!(found(&unrecorded), (0, 0), "an effect that ended but was not recorded may begin again");
        let again = [&good[..], &[seen("charge", false, 3)]].concat();
        assert_eq!(found(&again), (0, 1), "a completed step began again");
        let again = [&good[..], &whole("charge", 2)].concat();
        assert_eq!(found(&again), (0, 1), "also in the same process");
        let back = [&good[..3], &whole("reserve", 2), &good[3..]].concat();
        assert_eq!(found(&back), (1, 1), "an earlier step began again after a later one");
        assert_eq!(found(&good[..3]), (1, 0), "a completion without a witness");
    }

    #[test]
    fn stages_are_ordered_as_in_the_workflow() {
        assert!(stage_of("reserve") < stage_of("pick:lamp") && stage_of("pick:lamp") < stage_of("ship"));
        assert_eq!(stage_of("undo/reserve"), None);
    }
}
