//! Events as bytes: versioned JSON, one line each, chained by hashes. Upcasts live here and nowhere else.

use serde::{Deserialize, Serialize};

use crate::branch::BranchId;
use crate::event::{Event, Recorded};
use crate::hash::{Hash, WriteId};
use crate::time::{Millis, Seq};

/// Version of the envelope written today.
const FORMAT: u32 = 1;

/// A history that cannot be understood. Nothing is guessed: a damaged run is parked, the evidence kept; one that a newer
/// release has written is left to that release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} of the log {}: {detail}", nature(*.is_newer))]
pub struct Corrupt {
    /// Where.
    pub seq: Seq,
    /// What is wrong.
    pub detail: String,
    /// Nothing is wrong: a newer release has written it.
    pub is_newer: bool,
}

fn nature(is_newer: bool) -> &'static str {
    if is_newer { "cannot be read by this release" } else { "is damaged" }
}

impl Corrupt {
    /// Damage at `seq`.
    pub fn new(seq: Seq, detail: impl Into<String>) -> Self {
        Self { seq, detail: detail.into(), is_newer: false }
    }

    /// An event at `seq` that only a newer release can read.
    pub fn newer(seq: Seq, detail: impl Into<String>) -> Self {
        Self { is_newer: true, ..Self::new(seq, detail) }
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

/// An event of which nothing but its envelope and its type can be read.
#[derive(Deserialize)]
struct Enveloped {
    v: u32,
    #[expect(dead_code, reason = "it must be there")]
    at: Millis,
    #[expect(dead_code, reason = "it must be there")]
    branch: BranchId,
    #[expect(dead_code, reason = "it must be there")]
    write: WriteId,
    prev: Hash,
    event: Typed,
}

#[derive(Deserialize)]
struct Typed {
    #[serde(rename = "type")]
    name: String,
}

/// What an event names as the fingerprint of the one before it, as far as it can be read.
fn named_before(text: &str) -> Option<Hash> {
    serde_json::from_str::<Enveloped>(text).ok().map(|read| read.prev)
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
        Err(error) => return Err(explain(seq, text, &error)),
    };
    let Read { v, at, branch, epoch, write, prev, event } = read;
    if v != FORMAT {
        return Err(other_format(seq, v));
    }
    if branch.0 == 0 {
        return Err(Corrupt::new(seq, "branches are numbered from 1"));
    }
    Ok(Recorded { seq, at, branch, epoch, write, prev, bytes: size(text), event })
}

fn explain(seq: Seq, text: &str, error: &serde_json::Error) -> Corrupt {
    match serde_json::from_str::<Version>(text) {
        Ok(Version { v }) if v != FORMAT => return other_format(seq, v),
        _ => {}
    }
    match serde_json::from_str::<Enveloped>(text) {
        Ok(Enveloped { v: FORMAT, event: Typed { name }, .. }) if is_unknown(&name) => {
            Corrupt::newer(seq, format!("it was written by a newer release: event type `{name}`"))
        }
        _ => Corrupt::new(seq, format!("it cannot be decoded: {error}")),
    }
}

/// Whether this build knows no event of this type.
fn is_unknown(name: &str) -> bool {
    let probe = serde_json::json!({ "type": name }).to_string();
    let probed = serde_json::from_str::<Event>(&probe);
    probed.is_err_and(|error| error.to_string().starts_with("unknown variant"))
}

fn other_format(seq: Seq, v: u32) -> Corrupt {
    match v {
        0 => Corrupt::new(seq, "there is no format 0"),
        _ => Corrupt::newer(
            seq,
            format!("it was written by a newer release (format {v}, this one reads up to {FORMAT})"),
        ),
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
    let mut texts = texts.into_iter().peekable();
    while let Some((found, text)) = texts.next() {
        seq = seq.next();
        if found != seq {
            return Err(Corrupt::new(seq, format!("it is missing; the next one found is {found}")));
        }
        let recorded = match decode(seq, text) {
            // What a newer release has written is whole: it follows, and is followed by, its neighbours.
            Err(newer) if newer.is_newer && !is_whole(text, hash, texts.peek().map(|(_, next)| *next)) => {
                return Err(Corrupt::new(seq, "it is of no known type, and it does not fit its neighbours"));
            }
            decoded => decoded?,
        };
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

/// Whether an event that cannot be read has the place in the chain that it claims to have.
fn is_whole(text: &str, before: Hash, next: Option<&str>) -> bool {
    let follows = named_before(text).is_none_or(|prev| prev == before);
    let is_followed = next.and_then(named_before).is_none_or(|prev| prev == chain(text));
    follows && is_followed
}

#[cfg(test)]
mod tests;
