//! The rows: one for each setting of an engine.

use std::time::Duration;

use goldseam_core::{Limits, QueueName};

use super::per_workflow::WorkflowSection;
use super::value::{SettingKind, SettingValue};
use super::{AliasUnit, SettingAlias, SettingSpec};
use crate::ledger::config::Config;
use crate::ledger::foreign::ForeignOptions;

/// A millisecond.
const MS: Duration = Duration::from_millis(1);
/// A second.
const S: Duration = Duration::from_secs(1);
/// A day.
const DAY: Duration = Duration::from_secs(86_400);
/// Longest time of any setting.
const LONGEST: Duration = Duration::from_secs(3_660 * 86_400);
/// Largest number of a field of 32 bits.
const MANY: u64 = u32::MAX as u64;

/// A place in a configuration.
#[derive(Debug)]
pub(super) enum SettingSlot<'a> {
    /// A time.
    Span(&'a mut Duration),
    /// A time, or none.
    MaybeSpan(&'a mut Option<Duration>),
    /// A number.
    Count(&'a mut u32),
    /// A number, or none.
    MaybeCount(&'a mut Option<u32>),
    /// A large number.
    Long(&'a mut u64),
    /// A size in memory.
    Size(&'a mut usize),
    /// A flag.
    Flag(&'a mut bool),
    /// A text, or none.
    MaybeText(&'a mut Option<String>),
    /// Names of queues.
    Queues(&'a mut Vec<QueueName>),
    /// Whether foreign states are healed.
    Foreign(&'a mut Option<ForeignOptions>),
    /// The queue of tasks for foreign states.
    ForeignQueue(&'a mut Option<ForeignOptions>),
    /// The kind of tasks for foreign states.
    ForeignKind(&'a mut Option<ForeignOptions>),
    /// A factor in percent.
    Percent(&'a mut f64),
    /// Fields of single workflows.
    Workflows(WorkflowSection),
}

/// A setting of [`Config`]: its description and its place.
#[derive(Debug)]
pub struct EngineSetting {
    /// The description.
    pub spec: SettingSpec,
    slot: fn(&mut Config) -> SettingSlot<'_>,
}

impl EngineSetting {
    /// The name without its section.
    pub fn field(&self) -> &'static str {
        self.spec.name.rsplit_once('.').map_or(self.spec.name, |(_, field)| field)
    }

    /// The default value.
    pub fn default_value(&self) -> SettingValue {
        self.get(&Config::default())
    }

    /// The value in a configuration.
    pub fn get(&self, config: &Config) -> SettingValue {
        let number = |count: u32| SettingValue::Number(u64::from(count));
        let options = |foreign: &Option<ForeignOptions>| foreign.clone().unwrap_or_default();
        match (self.slot)(&mut config.clone()) {
            SettingSlot::Span(span) => SettingValue::Span(*span),
            SettingSlot::MaybeSpan(span) => span.map_or(SettingValue::Unset, SettingValue::Span),
            SettingSlot::Count(count) => number(*count),
            SettingSlot::MaybeCount(count) => count.map_or(SettingValue::Unset, number),
            SettingSlot::Long(count) => SettingValue::Number(*count),
            SettingSlot::Size(size) => SettingValue::Number(*size as u64),
            SettingSlot::Flag(flag) => SettingValue::Flag(*flag),
            SettingSlot::MaybeText(text) => text.clone().map_or(SettingValue::Unset, SettingValue::Text),
            SettingSlot::Queues(queues) => {
                SettingValue::List(queues.iter().map(|queue| queue.as_str().to_owned()).collect())
            }
            SettingSlot::Foreign(foreign) => SettingValue::Flag(foreign.is_some()),
            SettingSlot::ForeignQueue(foreign) => {
                SettingValue::Text(options(foreign).queue.as_str().to_owned())
            }
            SettingSlot::ForeignKind(foreign) => SettingValue::Text(options(foreign).kind),
            SettingSlot::Percent(factor) => SettingValue::Number((*factor * 100.0).round() as u64),
            SettingSlot::Workflows(section) => SettingValue::List(section.entries(config)),
        }
    }

    /// Writes a value that the row's kind parsed.
    pub fn set(&self, config: &mut Config, value: &SettingValue) {
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        match ((self.slot)(config), value) {
            (SettingSlot::Span(span), SettingValue::Span(new)) => *span = *new,
            (SettingSlot::MaybeSpan(span), SettingValue::Span(new)) => *span = Some(*new),
            (SettingSlot::MaybeSpan(span), SettingValue::Unset) => *span = None,
            (SettingSlot::Count(slot), SettingValue::Number(new)) => *slot = count(*new),
            (SettingSlot::MaybeCount(slot), SettingValue::Number(new)) => *slot = Some(count(*new)),
            (SettingSlot::MaybeCount(slot), SettingValue::Unset) => *slot = None,
            (SettingSlot::Long(slot), SettingValue::Number(new)) => *slot = *new,
            (SettingSlot::Size(slot), SettingValue::Number(new)) => {
                *slot = usize::try_from(*new).unwrap_or(usize::MAX);
            }
            (SettingSlot::Flag(flag), SettingValue::Flag(new)) => *flag = *new,
            (SettingSlot::MaybeText(text), SettingValue::Text(new)) => *text = Some(new.clone()),
            (SettingSlot::MaybeText(text), SettingValue::Unset) => *text = None,
            (SettingSlot::Queues(queues), SettingValue::List(names)) => {
                *queues = names.iter().filter_map(|name| QueueName::new(name.as_str()).ok()).collect();
            }
            (SettingSlot::Foreign(foreign), SettingValue::Flag(true)) => {
                foreign.get_or_insert_default();
            }
            (SettingSlot::Foreign(foreign), SettingValue::Flag(false)) => *foreign = None,
            (SettingSlot::ForeignQueue(Some(foreign)), SettingValue::Text(name)) => {
                if let Ok(queue) = QueueName::new(name.as_str()) {
                    foreign.queue = queue;
                }
            }
            (SettingSlot::ForeignKind(Some(foreign)), SettingValue::Text(kind)) => {
                foreign.kind.clone_from(kind);
            }
            (SettingSlot::Percent(factor), SettingValue::Number(percent)) => {
                *factor = f64::from(count(*percent)) / 100.0;
            }
            (SettingSlot::Workflows(section), SettingValue::List(entries)) => section.apply(config, entries),
            // A value of another type cannot come from the kind of this row.
            _ => {}
        }
    }
}

const fn row(
    name: &'static str,
    kind: SettingKind,
    slot: fn(&mut Config) -> SettingSlot<'_>,
    help: &'static str,
) -> EngineSetting {
    EngineSetting { spec: SettingSpec { name, kind, default: None, aliases: &[], flag: None, help }, slot }
}

impl EngineSetting {
    const fn also(mut self, aliases: &'static [SettingAlias]) -> Self {
        self.spec.aliases = aliases;
        self
    }

    const fn flag(mut self, flag: &'static str) -> Self {
        self.spec.flag = Some(flag);
        self
    }
}

/// An older name of the same form.
const fn name(name: &'static str) -> SettingAlias {
    SettingAlias { name: Some(name), env: None, unit: AliasUnit::Same }
}

/// An environment variable of the same form.
const fn env(env: &'static str) -> SettingAlias {
    SettingAlias { name: None, env: Some(env), unit: AliasUnit::Same }
}

/// An environment variable that is a number of milliseconds.
const fn env_ms(env: &'static str) -> SettingAlias {
    SettingAlias { name: None, env: Some(env), unit: AliasUnit::Span(MS) }
}

const fn span(min: Duration) -> SettingKind {
    SettingKind::Span { min, max: LONGEST, word: None }
}

const fn span_or(min: Duration, word: &'static str) -> SettingKind {
    SettingKind::Span { min, max: LONGEST, word: Some(word) }
}

const fn count(min: u64) -> SettingKind {
    SettingKind::Count { min, max: MANY, word: None }
}

const fn count_or(min: u64, word: &'static str) -> SettingKind {
    SettingKind::Count { min, max: MANY, word: Some(word) }
}

const fn bytes(max: u64) -> SettingKind {
    SettingKind::Bytes { min: 1, max }
}

/// Every setting of an engine, in the order in which they are shown and applied: a row that reads another field
/// follows it.
pub const ENGINE_SETTINGS: &[EngineSetting] = &[
    row(
        "engine.name",
        SettingKind::Text,
        |config| SettingSlot::MaybeText(&mut config.name),
        "display name of the process (default: host name and process id)",
    ),
    row(
        "engine.slots",
        count(1),
        |config| SettingSlot::Count(&mut config.slots),
        "maximum number of live runs in memory",
    )
    .also(&[env("WORKFLOW_CONCURRENCY")]),
    row(
        "engine.queues",
        SettingKind::Queues,
        |config| SettingSlot::Queues(&mut config.queues),
        "queues that the node claims runs from",
    ),
    row(
        "engine.poll",
        span(MS),
        |config| SettingSlot::Span(&mut config.poll),
        "longest pause between two polls of the queue",
    ),
    row(
        "engine.linger",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.linger),
        "how long a run that only waits stays in memory",
    ),
    row(
        "engine.long_step",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.long_step),
        "a step that runs longer gets a separate append for its start",
    ),
    row(
        "engine.drain",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.drain),
        "how long a shutdown waits for running steps",
    ),
    row(
        "engine.wedged_after",
        span(S),
        |config| SettingSlot::Span(&mut config.wedged_after),
        "a node whose runtime makes no progress for this time gives up its runs",
    ),
    row(
        "healing.beat",
        span(MS),
        |config| SettingSlot::Span(&mut config.beat),
        "interval between two beats of a node; at most a quarter of silence_max",
    ),
    row(
        "healing.silence_max",
        span(MS),
        |config| SettingSlot::Span(&mut config.silence_max),
        "a node without a beat for this time is taken over, if the store cannot prove its death",
    )
    .also(&[name("healing.silence")]),
    row(
        "healing.watch",
        span(MS),
        |config| SettingSlot::Span(&mut config.watch),
        "interval between two checks of other nodes",
    ),
    row(
        "healing.grace",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.grace),
        "how long a node must stay suspect before it counts as dead",
    ),
    row(
        "healing.monitor",
        span(MS),
        |config| SettingSlot::Span(&mut config.monitor),
        "interval between two searches for silent remote steps",
    )
    .also(&[env_ms("WORKFLOW_HEARTBEAT_CHECK_INTERVAL_MS")]),
    row(
        "healing.monitor_batch",
        count(1),
        |config| SettingSlot::Count(&mut config.monitor_batch),
        "maximum number of silent remote steps examined per search",
    )
    .also(&[env("WORKFLOW_HEARTBEAT_CHECK_BATCH")]),
    row(
        "healing.sweep",
        span_or(MS, "off"),
        |config| SettingSlot::MaybeSpan(&mut config.sweep),
        "interval between two sweeps of the engine",
    ),
    row(
        "healing.walk",
        count_or(0, "auto"),
        |config| SettingSlot::MaybeCount(&mut config.walk),
        "fewest rows that each sweep compares with their logs (auto: 10; 0 on object storage)",
    ),
    row(
        "healing.walk_every",
        span(S),
        |config| SettingSlot::Span(&mut config.walk_every),
        "time in which the walk over the rows of all active runs should reach every run",
    ),
    row(
        "healing.walk_rows",
        count_or(1, "auto"),
        |config| SettingSlot::MaybeCount(&mut config.walk_rows),
        "most active runs that a sweep reads for the walk (auto: as walk_every needs; 2,000 on object storage)",
    ),
    row(
        "healing.claim_lease",
        span(MS),
        |config| SettingSlot::Span(&mut config.claim_lease),
        "how long a claimant that is not a node may be silent, if its task sets no limit",
    ),
    row(
        "healing.deliveries_max",
        count(1),
        |config| SettingSlot::Count(&mut config.deliveries_max),
        "claimants of a user's task that may crash before the task is dead",
    ),
    row(
        "healing.claim_watch",
        span(MS),
        |config| SettingSlot::Span(&mut config.claim_watch),
        "interval between two checks of claims and locks",
    ),
    row(
        "healing.foreign",
        SettingKind::Flag,
        |config| SettingSlot::Foreign(&mut config.foreign),
        "heal workflow states that other systems keep in the bucket, with Goldseam tasks",
    )
    .also(&[name("foreign_states")])
    .flag("foreign"),
    row(
        "healing.foreign_queue",
        SettingKind::Queue,
        |config| SettingSlot::ForeignQueue(&mut config.foreign),
        "queue of the tasks for foreign states; only with healing.foreign",
    )
    .flag("foreign-queue"),
    row(
        "healing.foreign_kind",
        SettingKind::Text,
        |config| SettingSlot::ForeignKind(&mut config.foreign),
        "kind of the tasks for foreign states; only with healing.foreign",
    )
    .flag("foreign-kind"),
    row(
        "healing.audit_retention",
        span_or(DAY, "off"),
        |config| SettingSlot::MaybeSpan(&mut config.audit_retention),
        "how long the audit of healed tasks, locks and foreign states is kept; off keeps it without limit",
    )
    .also(&[SettingAlias {
        name: Some("audit_retention_days"),
        env: None,
        unit: AliasUnit::SpanOrOff(DAY),
    }]),
    row(
        "recovery.attempts_max",
        count(1),
        |config| SettingSlot::Count(&mut config.recovery.attempts_max),
        "recoveries without progress before rule P1 stops the run",
    ),
    row(
        "recovery.park",
        SettingKind::Flag,
        |config| SettingSlot::Flag(&mut config.recovery.park),
        "whether rule P1 parks the run for an operator; if not, the run is compensated and fails",
    ),
    row(
        "recovery.stale_after",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.recovery.stale_after),
        "how long a finding must hold before a sweep of the engine heals it",
    ),
    row(
        "recovery.delay",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.recovery.delay),
        "pause of a run that waits until other runs are recovered",
    ),
    row(
        "recovery.version_grace",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.recovery.version_grace),
        "how long all live nodes may lack a run's version before rule E2 acts; set it longer than a deploy",
    )
    .also(&[SettingAlias { name: Some("version_grace_seconds"), env: None, unit: AliasUnit::Span(S) }]),
    row(
        "recovery.workflows",
        SettingKind::Workflows(WorkflowSection::Recovery),
        |_| SettingSlot::Workflows(WorkflowSection::Recovery),
        "fields of recovery for single workflows: order:attempts_max=5, order:park=false",
    ),
    row(
        "steps.attempts_max",
        count(1),
        |config| SettingSlot::Count(&mut config.retry.attempts_max),
        "attempts of a step that states no retry policy, including the first",
    ),
    row(
        "steps.initial",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.retry.initial),
        "pause before the second attempt of such a step",
    ),
    row(
        "steps.pause_max",
        span(Duration::ZERO),
        |config| SettingSlot::Span(&mut config.retry.pause_max),
        "longest pause between two attempts of such a step",
    ),
    row(
        "steps.factor_percent",
        SettingKind::Count { min: 100, max: 10_000, word: None },
        |config| SettingSlot::Percent(&mut config.retry.factor),
        "factor from one pause to the next, in percent: 200 doubles it",
    ),
    row(
        "steps.jitter_percent",
        SettingKind::Count { min: 0, max: 100, word: None },
        |config| SettingSlot::Percent(&mut config.retry.jitter),
        "random share of each pause, in percent",
    ),
    row(
        "steps.heartbeat_timeout",
        span_or(MS, "off"),
        |config| SettingSlot::MaybeSpan(&mut config.heartbeat_timeout),
        "how long an attempt may be silent, local or remote, if its step states no timeout of its own",
    )
    .also(&[env_ms("WORKFLOW_HEARTBEAT_TIMEOUT_MS")]),
    row(
        "steps.workflows",
        SettingKind::Workflows(WorkflowSection::Steps),
        |_| SettingSlot::Workflows(WorkflowSection::Steps),
        "fields of steps for single workflows: order:attempts_max=5, order:heartbeat_timeout=10m",
    ),
    row(
        "limits.payload_bytes_max",
        bytes(Limits::PAYLOAD_BYTES_MOST as u64),
        |config| SettingSlot::Size(&mut config.limits.payload_bytes_max),
        "maximum size of an input, output, signal or answer",
    )
    .also(&[name("payload_bytes_max")]),
    row(
        "limits.payload_depth_max",
        count(1),
        |config| SettingSlot::Size(&mut config.limits.payload_depth_max),
        "deepest nesting of a payload, in levels",
    ),
    row(
        "limits.history_events_max",
        count(1),
        |config| SettingSlot::Long(&mut config.limits.history_events_max),
        "most events that a run may load before it must continue_as_new",
    ),
    row(
        "limits.history_bytes_max",
        bytes(1 << 40),
        |config| SettingSlot::Long(&mut config.limits.history_bytes_max),
        "most bytes of those events; a longer run must use continue_as_new",
    )
    .also(&[name("history_bytes_max")]),
    row(
        "limits.mail_unread_max",
        count(1),
        |config| SettingSlot::Count(&mut config.limits.mail_unread_max),
        "most unread signals of a run",
    ),
    row(
        "limits.tags_max",
        count(0),
        |config| SettingSlot::Size(&mut config.limits.tags_max),
        "most tags of one run",
    ),
    row(
        "limits.published_bytes_max",
        bytes(Limits::PAYLOAD_BYTES_MOST as u64),
        |config| SettingSlot::Size(&mut config.limits.published_bytes_max),
        "maximum size of a published value",
    ),
    row(
        "limits.published_names_max",
        count(0),
        |config| SettingSlot::Size(&mut config.limits.published_names_max),
        "most names under which one run publishes values",
    ),
    row(
        "limits.text_bytes_max",
        bytes(1 << 20),
        |config| SettingSlot::Size(&mut config.limits.text_bytes_max),
        "longest value of a tag, prompt or reason",
    ),
    row(
        "limits.store_patience",
        span(MS),
        |config| SettingSlot::Span(&mut config.limits.store_patience),
        "how long an append is retried while the store does not answer",
    ),
];
