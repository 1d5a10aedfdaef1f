//! Starting runs.

use goldseam_core::event::RunQueued;
use goldseam_core::{Payload, RunId, WorkflowName};
use serde::Serialize;

use crate::client::{Client, RunHandle};
use crate::ledger::commit::Committed;
use crate::ledger::error::EngineError;
use crate::ledger::open_name::{open_name, open_start};
use crate::ledger::start_options::StartOptions;
use crate::run::workflow_ref::WorkflowRef;

impl Client {
    /// Starts a run, which a node with its workflow executes, or returns the existing run with this id. Different
    /// input under the same id is refused.
    ///
    /// `workflow` is a name or a typed [`Workflow`](crate::Workflow); the client of an engine also takes the functions
    /// that are registered there.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// const GREET: Workflow<String, String> = Workflow::named("greet");
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start(&GREET, "greet-1", &"Ada".to_owned()).await?;
    /// // The same id is the same run; different input is refused.
    /// client.start(&GREET, "greet-1", &"Ada".to_owned()).await?;
    /// assert!(client.start(&GREET, "greet-1", &"Bob".to_owned()).await.is_err());
    /// # Ok(()) }
    /// ```
    pub async fn start<W, I, M>(
        &self,
        workflow: W,
        id: impl AsRef<str>,
        input: &I,
    ) -> Result<RunHandle<W::Output>, EngineError>
    where
        W: WorkflowRef<I, M>,
        I: Serialize + ?Sized,
    {
        self.start_with(workflow, id, input, StartOptions::default()).await
    }

    /// Like [`Client::start`], with tags, a priority, a queue, a version, times or a lane.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let options = StartOptions::default().tag("region", "eu").priority(5).queue("mail").version(2);
    /// let run = client.start_with("greet", "greet-1", "Ada", options).await?;
    /// assert_eq!(run.summary().await?.version, 2);
    /// # Ok(()) }
    /// ```
    pub async fn start_with<W, I, M>(
        &self,
        workflow: W,
        id: impl AsRef<str>,
        input: &I,
        mut options: StartOptions,
    ) -> Result<RunHandle<W::Output>, EngineError>
    where
        W: WorkflowRef<I, M>,
        I: Serialize + ?Sized,
    {
        let (name, version) = self.live_runs.resolve(workflow.target())?;
        options.version = options.version.or(version);
        let run = RunId::new(id)?;
        open_start(&run, &options)?;
        let input = Payload::of(input, &self.ledger.limits)?;
        self.queue_run(name, &run, input, options).await?;
        Ok(RunHandle::new(self.clone(), run))
    }

    /// Starts a run whose input is a payload already, and returns what was appended: nothing if the run existed.
    ///
    /// ```
    /// use goldseam::{Payload, RunId, prelude::*};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let run = RunId::new("greet-1")?;
    /// let began = client.begin("greet", &run, Payload::null(), StartOptions::default()).await?;
    /// assert_eq!(began.records.len(), 1);
    /// let again = client.begin("greet", &run, Payload::null(), StartOptions::default()).await?;
    /// assert!(again.records.is_empty(), "the run exists");
    /// # Ok(()) }
    /// ```
    pub async fn begin(
        &self,
        workflow: &str,
        run: &RunId,
        input: Payload,
        options: StartOptions,
    ) -> Result<Committed, EngineError> {
        open_start(run, &options)?;
        self.queue_run(WorkflowName::new(workflow).and_then(open_name)?, run, input, options).await
    }

    /// Starts a run of any workflow, also of a built-in one.
    pub(crate) async fn queue_run(
        &self,
        workflow: WorkflowName,
        run: &RunId,
        input: Payload,
        options: StartOptions,
    ) -> Result<Committed, EngineError> {
        let newest = match options.version {
            Some(version) => version,
            None => self.live_runs.newest_live(&self.ledger, &workflow).await?,
        };
        let plan = self.live_runs.plan(&workflow);
        let queued = RunQueued { plan, ..options.queued(workflow, newest, input, &self.ledger).await? };
        self.ledger.start(run, queued, None).await
    }
}
