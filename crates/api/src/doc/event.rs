//! Events of a run, and the items that a follower receives.

use goldseam::unstable::core::codec::Corrupt;
use goldseam::unstable::core::hash::{Hash, WriteId};
use goldseam::unstable::core::recovery::Code;
use goldseam::unstable::core::{Event, Recorded};
use goldseam::{Millis, Payload, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::doc::DamageDoc;
use crate::timestamp::Timestamp;

/// One event of a run's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventDoc {
    /// The position.
    pub seq: Seq,
    /// When it happened.
    pub at: Timestamp,
    /// The same in milliseconds since 1970.
    pub at_ms: i64,
    /// The branch, as in `b1`.
    pub branch: String,
    /// The epoch of the owner that wrote it; null for mail and other changes from outside.
    pub epoch: Option<Seq>,
    /// The event type, as in `step.completed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The event's data; absent for types without data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub data: Option<Payload>,
}

/// Type and data of an event, as the log stores them.
#[derive(Serialize, Deserialize)]
struct EventParts {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
}

impl From<&Recorded> for EventDoc {
    fn from(recorded: &Recorded) -> Self {
        let name = || EventParts { kind: recorded.event.name().to_owned(), data: None };
        // Through text, not through values, so that payloads keep their exact text.
        let parts = serde_json::to_string(&recorded.event).and_then(|text| serde_json::from_str(&text));
        let EventParts { kind, data } = parts.unwrap_or_else(|_| name());
        Self {
            seq: recorded.seq,
            at: Timestamp(recorded.at),
            at_ms: recorded.at.0,
            branch: recorded.branch.to_string(),
            epoch: recorded.epoch,
            kind,
            data,
        }
    }
}

impl TryFrom<&EventDoc> for Recorded {
    type Error = Corrupt;

    /// Decodes the event. The document does not contain its write-id, its hash chain and its size.
    fn try_from(doc: &EventDoc) -> Result<Self, Corrupt> {
        let corrupt = |detail: String| Corrupt::new(doc.seq, detail);
        let parts = EventParts { kind: doc.kind.clone(), data: doc.data.clone() };
        let text = serde_json::to_string(&parts).map_err(|error| corrupt(error.to_string()))?;
        let event: Event = serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))?;
        let branch = doc.branch.parse().map_err(|error| corrupt(format!("{error}")))?;
        Ok(Self {
            seq: doc.seq,
            at: Millis(doc.at_ms),
            branch,
            epoch: doc.epoch,
            write: WriteId(0),
            prev: Hash::ZERO,
            bytes: 0,
            event,
        })
    }
}

/// A page of a run's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = History)]
pub struct HistoryDoc {
    /// Its events, oldest first.
    pub items: Vec<EventDoc>,
    /// Cursor of the next page: pass it as `after`. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Seq>,
    /// The run.
    pub run: RunId,
    /// Damage of the log within this page. Absent if the log is intact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<DamageDoc>,
}

/// Selects events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// Only events that this branch sees, as in `b2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Only events after this position.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub after: Option<u64>,
    /// Maximum number of events, up to 500; defaults to 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// An item that a follower of a run receives.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum NewsDoc {
    /// An event of the log.
    Event(Box<EventDoc>),
    /// The run is stalled. Sent once.
    Stalled(StalledNewsDoc),
    /// The run moves again.
    Moving(MovingNewsDoc),
}

impl NewsDoc {
    /// The name in a stream: the event type, `stalled` or `moving`.
    pub fn name(&self) -> &str {
        match self {
            Self::Event(event) => &event.kind,
            Self::Stalled(_) => STALLED,
            Self::Moving(_) => MOVING,
        }
    }

    /// The position to resume from; only events have one.
    pub fn seq(&self) -> Option<Seq> {
        match self {
            Self::Event(event) => Some(event.seq),
            Self::Stalled(_) | Self::Moving(_) => None,
        }
    }

    /// Parses an item of a stream.
    pub fn parse(name: &str, data: &str) -> Result<Self, serde_json::Error> {
        Ok(match name {
            STALLED => Self::Stalled(serde_json::from_str(data)?),
            MOVING => Self::Moving(serde_json::from_str(data)?),
            _ => Self::Event(Box::new(serde_json::from_str(data)?)),
        })
    }
}

/// The name of [`NewsDoc::Stalled`] in a stream.
pub const STALLED: &str = "stalled";
/// The name of [`NewsDoc::Moving`] in a stream.
pub const MOVING: &str = "moving";

/// A run is stalled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StalledNews)]
pub struct StalledNewsDoc {
    /// The end of the log that was examined.
    pub after: Seq,
    /// When it was diagnosed.
    pub at: Timestamp,
    /// The evidence for the diagnosis.
    pub evidence: String,
    /// The remedy, or what an operator must do.
    pub remedy: String,
    /// The rule.
    pub rule: Code,
    /// The name of the rule, as in `worker-lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// The run.
    pub run: RunId,
    /// Always `stalled`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A run that was stalled moves again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = MovingNews)]
pub struct MovingNewsDoc {
    /// When it was noticed.
    pub at: Timestamp,
    /// The run.
    pub run: RunId,
    /// Always `moving`.
    #[serde(rename = "type")]
    pub kind: String,
}
