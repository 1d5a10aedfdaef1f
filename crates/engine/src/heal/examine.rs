//! The facts about one run, and their diagnosis.

use std::time::Duration;

use goldseam_core::codec::{chain, decode};
use goldseam_core::decide::Stamped;
use goldseam_core::delivery::child_ended;
use goldseam_core::event::{Event, RunRecovered};
use goldseam_core::recovery::{
    Cached, Code, Diagnosis, Owner, Remote, Sight, damaged, damaged_at_rest, diagnose, not_executed,
    recorded_attempt,
};
use goldseam_core::reserved::{self, Named};
use goldseam_core::seal::{Place, seal};
use goldseam_core::state::{OpenRemote, Outcome};
use goldseam_core::summary::Trouble;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{
    BranchId, Command, Corrupt, Failure, Hash, LaneName, Millis, NodeId, Payload, RunId, Seq, State, Status,
    Summary, TaskId, derive,
};
use goldseam_store::{Append, Expect, Head, Row, StoreError, TaskFilter, Written};

use super::{Healed, Healer, Liveness};
use crate::ledger::error::EngineError;

/// How long a row may stay behind a recovery before the healer that wrote the recovery counts as lost.
const ROW_DELAY_MAX: Duration = Duration::from_secs(2);

/// Claimed tasks that are read at a time to find the holder of a lane.
const CLAIMED_PAGE: u32 = 500;

/// A diagnosis of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The run.
    pub run: RunId,
    /// The end of the log when it was examined.
    pub at: Seq,
    /// The diagnosis.
    pub diagnosis: Diagnosis,
}

impl Found {
    /// The finding while a deploy may still bring the version that E2 misses.
    pub(crate) fn before_grace(self, summary: &Summary) -> Self {
        Self { diagnosis: self.diagnosis.before_grace(summary), ..self }
    }
}

/// The result of an examination.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The state according to the log, unless it is damaged.
    pub state: Option<State>,
    /// The findings, most urgent first.
    pub found: Vec<Found>,
    /// Whether the cached row is lost, late or wrong.
    pub row_is_off: bool,
    /// Why the cached row must be rewritten, if it is missing or wrong.
    pub row_is: Option<String>,
    /// Whether a readable cached row exists.
    pub has_row: bool,
}

impl Healer {
    /// Reads the liveness of all nodes.
    pub async fn liveness(&self) -> Result<Liveness, EngineError> {
        self.ledger.liveness(self.rules.thresholds).await
    }

    pub(crate) async fn task(&self, id: TaskId) -> Result<Option<Task>, EngineError> {
        let filter = TaskFilter { id: Some(id), limit: 1, ..TaskFilter::default() };
        Ok(self.ledger.store.tasks(filter).await?.into_iter().next())
    }

    /// Reads an advance task. A slightly old version is enough to see that nothing is wrong.
    pub(super) async fn advance_task(&self, id: TaskId) -> Result<Option<Task>, EngineError> {
        let filter = TaskFilter { id: Some(id), advance: Some(true), limit: 1, ..TaskFilter::default() };
        Ok(self.ledger.store.tasks(filter).await?.pop())
    }

    /// Finds the claimed task of a lane: at most one task of a lane is claimed at a time.
    pub(crate) async fn holder_of_lane(&self, lane: &LaneName) -> Result<Option<Task>, EngineError> {
        let mut after = None;
        loop {
            let claimed = Some(TaskState::Claimed);
            let filter = TaskFilter { state: claimed, after, limit: CLAIMED_PAGE, ..TaskFilter::default() };
            let tasks = self.ledger.store.tasks(filter).await?;
            after = tasks.last().map(|task| task.id.clone());
            let is_last = u32::try_from(tasks.len()).is_ok_and(|count| count < CLAIMED_PAGE);
            let holder = tasks.into_iter().find(|task| task.lane.as_ref() == Some(lane));
            if holder.is_some() || is_last {
                return Ok(holder);
            }
        }
    }

    /// Diagnoses a run that this process owns and does not execute.
    pub(crate) async fn not_executed(
        &self,
        row: &Row,
        now: Millis,
    ) -> Result<Option<Diagnosis>, EngineError> {
        let task = match row.task.clone() {
            Some(id) => self.task(id).await?,
            None => self.advance_task_of(&row.summary.run).await?,
        };
        Ok(not_executed(task.as_ref(), now))
    }

    /// Reads everything about a run and diagnoses it.
    pub async fn examine(&self, run: &RunId, liveness: &Liveness) -> Result<Examined, EngineError> {
        let refused =
            || EngineError::Refused { run: run.clone(), refusal: goldseam_core::Refusal::NoSuchRun };
        let Some(Head { end, row, unreadable }) = self.ledger.store.head(run).await? else {
            return Err(refused());
        };
        let state = match self.read(run, end, row.as_ref()).await {
            Ok(state) => state,
            Err(EngineError::Corrupt { corrupt, .. }) => {
                let rests = row.is_none() && self.ends_parked(run, end).await?;
                return Ok(examine_damaged(run, end, row.as_ref(), rests, &corrupt));
            }
            Err(error) => return Err(error),
        };
        if row.as_ref().is_some_and(|row| is_being_healed(&row.summary, &state.summary, liveness.now)) {
            let found = Vec::new();
            return Ok(Examined {
                found,
                row_is_off: false,
                row_is: None,
                has_row: true,
                state: Some(state),
            });
        }
        let task = match row.as_ref().and_then(|row| row.task.clone()) {
            Some(id) => self.task(id).await?,
            None => self.advance_task_of(run).await?,
        };
        let children = self.ended_children(&state).await?;
        let remote = self.remote_steps(&state).await?;
        let summary = &state.summary;
        let claimant = task.as_ref().and_then(|task| task.owner.as_deref());
        // A missing node may be new. It beats before it claims, so only nodes read after the claim prove that it is
        // gone.
        let holders = summary.owner.as_ref().map(NodeId::as_str).into_iter().chain(claimant);
        let again = match holders.into_iter().all(|holder| liveness.knows(holder)) {
            true => None,
            false => Some(self.liveness().await?),
        };
        let liveness = again.as_ref().unwrap_or(liveness);
        let since = task.as_ref().and_then(|task| task.started_at);
        let policy = self.rules.policy_for(summary);
        let served = liveness.coverage(&summary.workflow, summary.version);
        let is_built_in = reserved::prefix(Named::Workflow, summary.workflow.as_str()).is_some();
        let sight = Sight {
            now: liveness.now,
            state: &state,
            row: row.as_ref().map(|row| Cached { summary: &row.summary, task: row.task.as_ref() }),
            task: task.as_ref(),
            owner: liveness.owner(summary.owner.as_ref(), summary.claimed_at).with_doubt(policy),
            claimant: claimant.map_or(Owner::None, |claimant| liveness.holder(claimant, since)),
            versions: Some(&served.versions),
            queues: served.queues.as_deref().filter(|_| !is_built_in),
            remote: &remote,
            children: &children,
            bounds: policy.bounds(),
        };
        let found =
            diagnose(&sight).into_iter().map(|diagnosis| Found { run: run.clone(), at: end, diagnosis });
        let found: Vec<Found> = found.collect();
        // A live owner writes its row when needed. But a wake-up needs the task, so a missing task counts.
        let differs = |row: &Row| !row.summary.agrees_with(summary) && !sight.owner.is_alive();
        let lacks_task = |row: &Row| row.task.is_none() && task.is_some();
        let row_is_off = row.as_ref().is_none_or(|row| differs(row) || lacks_task(row));
        let row_is = match &row {
            None => Some(lost_row(unreadable)),
            Some(row) if differs(row) => Some(wrong_row(&row.summary, summary)),
            Some(_) => None,
        };
        Ok(Examined { found, row_is_off, row_is, has_row: row.is_some(), state: Some(state) })
    }

    /// Derives the state at `end`, loading from the base that a sound row names.
    async fn read(&self, run: &RunId, end: Seq, row: Option<&Row>) -> Result<State, EngineError> {
        let corrupt = |corrupt| EngineError::Corrupt { run: run.clone(), corrupt };
        let sound = |row: &&Row| row.summary.is_coherent() && row.summary.as_of <= end;
        let base = row.filter(sound).map_or(Seq(1), |row| row.summary.base);
        let (history, head) = self.ledger.history_to(run, base, end).await?;
        let state = derive(run, &history, head).map_err(corrupt)?;
        if state.summary.as_of < end {
            return Err(corrupt(Corrupt::new(state.summary.as_of.next(), "it is missing")));
        }
        Ok(state)
    }

    /// Whether the log ends with a parking by rule K1.
    async fn ends_parked(&self, run: &RunId, end: Seq) -> Result<bool, EngineError> {
        let last = self.ledger.store.read(run, end.before(), 1).await?.pop();
        let last = last.and_then(|last| decode(last.seq, &last.body).ok());
        Ok(last.is_some_and(|last| is_parking(&last.event)))
    }

    pub(super) async fn advance_task_of(&self, run: &RunId) -> Result<Option<Task>, EngineError> {
        let filter =
            TaskFilter { run: Some(run.clone()), advance: Some(true), limit: 16, ..TaskFilter::default() };
        let tasks = self.ledger.store.tasks(filter).await?;
        Ok(tasks.into_iter().find(|task| task.state.is_live()))
    }

    /// Children that the run waits for and that have ended without a record in its log.
    async fn ended_children(
        &self,
        state: &State,
    ) -> Result<Vec<(RunId, Result<Payload, Failure>)>, EngineError> {
        let mut ended = Vec::new();
        for child in state.summary.waits.iter().flat_map(|wait| &wait.children) {
            if state.children.get(child).is_none_or(|child| child.ended) {
                continue;
            }
            let has_ended = match self.ledger.summary(child).await {
                Ok(summary) => summary.is_some_and(|summary| {
                    summary.status.is_terminal() && summary.parent.as_ref() == Some(&state.summary.run)
                }),
                Err(EngineError::Corrupt { .. }) => false,
                Err(error) => return Err(error),
            };
            if has_ended && let Some(outcome) = self.ledger.outcome(child).await? {
                ended.extend(ended_child(child, outcome));
            }
        }
        Ok(ended)
    }

    /// Open remote steps with their tasks.
    async fn remote_steps(&self, state: &State) -> Result<Vec<Remote>, EngineError> {
        let mut steps = Vec::new();
        for OpenRemote { path, attempt, task, silence, since, .. } in state.open_remote() {
            let task = self.task(task).await?;
            steps.push(Remote { path, attempt, task, silence, since });
        }
        Ok(steps)
    }

    /// Whether no remote step of the run needs attention, judged by the tasks alone.
    pub(super) async fn remote_is_quiet(&self, row: &Summary, now: Millis) -> Result<bool, EngineError> {
        for id in row.waits.iter().flat_map(|wait| &wait.tasks) {
            let Some(task) = self.task(id.clone()).await? else { return Ok(false) };
            let claimed = task.state == TaskState::Claimed;
            let silent = task.silence_max.is_some_and(|most| now.since(task.last_sign()) > most);
            if claimed && silent || !task.state.is_live() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Rewrites the cached row from the log. Losing the race to another writer is not an error.
    pub async fn rewrite_row(&self, run: &RunId, state: &State) -> Result<Healed, EngineError> {
        let Some(Head { end, row, .. }) = self.ledger.store.head(run).await? else {
            return Ok(Healed::Moved);
        };
        if end != state.summary.as_of {
            return Ok(Healed::Moved);
        }
        let expect = row.as_ref().map_or(Expect::Absent, |row| Expect::Version(row.version()));
        let task = match row.as_ref().and_then(|row| row.task.clone()) {
            Some(task) => Some(task),
            None => self.advance_task_of(run).await?.map(|task| task.id),
        };
        let updated_at = row.map_or(state.summary.last_event_at, |row| row.updated_at);
        let row = Row { summary: state.summary.clone(), task, updated_at };
        match self.ledger.store.put_row(row, expect).await? {
            Written::Done => Ok(Healed::Done { end, branch: None, stale: None }),
            Written::Lost(_) => Ok(Healed::Moved),
        }
    }

    /// Parks a run whose log is unreadable by an append at its end. Does not change the damaged events.
    pub(super) async fn park_damaged(&self, run: &RunId, reason: &str) -> Result<Healed, EngineError> {
        let Some(Head { end, row, .. }) = self.ledger.store.head(run).await? else {
            return Ok(Healed::Moved);
        };
        if let Some(healed) = self.stays_terminated(run, end, row.as_ref()).await? {
            return Ok(healed);
        }
        let last = self.ledger.store.read(run, end.before(), 1).await?.pop();
        let prev = last.as_ref().map_or(Hash::ZERO, |last| chain(&last.body));
        let decoded = last.and_then(|last| decode(last.seq, &last.body).ok());
        if decoded.as_ref().is_some_and(|last| is_parking(&last.event)) {
            return Ok(Healed::Moved);
        }
        let branch = decoded.map(|last| last.branch).or(row.as_ref().map(|row| row.summary.branch));
        let now = self.ledger.clock.now();
        let place = Place {
            after: end,
            prev,
            branch: branch.unwrap_or(BranchId::ROOT),
            epoch: None,
            write: self.ledger.entropy.write_id(),
        };
        let parked = Event::RunParked { code: Code::K1.to_string(), reason: reason.to_owned() };
        let recovered = Event::RunRecovered(self.found_damage(reason));
        let sealed = seal(place, [recovered, parked].map(|event| Stamped { at: now, event }).into());
        let heads = sealed.heads.last().copied().unwrap_or_default();
        let row = match row {
            Some(row) => Some(row.summary),
            None => self.first_row(run).await?,
        };
        let row = row.map(|row| Box::new(parked_row(row, reason, end.next().next(), heads)));
        let work = self.ledger.meter.work(row.as_ref().map_or("", |row| row.workflow.as_str()));
        let append = Append { run: run.clone(), after: end, bodies: sealed.bodies, row, tasks: Vec::new() };
        match self.ledger.store.append(append).await {
            Ok(end) => {
                work.committed(&sealed.records);
                Ok(Healed::Done { end, branch: None, stale: None })
            }
            Err(StoreError::Conflict { .. }) => Ok(Healed::Moved),
            Err(error) => Err(error.into()),
        }
    }

    /// The summary after the first event of a log, if it is readable.
    async fn first_row(&self, run: &RunId) -> Result<Option<Summary>, EngineError> {
        let first = self.ledger.store.read(run, Seq::ZERO, 1).await?.pop();
        Ok(first.and_then(|first| {
            let recorded = decode(first.seq, &first.body).ok()?;
            Summary::first(run, &recorded, chain(&first.body)).ok()
        }))
    }

    fn found_damage(&self, reason: &str) -> RunRecovered {
        RunRecovered {
            rule: Code::K1.to_string(),
            reason: self.reason.as_str().to_owned(),
            attempt: recorded_attempt(0),
            evidence: reason.to_owned(),
            node: self.ledger.process.node().cloned(),
            stale_ms: 0,
            lived_ms: None,
            previous_branch: None,
            new_branch: None,
            cutoff: None,
        }
    }
}

/// Whether a healer has appended a recovery and is about to write the row: some stores write row and task shortly
/// after the log. If the row never comes, the recovery is soon too old for this check.
fn is_being_healed(row: &Summary, log: &Summary, now: Millis) -> bool {
    row.as_of < log.as_of
        && log.recovered_at == Some(log.last_event_at)
        && row.recovered_at != log.recovered_at
        && now.since(log.last_event_at) < ROW_DELAY_MAX
}

fn is_parking(event: &Event) -> bool {
    matches!(event, Event::RunParked { code, .. } if code == Code::K1.as_str())
}

/// The row of a run whose log is unreadable: parked, with the reason.
fn parked_row(row: Summary, reason: &str, as_of: Seq, head: Hash) -> Summary {
    let trouble = Trouble {
        cause: Code::K1.to_string(),
        message: reason.to_owned(),
        code: Some(Code::K1.to_string()),
        step: None,
    };
    Summary {
        status: Status::Parked,
        parked: true,
        paused: false,
        finished_at: None,
        owner: None,
        as_of,
        head,
        trouble: Some(trouble),
        ..row
    }
}

/// The examination of a run with a damaged log, which has no state. `is_parked`: the log ends with its parking.
fn examine_damaged(run: &RunId, end: Seq, row: Option<&Row>, is_parked: bool, corrupt: &Corrupt) -> Examined {
    let rests = |row: &Row| row.summary.status == Status::Parked && row.summary.as_of == end;
    // A run that has ended stays as it ended: there is nothing to park.
    let is_still = is_parked || row.is_some_and(|row| rests(row) || row.summary.status.is_terminal());
    let diagnosis = if is_still { damaged_at_rest(run, corrupt) } else { damaged(corrupt) };
    let found = vec![Found { run: run.clone(), at: end, diagnosis }];
    Examined { state: None, found, row_is_off: false, row_is: None, has_row: row.is_some() }
}

/// Describes a missing row, or one that is unreadable for this reason.
fn lost_row(unreadable: Option<String>) -> String {
    match unreadable {
        Some(reason) => format!("the cached row is unreadable: {reason}"),
        None => "the cached row is lost".to_owned(),
    }
}

/// Describes a row that contradicts its log.
fn wrong_row(row: &Summary, log: &Summary) -> String {
    let says = row.status;
    let as_of = row.as_of;
    let status = log.status;
    let end = log.as_of;
    format!("the cached row says {says} as of event {as_of}, the log says {status} as of event {end}")
}

fn ended_child(child: &RunId, outcome: Outcome) -> Option<(RunId, Result<Payload, Failure>)> {
    match child_ended(child, outcome) {
        Command::ChildEnded { child, result } => Some((child, result)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use goldseam_core::recovery::Remedy;

    use super::super::sample::started;
    use super::*;

    #[tokio::test]
    async fn row_behind_a_recent_recovery_is_being_written() {
        let (row, _) = started().await;
        let row = row.summary;
        let at = Millis(50_000);
        let log =
            Summary { as_of: row.as_of.next(), last_event_at: at, recovered_at: Some(at), ..row.clone() };
        let soon = at + Duration::from_millis(1_999);
        assert!(is_being_healed(&row, &log, soon));
        assert!(!is_being_healed(&row, &log, at + ROW_DELAY_MAX), "its writer is lost");
        assert!(!is_being_healed(&row, &log, at + ROW_DELAY_MAX * 2));
        assert!(!is_being_healed(&log, &log, soon), "the row is there");
        let caught_up = Summary { as_of: log.as_of, ..row.clone() };
        assert!(!is_being_healed(&caught_up, &log, soon), "the row is wrong, not late");
        let ahead = Summary { as_of: log.as_of.next(), ..row.clone() };
        assert!(!is_being_healed(&ahead, &log, soon));
        let moved_on = Summary { last_event_at: at + Duration::from_millis(1), ..log.clone() };
        assert!(!is_being_healed(&row, &moved_on, soon), "something followed the recovery");
        let knows = Summary { recovered_at: Some(at), ..row.clone() };
        assert!(!is_being_healed(&knows, &log, soon), "the row knows of the recovery");
    }

    #[tokio::test]
    async fn row_of_a_damaged_run_is_parked() {
        let (row, _) = started().await;
        let before = Summary {
            paused: true,
            finished_at: Some(Millis(9)),
            owner: Some(goldseam_core::NodeId::new("n").unwrap()),
            ..row.summary
        };
        let head = Hash::of_parts(&["head"]);
        let parked = parked_row(before.clone(), "a gap", Seq(7), head);
        let text = Code::K1.to_string();
        let trouble =
            Trouble { cause: text.clone(), message: "a gap".to_owned(), code: Some(text), step: None };
        let expected = Summary {
            status: Status::Parked,
            parked: true,
            paused: false,
            finished_at: None,
            owner: None,
            as_of: Seq(7),
            head,
            trouble: Some(trouble),
            ..before
        };
        assert_eq!(parked, expected);
    }

    #[tokio::test]
    async fn damage_parks_active_runs_and_is_only_reported_for_others() {
        let (row, _) = started().await;
        let end = row.summary.as_of;
        let corrupt = Corrupt::new(Seq(1), "a gap");
        let is_only_reported = |row: Option<&Row>| {
            let examined = examine_damaged(&RunId::new("r").unwrap(), end, row, false, &corrupt);
            assert!(examined.state.is_none() && !examined.row_is_off);
            assert_eq!((examined.found.len(), examined.found[0].at), (1, end));
            assert_eq!(examined.found[0].diagnosis.rule, Code::K1);
            matches!(examined.found[0].diagnosis.remedy, Remedy::Tell { .. })
        };
        let with = |status: Status, as_of: Seq| {
            let summary = Summary { status, as_of, ..row.summary.clone() };
            Row { summary, ..row.clone() }
        };
        assert!(!is_only_reported(None));
        for (status, as_of, expected) in [
            (Status::Queued, end, false),
            (Status::Paused, end, false),
            (Status::Parked, end, true),
            (Status::Parked, end.before(), false),
            (Status::Completed, end, true),
            (Status::Failed, end.before(), true),
        ] {
            assert_eq!(is_only_reported(Some(&with(status, as_of))), expected, "{status} {as_of}");
        }
    }
}
