//! The configuration of an engine.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::lock::TTL_DEFAULT;
use goldseam_core::recovery::Policy;
use goldseam_core::{Limits, QueueName, Retry, WorkflowName, argument};
use goldseam_store::StorePace;

use crate::ledger::error::EngineError;
use crate::ledger::foreign::ForeignOptions;
use crate::ledger::step_defaults::Silence;
pub use crate::ledger::step_defaults::{SILENCE_MOST, StepDefaults};

/// Minimum number of beats within `silence_max`: after half of it a node stops trusting its ownership, and one beat
/// may
/// be late.
const BEATS_MIN: u32 = 4;

/// Default time for which entries of the audit are kept.
const AUDIT_RETENTION: Duration = Duration::from_secs(90 * DAY);
/// A day, in seconds.
const DAY: u64 = 24 * 3_600;

/// Default number of rows that a sweep compares with their logs.
const WALK: u32 = 10;
/// Fewest active runs that a sweep reads for the walk: small stores are read by every sweep.
const WALK_ROWS_MIN: u32 = 5_000;
/// Fewest runs of a slice of a larger store.
const WALK_ROWS_LEAST: u32 = 1_000;
/// Most active runs that a sweep reads for the walk on a store that charges per request.
const WALK_ROWS_REMOTE: u32 = 2_000;

/// The configuration of an engine. The defaults suit one process on one machine.
///
/// ```
/// use goldseam::{Config, prelude::*};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// let config = Config {
///     name: Some("warehouse-3".to_owned()),
///     // Runs that wait for a person leave memory at once.
///     linger: secs(0),
///     // A shutdown lets long steps end.
///     drain: mins(5),
///     ..Config::default()
/// };
/// # let workflow = goldseam::unstable::core::WorkflowName::new("order")?;
/// assert_eq!(config.recovery_for(&workflow), &config.recovery);
/// let engine = Engine::open(&url).await?.config(config).start().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The display name of this process; default: host name and process id.
    pub name: Option<String>,
    /// The namespace label of all metrics, for a process with several stores.
    pub namespace: Option<String>,
    /// Maximum number of live runs in memory.
    pub slots: u32,
    /// Queues that the node claims runs from.
    pub queues: Vec<QueueName>,
    /// Interval between two beats of a node.
    pub beat: Duration,
    /// A node is taken over after this time without a beat, if the store cannot prove that its process is gone.
    pub silence_max: Duration,
    /// Interval between two checks of other nodes.
    pub watch: Duration,
    /// How long a node must stay suspect before it counts as dead.
    pub grace: Duration,
    /// How long a run that only waits stays in memory.
    pub linger: Duration,
    /// A step that runs longer than this gets a separate append for its start.
    pub long_step: Duration,
    /// The retry policy of steps, in this process and remote, that state none. Default: one attempt.
    pub retry: Retry,
    /// How long an attempt of a step may give no sign of life, in this process and remote, if the step states neither a
    /// timeout nor a heartbeat timeout: the attempt is then given up as `heartbeat-timeout`, and the retry policy
    /// decides. A longer step must state a limit or send heartbeats. None: without limit.
    pub heartbeat_timeout: Option<Duration>,
    /// Retry policy and heartbeat timeout of single workflows that differ from `retry` and `heartbeat_timeout`.
    pub steps_of: BTreeMap<WorkflowName, StepDefaults>,
    /// Longest pause between two polls of the queue.
    pub poll: Duration,
    /// How long a shutdown waits for running steps.
    pub drain: Duration,
    /// How runs are recovered.
    pub recovery: Recovery,
    /// Recovery settings of single workflows that differ from `recovery`.
    pub recovery_of: BTreeMap<WorkflowName, Recovery>,
    /// Interval between two searches for silent remote steps.
    pub monitor: Duration,
    /// Maximum number of remote steps examined per search.
    pub monitor_batch: u32,
    /// Interval between two sweeps of this engine; none: it does not sweep.
    pub sweep: Option<Duration>,
    /// Fewest rows that each sweep compares with their logs, which finds wrong rows and damaged logs eventually. None:
    /// 10, or 0 if the store charges per request; a database also reads as many as it needs to reach every run in
    /// a day, up to 500. One row costs one read of the row and one or more of the log; on object storage 1 LIST per
    /// sweep and, per row, 2 GETs plus one for each batch of its log.
    pub walk: Option<u32>,
    /// Time in which the walk over the rows of all active runs should reach every run. All engines of a store share
    /// the walk. Sweeps find what is due, owned by a lost node or unusual at once, independent of the walk.
    pub walk_every: Duration,
    /// Most active runs that a sweep reads for the walk. None: as many as `walk_every` needs, or 2,000 if the store
    /// charges per request: there each run costs up to 1 LIST and 3 GETs, plus one GET for each batch of its log.
    pub walk_rows: Option<u32>,
    /// How sweeps of this engine heal foreign states; none: sweeps skip foreign states.
    pub foreign: Option<ForeignOptions>,
    /// How long a claimant that is not a node may be silent, if its task sets no limit.
    pub claim_lease: Duration,
    /// Number of claimants of a user's task that may crash before the task is dead.
    pub deliveries_max: u32,
    /// Interval between two checks of claims and locks.
    pub claim_watch: Duration,
    /// How long entries of the store's audit are kept, at least a day; none: without limit. Every node of the store applies its
    /// own value, so the shortest one holds. Logs of runs are not affected.
    pub audit_retention: Option<Duration>,
    /// A node gives up its runs if its runtime makes no progress for this time (code that never yields occupies all
    /// threads), or if it does not poll its queue for this time.
    pub wedged_after: Duration,
    /// Whether beats run on their own thread; off only in simulation.
    pub beat_on_thread: bool,
    /// Size limits.
    pub limits: Limits,
}

/// How runs are recovered.
///
/// ```
/// use goldseam::{Recovery, prelude::*};
///
/// # async fn transfer(_: Context, _: ()) -> goldseam::Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// // After two recoveries without progress, an operator looks at a transfer.
/// let recovery = Recovery { attempts_max: 2, park: true, ..Recovery::default() };
/// let builder = Engine::open(&url).await?.workflow("transfer", transfer).recovery("transfer", recovery);
/// let engine = builder.start().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Recoveries without progress before rule P1 stops the run, at least 1. The last one runs alone.
    pub attempts_max: u32,
    /// Whether rule P1 parks the run for an operator. If not, the run is compensated and fails.
    pub park: bool,
    /// How long a finding must hold before a sweep heals it; never makes a live run stale.
    pub stale_after: Duration,
    /// Pause of a run that waits until other runs are recovered. A run suspected of crashing its process is watched
    /// for
    /// at least ten of these pauses.
    pub delay: Duration,
    /// How long no live node may have a run's version before a sweep changes the version or parks the run (rule E2).
    /// Set it
    /// longer than a deploy. A sweeper counts from its first sight of the run, never from before its own start.
    pub version_grace: Duration,
}

impl Default for Recovery {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            attempts_max: policy.attempts_max,
            park: policy.park,
            stale_after: policy.stale_after(),
            delay: Duration::from_millis(policy.delay_ms),
            version_grace: Duration::from_secs(300),
        }
    }
}

impl Recovery {
    /// Tolerance when two lifetimes are compared.
    pub(crate) fn doubt(&self) -> Duration {
        self.policy().doubt()
    }

    /// The settings that a claim records with the run.
    pub(crate) fn policy(&self) -> Policy {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Policy {
            attempts_max: self.attempts_max,
            park: self.park,
            stale_ms: ms(self.stale_after),
            delay_ms: ms(self.delay),
        }
    }
}

impl Config {
    /// How runs of this workflow are recovered.
    pub fn recovery_for(&self, workflow: &WorkflowName) -> &Recovery {
        self.recovery_of.get(workflow).unwrap_or(&self.recovery)
    }

    /// The retry policy of steps of this workflow that state none.
    pub fn retry_for(&self, workflow: &WorkflowName) -> &Retry {
        self.steps_of.get(workflow).and_then(|steps| steps.retry.as_ref()).unwrap_or(&self.retry)
    }

    /// How long an attempt of a step of this workflow may be silent, if the step states no limit; none: without limit.
    pub fn heartbeat_timeout_for(&self, workflow: &WorkflowName) -> Option<Duration> {
        match self.steps_of.get(workflow).map(|steps| steps.heartbeat_timeout) {
            None | Some(Silence::Inherited) => self.heartbeat_timeout,
            Some(Silence::Unlimited) => None,
            Some(Silence::Limited(span)) => Some(span),
        }
    }

    /// Number of rows that each sweep compares with their logs on a store of this pace.
    pub(crate) fn walks(&self, pace: &StorePace) -> u32 {
        self.walk.unwrap_or(if pace.sweep.is_zero() { WALK } else { 0 })
    }

    /// The slices of the walk over active runs on a store of this pace.
    pub(crate) fn walk_slice(&self, pace: &StorePace, sweep: Duration) -> WalkSlice {
        let remote = (!pace.sweep.is_zero()).then_some(WALK_ROWS_REMOTE);
        let rows_max = self.walk_rows.or(remote).unwrap_or(u32::MAX).max(1);
        WalkSlice { every: self.walk_every, sweep, rows_min: WALK_ROWS_MIN.min(rows_max), rows_max }
    }

    /// Limits for the healing of claims.
    pub(crate) fn claim_rules(&self) -> ClaimRules {
        ClaimRules { lease: self.claim_lease, deliveries_max: self.deliveries_max }
    }

    /// Refuses settings with which live nodes would look dead, or loops would never pause.
    ///
    /// ```
    /// use goldseam::{Config, secs};
    ///
    /// let config = Config { beat: secs(8), silence_max: secs(10), ..Config::default() };
    /// assert_eq!(config.check().unwrap_err().code(), "GS0120");
    /// ```
    pub fn check(&self) -> Result<(), EngineError> {
        let pauses = [
            ("beat", self.beat),
            ("watch", self.watch),
            ("poll", self.poll),
            ("monitor", self.monitor),
            ("claim_watch", self.claim_watch),
            ("walk_every", self.walk_every),
        ];
        if let Some((name, _)) = pauses.iter().find(|(_, span)| span.is_zero()) {
            return Err(EngineError::Config(format!("`{name}` must be greater than zero")));
        }
        let silences = self.steps_of.values().filter_map(|steps| match steps.heartbeat_timeout {
            Silence::Limited(span) => Some(span),
            Silence::Inherited | Silence::Unlimited => None,
        });
        if self.heartbeat_timeout.into_iter().chain(silences).any(|span| span.is_zero()) {
            return Err(EngineError::Config(
                "`heartbeat_timeout` must be greater than zero; pass none to set no limit".to_owned(),
            ));
        }
        if std::iter::once(&self.recovery).chain(self.recovery_of.values()).any(|one| one.attempts_max == 0) {
            return Err(EngineError::Config(
                "`recovery.attempts_max` must be at least 1: a run is recovered at least once before rule P1 can stop \
                 it"
                    .to_owned(),
            ));
        }
        if self.audit_retention.is_some_and(|span| span < Duration::from_secs(DAY)) {
            return Err(EngineError::Config(
                "`audit_retention` must be at least a day; pass none to keep all entries".to_owned(),
            ));
        }
        if self.beat * BEATS_MIN > self.silence_max {
            let silence = self.silence_max;
            let beat = self.beat;
            return Err(EngineError::Config(format!(
                "`silence_max` ({silence:?}) must be at least {BEATS_MIN} times `beat` ({beat:?}), or live nodes are \
                 taken over"
            )));
        }
        argument::positive("the number of slots", u128::from(self.slots))?;
        self.name.as_ref().map_or(Ok(()), |name| argument::text("the name of a node", name))?;
        let bytes = self.limits.payload_bytes_max;
        let most = Limits::PAYLOAD_BYTES_MOST;
        if bytes > most {
            return Err(EngineError::Config(format!(
                "`payload_bytes_max` ({bytes}) must be at most {most}; keep larger data elsewhere and pass a reference"
            )));
        }
        Ok(())
    }

    /// Applies the pace of a store, which can only slow an engine down.
    ///
    /// A node proves its own liveness by these values and records them: other nodes judge it by its record.
    #[must_use]
    pub(crate) fn at_pace(self, pace: &StorePace) -> Self {
        Self {
            beat: self.beat.max(pace.beat),
            silence_max: self.silence_max.max(pace.silence_max),
            poll: self.poll.max(pace.poll),
            monitor: self.monitor.max(pace.monitor),
            sweep: self.sweep.map(|every| every.max(pace.sweep)),
            claim_watch: self.claim_watch.max(pace.claim_watch),
            ..self
        }
    }
}

/// The slice of the walk over all active runs that one sweep reads. All engines of a store share the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkSlice {
    /// Time in which the walk should reach every run.
    pub every: Duration,
    /// Interval between two sweeps.
    pub sweep: Duration,
    /// Fewest runs per slice.
    pub rows_min: u32,
    /// Most runs per slice.
    pub rows_max: u32,
}

impl WalkSlice {
    /// The number of runs of a slice, if the store has about `total` active runs.
    pub(crate) fn rows(&self, total: u64) -> u32 {
        let share = self.sweep.as_secs_f64() / self.every.as_secs_f64().max(1.0);
        let rows = (total as f64 * share).ceil().min(f64::from(u32::MAX)) as u32;
        let fits = total <= u64::from(self.rows_min) || self.rows_max <= self.rows_min;
        // A store that does not fit into one slice is read in slices of its share.
        let least = if fits { self.rows_min.min(self.rows_max) } else { WALK_ROWS_LEAST };
        rows.clamp(least, self.rows_max).max(1)
    }
}

/// The queue of runs that name none.
pub const QUEUE_DEFAULT: &str = "default";

/// The queue of the records that keep heartbeat details. They are never claimed and are removed with their step.
pub const QUEUE_DETAILS: &str = "goldseam-heartbeat";

impl Default for Config {
    fn default() -> Self {
        let rules = ClaimRules::default();
        Self {
            name: None,
            namespace: None,
            slots: 1_000,
            queues: vec![default_queue()],
            beat: Duration::from_secs(2),
            silence_max: Duration::from_secs(10),
            watch: Duration::from_millis(100),
            grace: Duration::from_millis(300),
            linger: Duration::from_secs(1),
            long_step: Duration::from_secs(1),
            retry: Retry::never(),
            heartbeat_timeout: Some(Duration::from_secs(60)),
            steps_of: BTreeMap::new(),
            poll: Duration::from_secs(1),
            drain: Duration::from_secs(10),
            recovery: Recovery::default(),
            recovery_of: BTreeMap::new(),
            monitor: Duration::from_secs(15),
            monitor_batch: 20,
            sweep: Some(Duration::from_secs(30)),
            walk: None,
            walk_every: Duration::from_secs(6 * 3600),
            walk_rows: None,
            foreign: None,
            claim_lease: rules.lease,
            deliveries_max: rules.deliveries_max,
            claim_watch: Duration::from_secs(1),
            audit_retention: Some(AUDIT_RETENTION),
            wedged_after: Duration::from_secs(60),
            beat_on_thread: true,
            limits: Limits::default(),
        }
    }
}

/// Limits for the healing of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRules {
    /// How long a claimant that is not a node may be silent, if its task sets no limit.
    pub lease: Duration,
    /// Number of claimants of a user's task that may crash before the task is dead.
    pub deliveries_max: u32,
}

impl Default for ClaimRules {
    fn default() -> Self {
        Self { lease: TTL_DEFAULT, deliveries_max: 3 }
    }
}

/// The newest version of each workflow.
pub(crate) type Newest = BTreeMap<WorkflowName, u32>;

/// The queue of runs that name no other.
pub(crate) fn default_queue() -> QueueName {
    const DEFAULT: IdLiteral<kind::Queue> = IdLiteral::new(QUEUE_DEFAULT);
    DEFAULT.id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_is_kept_90_days_and_at_least_one() {
        assert_eq!(Config::default().audit_retention, Some(Duration::from_secs(90 * 86_400)));
        let with = |span| Config { audit_retention: span, ..Config::default() };
        let error = with(Some(Duration::from_secs(86_399))).check().unwrap_err();
        assert_eq!(error.code(), "GS0120", "{error}");
        with(Some(Duration::from_secs(86_400))).check().unwrap();
        with(None).check().unwrap();
    }

    #[test]
    fn steps_of_a_workflow_inherit_what_they_do_not_set() {
        let order = WorkflowName::new("order").unwrap();
        let other = WorkflowName::new("other").unwrap();
        let with = |steps: StepDefaults| Config {
            retry: Retry::exponential(),
            steps_of: [(order.clone(), steps)].into(),
            ..Config::default()
        };
        let minute = Some(Duration::from_secs(60));
        assert_eq!(Config::default().heartbeat_timeout_for(&order), minute);
        assert_eq!(Config::default().retry_for(&order), &Retry::never());
        let config = with(StepDefaults::default());
        assert_eq!(
            (config.heartbeat_timeout_for(&order), config.retry_for(&order).attempts_max),
            (minute, 10)
        );
        let config = with(StepDefaults::default().retry(Retry::never()).without_heartbeat_timeout());
        assert_eq!((config.heartbeat_timeout_for(&order), config.retry_for(&order).attempts_max), (None, 1));
        assert_eq!(
            (config.heartbeat_timeout_for(&other), config.retry_for(&other).attempts_max),
            (minute, 10)
        );
        let hour = Duration::from_secs(3_600);
        let config =
            Config { heartbeat_timeout: None, ..with(StepDefaults::default().heartbeat_timeout(hour)) };
        assert_eq!(config.heartbeat_timeout_for(&order), Some(hour));
        assert_eq!(config.heartbeat_timeout_for(&other), None);
        let zero = with(StepDefaults::default().heartbeat_timeout(Duration::ZERO)).check().unwrap_err();
        assert_eq!(zero.code(), "GS0120", "{zero}");
    }

    #[test]
    fn zero_slots_are_refused() {
        let error = Config { slots: 0, ..Config::default() }.check().unwrap_err();
        assert_eq!((error.code(), error.hint().is_some()), ("GS0138", true), "{error}");
        assert!(error.to_string().contains("slots"), "{error}");
        Config { slots: 1, ..Config::default() }.check().unwrap();
    }
}
