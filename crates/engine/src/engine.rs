//! An engine: a client and a node in one process.

pub(crate) mod environment;
#[cfg(feature = "testing")]
mod for_tests;
mod steps;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use goldseam_core::command::Starter;
use goldseam_core::event::RunQueued;
use goldseam_core::task::Task;
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Limits, NodeId, Payload, RunId, Seq, StepName, WorkflowName, derive};
use goldseam_store::Store;

use self::environment::EnvironmentWorkBox;
use crate::client::{By, Client, RunHandle, StartOptions};
use crate::heal::claims::staleness::node_name;
use crate::heal::foreign::ForeignOptions;
use crate::ledger::clock::{Clock, StoreTime, SystemClock};
use crate::ledger::commit::Ledger;
use crate::ledger::config::{Config, Recovery, StepDefaults};
use crate::ledger::entropy::{Entropy, OsEntropy};
use crate::ledger::error::EngineError;
use crate::ledger::meter::Meter;
use crate::ledger::open_name::{open_name, open_start};
use crate::ledger::process::Process;
use crate::ledger::secrets::{Secret, Secrets};
use crate::ledger::settings::{GivenSettings, SettingError};
use crate::ledger::spawn::spawn;
use crate::ledger::workflow_error::Error;
use crate::node::{Node, NodeSetup};
use crate::operation;
use crate::preflight::{Preflight, PreflightReport, PreflightRunner};
use crate::run::context::{Context, FromPayload, ToPayload, WorkflowFuture};
use crate::run::live_runs::LiveRuns;
use crate::run::registry::Registry;
use crate::run::workflow_ref::WorkflowRef;

/// Settings that were made one by one. They hold whether [`Builder::config`] is called before or after them.
#[derive(Debug, Default)]
struct ConfigChanges {
    slots: Option<u32>,
    limits: Option<Limits>,
    recovery_of: BTreeMap<WorkflowName, Recovery>,
    steps_of: BTreeMap<WorkflowName, StepDefaults>,
    foreign: Option<ForeignOptions>,
}

/// What [`Builder::start`] does instead, and the error with which it then fails.
type InsteadFn = Box<dyn FnOnce(Builder) -> BoxFuture<'static, EngineError> + Send + Sync>;

struct Instead(InsteadFn);

impl fmt::Debug for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instead")
    }
}

/// Configures an [`Engine`] and registers its workflows. The order of calls does not matter, and nothing runs until
/// [`Builder::start`].
///
/// ```
/// use goldseam::healer::foreign::ForeignOptions;
/// use goldseam::prelude::*;
/// use goldseam::{Config, Limits, Recovery};
///
/// # async fn order(_: Context, _: ()) -> goldseam::Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// let builder = Engine::open(&url).await?
///     .workflow("order", order)
///     .plan("order", ["reserve", "charge", "ship"])
///     .recovery("order", Recovery { attempts_max: 5, ..Recovery::default() })
///     .secret("bank", Secret::from("opensesame"))
///     .config(Config { name: Some("node-a".to_owned()), ..Config::default() })
///     .limits(Limits { tags_max: 4, ..Limits::default() })
///     .slots(100)
///     .foreign_states(ForeignOptions::default());
/// let engine = builder.start().await?;
/// # engine.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing runs until `start`"]
pub struct Builder {
    store: Arc<dyn Store>,
    config: Config,
    registry: Registry,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    secrets: Secrets,
    changes: ConfigChanges,
    /// Settings from the environment of the process, if they are read.
    environment: Option<Result<GivenSettings, SettingError>>,
    /// Work beside the engine that the environment asks for.
    environment_work: Option<Result<EnvironmentWorkBox, EngineError>>,
    flaw: Option<EngineError>,
    instead: Option<Instead>,
    #[cfg(feature = "testing")]
    witness: Option<Arc<dyn crate::run::witness::Witness>>,
}

impl Builder {
    /// Registers version 1 of a workflow.
    pub fn workflow<F, Fut, Input, Output, E>(self, name: &str, function: F) -> Self
    where
        F: Fn(Context, Input) -> Fut + Send + Sync + 'static,
        Fut: WorkflowFuture<Output, E> + Send + 'static,
        Input: FromPayload + Send + 'static,
        Output: ToPayload + 'static,
        E: Into<Error>,
    {
        self.workflow_version(name, 1, function)
    }

    /// Registers a version of a workflow, starting at 1. New runs use the newest; older runs stay on theirs, and this
    /// engine is only offered runs whose version it has.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn old(_: Context, price: u32) -> goldseam::Result<u32> { Ok(price) }
    /// async fn new(_: Context, price: u32) -> goldseam::Result<u32> { Ok(price * 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let builder = Engine::open(&url).await?.workflow_version("tax", 1, old).workflow_version("tax", 2, new);
    /// let engine = builder.start().await?;
    /// assert_eq!(engine.start("tax", "t-1", &10).await?.result::<u32>().await?, 20);
    /// # Ok(()) }
    /// ```
    pub fn workflow_version<F, Fut, Input, Output, E>(mut self, name: &str, version: u32, function: F) -> Self
    where
        F: Fn(Context, Input) -> Fut + Send + Sync + 'static,
        Fut: WorkflowFuture<Output, E> + Send + 'static,
        Input: FromPayload + Send + 'static,
        Output: ToPayload + 'static,
        E: Into<Error>,
    {
        match WorkflowName::new(name).and_then(open_name) {
            Ok(workflow) if version == UNDECIDED => {
                self.refuse(EngineError::NoSuchVersion { workflow });
            }
            Ok(name) => self.registry.add(name, version, function),
            Err(error) => self.refuse(error.into()),
        }
        self
    }

    /// Declares the steps of a workflow, leaf or group, if it always makes the same ones. `show` then displays how
    /// many are left, and rule A3 finds a run that has made them all and has not ended. The plan is written to the
    /// log of each run, at the latest by the engine that claims it first.
    pub fn plan<'a>(mut self, workflow: &str, steps: impl IntoIterator<Item = &'a str>) -> Self {
        let steps: Result<Vec<StepName>, _> = steps.into_iter().map(StepName::new).collect();
        match (WorkflowName::new(workflow), steps) {
            (Ok(workflow), Ok(steps)) => self.registry.declare(workflow, steps),
            (Err(error), _) | (_, Err(error)) => self.refuse(error.into()),
        }
        self
    }

    /// Sets the recovery of runs of one workflow.
    pub fn recovery(mut self, workflow: &str, recovery: Recovery) -> Self {
        match WorkflowName::new(workflow) {
            Ok(workflow) => {
                self.changes.recovery_of.insert(workflow, recovery);
            }
            Err(error) => self.refuse(error.into()),
        }
        self
    }

    /// Registers a secret that steps get by its name, with [`Context::secret`]. Its value is redacted from every text
    /// that this engine writes: failures, panics, progress, heartbeats.
    pub fn secret(mut self, name: &str, secret: Secret) -> Self {
        if let Err(error) = self.secrets.add(name, secret) {
            self.refuse(error.into());
        }
        self
    }

    /// Lets the sweeps of this engine heal foreign states, if the store keeps them. Without it, no engine changes
    /// them.
    pub fn foreign_states(mut self, options: ForeignOptions) -> Self {
        self.changes.foreign = Some(options);
        self
    }

    /// Sets the configuration. Settings that are made one by one, like [`Builder::slots`], still hold.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets how many runs this engine may hold in memory.
    pub fn slots(mut self, slots: u32) -> Self {
        self.changes.slots = Some(slots);
        self
    }

    /// Sets the limits on sizes and counts.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.changes.limits = Some(limits);
        self
    }

    /// Replaces the clock, for tests and simulation.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use goldseam::unstable::engine::{Seeded, SystemClock};
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let store = goldseam::open_store(&url).await?;
    /// let builder = Engine::detached().on(store).clock(Arc::new(SystemClock)).entropy(Arc::new(Seeded::new(7)));
    /// let engine = builder.start().await?;
    /// # Ok(()) }
    /// ```
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces the source of randomness, for tests and simulation.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Replaces the store.
    pub fn on(mut self, store: Arc<dyn Store>) -> Self {
        self.store = store;
        self
    }

    /// Replays stored histories with the registered workflows, without effects and without a write. Works on a store
    /// that other engines use; starts nothing, and this process does not become a node.
    ///
    /// ```
    /// use goldseam::preflight::Preflight;
    /// use goldseam::prelude::*;
    /// # async fn order(_: Context, _: ()) -> goldseam::Result<()> { Ok(()) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # Engine::open(&url).await?.start().await?.shutdown().await;
    /// let build = Engine::open_existing(&url).await?.workflow("order", order);
    /// let report = build.preflight(Preflight::all()).await?;
    /// assert!(report.is_safe(), "{report}");
    /// # Ok(()) }
    /// ```
    pub async fn preflight(&self, what: Preflight) -> Result<PreflightReport, EngineError> {
        if let Some(flaw) = &self.flaw {
            return Err(EngineError::Config(flaw.to_string()));
        }
        if let Some(Err(error)) = &self.environment {
            return Err(error.clone().into());
        }
        let config = self.configured();
        let entropy = Arc::clone(&self.entropy);
        let limits = config.limits.clone();
        let client = Client::with(Arc::clone(&self.store), Arc::clone(&self.clock), entropy, limits)
            .with_secrets(Arc::new(self.secrets.clone()));
        PreflightRunner::new(&client, Arc::new(config), self.registry.clone(), what).run().await
    }

    /// Makes [`Builder::start`] do something else, and fail with the error that it returns.
    ///
    /// ```
    /// use goldseam::{EngineError, prelude::*};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let error = || Box::pin(async { EngineError::Config("for inspection only".to_owned()) });
    /// let refused = Engine::detached().instead_of_start(move |_builder| error()).start().await;
    /// assert_eq!(refused.unwrap_err().code(), "GS0120");
    /// # }
    /// ```
    pub fn instead_of_start(
        mut self,
        instead: impl FnOnce(Self) -> BoxFuture<'static, EngineError> + Send + Sync + 'static,
    ) -> Self {
        self.instead = Some(Instead(Box::new(instead)));
        self
    }

    /// Keeps the first error, which `start` returns.
    fn refuse(&mut self, error: EngineError) {
        self.flaw.get_or_insert(error);
    }

    /// Starts the engine: registers the node, recovers the runs of dead nodes, and begins to claim work.
    ///
    /// In a process that `goldseam preflight --program` started, runs the preflight instead and exits the process.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// // Reports the first mistake of the builder.
    /// let refused = Engine::open(&url).await?.plan("not a name", ["charge"]).slots(0).start().await;
    /// assert_eq!(refused.unwrap_err().code(), "GS0101");
    /// # Ok(()) }
    /// ```
    pub async fn start(mut self) -> Result<Engine, EngineError> {
        if let Some(Instead(instead)) = self.instead.take() {
            return Err(instead(self).await);
        }
        let config = self.configured();
        if let Some(flaw) = self.flaw {
            return Err(flaw);
        }
        if let Some(given) = self.environment {
            given?.log(&config);
        }
        let work = EnvironmentWorkBox::prepared(self.environment_work)?;
        let id = NodeId::new(node_name(self.entropy.next()))?;
        let config = config.at_pace(&self.store.pace());
        config.check()?;
        let sure_for = config.silence_max / 2;
        let live_runs = LiveRuns::new(Some(id.clone()), self.registry.clone(), self.clock.now(), sure_for);
        #[cfg(feature = "testing")]
        let live_runs = live_runs.watched_by(self.witness);
        let live_runs = Arc::new(live_runs);
        let time = Arc::new(StoreTime::new(self.clock));
        let ledger = Ledger {
            store: self.store,
            clock: Arc::clone(&time) as Arc<dyn Clock>,
            entropy: self.entropy,
            limits: Arc::new(config.limits.clone()),
            asks: None,
            meter: Meter::of(config.namespace.clone()),
            process: Arc::clone(&live_runs) as Arc<dyn Process>,
            secrets: Arc::new(self.secrets),
        };
        let node = Node::new(NodeSetup {
            ledger: ledger.clone(),
            live_runs: Arc::clone(&live_runs),
            config: Arc::new(config),
            registry: self.registry,
            id,
            time,
            handoff: None,
        });
        node.start().await?;
        let client = Client::of(ledger, live_runs, node.claims.clone(), Arc::clone(&node.config));
        Ok(Engine { client, node }.with_environment(work))
    }
}

/// A running engine. Dropping it without [`Engine::shutdown`] is like a crash: its runs continue as soon as an engine
/// runs again.
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn double(_: Context, number: u32) -> goldseam::Result<u32> { Ok(number * 2) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let store = goldseam::open_store(&url).await?;
/// let engine = Engine::builder(store).workflow("double", double).start().await?;
/// let run = engine.start(double, "d-1", &4).await?;
/// println!("node {} with {} live runs", engine.node_id(), engine.live_runs());
/// // A handle by id is untyped: name the type of the output.
/// assert_eq!(engine.handle(run.id().clone()).result::<u32>().await?, 8);
/// assert_eq!(engine.client().get(run.id()).await?.workflow.as_str(), "double");
/// engine.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Engine {
    client: Client,
    node: Arc<Node>,
}

impl Engine {
    /// Creates a builder of an engine on this store.
    pub fn builder(store: Arc<dyn Store>) -> Builder {
        Builder {
            store,
            config: Config::default(),
            registry: operation::built_in(),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(OsEntropy),
            secrets: Secrets::default(),
            changes: ConfigChanges::default(),
            environment: None,
            environment_work: None,
            flaw: None,
            instead: None,
            #[cfg(feature = "testing")]
            witness: None,
        }
    }

    /// The client of the engine's store.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The random id of this node.
    pub fn node_id(&self) -> &NodeId {
        &self.node.id
    }

    /// Starts a run, or returns the existing run with this id. Different input under the same id is refused.
    ///
    /// `workflow` is a function that is registered on this engine, a typed [`Workflow`](crate::Workflow), or a name.
    /// With one of the first two, the compiler checks the input and infers the output. A function starts the version
    /// that it was registered with; a name starts the newest version.
    pub async fn start<W, I, M>(
        &self,
        workflow: W,
        id: impl AsRef<str>,
        input: &I,
    ) -> Result<RunHandle<W::Output>, EngineError>
    where
        W: WorkflowRef<I, M>,
        I: ToPayload + ?Sized,
    {
        self.start_with(workflow, id, input, StartOptions::default()).await
    }

    /// Like [`Engine::start`], with tags, a priority, a queue or a version.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn bill(ctx: Context, _: ()) -> goldseam::Result<Option<String>> { Ok(ctx.tag("region")) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("bill", bill).start().await?;
    /// let options = StartOptions::default().tag("region", "eu").priority(5).queue("default").version(1);
    /// let run = engine.start_with(bill, "b-1", &(), options).await?;
    /// assert_eq!(run.result().await?.as_deref(), Some("eu"));
    /// # Ok(()) }
    /// ```
    pub async fn start_with<W, I, M>(
        &self,
        workflow: W,
        id: impl AsRef<str>,
        input: &I,
        options: StartOptions,
    ) -> Result<RunHandle<W::Output>, EngineError>
    where
        W: WorkflowRef<I, M>,
        I: ToPayload + ?Sized,
    {
        let registry = &self.node.registry;
        let (workflow, version) = registry.resolve(workflow.target())?;
        let input = Payload::of(input, &self.node.config.limits)?;
        let run = RunId::new(id)?;
        open_start(&run, &options)?;
        let Some(newest) = version.or_else(|| registry.newest(&workflow)) else {
            return Err(registry.unknown(workflow.as_str()));
        };
        let plan = registry.plan(&workflow);
        let queued = RunQueued { plan, ..options.queued(workflow, newest, input, &self.node.ledger).await? };
        self.begin(&run, queued).await?;
        Ok(RunHandle::new(self.client.clone(), run))
    }

    /// Returns a handle of a run, which need not exist and may execute anywhere.
    pub fn handle(&self, run: RunId) -> RunHandle {
        self.client.handle(run)
    }

    /// Starts the run on this node if it has a free slot, otherwise leaves it to another node.
    async fn begin(&self, run: &RunId, queued: RunQueued) -> Result<(), EngineError> {
        let live_runs = &self.node.live_runs;
        let open = !live_runs.is_leaving() && !live_runs.is_secluded();
        let room = open && live_runs.live_count() < self.node.config.slots as usize;
        let has_code = self.node.registry.has(&queued.workflow, queued.version);
        // Only a claim of its task takes a lane.
        let now = queued.start_at.is_none() && queued.lane.is_none();
        let ours = room && has_code && now && self.node.config.queues.contains(&queued.queue);
        let recovery = Some(self.node.config.recovery_for(&queued.workflow).policy());
        let claim = ours.then(|| Starter { node: self.node.id.clone(), recovery });
        let sent = self.node.ledger.clock.elapsed();
        let committed = self.node.ledger.start(run, queued, claim).await?;
        let claimed =
            committed.records.iter().any(|r| matches!(r.event, goldseam_core::Event::RunClaimed(_)));
        if !claimed {
            return Ok(());
        }
        let state = derive(run, &committed.records, committed.head)
            .map_err(|corrupt| EngineError::Corrupt { run: run.clone(), corrupt })?;
        // If the reply was lost and recovered, the task id is derived from the start of the run.
        let task = committed.task.unwrap_or_else(|| Task::advance_id(run, committed.end.0));
        let node = Arc::clone(&self.node);
        if let Some(live) = self.node.hold(state, task, sent).await {
            self.node.adopt(spawn(async move { node.execute(live).await }));
        }
        Ok(())
    }

    /// Replays stored histories with the workflows of this process; see [`Builder::preflight`].
    pub async fn preflight(&self, what: Preflight) -> Result<PreflightReport, EngineError> {
        let config = Arc::clone(&self.node.config);
        let registry = self.node.registry.clone();
        PreflightRunner::new(&self.client, config, registry, what).run().await
    }

    /// Moves a run to another version of its workflow, if this process has that version and the run fits it;
    /// otherwise refuses with the divergence. [`Client::migrate`] moves it without a preflight.
    ///
    /// ```
    /// use goldseam::{Status, preflight::Preflight, prelude::*};
    ///
    /// async fn old(ctx: Context, _: ()) -> goldseam::Result<u32> { ctx.signal::<()>("go").await.map(|()| 1) }
    /// async fn new(ctx: Context, _: ()) -> goldseam::Result<u32> { ctx.signal::<()>("go").await.map(|()| 2) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let builder = Engine::open(&url).await?.workflow_version("w", 1, old).workflow_version("w", 2, new);
    /// # let engine = builder.start().await?;
    /// let run = engine.start(old, "r-1", &()).await?;
    /// run.pause("update").await?;
    /// run.wait_until(|run| run.status == Status::Paused && run.owner.is_none()).await?;
    /// assert!(engine.preflight(Preflight::runs([run.id().clone()]).to_version(2)).await?.is_safe());
    /// engine.migrate(run.id(), 2, "update".into()).await?;
    /// run.resume("updated").await?;
    /// run.signal("go", &()).await?;
    /// assert_eq!(run.result().await?, 2);
    /// # Ok(()) }
    /// ```
    pub async fn migrate(&self, run: &RunId, to: u32, by: By) -> Result<Seq, EngineError> {
        let report = self.preflight(Preflight::runs([run.clone()]).to_version(to)).await?;
        if let Some(finding) = report.findings.first() {
            let verdict = finding.verdict.word();
            let reason = finding.verdict.reason().to_owned();
            return Err(EngineError::WouldPark { run: run.clone(), to, verdict, reason });
        }
        self.client.migrate(run, to, by).await
    }

    /// Runs other work beside the engine, as a retainer. It ends at any of its awaits when the engine shuts down or is
    /// dropped.
    pub fn attach(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.node.adopt(spawn(work));
    }

    /// Stops claiming, hands over all running work without counting an attempt, and leaves.
    pub async fn shutdown(self) {
        self.node.leave().await;
    }

    /// Stops at once, like a crash.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn wait(ctx: Context, _: ()) -> goldseam::Result<u32> { ctx.signal("go").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let first = Engine::open(&url).await?.workflow("wait", wait).start().await?;
    /// first.start(wait, "w-1", &()).await?;
    /// first.crash();
    /// let second = Engine::open(&url).await?.workflow("wait", wait).start().await?;
    /// let run = second.start(wait, "w-1", &()).await?;
    /// run.signal("go", &7).await?;
    /// assert_eq!(run.result().await?, 7);
    /// # Ok(()) }
    /// ```
    pub fn crash(self) {
        self.node.close();
    }

    /// Waits until this engine closes because of an error, and returns the error once: its disk failed, so its writes
    /// cannot be trusted, or a copy closed its store. Acknowledged data is not lost. End the process and start
    /// another, which reads the stored data.
    ///
    /// ```no_run
    /// # use goldseam::prelude::*;
    /// async fn serve(engine: Engine, stop: impl Future<Output = ()>) -> goldseam::Result<()> {
    ///     tokio::select! {
    ///         () = stop => engine.shutdown().await,
    ///         error = engine.failed() => return Err(error.into()),
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn failed(&self) -> EngineError {
        self.node.failure().await
    }

    /// The number of runs in the memory of this engine.
    pub fn live_runs(&self) -> usize {
        self.node.live_runs.live_count()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.node.close();
    }
}
