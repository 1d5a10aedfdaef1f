//! The honest account: what the log says, against what the witness saw and what was acknowledged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use goldseam::core::NodeId;
use goldseam::core::Recorded;
use goldseam::core::decide::Refusal;
use goldseam::core::event::{Cause, Event};
use goldseam::{Client, EngineError, RunId};
use goldseam_api::view::spread::Spread;
use serde::Serialize;

use super::drive::passing;
use super::fleet::{Freeze, Kill};
use super::order::{DECLINED, STAGES};
use super::witness::Seen;
use crate::fail::Fail;

/// What the demo was told is durable.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged {
    /// Starts that returned.
    pub(crate) starts: Vec<RunId>,
    /// Answers that returned, by run, with their ids.
    pub(crate) answers: BTreeMap<RunId, String>,
    /// The process of each node.
    pub(crate) pids: HashMap<NodeId, u32>,
}

/// The account as a program reads it.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Account {
    /// Runs started and acknowledged.
    pub(crate) runs: usize,
    /// Of these, completed.
    pub(crate) completed: usize,
    /// Of these, failed; declined orders fail on purpose.
    pub(crate) failed: usize,
    /// Workers killed.
    pub(crate) kills: usize,
    /// Workers frozen for a while.
    pub(crate) freezes: usize,
    /// Acknowledged things that the log does not have, or the witness never saw.
    pub(crate) lost: usize,
    /// Completed steps that began again.
    pub(crate) repeated: usize,
    /// Steps begun again by a worker that was frozen just before the call, and superseded meanwhile: one for each
    /// freeze and arm is all that a freeze may do.
    pub(crate) superseded: usize,
    /// Steps that the log has as completed.
    pub(crate) steps: usize,
    /// Effects that a kill or a freeze cut off before they were recorded, and that ran again.
    pub(crate) cut_off: usize,
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
    /// Who was frozen when.
    pub(crate) freezes: &'a [Freeze],
}

/// How often a store that is away is asked for one thing, and the pause between two tries.
const TRIES: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// Compares everything with everything.
pub(crate) async fn settle(evidence: Evidence<'_>, seconds: f64) -> Result<(Account, Findings), Fail> {
    let mut findings = Findings::default();
    let mut by_run: HashMap<&str, Vec<&Seen>> = HashMap::new();
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
    account.recovery_ms = Spread::of(times);
    Ok((account, findings))
}

/// The log of a run; none if there is no such run.
async fn history(client: &Client, run: &RunId) -> Result<Option<Vec<Recorded>>, Fail> {
    for _ in 0..TRIES {
        let outcome = match client.history(run).await {
            Err(EngineError::Refused { refusal: Refusal::NoSuchRun, .. }) => return Ok(None),
            outcome => passing(outcome)?,
        };
        if outcome.is_some() {
            return Ok(outcome);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Fail::plain(format!("the store does not say what became of {run}")))
}

/// How a run ended, as its log says it.
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

/// Who completed an effect.
struct Completion<'a> {
    node: Option<&'a NodeId>,
    /// How often that node had claimed the run.
    claims: usize,
    /// The attempt, where the log says it.
    attempt: Option<u32>,
}

/// One run: its log and what the witness saw of it.
struct Case<'a> {
    run: &'a RunId,
    history: &'a [Recorded],
    seen: &'a [&'a Seen],
    pids: &'a HashMap<NodeId, u32>,
    freezes: &'a [Freeze],
    /// Lines of the witness that a freeze excuses.
    excused: BTreeSet<usize>,
    findings: &'a mut Findings,
}

impl Case<'_> {
    /// Completed effects by the witness's name for them.
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

    /// Where the witness saw the end of the execution that the log has as complete.
    fn end_of(&self, path: &str, done: &Completion<'_>) -> Option<usize> {
        let pid = self.pids.get(done.node?)?;
        let mut ends = self.seen.iter().enumerate().filter_map(|(at, seen)| {
            let same = seen.ended && seen.path == path && seen.pid == *pid;
            (same && done.attempt.is_none_or(|attempt| attempt == seen.attempt)).then_some(at)
        });
        // A node that had lost the run and claimed it again may have been refused the first time.
        if done.claims > 1 { ends.next_back() } else { ends.next() }
    }

    /// Whether a beginning that should not be is that of a worker that was frozen between its look at the log and the
    /// call, while somebody else claimed the run: once for each freeze and effect.
    fn excuses(&mut self, at: usize) -> bool {
        let seen = self.seen[at];
        let freeze_of = |seen: &Seen| {
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
                wrong.push(format!("run {}: {path} is complete, and the witness never saw it end", self.run));
            }
        }
        // A later effect begins only once an earlier result is acknowledged: if the earlier one begins
        // again after that, its result was lost. Judged by the order of the witness alone, without clocks.
        let mut furthest = 0;
        for (at, seen) in self.seen.iter().enumerate().filter(|(_, seen)| !seen.ended) {
            let Some(stage) = stage_of(&seen.path) else { continue };
            if stage < furthest && !self.excuses(at) {
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

    /// Judged by the order of the witness, too: engines follow the store's clock, which is not the witness's.
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
                if is_again && !self.excuses(at) {
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

    /// Counts what is right: steps done, and effects that a kill cut off and that began again.
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
    use goldseam::core::event::{RunClaimed, StepCompleted};
    use goldseam::core::{BranchId, Hash, WriteId};

    use super::*;

    fn recorded(seq: u64, event: Event) -> Recorded {
        let (branch, prev) = (BranchId::ROOT, Hash::ZERO);
        let (seq, at) = (goldseam::Seq(seq), Millis(1));
        Recorded { seq, at, branch, epoch: None, write: WriteId(seq.0), prev, bytes: 0, event }
    }

    fn node(pid: u32) -> NodeId {
        NodeId::new(format!("n-{pid}")).unwrap()
    }

    fn claimed(seq: u64, pid: u32) -> Recorded {
        let (attempt, alone) = (0, false);
        let claimed = RunClaimed {
            node: node(pid),
            cause: Cause::Start,
            attempt,
            alone,
            version: None,
            plan: Vec::new(),
            recovery: None,
        };
        recorded(seq, Event::RunClaimed(claimed))
    }

    fn completed(seq: u64, path: &str) -> Recorded {
        let path = goldseam::Path::new(path).unwrap();
        let (output, began) = (goldseam::Payload::null(), Millis(1));
        let (input, undo, group, fence) = (None, false, false, None);
        let step = StepCompleted { path, ord: 0, attempt: 1, began, output, input, undo, group, fence };
        recorded(seq, Event::StepCompleted(step))
    }

    fn seen(path: &str, ended: bool, pid: u32) -> Seen {
        let (run, path, key) = ("r".to_owned(), path.to_owned(), "k".to_owned());
        Seen { ended, run, path, attempt: 1, key, pid, at_us: 5_000 }
    }

    /// What is found about a log with `reserve` done by process 1, and `charge` by process 2: lost, repeated.
    fn found(seen: &[Seen]) -> (usize, usize) {
        let (lost, repeated, _) = found_after(seen, &[]);
        (lost, repeated)
    }

    /// The same where processes were frozen, and what freezes excuse.
    #[expect(clippy::disallowed_methods, reason = "when a freeze ends does not matter here")]
    fn found_after(seen: &[Seen], frozen: &[u32]) -> (usize, usize, usize) {
        let history = [claimed(1, 1), completed(2, "reserve"), claimed(3, 2), completed(4, "charge")];
        let run = RunId::new("r").unwrap();
        let mut findings = Findings::default();
        let seen: Vec<&Seen> = seen.iter().collect();
        let pids = HashMap::from([(node(1), 1), (node(2), 2)]);
        let freeze = |pid: &u32| Freeze { pid: *pid, at_us: 4_000, until: std::time::Instant::now() };
        let freezes: Vec<Freeze> = frozen.iter().map(freeze).collect();
        let (history, pids, freezes, excused) = (&history, &pids, &freezes, BTreeSet::new());
        let mut case =
            Case { run: &run, history, seen: &seen, pids, freezes, excused, findings: &mut findings };
        (case.lost(None), case.repeated(), case.excused.len())
    }

    #[test]
    fn a_freeze_excuses_one_beginning_of_an_owner_that_was_superseded() {
        let whole = |path: &str, pid: u32| [seen(path, false, pid), seen(path, true, pid)];
        let good = [whole("reserve", 1), whole("charge", 2)].concat();
        let late = [&good[..], &whole("reserve", 1)].concat();
        assert_eq!(found_after(&late, &[1]), (0, 0, 1));
        assert_eq!(found_after(&late, &[2]), (1, 1, 0), "somebody else was frozen");
        let twice = [&late[..], &whole("reserve", 1)].concat();
        assert_eq!(found_after(&twice, &[1]), (1, 1, 1), "one is all that a freeze excuses");
        assert_eq!(found_after(&twice, &[1, 1]), (1, 1, 1), "both came after the second freeze");
        let owner = [&good[..], &whole("charge", 2)].concat();
        assert_eq!(found_after(&owner, &[2]), (0, 1, 0), "an owner that was not superseded has no excuse");
    }

    #[test]
    fn what_is_lost_or_repeated_is_found() {
        let whole = |path: &str, pid: u32| [seen(path, false, pid), seen(path, true, pid)];
        let good = [whole("reserve", 1), whole("charge", 2)].concat();
        assert_eq!(found(&good), (0, 0));
        let cut_off = [&[seen("reserve", false, 3)][..], &good].concat();
        assert_eq!(found(&cut_off), (0, 0), "an effect that a kill cut off may begin again");
        let unrecorded = [&good[..2], &whole("charge", 1), &good[2..]].concat();
        assert_eq!(found(&unrecorded), (0, 0), "and so may one that ended and was not recorded");
        let again = [&good[..], &[seen("charge", false, 3)]].concat();
        assert_eq!(found(&again), (0, 1), "a completed step began again");
        let again = [&good[..], &whole("charge", 2)].concat();
        assert_eq!(found(&again), (0, 1), "in the same process, too");
        let back = [&good[..3], &whole("reserve", 2), &good[3..]].concat();
        assert_eq!(found(&back), (1, 1), "an earlier step began again after a later one");
        assert_eq!(found(&good[..3]), (1, 0), "a completion that nobody saw");
    }

    #[test]
    fn stages_follow_the_code() {
        assert!(stage_of("reserve") < stage_of("pick:lamp") && stage_of("pick:lamp") < stage_of("ship"));
        assert_eq!(stage_of("undo/reserve"), None);
    }
}
