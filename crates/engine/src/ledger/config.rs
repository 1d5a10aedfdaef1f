//! What an engine can be told.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::lock::TTL_DEFAULT;
use goldseam_core::recovery::Policy;
use goldseam_core::{Limits, QueueName, WorkflowName, argument};
use goldseam_store::Pace;

use crate::ledger::error::EngineError;
use crate::ledger::foreign::ForeignOptions;

/// Beats that fit into the silence that a node is taken for lost after: in half of it a node is sure of itself, and a
/// beat may be late.
const BEATS_MIN: u32 = 4;

/// Rows that a sweep compares with their logs unless told otherwise.
const WALK: u32 = 10;

/// How an engine behaves. The defaults suit one process on one machine.
#[derive(Debug, Clone)]
pub struct Config {
    /// What this process is called where people read of it; its host and process id unless given.
    pub name: Option<String>,
    /// What its store is called where one process has several: all that is counted says so.
    pub namespace: Option<String>,
    /// Runs in memory at once.
    pub slots: u32,
    /// Queues whose runs it takes.
    pub queues: Vec<QueueName>,
    /// How often a node says that it is alive.
    pub beat: Duration,
    /// A node that has not beaten for so long is taken over, if its process is not known to be gone.
    pub silence_max: Duration,
    /// How often other nodes are looked at.
    pub watch: Duration,
    /// How long a suspicion must last before it counts as death.
    pub grace: Duration,
    /// How long a run that only waits stays in memory.
    pub linger: Duration,
    /// How long a step runs before its start is written by itself.
    pub long_step: Duration,
    /// How long whoever has the task of a remote step may be silent, unless the step says otherwise.
    pub remote_silence_max: Duration,
    /// The longest pause between two looks at the queue.
    pub poll: Duration,
    /// How long a shutdown waits for running steps.
    pub drain: Duration,
    /// How runs are recovered.
    pub recovery: Recovery,
    /// The same for one workflow, where it differs.
    pub recovery_of: BTreeMap<WorkflowName, Recovery>,
    /// How often silent remote steps are looked for.
    pub monitor: Duration,
    /// How many of them are looked at in one go.
    pub monitor_batch: u32,
    /// How often all active runs are looked over; none: never by this engine.
    pub sweep: Option<Duration>,
    /// Rows of runs that are over, paused or parked that each sweep compares with their logs, so that a false row is
    /// found some day. None: 10 where questions cost nothing, and none where the store is paid by request. A row costs
    /// one read of the row and one or more of the log; on object storage 1 LIST and, per row, 2 GETs and one more for
    /// each batch of its log.
    pub walk: Option<u32>,
    /// How sweeps of this engine heal states that others keep beside the runs; none: they are left alone.
    pub foreign: Option<ForeignOptions>,
    /// How long a claimant may be silent that is no node, if its task does not say.
    pub claim_lease: Duration,
    /// Claimants that a user's task may take down with it before it is dead.
    pub deliveries_max: u32,
    /// How often claims and locks are looked over.
    pub claim_watch: Duration,
    /// A node whose runtime has not moved for so long, because code that never yields has all its threads, or that has
    /// not looked at its queue for so long, lets go of its runs.
    pub wedged_after: Duration,
    /// Beats come from a thread of their own; off only in simulation.
    pub beat_on_thread: bool,
    /// Bounds on everything.
    pub limits: Limits,
}

/// How runs are recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// Counted recoveries without progress before rule P1 stops the run, at least 1. The last of them is made alone.
    pub attempts_max: u32,
    /// Rule P1 parks the run, for a person to look at. Else the run fails, once what it did is undone.
    pub park: bool,
    /// How long a finding must have held before a sweep heals it; never makes a live run stale.
    pub stale_after: Duration,
    /// Pause of a run that must wait until others have been recovered; ten of them are the least time for which
    /// a suspect of crashing its process is watched.
    pub delay: Duration,
    /// How long no live node may have had a run's version before a sweep changes the version or parks the run (rule
    /// E2): longer than a deploy takes. A sweeper counts from when it first saw it, and never from before its own start.
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
    /// Two lives of a run that differ by less do not differ.
    pub(crate) fn doubt(&self) -> Duration {
        self.policy().doubt()
    }

    /// The same as it travels with a run.
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

    /// Rows that each sweep compares with their logs on a store of this pace.
    pub(crate) fn walks(&self, pace: &Pace) -> u32 {
        self.walk.unwrap_or(if pace.sweep.is_zero() { WALK } else { 0 })
    }

    /// The bounds for the healing of claims.
    pub(crate) fn claim_rules(&self) -> ClaimRules {
        ClaimRules { lease: self.claim_lease, deliveries_max: self.deliveries_max }
    }

    /// Refuses what would take living nodes for dead, or never pause.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let pauses = [
            ("beat", self.beat),
            ("watch", self.watch),
            ("poll", self.poll),
            ("monitor", self.monitor),
            ("claim_watch", self.claim_watch),
        ];
        if let Some((name, _)) = pauses.iter().find(|(_, span)| span.is_zero()) {
            return Err(EngineError::Config(format!("{name} must be longer than nothing")));
        }
        if std::iter::once(&self.recovery).chain(self.recovery_of.values()).any(|one| one.attempts_max == 0) {
            return Err(EngineError::Config(
                "recovery.attempts_max must be at least 1: a run whose process died is recovered once before it can be \
                 blamed"
                    .to_owned(),
            ));
        }
        if self.beat * BEATS_MIN > self.silence_max {
            let (silence, beat) = (self.silence_max, self.beat);
            return Err(EngineError::Config(format!(
                "silence_max ({silence:?}) must be at least {BEATS_MIN} times beat ({beat:?}), or nodes that live are \
                 taken over"
            )));
        }
        argument::positive("the number of slots", u128::from(self.slots))?;
        self.name.as_ref().map_or(Ok(()), |name| argument::text("the name of a node", name))?;
        let (bytes, most) = (self.limits.payload_bytes_max, Limits::PAYLOAD_BYTES_MOST);
        if bytes > most {
            return Err(EngineError::Config(format!(
                "payload_bytes_max ({bytes}) must be at most {most}; keep what is larger elsewhere and pass a reference"
            )));
        }
        Ok(())
    }

    /// The same on a store that wants to be asked at this pace: a store may only slow an engine down.
    ///
    /// Whatever a node proves about itself goes by these values: what others take it for goes by theirs.
    #[must_use]
    pub(crate) fn at_pace(self, pace: &Pace) -> Self {
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

/// The queue that runs stand in unless told otherwise.
pub const QUEUE_DEFAULT: &str = "default";

/// The queue of the engine's own mail.
pub(crate) const QUEUE_MAIL: &str = "goldseam-mail";
/// The queue of the records that keep heartbeat details: nobody's work, they go with their step.
pub const QUEUE_DETAILS: &str = "goldseam-heartbeat";

impl Default for Config {
    fn default() -> Self {
        let rules = ClaimRules::default();
        Self {
            name: None,
            namespace: None,
            slots: 1_000,
            queues: QueueName::new(QUEUE_DEFAULT).into_iter().collect(),
            beat: Duration::from_secs(2),
            silence_max: Duration::from_secs(10),
            watch: Duration::from_millis(100),
            grace: Duration::from_millis(300),
            linger: Duration::from_secs(1),
            long_step: Duration::from_secs(1),
            remote_silence_max: Duration::from_secs(60),
            poll: Duration::from_secs(1),
            drain: Duration::from_secs(10),
            recovery: Recovery::default(),
            recovery_of: BTreeMap::new(),
            monitor: Duration::from_secs(15),
            monitor_batch: 20,
            sweep: Some(Duration::from_secs(30)),
            walk: None,
            foreign: None,
            claim_lease: rules.lease,
            deliveries_max: rules.deliveries_max,
            claim_watch: Duration::from_secs(1),
            wedged_after: Duration::from_secs(60),
            beat_on_thread: true,
            limits: Limits::default(),
        }
    }
}

/// Bounds for the healing of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRules {
    /// How long a claimant may be silent that is no node, if its task does not say.
    pub lease: Duration,
    /// Claimants that a user's task may take down with it before it is dead.
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
    QueueName::new(QUEUE_DEFAULT).unwrap_or_else(|_| unreachable!("a literal that is an id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_without_slots_is_refused() {
        let error = Config { slots: 0, ..Config::default() }.check().unwrap_err();
        assert_eq!((error.code(), error.hint().is_some()), ("GS0138", true), "{error}");
        assert!(error.to_string().contains("slots"), "{error}");
        Config { slots: 1, ..Config::default() }.check().unwrap();
    }
}
