//! Events of a run, and what else whoever follows it is told.

use goldseam::core::codec::Corrupt;
use goldseam::core::hash::{Hash, WriteId};
use goldseam::core::recovery::Code;
use goldseam::core::{Event, Recorded};
use goldseam::{Millis, Payload, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::doc::Damage;
use crate::moment::Moment;

/// One event of a run's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventDoc {
    /// Its position.
    pub seq: Seq,
    /// When.
    pub at: Moment,
    /// The same in milliseconds since 1970.
    pub at_ms: i64,
    /// Its branch, as in `b1`.
    pub branch: String,
    /// The claim under which an owner wrote it; none for what came from outside.
    pub epoch: Option<Seq>,
    /// What happened, as in `step.completed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What goes with it; none where its type says all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Payload, required = false)]
    pub data: Option<Payload>,
}

/// Type and data of an event, as they stand in a log.
#[derive(Serialize, Deserialize)]
struct Parts {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Payload>,
}

impl From<&Recorded> for EventDoc {
    fn from(recorded: &Recorded) -> Self {
        let name = || Parts { kind: recorded.event.name().to_owned(), data: None };
        // By text and not by value: whatever a payload holds stays as it was written.
        let parts = serde_json::to_string(&recorded.event).and_then(|text| serde_json::from_str(&text));
        let Parts { kind, data } = parts.unwrap_or_else(|_| name());
        Self {
            seq: recorded.seq,
            at: Moment(recorded.at),
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

    /// The event again. Which write put it there, what stood before it and its size do not travel.
    fn try_from(doc: &EventDoc) -> Result<Self, Corrupt> {
        let corrupt = |detail: String| Corrupt::new(doc.seq, detail);
        let parts = Parts { kind: doc.kind.clone(), data: doc.data.clone() };
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
pub struct History {
    /// Its events, oldest first.
    pub items: Vec<EventDoc>,
    /// Where the next page begins: pass it as `after`. Absent after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Seq>,
    /// The run.
    pub run: RunId,
    /// Where the log is damaged, within this page. Left out if it is whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
}

/// Which events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// Only what this branch sees, as in `b2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Only events after this position.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub after: Option<u64>,
    /// At most so many, up to 500; 500 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What somebody who follows a run is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum News {
    /// Something happened.
    Event(Box<EventDoc>),
    /// Nothing happens although it should. Told once.
    Stalled(StalledNews),
    /// It moves again.
    Moving(MovingNews),
}

impl News {
    /// The name of it in a stream: the type of the event, `stalled` or `moving`.
    pub fn name(&self) -> &str {
        match self {
            Self::Event(event) => &event.kind,
            Self::Stalled(_) => STALLED,
            Self::Moving(_) => MOVING,
        }
    }

    /// The position to go on from; only events have one.
    pub fn seq(&self) -> Option<Seq> {
        match self {
            Self::Event(event) => Some(event.seq),
            Self::Stalled(_) | Self::Moving(_) => None,
        }
    }

    /// Reads what stands in a stream under this name.
    pub fn parse(name: &str, data: &str) -> Result<Self, serde_json::Error> {
        Ok(match name {
            STALLED => Self::Stalled(serde_json::from_str(data)?),
            MOVING => Self::Moving(serde_json::from_str(data)?),
            _ => Self::Event(Box::new(serde_json::from_str(data)?)),
        })
    }
}

/// The name of [`News::Stalled`] in a stream.
pub const STALLED: &str = "stalled";
/// The name of [`News::Moving`] in a stream.
pub const MOVING: &str = "moving";

/// Nothing happens although it should.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StalledNews {
    /// The end of the log that was looked at.
    pub after: Seq,
    /// When that was seen.
    pub at: Moment,
    /// What was seen.
    pub evidence: String,
    /// What is done about it, or what to do.
    pub remedy: String,
    /// The rule.
    pub rule: Code,
    /// The run.
    pub run: RunId,
    /// Always `stalled`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A run that was stalled moves again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MovingNews {
    /// When that was seen.
    pub at: Moment,
    /// The run.
    pub run: RunId,
    /// Always `moving`.
    #[serde(rename = "type")]
    pub kind: String,
}
