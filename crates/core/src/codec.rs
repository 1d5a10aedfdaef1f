//! The codec of events: versioned JSON, one line each, chained by hashes. Only this module reads old formats.

use serde::ser::Error as _;
use serde::{Deserialize, Serialize};

use crate::branch::BranchId;
pub use crate::corrupt::Corrupt;
use crate::event::{Event, Recorded};
use crate::hash::{Hash, WriteId};
use crate::time::{Millis, Seq};

/// Version of the envelope that this release writes.
const FORMAT: u32 = 1;
/// Bytes reserved for the text of an event.
const EVENT_BYTES: usize = 384;
/// Bytes reserved for the text of a row.
pub const ROW_BYTES: usize = 1_024;

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

/// An event whose envelope and type can be read, but not its data.
#[derive(Deserialize)]
struct Enveloped {
    v: u32,
    #[expect(dead_code, reason = "the field must be present")]
    at: Millis,
    #[expect(dead_code, reason = "the field must be present")]
    branch: BranchId,
    #[expect(dead_code, reason = "the field must be present")]
    write: WriteId,
    prev: Hash,
    event: Typed,
}

#[derive(Deserialize)]
struct Typed {
    #[serde(rename = "type")]
    name: String,
}

/// Returns the hash of the previous event that an event names, if it can be read.
fn named_before(text: &str) -> Option<Hash> {
    serde_json::from_str::<Enveloped>(text).ok().map(|read| read.prev)
}

/// Returns the text that a store keeps for this event.
pub fn encode(recorded: &Recorded) -> String {
    let Recorded { seq: _, at, branch, epoch, write, prev, bytes: _, event } = recorded;
    let written =
        Written { v: FORMAT, at: *at, branch: *branch, epoch: *epoch, write: *write, prev: *prev, event };
    to_json(&written, EVENT_BYTES).unwrap_or_default()
}

/// Returns a value as JSON. Reserves `room` bytes at once: small texts that grow step by step cost a copy per step. Cannot
/// fail for types with string keys.
pub fn to_json<T: Serialize>(value: &T, room: usize) -> serde_json::Result<String> {
    let mut bytes = Vec::with_capacity(room);
    serde_json::to_writer(&mut bytes, value)?;
    String::from_utf8(bytes).map_err(serde_json::Error::custom)
}

/// Decodes a text that [`encode`] wrote, in this or an earlier release.
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
        return Err(Corrupt::new(seq, "branch numbers start at 1"));
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
            Corrupt::newer(seq, format!("a newer release wrote it: event type `{name}`"))
        }
        _ => Corrupt::new(seq, format!("it cannot be decoded: {error}")),
    }
}

/// Returns whether this build does not know the event type.
fn is_unknown(name: &str) -> bool {
    let probe = serde_json::json!({ "type": name }).to_string();
    let probed = serde_json::from_str::<Event>(&probe);
    probed.is_err_and(|error| error.to_string().starts_with("unknown variant"))
}

fn other_format(seq: Seq, v: u32) -> Corrupt {
    match v {
        0 => Corrupt::new(seq, "format 0 does not exist"),
        _ => Corrupt::newer(
            seq,
            format!("a newer release wrote it (format {v}; this release reads formats up to {FORMAT})"),
        ),
    }
}

/// Returns the size of an event's text.
pub fn size(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// Returns the hash of an event's text: the next event names it as `prev`.
pub fn chain(text: &str) -> Hash {
    Hash::of(text.as_bytes())
}

/// Decodes a part of a log and checks that it has no gap and follows `prev`.
pub fn decode_all<'a>(
    after: Seq,
    prev: Hash,
    texts: impl IntoIterator<Item = (Seq, &'a str)>,
) -> Result<(Vec<Recorded>, Hash), Corrupt> {
    let mut seq = after;
    let mut hash = prev;
    let mut history = Vec::new();
    let mut texts = texts.into_iter().peekable();
    while let Some((found, text)) = texts.next() {
        seq = seq.next();
        if found != seq {
            return Err(Corrupt::new(seq, format!("it is missing; the next event is {found}")));
        }
        let recorded = match decode(seq, text) {
            // An event of a newer release is intact if the hashes of its neighbours match.
            Err(newer) if newer.is_newer && !is_whole(text, hash, texts.peek().map(|(_, next)| *next)) => {
                return Err(Corrupt::new(
                    seq,
                    "its type is unknown, and its hash does not match its neighbours",
                ));
            }
            decoded => decoded?,
        };
        if recorded.prev != hash {
            return Err(Corrupt::new(
                seq,
                "its `prev` hash does not match the previous event: one of the two was altered",
            ));
        }
        hash = chain(text);
        history.push(recorded);
    }
    Ok((history, hash))
}

/// Returns whether an event that cannot be read matches the hashes of its neighbours.
fn is_whole(text: &str, before: Hash, next: Option<&str>) -> bool {
    let follows = named_before(text).is_none_or(|prev| prev == before);
    let is_followed = next.and_then(named_before).is_none_or(|prev| prev == chain(text));
    follows && is_followed
}

#[cfg(test)]
mod tests;
