//! Starting runs.

use goldseam_core::event::{RunQueued, Tags};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{
    AttributeValue, Attributes, Limits, Payload, PayloadError, QueueName, RunId, Summary, TagKey,
    TraceContext, WorkflowName, argument, attribute,
};
use serde::Serialize;

use crate::client::{Client, RunHandle};
use crate::ledger::commit::Committed;
use crate::ledger::config::default_queue;
use crate::ledger::error::EngineError;
use crate::run::workflow_ref::WorkflowRef;

/// Options of a start besides workflow, id and input.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    tags: Vec<(String, String)>,
    attributes: Vec<(String, AttributeValue)>,
    priority: Option<i32>,
    queue: Option<String>,
    version: Option<u32>,
    trace: Option<TraceContext>,
}

impl StartOptions {
    /// Adds a tag to search by.
    #[must_use]
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// Adds an attribute: a typed value to search by, which the workflow can change.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let options = StartOptions::default().attribute("region", "eu").attribute("amount", 120);
    /// client.start_with("order", "ord-1", &(), options).await?;
    /// let found = client.search(r#"region = "eu" and amount > 100"#)?.list().await?;
    /// assert_eq!(found[0].summary.run.as_str(), "ord-1");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// Sets the priority; larger values go first. Default: 0.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the queue. Default: `default`.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Sets the version, starting at 1. Default: the newest version of this engine; in any other process, the newest
    /// version of a live node. If no live node has the workflow, the first claim decides.
    #[must_use]
    pub fn version(mut self, version: u32) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the place of the caller in a distributed trace. The run, its children and its remote steps become part of
    /// that trace. Not part of the run's identity: a repeated start with another trace is the same run.
    #[must_use]
    pub fn trace(mut self, trace: impl Into<Option<TraceContext>>) -> Self {
        self.trace = trace.into();
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
        let mut attributes = Attributes::new();
        for (name, value) in self.attributes {
            attributes.insert(TagKey::new(name)?, value);
        }
        attribute::check(&attributes)?;
        let queue = self.queue.map(QueueName::new).transpose()?.unwrap_or_else(default_queue);
        let version = self.version.unwrap_or(newest);
        Ok(RunQueued {
            workflow,
            version,
            input,
            queue,
            priority: self.priority.unwrap_or_default(),
            tags,
            attributes,
            parent: None,
            plan: Vec::new(),
            trace: self.trace,
        })
    }
}

impl StartOptions {
    /// Returns how a child is queued: in the queue of its parent and with the parent's priority unless set, with its
    /// own tags and those of the parent that it does not have. The version is undecided unless set.
    pub(crate) fn queued_for_child(
        self,
        workflow: WorkflowName,
        parent: &Summary,
        limits: &Limits,
    ) -> Result<RunQueued, EngineError> {
        let (queue, priority) = (self.queue.is_some(), self.priority.is_some());
        let mut queued = self.queued(workflow, UNDECIDED, Payload::null(), limits)?;
        if !queue {
            queued.queue.clone_from(&parent.queue);
        }
        if !priority {
            queued.priority = parent.priority;
        }
        for (key, value) in &parent.tags {
            queued.tags.entry(key.clone()).or_insert_with(|| value.clone());
        }
        if queued.tags.len() > limits.tags_max {
            return Err(PayloadError::TooMany { what: "tags", max: limits.tags_max }.into());
        }
        Ok(queued)
    }
}

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

    /// Like [`Client::start`], with tags, a priority, a queue or a version.
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
        self.queue_run(WorkflowName::new(workflow)?, run, input, options).await
    }

    async fn queue_run(
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
        let queued = RunQueued { plan, ..options.queued(workflow, newest, input, &self.ledger.limits)? };
        self.ledger.start(run, queued, None).await
    }
}
