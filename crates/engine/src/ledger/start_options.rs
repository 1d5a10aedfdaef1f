//! Options of a start.

use std::time::{Duration, SystemTime};

use goldseam_core::event::{RunQueued, Tags};
use goldseam_core::timing::{RunTimes, StartTiming, When};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{
    AttributeValue, Attributes, LaneName, Limits, Millis, Payload, PayloadError, QueueName, Summary, TagKey,
    TraceContext, WorkflowName, argument, attribute,
};

use super::commit::Ledger;
use super::config::default_queue;
use super::error::EngineError;

/// Options of a start besides workflow, id and input.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    tags: Vec<(String, String)>,
    attributes: Vec<(String, AttributeValue)>,
    priority: Option<i32>,
    queue: Option<String>,
    pub(crate) version: Option<u32>,
    trace: Option<TraceContext>,
    timing: StartTiming,
    lane: Option<String>,
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

    /// Sets how long the run may take, from its begin until its end. Default: without limit.
    ///
    /// When the time has passed, the run stops, its compensations run, its children are asked to cancel, and it ends
    /// `failed` with the code `timeout`. This also ends a pause. See [`StartOptions::deadline`].
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn approve(ctx: Context, _: ()) -> goldseam::Result<()> { ctx.signal("approved").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("approve", approve).start().await?;
    /// let options = StartOptions::default().timeout(Duration::from_millis(50));
    /// let run = engine.start_with(approve, "a-1", &(), options).await?;
    /// assert!(run.result().await.unwrap_err().to_string().contains("timed out"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timing.end = Some(When::After(span));
        self
    }

    /// Sets when the run must have ended, by the clock of the store. Replaces a [`StartOptions::timeout`].
    ///
    /// A deadline that has passed is refused. `continue_as_new` keeps the deadline. An operator who retries a run or
    /// jumps to a step after the deadline removes it: the new branch has no limit.
    #[must_use]
    pub fn deadline(mut self, at: SystemTime) -> Self {
        self.timing.end = Some(When::At(at.into()));
        self
    }

    /// Delays the begin of the run. It is `queued` until then.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let options = StartOptions::default().delay(mins(5)).timeout(mins(1));
    /// let run = client.start_with("remind", "r-1", &(), options).await?.summary().await?;
    /// assert_eq!(run.deadline.unwrap().since(run.start_at.unwrap()), mins(1));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn delay(mut self, span: Duration) -> Self {
        self.timing.begin = Some(When::After(span));
        self
    }

    /// Sets when the run begins, by the clock of the store. Replaces a [`StartOptions::delay`]. A time that has passed
    /// means at once.
    #[must_use]
    pub fn start_at(mut self, at: SystemTime) -> Self {
        self.timing.begin = Some(When::At(at.into()));
        self
    }

    /// Sets the lane: at most one run of a lane is executed at a time, in the whole store.
    ///
    /// A node that executes a run holds its lane. A run that only waits or sleeps leaves memory after
    /// [`Config::linger`](crate::Config::linger) and holds nothing. Tasks and remote steps of the same lane take turns
    /// with its runs.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let lane = |name: &str| StartOptions::default().lane(name);
    /// client.start_with("bill", "b-1", &(), lane("tenant-7")).await?;
    /// assert!(client.start_with("bill", "b-2", &(), lane("not a lane")).await.is_err());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = Some(lane.into());
        self
    }

    /// The queue that the caller set.
    pub(crate) fn queue_given(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// Returns the first event of the run. Asks for the time only if the options name times.
    pub(crate) async fn queued(
        self,
        workflow: WorkflowName,
        newest: u32,
        input: Payload,
        ledger: &Ledger,
    ) -> Result<RunQueued, EngineError> {
        let now = match self.timing.is_open() {
            true => Millis(0),
            false => ledger.store_time().await?,
        };
        self.queued_at(workflow, newest, input, QueueTerms { now, limits: &ledger.limits })
    }

    /// Returns the first event of the run; spans count from `now`.
    fn queued_at(
        self,
        workflow: WorkflowName,
        newest: u32,
        input: Payload,
        terms: QueueTerms<'_>,
    ) -> Result<RunQueued, EngineError> {
        let QueueTerms { now, limits } = terms;
        let RunTimes { start_at, deadline } = match self.timing.is_open() {
            true => RunTimes::default(),
            false => self.timing.resolve(now)?,
        };
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
            start_at,
            deadline,
            lane: self.lane.map(LaneName::new).transpose()?,
        })
    }
}

/// The time that spans of a start count from, and the limits that it must keep.
#[derive(Clone, Copy)]
pub(crate) struct QueueTerms<'a> {
    pub(crate) now: Millis,
    pub(crate) limits: &'a Limits,
}

impl StartOptions {
    /// Returns how a child is queued: in the queue of its parent and with the parent's priority unless set, with its
    /// own tags and those of the parent that it does not have. The version is undecided unless set.
    pub(crate) fn queued_for_child(
        self,
        workflow: WorkflowName,
        parent: &Summary,
        terms: QueueTerms<'_>,
    ) -> Result<RunQueued, EngineError> {
        let queue = self.queue.is_some();
        let priority = self.priority.is_some();
        let limits = terms.limits;
        let mut queued = self.queued_at(workflow, UNDECIDED, Payload::null(), terms)?;
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
