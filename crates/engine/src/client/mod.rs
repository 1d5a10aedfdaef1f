//! Operations on runs, tasks and locks that need no node.

pub mod audit;
pub mod doctor;
pub mod ending;
pub mod feed;
pub mod follow;
pub mod locks;
mod published;
pub mod queue;
pub mod recover;
mod requests;
mod run_handle;
mod search;
mod settings;
mod start;
pub mod stats;
mod verdict;
pub mod why;

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::decide::Refusal;
use goldseam_core::event::{JumpRequested, Note};
use goldseam_core::state::Outcome as CoreOutcome;
use goldseam_core::{
    BranchId, Command, Limits, Millis, Path, Payload, Recorded, RunId, Seq, SignalName, State, Summary,
    argument, codec,
};
use goldseam_store::{Page, Record, Row, RunFilter, Store};

use crate::client::locks::Locks;
use crate::client::queue::Queue;
use crate::heal::claims::Claims;
use crate::ledger::clock::{Clock, StoreTime, SystemClock, pause};
use crate::ledger::commit::{Committed, Ledger};
use crate::ledger::config::{ClaimRules, Config};
use crate::ledger::entropy::{Entropy, OsEntropy};
use crate::ledger::error::{EngineError, refused};
use crate::ledger::meter::Meter;
use crate::ledger::page::{Most, Piece};
use crate::ledger::process::Process;
use crate::ledger::salvage::Log;
use crate::run::live_runs::{Ended, LiveRuns};

pub use crate::ledger::start_options::StartOptions;
pub use published::Published;
pub use requests::{REQUEST_TIMEOUT, Reply, ReplyOptions, RequestOptions, Requested};
pub use run_handle::RunHandle;
pub use search::Search;

/// How a run ended.
pub type Outcome = CoreOutcome;

/// Longest pause between two reads of a run that another process executes.
const POLL: Duration = Duration::from_millis(100);

/// Events per read of the store.
const PAGE: u32 = 500;

/// Operations on the runs of a store. Cheap to clone.
///
/// ```
/// use goldseam::unstable::store::RunFilter;
/// use goldseam::{Outcome, Status, prelude::*};
///
/// # async fn greet(_: Context, name: String) -> goldseam::Result<String> { Ok(format!("Hello, {name}!")) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("greet", greet).start().await?;
/// // A client needs only the store: no engine, and no code of a workflow.
/// let client = goldseam::connect(&url).await?;
/// let id = client.new_id();
/// client.start("greet", &id, "Ada").await?;
/// assert!(matches!(client.outcome(&id).await?, Outcome::Completed(_)));
/// assert_eq!(client.get(&id).await?.status, Status::Completed);
/// let page = client.list(RunFilter { limit: 10, ..RunFilter::default() }).await?;
/// assert_eq!(page.items[0].summary.run, id);
/// # Ok(()) }
/// ```
///
/// It also checks the whole store:
///
/// ```
/// use goldseam::client::doctor::DoctorOptions;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # goldseam::Engine::builder(goldseam::open_store(&url).await?).start().await?.shutdown().await;
/// let client = goldseam::connect(&url).await?;
/// assert!(client.doctor(DoctorOptions::default()).await?.is_healthy());
/// client.doctor_telling(DoctorOptions::default(), &mut |runs| println!("{runs} runs")).await?;
/// assert!(client.audit(&mut |_| ()).await?.complaints.is_empty());
/// let latest = client.recoveries(None, 20).await?;
/// let place = latest.last().map(|healing| healing.place());
/// let earlier = client.recoveries_after(None, place.as_ref(), 20).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    ledger: Ledger,
    pub(crate) live_runs: Arc<LiveRuns>,
    claims: Claims,
    /// The settings of healing.
    config: Arc<Config>,
}

/// The author of a command and the reason. All fields are optional.
#[derive(Debug, Clone, Default)]
pub struct By {
    /// The author.
    pub who: Option<String>,
    /// The reason.
    pub reason: String,
    /// Deduplicates a repeated command; default: random.
    pub id: Option<String>,
}

impl From<&str> for By {
    /// The reason; the author is not named.
    fn from(reason: &str) -> Self {
        Self { reason: reason.to_owned(), ..Self::default() }
    }
}

/// Options of a jump.
#[derive(Debug, Clone, Default)]
pub struct Jump {
    /// Input that replaces the run's input.
    pub input: Option<Payload>,
    /// Do not deliver mail again that was consumed after the step.
    pub drop_mail: bool,
    /// Compensate the steps after the target before jumping.
    pub compensate: bool,
    /// Drop a pending request to cancel; without this the jump is refused.
    pub drop_cancel: bool,
    /// Author and reason.
    pub by: By,
}

impl Client {
    /// Creates a client that executes no runs.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::with(store, Arc::new(SystemClock), Arc::new(OsEntropy), Limits::default())
    }

    /// Creates a client with the given clock, randomness and limits.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use goldseam::unstable::engine::{OsEntropy, SystemClock, config::ClaimRules};
    /// use goldseam::{Client, Limits, Redactor, secs};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let mut redactor = Redactor::default();
    /// redactor.hide("opensesame")?;
    /// let store = goldseam::open_store(&url).await?;
    /// let client = Client::with(store, Arc::new(SystemClock), Arc::new(OsEntropy), Limits::default())
    ///     .with_limits(Limits { tags_max: 4, ..Limits::default() })
    ///     .with_claim_rules(ClaimRules { lease: secs(60), deliveries_max: 5 })
    ///     .counted_as("orders")
    ///     .hiding(redactor);
    /// assert_eq!(client.redactor().text("the key is opensesame"), "the key is [secret]");
    /// let other = Client::new(Arc::clone(client.store()));
    /// # Ok(()) }
    /// ```
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
        let clock = Arc::clone(&time) as Arc<dyn Clock>;
        let asks = Some(time);
        let meter = Meter::default();
        let secrets = Arc::default();
        let ledger = Ledger { store, clock, entropy, limits, asks, meter, process, secrets };
        let claims = Claims::new(ledger.clone(), ClaimRules::default());
        Self::of(ledger, live_runs, claims, Arc::default())
    }

    pub(crate) fn of(ledger: Ledger, live_runs: Arc<LiveRuns>, claims: Claims, config: Arc<Config>) -> Self {
        Self { ledger, live_runs, claims, config }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.ledger.store
    }

    /// The ledger, through which all runs change.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Tasks of users and of remote steps.
    pub fn queue(&self) -> Queue {
        Queue::new(self.ledger.clone(), self.claims())
    }

    /// Named locks.
    pub fn locks(&self) -> Locks {
        Locks::new(self.ledger.clone())
    }

    /// Healing of claims and locks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let claims = goldseam::Client::new(goldseam::open_store(&url).await?).claims();
    /// assert_eq!(claims.count_stale(goldseam::secs(60)).await?, 0);
    /// # Ok(()) }
    /// ```
    pub fn claims(&self) -> Claims {
        self.claims.on(self.ledger.clone())
    }

    /// Creates a random run id.
    pub fn new_id(&self) -> RunId {
        let time = self.ledger.clock.now().0;
        let random = self.ledger.entropy.next();
        RunId::new(format!("run-{time:011x}-{random:016x}"))
            .unwrap_or_else(|_| unreachable!("hexadecimal is an id"))
    }

    /// Returns the present time, by the clock of this client.
    pub fn now(&self) -> Millis {
        self.ledger.clock.now()
    }

    /// Reads the summary of a run.
    pub async fn get(&self, run: &RunId) -> Result<Summary, EngineError> {
        self.ledger.summary(run).await?.ok_or_else(|| refused(run, Refusal::NoSuchRun))
    }

    /// Derives the full state of a run from its log.
    pub async fn state(&self, run: &RunId) -> Result<State, EngineError> {
        Ok(self.ledger.load(run).await?.state)
    }

    /// Lists runs by their cached rows.
    pub async fn list(&self, filter: RunFilter) -> Result<Page<Row>, EngineError> {
        filter.tag.as_ref().map_or(Ok(()), |(_, value)| argument::text("the value of a tag", value))?;
        filter.cause.as_ref().map_or(Ok(()), |cause| argument::text("the cause", cause))?;
        self.without_operations(filter).await
    }

    /// Reads the whole log of a run.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let events = client.history(run.id()).await?;
    /// assert_eq!(events[0].event.name(), "run.queued");
    /// assert_eq!(client.first(run.id()).await?.as_ref(), events.first());
    /// // Of a damaged log, `log` and `readable` return what can be read.
    /// assert!(client.log(run.id()).await?.damage.is_empty());
    /// assert_eq!(client.readable(run.id()).await?, events);
    /// let branch = client.state(run.id()).await?.summary.branch;
    /// assert_eq!(client.lineage(run.id(), branch).await?, events);
    /// # Ok(()) }
    /// ```
    pub async fn history(&self, run: &RunId) -> Result<Vec<Recorded>, EngineError> {
        let (history, _) = self.ledger.history(run, Seq(1)).await?;
        if history.is_empty() {
            return Err(refused(run, Refusal::NoSuchRun));
        }
        Ok(history)
    }

    /// Reads the first event of a run's log: its start, or its tombstone.
    pub async fn first(&self, run: &RunId) -> Result<Option<Recorded>, EngineError> {
        let page = self.ledger.store.read(run, Seq::ZERO, 1).await?;
        let decoded = page.first().map(|record| codec::decode(record.seq, &record.body)).transpose();
        decoded.map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })
    }

    /// Reads the log of a run with all readable events and all damage.
    pub async fn log(&self, run: &RunId) -> Result<Log, EngineError> {
        self.ledger.log(run).await
    }

    /// Reads the events of a log that can be decoded.
    pub async fn readable(&self, run: &RunId) -> Result<Vec<Recorded>, EngineError> {
        self.ledger.readable(run).await
    }

    /// Reads the events that a branch sees.
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

    /// Reads events after `after`; waits until there is at least one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let first = client.follow(run.id(), goldseam::Seq::ZERO).await?;
    /// client.annotate(run.id(), "for Ada".into()).await?;
    /// let next = client.follow(run.id(), first[0].seq).await?;
    /// assert_eq!(next[0].event.name(), "note.added");
    /// # Ok(()) }
    /// ```
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

    /// Reads the next events after `after`, and whether the byte limit ended the read; empty at the end of the log.
    pub(crate) async fn events_after(
        &self,
        run: &RunId,
        after: Seq,
        most: Most,
    ) -> Result<(Vec<Recorded>, bool), EngineError> {
        let Piece { records: page, is_cut } = self.ledger.piece(run, after, most).await?;
        let decode = |record: &Record| codec::decode(record.seq, &record.body);
        // A follower notices gaps by the positions; `log` reports the damage.
        let decoded: Vec<Recorded> = page.iter().filter_map(|record| decode(record).ok()).collect();
        match page.iter().find_map(|record| decode(record).err()).filter(|_| decoded.is_empty()) {
            Some(corrupt) => Err(EngineError::Corrupt { run: run.clone(), corrupt }),
            None => Ok((decoded, is_cut)),
        }
    }

    /// Returns when the store may have changed, or after a short pause, but not before the store's pace allows
    /// another read.
    ///
    /// ```no_run
    /// # async fn demo(client: goldseam::Client, run: goldseam::RunId) -> goldseam::Result<()> {
    /// let mut mark = 0;
    /// while client.get(&run).await?.inputs.is_empty() {
    ///     mark = client.wait_for_change(mark).await?;
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn wait_for_change(&self, mark: u64) -> Result<u64, EngineError> {
        let least = self.ledger.store.pace().wait;
        let change = tokio::time::timeout(POLL.max(least), self.ledger.store.changed(mark));
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
    ///
    /// ```
    /// use goldseam::{Limits, Path, Payload, prelude::*};
    ///
    /// async fn talk(ctx: Context, _: ()) -> goldseam::Result<(String, bool)> {
    ///     Ok((ctx.signal("name").await?, ctx.ask("sure", "Sure?").await?))
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("talk", talk).start().await?;
    /// let (client, run) = (engine.client(), engine.start(talk, "t-1", &()).await?);
    /// let name = Payload::of("Ada", &Limits::default())?;
    /// // A repeat with the same id is the same signal.
    /// client.signal(run.id(), "name", name, Some("message-7".to_owned())).await?;
    /// run.wait_until(|run| !run.inputs.is_empty()).await?;
    /// client.answer(run.id(), &Path::new("sure")?, Payload::of(&true, &Limits::default())?, "ok".into()).await?;
    /// assert_eq!(run.result().await?, ("Ada".to_owned(), true));
    /// # Ok(()) }
    /// ```
    pub async fn signal(
        &self,
        run: &RunId,
        name: &str,
        payload: Payload,
        id: Option<String>,
    ) -> Result<Seq, EngineError> {
        let name = SignalName::new(name)?;
        let fresh = id.is_none();
        let id = self.command_id(id);
        self.send_command(run, Command::Signal { name, id, fresh, payload }).await
    }

    /// Answers a question; durable once this returns.
    pub async fn answer(
        &self,
        run: &RunId,
        question: &Path,
        answer: Payload,
        by: By,
    ) -> Result<Seq, EngineError> {
        let question = question.clone();
        let id = self.command_id(by.id);
        self.send_command(run, Command::Answer { question, since: None, id, answer, by: by.who }).await
    }

    /// Stops a run between two effects.
    pub async fn pause(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.send_command(run, Command::Pause(note)).await
    }

    /// Jumps back to a step, on a new branch.
    ///
    /// ```
    /// use goldseam::client::Jump;
    /// use goldseam::{Path, Status, prelude::*};
    ///
    /// async fn order(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.step("price", || async { Ok(()) }).await?;
    ///     ctx.signal("paid").await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("order", order).start().await?;
    /// let (client, run) = (engine.client(), engine.start(order, "o-1", &()).await?);
    /// run.wait_until(|run| run.status == Status::Waiting).await?;
    /// client.pause(run.id(), "the price is wrong".into()).await?;
    /// client.jump(run.id(), &Path::new("price")?, Jump::default()).await?;
    /// client.resume(run.id(), "price corrected".into()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn jump(&self, run: &RunId, to: &Path, jump: Jump) -> Result<Seq, EngineError> {
        let Jump { input, drop_mail, compensate, drop_cancel, by } = jump;
        let note = self.note(by);
        let jump = Command::Jump(JumpRequested { note, to: to.clone(), input, drop_mail, compensate });
        self.send_command(run, dropping(drop_cancel, jump)).await
    }

    /// Retries a failed run from its failed step, on a new branch.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn pay(ctx: Context, _: ()) -> goldseam::Result<()> {
    ///     ctx.step("charge", || async { Err(Error::terminal("card declined")) }).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("pay", pay).start().await?;
    /// let (client, run) = (engine.client(), engine.start(pay, "p-1", &()).await?);
    /// run.outcome().await?;
    /// client.retry(run.id(), "the card was renewed".into()).await?;
    /// # run.outcome().await?;
    /// # client.retry_dropping_cancel(run.id(), "once more".into()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn retry(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.send_command(run, Command::Retry(note)).await
    }

    /// Like [`Client::retry`], but drops a pending request to cancel.
    pub async fn retry_dropping_cancel(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.send_command(run, dropping(true, Command::Retry(note))).await
    }

    /// Adds a note to the log.
    pub async fn annotate(&self, run: &RunId, by: By) -> Result<Seq, EngineError> {
        let note = self.note(by);
        self.send_command(run, Command::Annotate(note)).await
    }

    pub(crate) async fn send_command(&self, run: &RunId, command: Command) -> Result<Seq, EngineError> {
        Ok(self.carry_out(run, &command).await?.end)
    }

    /// Carries out a command. A repeat with the same id appends nothing.
    ///
    /// ```
    /// use goldseam::{client::By, unstable::core::Command};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// let id = client.command_id(Some("note-7".to_owned()));
    /// let note = client.note(By { who: Some("ada".to_owned()), reason: "checked".to_owned(), id: Some(id) });
    /// let command = Command::Annotate(note);
    /// assert_eq!(client.carry_out(run.id(), &command).await?.records.len(), 1);
    /// assert_eq!(client.carry_out(run.id(), &command).await?.records.len(), 0);
    /// assert_eq!(client.ledger().commit(run.id(), &command).await?.records.len(), 0);
    /// # Ok(()) }
    /// ```
    pub async fn carry_out(&self, run: &RunId, command: &Command) -> Result<Committed, EngineError> {
        // An empty id is a mistake of the caller: all commands without an id would be one.
        command.outside_id().map_or(Ok(()), |id| argument::name("the id", id))?;
        let committed = self.ledger.commit(run, command).await?;
        self.live_runs.poke(run);
        Ok(committed)
    }

    /// Returns the given id of a command, or a random one.
    pub fn command_id(&self, id: Option<String>) -> String {
        id.unwrap_or_else(|| format!("c-{}", self.ledger.entropy.write_id()))
    }

    /// Creates the note that the log records.
    pub fn note(&self, by: By) -> Note {
        Note { id: self.command_id(by.id), by: by.who, reason: by.reason }
    }

    /// Waits until the run has ended.
    pub async fn outcome(&self, run: &RunId) -> Result<Outcome, EngineError> {
        let mut mark = 0;
        let mut seen = None;
        loop {
            if let Some(ended) = self.live_runs.wait_for(run) {
                if let Ok(Ended::Over(outcome)) = ended.await {
                    return Ok(outcome);
                }
                seen = None;
                continue;
            }
            seen = match seen {
                // Once the end of the log is known, read only new events.
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

    /// The end of the log; none if an event after `after` may have ended the run.
    async fn unended(&self, run: &RunId, after: Seq) -> Result<Option<Seq>, EngineError> {
        let page = self.ledger.store.read(run, after, PAGE).await?;
        let may_end = |record: &Record| {
            codec::decode(record.seq, &record.body).map_or(true, |recorded| recorded.event.may_be_last())
        };
        let end = page.last().map_or(after, |last| last.seq);
        Ok((!page.iter().any(may_end)).then_some(end))
    }
}

/// Wraps the command to drop a pending request to cancel, if `drop_cancel` is set.
pub fn dropping(drop_cancel: bool, command: Command) -> Command {
    if drop_cancel { Command::DropCancel(Box::new(command)) } else { command }
}
