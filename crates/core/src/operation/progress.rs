//! How far an operation is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Spec;
use crate::id::RunId;
use crate::path::Path;
use crate::time::{Millis, Seq};

/// Most runs named for one reason.
const EXAMPLES_MAX: usize = 5;
/// Most reasons that are counted one by one.
const REASONS_MAX: usize = 24;
/// The reason under which further reasons are counted.
const OTHER: &str = "other reasons";
/// Most characters of a reason.
const REASON_CHARS_MAX: usize = 120;

/// What an operation does at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OperationPhase {
    /// It fixes its targets.
    #[default]
    Planning,
    /// It acts on its targets.
    Acting,
    /// It waits until the runs of a stage have passed.
    Watching,
    /// It has ended.
    Ended,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OperationEnd {
    /// Every target was acted on, skipped or refused.
    Done,
    /// A run of a stage failed or parked again.
    Relapsed,
    /// A run of a stage neither passed nor failed in time.
    TimedOut,
}

/// Runs that share a reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Examples {
    /// Number of runs.
    pub count: u64,
    /// The first few of them.
    pub runs: Vec<RunId>,
}

/// A run of a stage that did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Relapse {
    /// The run.
    pub run: RunId,
    /// What happened to it.
    pub what: String,
    /// Cause of the failure before the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause_before: Option<String>,
    /// Cause of the failure after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The step that it had to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Path>,
}

/// What became of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetResult {
    /// The verb was carried out, now or by an earlier attempt of the same operation.
    Acted,
    /// The run had moved on, for this reason.
    Skipped(String),
    /// The run refused the verb, with this code.
    Refused(String),
}

/// How far an operation is. Every step of its run returns it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Progress {
    /// What it does at present.
    pub phase: OperationPhase,
    /// Number of targets, as far as they are fixed.
    pub planned: u64,
    /// Number of targets that it is done with.
    pub handled: u64,
    /// Number of runs that the verb was carried out on.
    pub acted: u64,
    /// Runs that had moved on, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, Examples>,
    /// Runs that refused the verb, by code.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, Examples>,
    /// Unreadable rows that the plan left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// For each stage, how many runs have been acted on when it ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<u64>,
    /// Number of stages that have passed.
    #[serde(default)]
    pub stages_passed: u64,
    /// Number of targets up to which every run of a stage has passed.
    #[serde(default)]
    pub watched: u64,
    /// When the runs of the present stage must have passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_until: Option<Millis>,
    /// The run that ended the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relapse: Option<Relapse>,
    /// How it ended; none while it has not, and if an operator stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OperationEnd>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Progress {
    /// Counts what became of the next target.
    pub fn count(&mut self, run: &RunId, result: TargetResult) {
        self.handled += 1;
        let (map, reason) = match result {
            TargetResult::Acted => {
                self.acted += 1;
                return;
            }
            TargetResult::Skipped(reason) => (&mut self.skipped, reason),
            TargetResult::Refused(code) => (&mut self.refused, code),
        };
        let mut reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        if map.len() >= REASONS_MAX && !map.contains_key(&reason) {
            reason = OTHER.to_owned();
        }
        let examples = map.entry(reason).or_default();
        examples.count += 1;
        if examples.runs.len() < EXAMPLES_MAX {
            examples.runs.push(run.clone());
        }
    }

    /// Begins to act on the targets, which are fixed now.
    pub fn begin_acting(&mut self, spec: &Spec) {
        self.stages = match &spec.canary {
            Some(canary) => canary.quotas(self.planned),
            None => vec![self.planned],
        };
        self.phase = OperationPhase::Acting;
        self.settle();
    }

    /// Returns how many more runs the present stage acts on.
    pub fn wanted(&self) -> u64 {
        let stage = usize::try_from(self.stages_passed).unwrap_or(usize::MAX);
        self.stages.get(stage).map_or(0, |quota| quota.saturating_sub(self.acted))
    }

    /// Moves to the next phase once the present stage needs no further action.
    pub fn settle(&mut self) {
        let is_through = self.handled >= self.planned;
        let is_last = self.stages_passed + 1 >= self.stages.len() as u64;
        if is_last && is_through {
            self.end(OperationEnd::Done);
        } else if !is_last && (is_through || self.wanted() == 0) {
            self.phase = OperationPhase::Watching;
        }
    }

    /// Begins the next stage: every run of the present one has passed.
    pub fn pass_stage(&mut self) {
        self.stages_passed += 1;
        self.watch_until = None;
        self.phase = OperationPhase::Acting;
        self.settle();
    }

    /// Ends the operation.
    pub fn end(&mut self, outcome: OperationEnd) {
        self.phase = OperationPhase::Ended;
        self.outcome = Some(outcome);
    }

    /// Ends the operation because of one run.
    pub fn end_by(&mut self, outcome: OperationEnd, relapse: Relapse) {
        self.relapse = Some(relapse);
        self.end(outcome);
    }
}

/// Where the log of the operation has a page of its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanPage {
    /// Position of the event that holds the page.
    pub at: Seq,
    /// Number of targets in it.
    pub count: u64,
}

/// The input of an operation's run. The run continues as new now and then, with the next chapter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chapter {
    /// What the operation does.
    pub spec: Spec,
    /// When it began: later runs are no targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_at: Option<Millis>,
    /// The pages of the plan so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanPage>,
    /// Where the plan continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How far it is.
    #[serde(default)]
    pub progress: Progress,
}

impl Chapter {
    /// Returns the first chapter.
    pub fn first(spec: Spec) -> Self {
        Self { spec, begun_at: None, plan: Vec::new(), cursor: None, progress: Progress::default() }
    }

    /// Returns the page that holds the target at `position`, and its place in the page.
    pub fn place(&self, position: u64) -> Option<(PlanPage, u64)> {
        let mut before = 0;
        for page in &self.plan {
            if position < before + page.count {
                return Some((*page, position - before));
            }
            before += page.count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Verb;

    fn run(n: u64) -> RunId {
        RunId::new(format!("r-{n}")).unwrap()
    }

    fn spec(canary: Option<&str>) -> Spec {
        Spec {
            verb: Verb::Retry,
            condition: "status = failed".to_owned(),
            rate: None,
            canary: canary.map(|text| text.parse().unwrap()),
            canary_timeout_ms: None,
            signal: None,
            reason: "fixed".to_owned(),
            by: None,
        }
    }

    #[test]
    fn without_a_canary_an_operation_only_acts() {
        let mut progress = Progress { planned: 3, ..Progress::default() };
        progress.begin_acting(&spec(None));
        for n in 0..3 {
            assert_eq!((progress.phase, progress.wanted()), (OperationPhase::Acting, 3 - n));
            progress.count(&run(n), TargetResult::Acted);
            progress.settle();
        }
        assert_eq!((progress.phase, progress.outcome), (OperationPhase::Ended, Some(OperationEnd::Done)));
    }

    #[test]
    fn an_operation_without_targets_is_done() {
        for canary in [None, Some("1,all")] {
            let mut progress = Progress::default();
            progress.begin_acting(&spec(canary));
            assert_eq!(progress.outcome, Some(OperationEnd::Done), "{canary:?}");
        }
    }

    #[test]
    fn skipped_runs_do_not_fill_a_stage() {
        let mut progress = Progress { planned: 20, ..Progress::default() };
        progress.begin_acting(&spec(Some("1,10%,all")));
        assert_eq!(progress.stages, [1, 2, 20]);
        progress.count(&run(0), TargetResult::Skipped("it is running".to_owned()));
        progress.settle();
        assert_eq!((progress.phase, progress.wanted()), (OperationPhase::Acting, 1));
        progress.count(&run(1), TargetResult::Acted);
        progress.settle();
        assert_eq!(progress.phase, OperationPhase::Watching);
        progress.pass_stage();
        assert_eq!((progress.phase, progress.wanted()), (OperationPhase::Acting, 1));
        progress.count(&run(2), TargetResult::Acted);
        progress.settle();
        progress.pass_stage();
        assert_eq!((progress.phase, progress.wanted()), (OperationPhase::Acting, 18));
    }

    #[test]
    fn a_stage_is_watched_even_if_no_target_is_left() {
        let mut progress = Progress { planned: 2, ..Progress::default() };
        progress.begin_acting(&spec(Some("1,all")));
        progress.count(&run(0), TargetResult::Skipped("it is running".to_owned()));
        progress.count(&run(1), TargetResult::Acted);
        progress.settle();
        assert_eq!(progress.phase, OperationPhase::Watching);
        progress.pass_stage();
        assert_eq!(progress.outcome, Some(OperationEnd::Done));
    }

    #[test]
    fn reasons_and_examples_are_bounded() {
        let mut progress = Progress::default();
        for n in 0..1_000 {
            progress.count(&run(n), TargetResult::Refused(format!("GS{n}{}", "x".repeat(200))));
        }
        assert_eq!(progress.refused.len(), REASONS_MAX + 1);
        let other = &progress.refused[OTHER];
        assert_eq!((other.count, other.runs.len()), (1_000 - REASONS_MAX as u64, EXAMPLES_MAX));
        assert!(serde_json::to_string(&progress).unwrap().len() < 8_000);
    }

    #[test]
    fn a_position_is_found_in_its_page() {
        let mut chapter = Chapter::first(spec(None));
        chapter.plan = vec![PlanPage { at: Seq(7), count: 2 }, PlanPage { at: Seq(9), count: 3 }];
        let at = |position| chapter.place(position).map(|(page, place)| (page.at.0, place));
        assert_eq!(
            [at(0), at(1), at(2), at(4), at(5)],
            [Some((7, 0)), Some((7, 1)), Some((9, 0)), Some((9, 2)), None]
        );
    }
}
