//! One append as an object: a line that says what is in it, then the texts of the events, each with a line end.
//!
//! Numbers of batches are dense, so one that is written behind the last one proves that the log ended there. The
//! texts stand as they are, so that a person can read a log with nothing but a tool that fetches objects.

use bytes::Bytes;
use goldseam_core::{Hash, Seq};
use goldseam_store::{Record, StoreError};
use serde::{Deserialize, Serialize};

use crate::fault::damaged;

/// Bytes that are shown of a text that is not whole.
const SHOWN_MAX: usize = 4_096;

/// What is in a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    batch: u64,
    first: Seq,
    /// The claim under which it was written, where the writer knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<Seq>,
    write: String,
    /// Fingerprint of the batch before.
    before: Hash,
    /// Position and length of each event.
    events: Vec<(Seq, usize)>,
    /// The log goes on with this batch: what lay between was trimmed. Only of the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<u64>,
}

/// One object of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) batch: u64,
    pub(crate) first: Seq,
    pub(crate) epoch: Option<Seq>,
    pub(crate) write: String,
    pub(crate) before: Hash,
    pub(crate) records: Vec<Record>,
    /// The batch that comes next, if those between were trimmed.
    pub(crate) kept: Option<u64>,
}

impl Batch {
    /// What is left of the first batch of a log that begins with `first` now: it keeps the log from being begun anew.
    pub(crate) fn trimmed_to(first: &Self, write: String) -> Self {
        let (batch, kept, before) = (1, Some(first.batch), first.before);
        Self { batch, first: Seq(1), epoch: None, write, before, records: Vec::new(), kept }
    }

    /// The number of the batch behind it.
    pub(crate) fn next(&self) -> u64 {
        self.kept.unwrap_or(self.batch + 1)
    }

    /// Where the log ends with it.
    pub(crate) fn end(&self) -> Seq {
        self.records.last().map_or(self.first.before(), |record| record.seq)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let events = self.records.iter().map(|record| (record.seq, record.body.len())).collect();
        let header = Header {
            batch: self.batch,
            first: self.first,
            epoch: self.epoch,
            write: self.write.clone(),
            before: self.before,
            events,
            kept: self.kept,
        };
        let mut text = serde_json::to_vec(&header).unwrap_or_default();
        let length: usize = self.records.iter().map(|record| record.body.len() + 1).sum();
        text.reserve(length + 1);
        text.push(b'\n');
        for record in &self.records {
            text.extend_from_slice(record.body.as_bytes());
            text.push(b'\n');
        }
        text.into()
    }

    pub(crate) fn decode(key: &str, object: &[u8]) -> Result<Self, StoreError> {
        let line = object
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or_else(|| damaged(key, "the header line is missing"))?;
        let (head, mut rest) = (&object[..line], &object[line + 1..]);
        let header: Header = serde_json::from_slice(head).map_err(|error| damaged(key, error))?;
        let mut records = Vec::with_capacity(header.events.len());
        for (seq, length) in header.events {
            let truncated = || damaged(key, format_args!("event {seq} is truncated"));
            let body = rest.get(..length).ok_or_else(truncated)?;
            let body = std::str::from_utf8(body).map_err(|error| damaged(key, error))?.to_owned();
            rest = rest.get(length + 1..).ok_or_else(truncated)?;
            records.push(Record { seq, body });
        }
        let Header { batch, first, epoch, write, before, kept, .. } = header;
        Ok(Self { batch, first, epoch, write, before, records, kept })
    }

    /// What is left of an object that [`decode`](Self::decode) refuses, as batch `batch` behind `end`. Texts that are
    /// whole stay as they are. Where one is not, a text stands that no event has; if nothing tells how many events
    /// there were, one stands for all.
    pub(crate) fn salvage(object: &[u8], (batch, end): (u64, Seq)) -> Self {
        let lost = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
            format!("{}{text}", char::REPLACEMENT_CHARACTER)
        };
        let line = object.iter().position(|byte| *byte == b'\n').unwrap_or(object.len());
        let header = serde_json::from_slice::<Header>(&object[..line]).ok();
        let Some(header) = header.filter(|header| header.batch == batch && !header.events.is_empty()) else {
            let records = vec![Record { seq: end.next(), body: lost(object) }];
            let (write, before) = (String::new(), Hash::ZERO);
            return Self { batch, first: end.next(), epoch: None, write, before, records, kept: None };
        };
        let mut rest = object.get(line + 1..).unwrap_or_default();
        let mut records = Vec::with_capacity(header.events.len());
        for (seq, length) in header.events {
            let (body, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            let text = std::str::from_utf8(body).ok().filter(|_| body.len() == length);
            records.push(Record { seq, body: text.map_or_else(|| lost(body), str::to_owned) });
            rest = behind.get(1..).unwrap_or_default();
        }
        let Header { first, epoch, write, before, kept, .. } = header;
        Self { batch, first, epoch, write, before, records, kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bodies: &[&str]) -> Batch {
        let records = (5..).zip(bodies).map(|(seq, body)| Record { seq: Seq(seq), body: (*body).to_owned() });
        Batch {
            batch: 3,
            first: Seq(5),
            epoch: Some(Seq(2)),
            write: "w1".to_owned(),
            before: Hash::of(b"x"),
            records: records.collect(),
            kept: None,
        }
    }

    #[test]
    fn texts_come_back_as_they_were() {
        for bodies in [&["a", "", "line\nline\n", "ä🏺"][..], &[""], &[]] {
            let batch = batch(bodies);
            assert_eq!(Batch::decode("k", &batch.encode()).unwrap(), batch);
        }
    }

    #[test]
    fn whole_texts_of_a_broken_batch_are_salvaged() {
        let whole = batch(&["abc", "def"]).encode();
        let mut broken = whole.to_vec();
        let at = broken.windows(3).position(|text| text == b"abc").unwrap();
        broken[at] = 0xfc;
        let texts = |object: &[u8]| -> Vec<(u64, String)> {
            let salvaged = Batch::salvage(object, (3, Seq(4)));
            salvaged.records.into_iter().map(|record| (record.seq.0, record.body)).collect()
        };
        let (first, second) = ((5, "\u{fffd}\u{fffd}bc".to_owned()), (6, "def".to_owned()));
        assert_eq!(texts(&broken), [first, second]);
        assert_eq!(texts(&whole[..whole.len() - 3])[0], (5, "abc".to_owned()));
        assert!(texts(&whole[..whole.len() - 3])[1].1.starts_with('\u{fffd}'));
        assert_eq!(texts(b"garbage"), [(5, "\u{fffd}garbage".to_owned())]);
        assert_eq!(texts(b""), [(5, "\u{fffd}".to_owned())]);
    }

    #[test]
    fn an_object_that_was_cut_off_is_damaged() {
        let whole = batch(&["abc", "def"]).encode();
        for length in 0..whole.len() {
            assert!(Batch::decode("k", &whole[..length]).is_err(), "{length} bytes");
        }
    }
}
