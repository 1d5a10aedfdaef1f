//! Events as bytes: versioned JSON, one line each, chained by hashes. Upcasts live here and nowhere else.

use serde::{Deserialize, Serialize};

use crate::branch::BranchId;
use crate::event::{Event, Recorded};
use crate::hash::{Hash, WriteId};
use crate::time::{Millis, Seq};

/// Version of the envelope written today.
const FORMAT: u32 = 1;

/// A history that cannot be understood. Nothing is guessed: the run is parked, the evidence kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} of the log is damaged: {detail}")]
pub struct Corrupt {
    /// Where.
    pub seq: Seq,
    /// What is wrong.
    pub detail: String,
}

impl Corrupt {
    /// Damage at `seq`.
    pub fn new(seq: Seq, detail: impl Into<String>) -> Self {
        Self { seq, detail: detail.into() }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    v: u32,
    at: Millis,
    branch: BranchId,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<Seq>,
    write: WriteId,
    prev: Hash,
    event: &'a Event,
}

#[derive(Deserialize)]
struct Read {
    v: u32,
    at: Millis,
    branch: BranchId,
    #[serde(default)]
    epoch: Option<Seq>,
    write: WriteId,
    prev: Hash,
    event: Event,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// The text that a store keeps for this event.
pub fn encode(recorded: &Recorded) -> String {
    let Recorded { seq: _, at, branch, epoch, write, prev, bytes: _, event } = recorded;
    let written =
        Written { v: FORMAT, at: *at, branch: *branch, epoch: *epoch, write: *write, prev: *prev, event };
    // Serialising these types to a string has no way to fail: no maps with odd keys, no I/O.
    serde_json::to_string(&written).unwrap_or_default()
}

/// Reads back what [`encode`] wrote, by this release or an earlier one.
pub fn decode(seq: Seq, text: &str) -> Result<Recorded, Corrupt> {
    let read: Read = match serde_json::from_str(text) {
        Ok(read) => read,
        Err(error) => return Err(Corrupt::new(seq, explain(text, &error))),
    };
    let Read { v, at, branch, epoch, write, prev, event } = read;
    if v != FORMAT {
        return Err(Corrupt::new(seq, newer(v)));
    }
    if branch.0 == 0 {
        return Err(Corrupt::new(seq, "branches are numbered from 1"));
    }
    Ok(Recorded { seq, at, branch, epoch, write, prev, bytes: size(text), event })
}

fn explain(text: &str, error: &serde_json::Error) -> String {
    match serde_json::from_str::<Version>(text) {
        Ok(Version { v }) if v != FORMAT => newer(v),
        _ => format!("it cannot be decoded: {error}"),
    }
}

fn newer(v: u32) -> String {
    match v {
        0 => "there is no format 0".to_owned(),
        _ => format!("it was written by a newer release (format {v}, this one reads up to {FORMAT})"),
    }
}

/// Size of an event's text.
pub fn size(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// Fingerprint of an event's text: what the next one names as `prev`.
pub fn chain(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}

/// Decodes a stretch of log and checks that it is unbroken and follows `prev`.
pub fn decode_all<'a>(
    after: Seq,
    prev: Hash,
    texts: impl IntoIterator<Item = (Seq, &'a str)>,
) -> Result<(Vec<Recorded>, Hash), Corrupt> {
    let (mut seq, mut hash, mut history) = (after, prev, Vec::new());
    for (found, text) in texts {
        seq = seq.next();
        if found != seq {
            return Err(Corrupt::new(seq, format!("it is missing; the next one found is {found}")));
        }
        let recorded = decode(seq, text)?;
        if recorded.prev != hash {
            return Err(Corrupt::new(
                seq,
                "it does not follow the event before it: one of the two was changed",
            ));
        }
        hash = chain(text);
        history.push(recorded);
    }
    Ok((history, hash))
}

#[cfg(test)]
mod tests;
