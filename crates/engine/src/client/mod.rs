//! What anybody may do to runs, with or without an engine in the process.

pub mod audit;
pub mod by_hand;
pub mod doctor;
pub mod ending;
pub mod feed;
pub mod follow;
pub mod locks;
pub mod queue;
pub mod stats;
mod verdict;
pub mod why;

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::decide::Refusal;
use goldseam_core::event::{JumpRequested, Note, RunQueued, Tags};
use goldseam_core::state::Outcome as CoreOutcome;
use goldseam_core::version::UNDECIDED;
use goldseam_core::{
    BranchId, Command, Failure, Limits, Path, Payload, PayloadError, QueueName, Recorded, Redactor, RunId,
    Seq, SignalName, State, Status, Summary, TagKey, WorkflowName, argument, codec,
};
use goldseam_store::{Page, Record, Row, RunFilter, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::locks::Locks;
use crate::client::queue::Queue;
use crate::heal::claims::Claims;
use crate::ledger::clock::{Clock, StoreTime, SystemClock, pause};
use crate::ledger::commit::{Committed, Ledger};
use crate::ledger::config::{ClaimRules, default_queue};
use crate::ledger::entropy::{Entropy, OsEntropy};
use crate::ledger::error::{EngineError, refused};
use crate::ledger::meter::Meter;
use crate::ledger::page::{Most, Piece};
use crate::ledger::process::Process;
use crate::ledger::salvage::Log;
use crate::ledger::secrets::Secrets;
use crate::run::live_runs::{Ended, LiveRuns};

/// How a run ended.
pub type Outcome = CoreOutcome;

/// Longest pause between two looks at a run that lives elsewhere.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Events read from the store at a time.
const PAGE: u32 = 500;

/// Everything that can be done to runs from outside. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    ledger: Ledger,
    pub(crate) live_runs: Arc<LiveRuns>,
    claims: Claims,
}

/// What a start may say besides workflow, id and input.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    tags: Vec<(String, String)>,
    priority: i32,
    queue: Option<String>,
    version: Option<u32>,
}

impl StartOptions {
    /// Adds a tag to search by.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Larger goes first; 0 unless told otherwise.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// The queue, `default` unless told otherwise.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The version, from 1 on. Unless it is given, an engine takes the newest that it has itself; any other process takes
    /// the newest that a live node has, and where none has the workflow, the first node that claims the run decides.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    pub(crate) fn queued(
        self,
        workflow: WorkflowName,
        newest: u32,
        input: Payload,
        limits: &Limits,
    ) -> Result<RunQueued, EngineError> {
        if self.version == Some(UNDECIDED) {
            return Err(EngineError::NoSuchVersion { workflow });
        }
        let mut tags = Tags::new();
        for (key, value) in self.tags {
            if tags.len() >= limits.tags_max {
                return Err(PayloadError::TooMany { what: "tags", max: limits.tags_max }.into());
            }
            if value.len() > limits.text_bytes_max {
                return Err(PayloadError::TooLarge { bytes: value.len(), max: limits.text_bytes_max }.into());
            }
            argument::text("the value of a tag", &value)?;
            tags.insert(TagKey::new(key)?, value);
        }
        let queue = self.queue.map(QueueName::new).transpose()?.unwrap_or_else(default_queue);
        let version = self.version.unwrap_or(newest);
        Ok(RunQueued {
            workflow,
            version,
            input,
            queue,
            priority: self.priority,
            tags,
            parent: None,
            plan: Vec::new(),
        })
    }
}

/// Who does something, and why. Every field may be left out.
#[derive(Debug, Clone, Default)]
pub struct By {
    /// Who.
    pub who: Option<String>,
    /// Why.
    pub reason: String,
    /// Deduplicates a repeated command; random unless given.
    pub id: Option<String>,
}

/// Where a jump goes.
#[derive(Debug, Clone, Default)]
pub struct Jump {
    /// Input that replaces the run's own.
    pub input: Option<Payload>,
    /// Mail consumed after the step is not delivered again.
    pub drop_mail: bool,
    /// Undo what lies after the step before going back.
    pub compensate: bool,
    /// Drop a pending request to cancel; without this the jump is refused.
    pub drop_cancel: bool,
    /// Who and why.
    pub by: By,
}

impl Client {
    /// A client of this store that executes nothing.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with(store, Arc::new(SystemClock), Arc::new(OsEntropy), Limits::default())
    }

    /// A client with its own clock, randomness and bounds.
    pub fn with(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        limits: Limits,
    ) -> Self {
        let limits = Arc::new(limits);
        let live_runs = Arc::new(LiveRuns::of_client());
        let process = Arc::clone(&live_runs) as Arc<dyn Process>;
        let time = Arc::new(StoreTime::new(clock));
        let (clock, asks) = (Arc::clone(&time) as Arc<dyn Clock>, Some(time));
        let (meter, secrets) = (Meter::default(), Arc::default());
        let ledger = Ledger { store, clock, entropy, limits, asks, meter, process, secrets };
        let claims = Claims::new(ledger.clone(), ClaimRules::default());
        Self::of(ledger, live_runs, claims)
    }

    /// The same client under other bounds.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.ledger.limits = Arc::new(limits);
        self
    }

    /// The same client, healing claims by these rules.
    #[must_use]
    pub fn with_claim_rules(mut self, rules: ClaimRules) -> Self {
        self.claims = Claims::new(self.ledger.clone(), rules);
        self
    }

    /// The same client, of one of several stores in this process: all that is counted says which.
    #[must_use]
    pub fn counted_as(mut self, namespace: impl Into<String>) -> Self {
        self.ledger.meter = Meter::of(Some(namespace.into()));
        self
    }

    /// The same client, keeping what this filter hides out of every text that it writes.
    #[must_use]
    pub fn hiding(mut self, redactor: Redactor) -> Self {
        self.ledger.secrets = Arc::new(Secrets::of(redactor));
        self
    }

    pub(crate) fn with_secrets(mut self, secrets: Arc<Secrets>) -> Self {
        self.ledger.secrets = secrets;
        self
    }

    /// The filter that keeps secrets out of what is written here: an engine's has the values of all its secrets. Use it for
    /// what your own code prints.
    pub fn redactor(&self) -> &Redactor {
        self.ledger.secrets.redactor()
    }

    pub(crate) fn of(ledger: Ledger, live_runs: Arc<LiveRuns>, claims: Claims) -> Self {
        Self { ledger, live_runs, claims }
    }

    /// The store beneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.ledger.store
    }

    /// The ledger beneath: the one way a run changes.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// A user's own tasks.
    pub fn queue(&self) -> Queue {
        Queue::new(self.ledger.clone(), self.claims())
    }

    /// Named locks.
    pub fn locks(&self) -> Locks {
        Locks::new(self.ledger.clone())
    }

    /// Healing of claims and locks.
    pub fn claims(&self) -> Claims {
        self.claims.on(self.ledger.clone())
    }

    /// Queues a run for whoever has its workflow. The same id and input again: the same run.
    pub async fn start(
        &self,
        workflow: &str,
        run: &RunId,
        input: Payload,
        options: StartOptions,
    ) -> Result<RunHandle, EngineError> {
        self.begin(workflow, run, input, options).await?;
        Ok(self.handle(run.clone()))
    }

    /// The same for somebody who wants to know whether it is new: if it is not, nothing was appended.
    pub async fn begin(
        &self,
        workflow: &str,
        run: &RunId,
        input: Payload,
        options: StartOptions,
    ) -> Result<Committed, EngineError> {
        let workflow = WorkflowName::new(workflow)?;
        let newest = match options.version {
            Some(version) => version,
            None => self.live_runs.newest_live(&self.ledger, &workflow).await?,
        };
        let plan = self.live_runs.plan(&workflow);
        let queued = RunQueued { plan, ..options.queued(workflow, newest, input, &self.ledger.limits)? };
        self.ledger.start(run, queued, None).await
    }

    /// A new random run id.
    pub fn new_id(&self) -> RunId {
        let (time, random) = (self.ledger.clock.now().0, self.ledger.entropy.next());
        RunId::new(format!("run-{time:011x}-{random:016x}"))
            .unwrap_or_else(|_| unreachable!("hexadecimal is an id"))
    }

    /// A handle on a run, which need not exist.
    pub fn handle(&self, run: RunId) -> RunHandle {
        RunHandle { client: self.clone(), run }
    }

    /// The run as it is now.
    pub async fn get(&self, run: &RunId) -> Result<Summary, EngineError> {
        self.ledger.summary(run).await?.ok_or_else(|| refused(run, Refusal::NoSuchRun))
    }

    /// Everything the engine believes about the run.
    pub async fn state(&self, run: &RunId) -> Result<State, EngineError> {
        Ok(self.ledger.load(run).await?.state)
    }

    /// Runs by what their cached rows say.
    pub async fn list(&self, filter: RunFilter) -> Result<Page<Row>, EngineError> {
        filter.tag.as_ref().map_or(Ok(()), |(_, value)| argument::text("the value of a tag", value))?;
        filter.cause.as_ref().map_or(Ok(()), |cause| argument::text("the cause", cause))?;
        Ok(self.ledger.store.runs(filter).await?)
    }

    /// The whole log of a run, from its first event.
    pub async fn history(&self, run: &RunId) -> Result<Vec<Recorded>, EngineError> {
        let (history, _) = self.ledger.history(run, Seq(1)).await?;
        if history.is_empty() {
            return Err(refused(run, Refusal::NoSuchRun));
        }
        Ok(history)
    }

    /// The first event that is left of a run's log: what it was started with, or its tombstone.
    pub async fn first(&self, run: &RunId) -> Result<Option<Recorded>, EngineError> {
        let page = self.ledger.store.read(run, Seq::ZERO, 1).await?;
        let decoded = page.first().map(|record| codec::decode(record.seq, &record.body)).transpose();
        decoded.map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })
    }

    /// The log of a run as it is: all that can be read, and where it cannot.
    pub async fn log(&self, run: &RunId) -> Result<Log, EngineError> {
        self.ledger.log(run).await
    }

    /// The events of a damaged log that can still be decoded.
    pub async fn readable(&self, run: &RunId) -> Result<Vec<Recorded>, EngineError> {
        self.ledger.readable(run).await
    }

    /// The events that a branch sees.
    pub async fn lineage(&self, run: &RunId, branch: BranchId) -> Result<Vec<Recorded>, EngineError> {
        let history = self.history(run).await?;
        let state = self.full_state(run, &history)?;
        let lineage = state.branches.lineage(branch);
        Ok(history.into_iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()).collect())
    }

    fn full_state(&self, run: &RunId, history: &[Recorded]) -> Result<State, EngineError> {
        goldseam_core::derive(run, history, goldseam_core::Hash::ZERO)
            .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })
    }

    /// Events after `after`, waiting until there is at least one.
    pub async fn follow(&self, run: &RunId, after: Seq) -> Result<Vec<Recorded>, EngineError> {
        let mut mark = 0;
        loop {
            let (events, _) = self.events_after(run, after, Most::events(PAGE)).await?;
            if !events.is_empty() {
                return Ok(events);
            }
            mark = self.wait_for_change(mark).await?;
        }
    }

    /// The next events after `after`, and whether the bound on bytes ended the read; empty if there are none.
    pub(crate) async fn events_after(
        &self,
        run: &RunId,
        after: Seq,
        most: Most,
    ) -> Result<(Vec<Recorded>, bool), EngineError> {
        let Piece { records: page, is_cut } = self.ledger.piece(run, after, most).await?;
        let decode = |record: &Record| codec::decode(record.seq, &record.body);
        // A follower sees by the positions that something is missing; `log` says what.
        let decoded: Vec<Recorded> = page.iter().filter_map(|record| decode(record).ok()).collect();
        match page.iter().find_map(|record| decode(record).err()).filter(|_| decoded.is_empty()) {
            Some(corrupt) => Err(EngineError::Corrupt { run: run.clone(), corrupt }),
            None => Ok((decoded, is_cut)),
        }
    }

    /// Returns when something may have changed, or after a moment; no sooner than the store wants to be asked again.
    pub async fn wait_for_change(&self, mark: u64) -> Result<u64, EngineError> {
        let least = self.ledger.store.pace().wait;
        let change = tokio::time::timeout(LOOK_AGAIN.max(least), self.ledger.store.changed(mark));
        let changed = match least.is_zero() {
            true => change.await,
            false => tokio::join!(change, pause(least)).0,
        };
        match changed {
            Ok(next) => Ok(next?),
            Err(_) => Ok(mark),
        }
    }

    /// Sends a signal; durable once this returns.
    pub async fn signal(
        &self,
        run: &RunId,
        name: &str,
        payload: Payload,
        id: Option<String>,
    ) -> Result<Seq, EngineError> {
        let (name, fresh, id) = (SignalName::new(name)?, id.is_none(), self.command_id(id));
        self.tell(run, Command::Signal { name, id, fresh, payload }).await
    }

    /// Answers a question; durable once this returns.
    pub async fn answer(
        &self,
        run: &RunId,
        question: &Path,
        answer: Payload,
        by: By,
    ) -> Result<Seq, EngineError> {
        let (question, id) = (question.clone(), self.command_id(by.id));
        self.tell(run, Command::Answer { question, since: None, id, answer, by: by.who }).await
    }

    /// Stops a run between two effects.
    pub async fn pause(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.tell(run, Command::Pause(note)).await
    }

    /// Goes back to a step, on a new branch.
    pub async fn jump(&self, run: &RunId, to: &Path, jump: Jump) -> Result<Seq, EngineError> {
        let Jump { input, drop_mail, compensate, drop_cancel, by } = jump;
        let note = self.note(by);
        let jump = Command::Jump(JumpRequested { note, to: to.clone(), input, drop_mail, compensate });
        self.tell(run, dropping(drop_cancel, jump)).await
    }

    /// Tries a failed run again from its failed step, on a new branch.
    pub async fn retry(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.tell(run, Command::Retry(note)).await
    }

    /// The same, and drops a pending request to cancel.
    pub async fn retry_dropping_cancel(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.tell(run, dropping(true, Command::Retry(note))).await
    }

    /// Leaves a note in the log.
    pub async fn annotate(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.tell(run, Command::Annotate(note)).await
    }

    pub(crate) async fn tell(&self, run: &RunId, command: Command) -> Result<Seq, EngineError> {
        Ok(self.carry_out(run, &command).await?.end)
    }

    /// Carries out a command; one whose id the run has seen before appends nothing.
    pub async fn carry_out(&self, run: &RunId, command: &Command) -> Result<Committed, EngineError> {
        let committed = self.ledger.commit(run, command).await?;
        self.live_runs.poke(run);
        Ok(committed)
    }

    /// The id of a command: random unless given.
    pub fn command_id(&self, id: Option<String>) -> String {
        id.unwrap_or_else(|| format!("c-{}", self.ledger.entropy.write_id()))
    }

    /// As it stands in a log.
    pub fn note(&self, by: By) -> Note {
        Note { id: self.command_id(by.id), by: by.who, reason: by.reason }
    }

    /// Waits until the run is over.
    pub async fn outcome(&self, run: &RunId) -> Result<Outcome, EngineError> {
        let (mut mark, mut seen) = (0, None);
        loop {
            if let Some(ended) = self.live_runs.wait_for(run) {
                if let Ok(Ended::Over(outcome)) = ended.await {
                    return Ok(outcome);
                }
                seen = None;
                continue;
            }
            seen = match seen {
                // Once it is known where the log ends, only what it gains is read.
                Some(after) => self.unended(run, after).await?,
                None => {
                    let summary = self.get(run).await?;
                    if summary.status.is_terminal()
                        && let Some(outcome) = self.ledger.outcome(run).await?
                    {
                        return Ok(outcome);
                    }
                    Some(summary.as_of)
                }
            };
            if seen.is_some() {
                mark = self.wait_for_change(mark).await?;
            }
        }
    }

    /// Where the log ends now; none if something after `after` may have ended the run.
    async fn unended(&self, run: &RunId, after: Seq) -> Result<Option<Seq>, EngineError> {
        let page = self.ledger.store.read(run, after, PAGE).await?;
        let may_end = |record: &Record| {
            codec::decode(record.seq, &record.body).map_or(true, |recorded| recorded.event.may_be_last())
        };
        let end = page.last().map_or(after, |last| last.seq);
        Ok((!page.iter().any(may_end)).then_some(end))
    }
}

/// The command, made to drop a pending request to cancel if that is wanted.
pub fn dropping(drop_cancel: bool, command: Command) -> Command {
    if drop_cancel { Command::DropCancel(Box::new(command)) } else { command }
}

/// One run, to be waited for or talked to.
#[derive(Debug, Clone)]
pub struct RunHandle {
    client: Client,
    run: RunId,
}

impl RunHandle {
    /// Its id.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// Waits until the run is over and returns what the workflow returned.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        let ended = |status, failure| EngineError::Ended { run: self.run.clone(), status, failure };
        match self.client.outcome(&self.run).await? {
            Outcome::Completed(output) => {
                output.read().map_err(|source| EngineError::NotThatType { what: "the run's output", source })
            }
            Outcome::Failed(failure) => Err(ended(Status::Failed, failure)),
            Outcome::Cancelled(reason) => {
                Err(ended(Status::Cancelled, Failure::terminal(reason).with_code("cancelled")))
            }
        }
    }

    /// Where the run is in its life.
    pub async fn status(&self) -> Result<Status, EngineError> {
        Ok(self.client.get(&self.run).await?.status)
    }

    /// Sends it a signal; durable once this returns.
    pub async fn signal(&self, name: &str, payload: &impl Serialize) -> Result<Seq, EngineError> {
        let payload = Payload::of(payload, &self.client.ledger.limits)?;
        self.client.signal(&self.run, name, payload, None).await
    }

    /// Answers one of its questions; durable once this returns.
    pub async fn answer(&self, question: &str, answer: &impl Serialize) -> Result<Seq, EngineError> {
        let answer = Payload::of(answer, &self.client.ledger.limits)?;
        self.client.answer(&self.run, &Path::new(question)?, answer, By::default()).await
    }

    /// Asks it to stop.
    pub async fn cancel(&self) -> Result<Seq, EngineError> {
        self.client.cancel(&self.run, By::default()).await
    }
}
