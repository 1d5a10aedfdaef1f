//! Explains why a run does not move: what it waits for, which node owns it, since when, and what to do.

mod timing;

use std::collections::BTreeMap;

use goldseam_core::event::{Request, Terminated};
use goldseam_core::recovery::{Code, Owner, Remedy, suspected};
use goldseam_core::state::{Mail, Op, OpKind, StepOp, StepProgress, Undo, requested_name};
use goldseam_core::summary::{OpenWait, Trouble};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{
    Event, Hint, Millis, NextStep, Path, Recorded, RunId, SignalName, State, Status, TaskId,
};

use super::verdict;
use crate::client::Client;
use crate::heal::{Examined, Found, Healer, Liveness};
use crate::ledger::error::EngineError;

/// Maximum depth of children that are explained.
const DEPTH_MAX: u32 = 8;
/// Maximum number of open children that are explained per run.
const CHILDREN_MAX: usize = 5;

/// The kind of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// A pending request of an operator.
    Request,
    /// A wait in quarantine, which is not a finding.
    Quarantine,
    /// A wait for something outside the run.
    Wait,
    /// Anything else that is known about the run.
    Fact,
}

/// One cause in the chain that an explanation shows.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// 0 for the run itself, 1 for a child, 2 for a child's child.
    pub depth: u32,
    /// Its kind.
    pub kind: LinkKind,
    /// The description.
    pub what: Hint,
    /// The description within a verdict, whose subject is the run.
    pub brief: String,
    /// When it began.
    pub since: Option<Millis>,
    /// When it ends at the latest.
    pub until: Option<Millis>,
}

impl Link {
    /// A fact about the run itself.
    fn fact(what: String) -> Self {
        Self {
            depth: 0,
            kind: LinkKind::Fact,
            brief: what.clone(),
            what: what.into(),
            since: None,
            until: None,
        }
    }
}

/// Why a run is in its current status.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The run.
    pub run: RunId,
    /// The status according to the log.
    pub status: Status,
    /// One line that begins with fine, waits, stalled, needs you, failed or ended.
    pub verdict: Hint,
    /// What the run waits for, and what that waits for.
    pub links: Vec<Link>,
    /// The findings.
    pub found: Vec<Found>,
    /// When the run will move without any action, if only time is needed.
    pub moves_at: Option<Millis>,
    /// What helps: a next step, or words with next steps inside.
    pub you_can: Vec<Hint>,
}

impl Client {
    /// Explains why a run is in its current status, and what would move it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let why = client.why(run.id()).await?;
    /// println!("{}; you can: {:?}", why.verdict, why.you_can);
    /// assert_eq!(why.status, goldseam::Status::Queued);
    /// # Ok(()) }
    /// ```
    pub async fn why(&self, run: &RunId) -> Result<Explanation, EngineError> {
        let healer = self.healer();
        let liveness = healer.liveness().await?;
        let examined = healer.examine(run, &liveness).await?;
        let Some(state) = &examined.state else {
            let is_newer = examined.found.iter().any(|found| found.diagnosis.rule == Code::K2);
            let row = self.store().head(run).await?.and_then(|head| head.row).filter(|_| is_newer);
            let status = row.map_or(Status::Parked, |row| row.summary.status);
            let ended = self.termination(run).await?;
            return Ok(unreadable(run, status, examined.found, ended.map(|ended| ended.left)));
        };
        let mut explained = Explanation {
            run: run.clone(),
            status: state.summary.status,
            verdict: Hint::default(),
            links: Vec::new(),
            moves_at: state.summary.due().filter(|_| state.summary.status.is_active()),
            you_can: Vec::new(),
            found: examined.found.iter().map(|found| found.clone().before_grace(&state.summary)).collect(),
        };
        if let Some(what) = examined.row_is.clone().filter(|_| !examined.has_row) {
            let what = format!("{what}; the next sweep rewrites it");
            explained.links.push(Link::fact(what));
        }
        let mut open = vec![(0, examined.clone())];
        while let Some((depth, examined)) = open.pop() {
            let Some(state) = &examined.state else { continue };
            let errors = self.errors_of(state).await?;
            let seen = ExplainedRun { healer: &healer, liveness: &liveness, state, depth, errors };
            seen.explain(&mut explained).await?;
            if depth >= DEPTH_MAX {
                continue;
            }
            let children = state.summary.waits.iter().flat_map(|wait| &wait.children).take(CHILDREN_MAX);
            for child in children {
                match healer.examine(child, &liveness).await {
                    Ok(child) => open.push((depth + 1, child)),
                    Err(EngineError::Refused { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        for line in help(&explained, &examined) {
            if !explained.you_can.contains(&line) {
                explained.you_can.push(line);
            }
        }
        explained.verdict = verdict::verdict(&explained, &state.summary);
        Ok(explained)
    }

    /// The latest error of each step that is being retried. Only the log has it.
    async fn errors_of(&self, state: &State) -> Result<BTreeMap<Path, String>, EngineError> {
        let is_retried =
            |op: &Op| matches!(&op.kind, OpKind::Step(step) if step.failures > 0 && step.is_open());
        if !state.ops.values().any(is_retried) {
            return Ok(BTreeMap::new());
        }
        let error = |recorded: Recorded| match recorded.event {
            Event::StepFailed(failed) => Some((failed.path, failed.failure.message)),
            _ => None,
        };
        Ok(self.history(&state.summary.run).await?.into_iter().filter_map(error).collect())
    }
}

fn unreadable(run: &RunId, status: Status, found: Vec<Found>, ended: Option<Terminated>) -> Explanation {
    let what = found.first().map_or_else(String::new, |found| found.diagnosis.evidence.clone());
    let rule = found.first().map_or(Code::K1, |found| found.diagnosis.rule);
    let what = if rule == Code::K1 { format!("its log is damaged: {what}") } else { what };
    let mut you_can = vec![NextStep::history(run).into(), NextStep::explain(rule).into()];
    let mut links = vec![Link::fact(what)];
    let status = match ended {
        Some(left) => {
            links.insert(0, Link::fact(format!("it was terminated: {}", left.note.reason)));
            Status::Cancelled
        }
        None => {
            if rule == Code::K1 {
                you_can.push(NextStep::terminate(run).into());
            }
            status
        }
    };
    let verdict = verdict::of_unreadable(&found, status, rule).into();
    Explanation { run: run.clone(), status, verdict, links, found, moves_at: None, you_can }
}

/// Lists what helps with the findings, or with what the run waits for.
fn help(explained: &Explanation, examined: &Examined) -> Vec<Hint> {
    let run = &explained.run;
    let mut can: Vec<Hint> = Vec::new();
    for found in &explained.found {
        match &found.diagnosis.remedy {
            Remedy::Tell { hint } => can.push(hint.clone()),
            _ => can.push(NextStep::recover(run).into()),
        }
        can.push(NextStep::explain(found.diagnosis.rule).into());
    }
    let summary = examined.state.as_ref().map(|state| &state.summary);
    if let Some(state) = examined.state.as_ref().filter(|state| !state.summary.status.is_terminal()) {
        if state.jump.is_some() && state.undone.is_empty() {
            can.push(NextStep::withdraw(run, Request::Jump).into());
        }
        if state.summary.is_cancel_pending() {
            if !state.summary.timed_out {
                can.push(NextStep::withdraw(run, Request::Cancel).into());
            }
            can.push(NextStep::terminate(run).into());
        }
    }
    match explained.status {
        Status::Paused => can.push(NextStep::resume(run).into()),
        Status::Failed => {
            let code = summary.and_then(|summary| summary.trouble.as_ref()?.code.as_deref());
            if code == Some(Code::P1.as_str()) {
                can.push(NextStep::explain(Code::P1).into());
            }
            can.push(NextStep::retry(run).into());
        }
        // Only an operator's decision moves it now.
        Status::Parked | Status::Completed | Status::Cancelled => {}
        _ => {
            let waits = summary.map(|summary| summary.waits.as_slice()).unwrap_or_default();
            let inputs = summary.map(|summary| summary.inputs.as_slice()).unwrap_or_default();
            can.extend(inputs.iter().map(|input| NextStep::answer(run, &input.path, &input.form).into()));
            for wait in waits {
                let signal = |name| NextStep::signal(run, name, wait.schemas.get(name)).into();
                can.extend(wait.signals.iter().map(signal));
            }
        }
    }
    can
}

/// What a wait for a signal looks for, in words: a signal, or the request that it brings.
fn mail_word(name: &SignalName) -> String {
    match requested_name(name) {
        Some(request) => format!("request {request}"),
        None => format!("signal {name}"),
    }
}

/// One run of the chain.
struct ExplainedRun<'a> {
    healer: &'a Healer,
    liveness: &'a Liveness,
    state: &'a State,
    depth: u32,
    /// The latest error of each step that is being retried.
    errors: BTreeMap<Path, String>,
}

impl ExplainedRun<'_> {
    /// A fact with its own subject.
    fn link(&self, what: impl Into<Hint>, since: Option<Millis>, until: Option<Millis>) -> Link {
        let what = what.into();
        let brief = what.to_string();
        let what = match self.depth {
            0 => what,
            _ => Hint::from(format!("{}: ", self.state.summary.run)).hint(&what),
        };
        Link { depth: self.depth, kind: LinkKind::Fact, what, brief, since, until }
    }

    /// What the run does, as in `waits for signal go`.
    fn does(&self, kind: LinkKind, brief: String, since: Option<Millis>, until: Option<Millis>) -> Link {
        Link { kind, brief: brief.clone(), ..self.link(format!("it {brief}"), since, until) }
    }

    /// A pending request, and what it waits for.
    fn request(&self, brief: String, waits: &Hint, since: Option<Millis>) -> Link {
        let what = Hint::from(format!("{brief}: it waits for ")).hint(waits);
        Link { kind: LinkKind::Request, brief, ..self.link(what, since, None) }
    }

    /// Adds the pending requests: which operator sent them, when, and what they wait for.
    fn requests(&self, into: &mut Explanation) {
        let summary = &self.state.summary;
        if summary.status.is_terminal() {
            return;
        }
        let by = |by: Option<&String>| by.map_or_else(String::new, |by| format!(" by {by}"));
        let worker = self.liveness.worker_for(summary);
        if let Some(jump) = &self.state.jump {
            let since = summary.jump.as_ref().map(|jump| jump.at);
            let undoes = crate::client::ending::undoes(self.state);
            let what = format!("a jump to {}{} is pending", jump.to, by(jump.note.by.as_ref()));
            into.links.push(self.request(what, &worker.clone().text(format!(" to undo {undoes}")), since));
        }
        if summary.is_cancel_pending() && summary.timed_out {
            let what = "its deadline has passed, and its end is pending".to_owned();
            into.links.push(self.request(what, &worker, summary.deadline));
        } else if summary.is_cancel_pending() {
            let asked = summary.cancel_asked.as_ref();
            let who = by(asked.and_then(|asked| asked.by.as_ref()));
            let what = format!("a request to cancel it{who} is pending");
            into.links.push(self.request(what, &worker, asked.map(|asked| asked.at)));
        }
    }

    async fn explain(&self, into: &mut Explanation) -> Result<(), EngineError> {
        self.requests(into);
        let summary = &self.state.summary;
        let trouble = || summary.trouble.as_ref().map_or_else(String::new, |t| format!(": {}", t.message));
        match summary.status {
            Status::Cancelled if summary.terminated => self.terminated(into),
            Status::Completed | Status::Failed | Status::Cancelled => {
                let stopped = |trouble: &Trouble| trouble.code.as_deref() == Some(Code::P1.as_str());
                if summary.trouble.as_ref().is_some_and(stopped) {
                    let what = "rule P1 stopped it: its process died each time it was recovered".to_owned();
                    into.links.push(self.link(what, summary.finished_at, None));
                }
                into.links.push(self.link(
                    format!("it ended {}{}", summary.status, trouble()),
                    summary.finished_at,
                    None,
                ));
            }
            Status::Paused => {
                into.links.push(self.link(
                    "an operator paused it".to_owned(),
                    Some(summary.last_event_at),
                    None,
                ));
            }
            Status::Parked => {
                into.links.push(self.link(
                    format!("it is parked{}", trouble()),
                    Some(summary.last_event_at),
                    None,
                ));
            }
            Status::Waiting | Status::Sleeping => {
                for wait in &summary.waits {
                    into.links.push(match wait.tasks.first() {
                        Some(task) => self.remote_step(wait, task).await?,
                        None => self.waits(wait),
                    });
                }
            }
            Status::Queued | Status::Running | Status::Compensating => self.moves(into).await?,
        }
        if !summary.status.is_terminal() {
            into.links.extend(self.unawaited());
            into.links.extend(self.deadline());
        }
        Ok(())
    }

    /// Adds a termination and what it left standing.
    fn terminated(&self, into: &mut Explanation) {
        let Some(left) = &self.state.terminated else { return };
        let by = left.note.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let what = format!("it was terminated{by}: {}", left.note.reason);
        into.links.push(self.link(what, self.state.summary.finished_at, None));
        let mut add = |words: &str, names: Vec<&str>| {
            if !names.is_empty() {
                into.links.push(self.link(format!("{words}: {}", names.join(", ")), None, None));
            }
        };
        add("left standing, not undone", left.standing.iter().map(Path::as_str).collect());
        add("was being undone", left.undoing.iter().map(Path::as_str).collect());
        add("handed out to workers, tasks dropped", left.remote.iter().map(Path::as_str).collect());
        add("children, asked to cancel", left.children.iter().map(RunId::as_str).collect());
    }

    /// A remote step: which worker has it, and how long the worker may still be silent.
    async fn remote_step(&self, wait: &OpenWait, id: &TaskId) -> Result<Link, EngineError> {
        let path = &wait.path;
        let Some(task) = self.healer.task(id.clone()).await? else {
            return Ok(self.link(format!("remote step {path}: its task is missing"), None, None));
        };
        let queue = &task.queue;
        let state = task.state.as_str();
        Ok(match (&task.owner, task.state) {
            (Some(owner), TaskState::Claimed) => {
                let until = task.silence_max.map(|most| task.last_sign() + most);
                self.link(format!("{owner} executes step {path} (task {id})"), task.started_at, until)
            }
            (_, TaskState::Ready) => {
                let what = format!("step {path} waits in queue {queue} for a worker (task {id})");
                self.link(what, Some(wait.since), None)
            }
            _ => self.link(format!("the task of step {path} is {state}"), Some(task.changed_at), None),
        })
    }

    /// Signals that no open wait looks for.
    fn unawaited(&self) -> Vec<Link> {
        let waits = &self.state.summary.waits;
        let mut counts: BTreeMap<&SignalName, usize> = BTreeMap::new();
        for mail in self.state.unread.values() {
            if let Mail::Signal { name, .. } = mail
                && waits.iter().all(|wait| wait.wants(name).is_none())
            {
                *counts.entry(name).or_default() += 1;
            }
        }
        let describe = |(name, count): (&SignalName, usize)| {
            let (word, name) = match requested_name(name) {
                Some(request) => ("request", request),
                None => ("signal", name.as_str()),
            };
            let plural = if count == 1 { "" } else { "s" };
            self.link(
                format!("{count} unread {word}{plural} `{name}`: the run does not wait for it yet"),
                None,
                None,
            )
        };
        counts.into_iter().map(describe).collect()
    }

    fn waits(&self, wait: &OpenWait) -> Link {
        let mut things: Vec<String> = Vec::new();
        things.extend(wait.signals.iter().map(mail_word));
        for question in &wait.inputs {
            let prompt = self.state.summary.inputs.iter().find(|input| input.path == *question);
            let prompt = prompt.map_or_else(String::new, |input| format!(" ({})", input.prompt));
            things.push(format!("an answer to {question}{prompt}"));
        }
        things.extend(wait.children.iter().map(|child| format!("child run {child}")));
        let since = Some(wait.since);
        let due = wait.due;
        let path = &wait.path;
        match self.state.ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => {
                let attempt = step.attempts.saturating_add(1);
                let error = self.last_error(path);
                self.link(format!("step {path} is being retried, attempt {attempt}{error}"), since, due)
            }
            _ if things.is_empty() => self.does(LinkKind::Fact, format!("sleeps ({path})"), since, due),
            _ => self.does(LinkKind::Wait, format!("waits for {}", things.join(" or ")), since, due),
        }
    }

    /// A run that should move: its owner, or what its advance task waits for.
    async fn moves(&self, into: &mut Explanation) -> Result<(), EngineError> {
        let summary = &self.state.summary;
        if let Some(owner) = &summary.owner {
            let node = self.liveness.nodes.iter().find(|seen| seen.record.id == *owner);
            let name = node.map_or_else(String::new, |seen| format!(" ({})", seen.record.name));
            match self.liveness.owner(Some(owner), summary.claimed_at) {
                Owner::Lost { evidence, .. } => {
                    let what = format!("its owner is lost: {evidence}");
                    into.links.push(self.link(what, node.map(|seen| seen.beat_at), None));
                }
                Owner::Alive | Owner::None => {
                    let what = format!("node {owner}{name} executes it");
                    into.links.push(self.link(what, summary.claimed_at, None));
                    into.links.push(self.current_step());
                    return Ok(());
                }
            }
        }
        into.links.extend(self.task_of_run().await?);
        Ok(())
    }

    /// The error of the previous attempt, if the log has it.
    fn last_error(&self, path: &Path) -> String {
        self.errors.get(path).map_or_else(String::new, |error| format!("; last error: {error}"))
    }

    fn current_step(&self) -> Link {
        let summary = &self.state.summary;
        let ops = &self.state.ops;
        if let Some((path, _)) = self.state.undone.iter().find(|(_, undo)| matches!(undo, Undo::Started)) {
            return self.link(format!("step {path} is being compensated"), Some(summary.last_event_at), None);
        }
        let open = ops
            .iter()
            .find(|(_, op)| matches!(&op.kind, OpKind::Step(StepOp { progress: StepProgress::Started, .. })));
        if let Some((path, op)) = open {
            let what = format!("step {path} is running{}", self.last_error(path));
            return self.link(what, Some(op.at), None);
        }
        let what = match &summary.step {
            Some(step) => format!("the code after step {step} is running; the log has no further step"),
            None => "the code is running; the log has no step yet".to_owned(),
        };
        self.link(what, Some(summary.last_event_at), None)
    }

    /// What a run that could go on now waits for.
    async fn due(&self, task: &Task) -> Result<Link, EngineError> {
        let summary = &self.state.summary;
        let needs = summary.needs();
        let queue = &task.queue;
        let since = Some(task.changed_at);
        if !self.liveness.can_execute(&summary.workflow, summary.version) {
            return Ok(self.does(LinkKind::Wait, format!("waits for a worker with {needs}"), since, None));
        }
        if self.liveness.missing(&summary.workflow, summary.version, queue).is_some() {
            let what = format!("waits for a worker with {needs} that takes queue {queue}");
            return Ok(self.does(LinkKind::Wait, what, since, None));
        }
        if task.lane.is_some() {
            return self.lane(task).await;
        }
        let what = format!("its task is ready in queue {queue} and waits for a node with a free slot");
        Ok(self.link(what, since, None))
    }

    async fn task_of_run(&self) -> Result<Option<Link>, EngineError> {
        let Some(task) = self.healer.own_task(&self.state.summary.run).await? else { return Ok(None) };
        let queue = &task.queue;
        let summary = &self.state.summary;
        if let Some(waits) = task.quarantine().filter(|_| self.state.summary.owner.is_some()) {
            let place = suspected(&self.state.summary);
            let what = format!(
                "waits in quarantine {}: its process died while it was executing, {place}",
                waits.place
            );
            return Ok(Some(self.does(LinkKind::Quarantine, what, Some(waits.since), Some(waits.until))));
        }
        Ok(match task.state {
            TaskState::Ready if summary.begins_at().is_some_and(|at| at > self.liveness.now) => {
                let what = "its start is delayed".to_owned();
                Some(self.link(what, Some(summary.created_at), summary.begins_at()))
            }
            TaskState::Ready if task.run_at <= self.liveness.now => Some(self.due(&task).await?),
            TaskState::Ready => {
                Some(self.link(format!("its task is dormant in queue {queue}"), None, Some(task.run_at)))
            }
            TaskState::Claimed => {
                let owner = task.owner.as_deref().unwrap_or("no node");
                Some(self.link(format!("its task is claimed by {owner}"), task.started_at, None))
            }
            TaskState::Completed | TaskState::Failed | TaskState::Cancelled | TaskState::Dead => None,
        })
    }
}
